"""A whole GKD step on the student's own text, ours beside TRL's `GKDTrainer`.

Sampling, the teacher's pass, and the student's update: 16 prompts of 32 tokens
get 96 more from a GPT-2 student of 3 layers x 128, which a teacher of 6 x 256
corrects (vocabulary 8,192, random weights, `lmbda=1`, AdamW). The two take
turns, so that a busy machine slows both, and the ratio of one run is what
counts. `cpu` is the processor time of the process, over all cores.

    python tests/benchmarks/gkd_step.py --torch path/to/python
"""

import argparse
import pathlib
import statistics

import keras
import keras_hub
import numpy as np
from sampling import COMPLETION
from sampling import HEADS
from sampling import PROMPT
from sampling import ROWS
from sampling import VOCABULARY
from sampling import OtherPython
from sampling import backbone
from sampling import timed

import keras_distill as kd

STUDENT, TEACHER = (3, 128), (6, 256)
TORCH = pathlib.Path(__file__).with_name("gkd_step_torch.py")


def gpt2(size):
    return keras_hub.models.GPT2CausalLM(backbone(*size), preprocessor=None)


def ours(options):
    """A callable that takes a step and gives its seconds."""
    distiller = kd.GKDDistiller(
        gpt2(TEACHER),
        gpt2(STUDENT),
        lmbda=1.0,
        max_completion_length=COMPLETION,
        stop_token_ids=(),
        seed=0,
    )
    distiller.compile("adamw", jit_compile=options.jit_compile)
    shape = ROWS, PROMPT + COMPLETION
    token_ids = np.random.default_rng(0).integers(1, VOCABULARY, shape)
    in_prompt = np.broadcast_to(np.arange(shape[1]) < PROMPT, shape)
    batch = {
        "token_ids": token_ids.astype("int32"),
        "prompt_mask": in_prompt,
        "completion_mask": np.zeros(shape, bool),
    }
    return lambda: timed(lambda: distiller.train_on_batch(batch))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jit-compile", action="store_true")
    parser.add_argument("--torch", help="A Python with trl.")
    options = parser.parse_args()
    runs = {"keras_distill": ours(options)}
    if options.torch:
        sizes = (*STUDENT, *TEACHER, HEADS, ROWS, PROMPT, COMPLETION)
        runs["TRL GKDTrainer"] = OtherPython(
            options.torch, TORCH, *sizes, VOCABULARY, options.rounds + 1
        )
    seconds = {name: [] for name in runs}
    for turn in range(options.rounds + 1):
        for name, run in runs.items():
            times = run()
            if turn:  # The first compiles.
                seconds[name].append(times)
    print(f"GKD step, {keras.backend.backend()}, medians of {options.rounds}")
    medians = {
        name: [statistics.median(column) for column in zip(*times)]
        for name, times in seconds.items()
    }
    wall, cpu = medians["keras_distill"]
    for name, (other_wall, other_cpu) in medians.items():
        print(
            f"  {name:15s} {other_wall:.3f} s (cpu {other_cpu:.3f} s); ours is "
            f"{wall / other_wall:.2f} x as long (cpu {cpu / other_cpu:.2f} x)"
        )


if __name__ == "__main__":
    main()
