"""Sampling: completions per second, ours beside KerasHub's and torch's.

The variants take turns, so that a busy machine slows all of them, and the
ratios of one run are what counts. 16 prompts of 32 tokens get 96 more, drawn
from a vocabulary of 8,192, by GPT-2 models with random weights. `cpu` is the
processor time of the process, over all cores.

    python tests/benchmarks/sampling.py
    python tests/benchmarks/sampling.py --hugging-face path/to/python
"""

import argparse
import pathlib
import statistics
import subprocess
import time

import keras
import keras_hub
import numpy as np

from keras_distill.gkd.decoding import Generator

ROWS, PROMPT, COMPLETION, VOCABULARY = 16, 32, 96, 8192
LENGTH = PROMPT + COMPLETION
SHAPES = ((3, 128), (6, 256))
HEADS = 4
TORCH = pathlib.Path(__file__).with_name("sampling_torch.py")


def backbone(layers, width):
    return keras_hub.models.GPT2Backbone(
        vocabulary_size=VOCABULARY,
        num_layers=layers,
        num_heads=HEADS,
        hidden_dim=width,
        intermediate_dim=4 * width,
        max_sequence_length=LENGTH,
    )


def ours(model, token_ids, prompt):
    rows, length = token_ids.shape
    sizes = np.full(rows, prompt), np.full(rows, length)
    generator = Generator(model)
    seeds = iter(range(10**6))
    return lambda: generator(token_ids, *sizes, next(seeds))


def hub(model, token_ids, prompt, jit_compile=True):
    rows, length = token_ids.shape
    own = keras_hub.models.GPT2CausalLM(model.backbone, preprocessor=None)
    own.compile(sampler="random", jit_compile=jit_compile)
    generate = own.make_generate_function()
    inputs = {
        "token_ids": keras.ops.convert_to_tensor(token_ids),
        "padding_mask": keras.ops.tile(np.arange(length) < prompt, (rows, 1)),
    }
    return lambda: np.asarray(generate(inputs)["token_ids"])


def timed(function):
    """Seconds of a call: on the clock, and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - cpu


class OtherPython:
    """Rounds of a script in a process of another interpreter.

    The script runs a round for each line of its input, and answers with a
    line of "seconds", those on the clock and those of the processor.
    """

    def __init__(self, python, script, *arguments):
        self._process = subprocess.Popen(
            [python, script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self):
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("seconds "):
                return tuple(map(float, line.split()[1:]))
        raise RuntimeError("The process of the other interpreter ended")

    def close(self):
        self._process.communicate()


def variants(layers, width, python):
    """Name to a callable that runs one round and gives its seconds."""
    model = keras_hub.models.GPT2CausalLM(
        backbone(layers, width), preprocessor=None
    )
    token_ids = np.random.default_rng(0).integers(1, VOCABULARY, (ROWS, LENGTH))
    token_ids = token_ids.astype("int32")
    found = {"keras_distill": ours(model, token_ids, PROMPT)}
    if keras.backend.backend() == "tensorflow":
        found["KerasHub graph"] = hub(model, token_ids, PROMPT, False)
    found["KerasHub XLA"] = hub(model, token_ids, PROMPT)
    found = {name: lambda run=run: timed(run) for name, run in found.items()}
    if python:
        sizes = (layers, width, HEADS, ROWS, PROMPT, COMPLETION, VOCABULARY)
        found["Hugging Face"] = OtherPython(python, TORCH, *sizes)
    return found


def measure(layers, width, options):
    runs = variants(layers, width, options.hugging_face)
    seconds = {name: [] for name in runs}
    for turn in range(options.rounds + 1):
        for name, run in runs.items():
            times = run()
            if turn:  # The first compiles.
                seconds[name].append(times)
    if options.hugging_face:
        runs["Hugging Face"].close()
    print(f"GPT-2 {layers} x {width}, {keras.backend.backend()}")
    first = None
    for name, times in seconds.items():
        wall, cpu = (statistics.median(column) for column in zip(*times))
        first = first or (wall, cpu)
        print(
            f"  {name:15s} {ROWS * COMPLETION / wall:8,.0f} tokens/s  "
            f"ours is {wall / first[0]:5.2f} x as fast "
            f"(cpu {cpu:.3f} s, {cpu / first[1]:5.2f} x)",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--hugging-face", help="A Python with torch and transformers."
    )
    options = parser.parse_args()
    for layers, width in SHAPES:
        measure(layers, width, options)


if __name__ == "__main__":
    main()
