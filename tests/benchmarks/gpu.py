"""What an accelerator makes of it, on JAX: some seven minutes on one H200.

    KERAS_BACKEND=jax python tests/benchmarks/gpu.py --output gpu.json
    KERAS_BACKEND=jax python tests/benchmarks/gpu.py --tiny  # A rehearsal.

Needs JAX, Keras and KerasHub, no TensorFlow; where a Python with torch and
transformers is at hand (`--torch`), their figures stand beside ours. Every part
runs in a process of its own, one after the other, so that it has the whole card
and its peak memory is its own. What fails is told in its row, and the others go
on. Parts of torch are named like ours, with `torch: ` before.

* `step`: the Distiller's step over a plain training step of the student and a
  plain pass of the teacher, BERT 12 x 768 over 4 x 312.
* `sampling`: GPT-2 of 124 M weights, bfloat16, 512 + 512 tokens: tokens per
  second at batch 1, 16 and 64; `KerasHub: sampling` by its own `generate`.
* `gkd`: a step of GPT-2 124 M under 355 M, on what the student writes.
* `loss`, `loss in chunks`: the JSD over 8,192 tokens of two heads of 151,936 x
  4,096 in bfloat16, value and gradient, all logits at once and in chunks.
"""

import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from loss_memory import GIB

# Layers, heads, width.
SMALL, MEDIUM = (12, 12, 768), (24, 16, 1024)
SIZES = {
    "encoders": ((12, 12, 768), (4, 12, 312)),
    "rows": 32,
    "length": 128,
    "student": SMALL,
    "teacher": MEDIUM,
    "vocabulary": 50257,
    "prompt": 512,
    "completion": 512,
    "batches": (1, 16, 64),
    "gkd": (16, 128, 128),
    "head": (8192, 151936, 4096),
    "rounds": 3,
}
TINY = {
    "encoders": ((2, 2, 16), (1, 2, 8)),
    "rows": 4,
    "length": 16,
    "student": (1, 2, 16),
    "teacher": (2, 2, 32),
    "vocabulary": 100,
    "prompt": 8,
    "completion": 8,
    "batches": (1, 4),
    "gkd": (4, 8, 8),
    "head": (256, 500, 16),
    "rounds": 2,
}


def seconds(run, rounds):
    """The median of some rounds, after one that compiles."""
    run()
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def peak():
    """GiB that this process had on the device at most, None on a CPU."""
    import jax

    held = jax.devices()[0].memory_stats()
    return held and held["peak_bytes_in_use"] / GIB


def shape(size, vocabulary, length):
    layers, heads, width = size
    return {
        "vocabulary_size": vocabulary,
        "num_layers": layers,
        "num_heads": heads,
        "hidden_dim": width,
        "intermediate_dim": 4 * width,
        "max_sequence_length": length,
    }


def encoder(size, vocabulary):
    import keras
    from keras_hub import models

    task = models.BertTextClassifier(
        models.BertBackbone(**shape(size, vocabulary, 512)),
        num_classes=2,
        preprocessor=None,
    )
    # A task's own `fit` takes arrays through TensorFlow.
    return keras.Model(task.input, task.output)


def gpt2(size, vocabulary, length):
    from keras_hub import models

    backbone = models.GPT2Backbone(**shape(size, vocabulary, length))
    return models.GPT2CausalLM(backbone, preprocessor=None)


def step(sizes):
    import jax
    import keras
    import numpy as np

    import keras_distill as kd

    keras.config.set_dtype_policy("mixed_bfloat16")
    teacher, plain, student = (
        encoder(sizes["encoders"][k], sizes["vocabulary"]) for k in (0, 1, 1)
    )
    rng = np.random.default_rng(0)
    rows, length = 20 * sizes["rows"], sizes["length"]
    ones = np.ones((rows, length), "int32")
    x = {
        "token_ids": rng.integers(0, sizes["vocabulary"], ones.shape),
        "segment_ids": 0 * ones,
        "padding_mask": ones,
    }
    y = rng.integers(0, 2, rows)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    plain.compile(keras.optimizers.Adam(1e-4), loss)
    distiller = kd.Distiller(teacher=teacher, student=student)
    distiller.compile(keras.optimizers.Adam(1e-4), loss)

    def fit(model):
        return lambda: model.fit(
            x, y, batch_size=sizes["rows"], epochs=1, verbose=0
        )

    few = {name: value[: sizes["rows"]] for name, value in x.items()}
    values = [v.value for v in teacher.variables]

    @jax.jit
    def forward(values, x):
        mapping = zip(teacher.variables, values)
        with keras.StatelessScope(state_mapping=mapping):
            return teacher(x, training=False)

    def passes():
        for _ in range(20):
            jax.block_until_ready(forward(values, few))

    found = {
        "student": seconds(fit(plain), sizes["rounds"]) / 20,
        "teacher": seconds(passes, sizes["rounds"]) / 20,
        "distiller": seconds(fit(distiller), sizes["rounds"]) / 20,
    }
    both = found["student"] + found["teacher"]
    return found | {"ratio": found["distiller"] / both, "GiB": peak()}


def sampling(sizes, by):
    import keras
    import numpy as np
    import sampling as ways

    keras.config.set_dtype_policy("bfloat16")
    prompt, length = sizes["prompt"], sizes["prompt"] + sizes["completion"]
    model = gpt2(sizes["student"], sizes["vocabulary"], length)
    rng = np.random.default_rng(0)
    found = {}
    for rows in sizes["batches"]:
        token_ids = rng.integers(1, sizes["vocabulary"], (rows, length))
        run = getattr(ways, by)(model, token_ids.astype("int32"), prompt)
        taken = seconds(run, sizes["rounds"])
        found[f"batch {rows}"] = rows * sizes["completion"] / taken
    return found | {"GiB": peak()}


def gkd(sizes):
    import keras
    import numpy as np

    import keras_distill as kd

    keras.config.set_dtype_policy("mixed_bfloat16")
    rows, prompt, completion = sizes["gkd"]
    length = prompt + completion
    distiller = kd.GKDDistiller(
        gpt2(sizes["teacher"], sizes["vocabulary"], length),
        gpt2(sizes["student"], sizes["vocabulary"], length),
        lmbda=1.0,
        max_completion_length=completion,
        stop_token_ids=(),
        seed=0,
    )
    distiller.compile("adamw")
    shape = rows, length
    rng = np.random.default_rng(0)
    batch = {
        "token_ids": rng.integers(1, sizes["vocabulary"], shape).astype(
            "int32"
        ),
        "prompt_mask": np.broadcast_to(np.arange(length) < prompt, shape),
        "completion_mask": np.zeros(shape, bool),
    }
    taken = seconds(lambda: distiller.train_on_batch(batch), sizes["rounds"])
    return {"s per update": taken, "GiB": peak()}


def loss(sizes, chunk_tokens):
    import jax
    import keras
    import numpy as np

    from keras_distill.divergences import generalized_jsd
    from keras_distill.gkd.language_model import LanguageModel
    from keras_distill.gkd.token_loss import token_divergence

    keras.config.set_dtype_policy("bfloat16")
    tokens, vocabulary, width = sizes["head"]
    teacher, student = (
        LanguageModel(gpt2((1, 1, width), vocabulary, 8)) for _ in "ts"
    )
    rng = np.random.default_rng(0)
    states = [
        jax.numpy.asarray(rng.normal(size=(1, tokens, width)), "bfloat16")
        for _ in "ts"
    ]
    mask = np.ones((1, tokens), "int32")
    heads = teacher.head_variables, student.head_variables

    def value(student_values, own, teacher_values, other):
        values = zip((*heads[0], *heads[1]), (*teacher_values, *student_values))
        with keras.StatelessScope(state_mapping=values):
            total, count = token_divergence(
                generalized_jsd,
                *(teacher, other),
                *(student, own),
                mask,
                chunk_tokens=chunk_tokens,
            )
        return total / count

    run = jax.jit(jax.value_and_grad(value, argnums=(0, 1)))
    held = [[v.value for v in side] for side in heads]
    taken = seconds(
        lambda: jax.block_until_ready(
            run(held[1], states[1], held[0], states[0])
        ),
        sizes["rounds"],
    )
    return {"s": taken, "GiB": peak()}


PARTS = {
    "step": step,
    "sampling": functools.partial(sampling, by="ours"),
    "KerasHub: sampling": functools.partial(sampling, by="hub"),
    "gkd": gkd,
    "loss": functools.partial(loss, chunk_tokens=None),
    "loss in chunks": functools.partial(loss, chunk_tokens="auto"),
}
OF_TORCH = "sampling", "loss", "loss in chunks"
TORCH = "torch: "
ALL = [*PARTS, *(TORCH + name for name in OF_TORCH)]


def card():
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        return subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no GPU"


def in_its_own_process(name, options):
    own = pathlib.Path(__file__)
    if name.startswith(TORCH):
        script = own.with_name("gpu_torch.py")
        sizes = json.dumps(TINY if options.tiny else SIZES)
        command = [options.torch, script, name.removeprefix(TORCH), sizes]
    else:
        command = [sys.executable, own, "--part", name]
        command += ["--tiny"] if options.tiny else []
    # The other parts' processes must find room on the card.
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=environment,
            timeout=options.limit,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"took more than {options.limit} s"}
    taken = round(time.perf_counter() - begin, 1)
    if done.returncode:
        return {"failed": done.stderr.strip()[-600:], "s in all": taken}
    return json.loads(done.stdout.splitlines()[-1]) | {"s in all": taken}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--parts", nargs="+", choices=ALL, default=ALL)
    parser.add_argument("--part", help="This one alone, in this process.")
    parser.add_argument(
        "--torch", default=sys.executable, help="a Python that has torch"
    )
    parser.add_argument("--limit", type=float, default=240, help="s a part")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    if options.part:
        sizes = TINY if options.tiny else SIZES
        print(json.dumps(PARTS[options.part](sizes)))
        return
    found = {"card": card()}
    print(found["card"])
    for name in options.parts:
        found[name] = in_its_own_process(name, options)
        print(name, json.dumps(found[name]), flush=True)
        if options.output:
            options.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
