"""What precisions, quantised teachers and adapters take: memory, and files.

Each variant trains a BERT of 6 x 768 from one of 12 x 768 for a few steps in a
process of its own; Linux tells the most memory that it had, from which what it
had before the models is taken. Prints a table in GiB.

    python tests/benchmarks/precision_memory.py
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from gpu import encoder
from loss_memory import GIB
from loss_memory import peak

# The teacher's policy, what it is quantised to, the student's policy, the rank
# of its adapters.
VARIANTS = {
    "float32": ("float32", None, "float32", None),
    "teacher bfloat16": ("bfloat16", None, "float32", None),
    "both `mixed_bfloat16`": ("mixed_bfloat16", None, "mixed_bfloat16", None),
    "teacher int8": ("float32", "int8", "float32", None),
    "teacher int4": ("float32", "int4", "float32", None),
    "student LoRA, rank 8": ("float32", None, "float32", 8),
    "teacher int8, student LoRA": ("float32", "int8", "float32", 8),
}


def bert(layers, policy, options):
    import keras

    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(layers)
    width = options.width
    model = encoder((layers, width // 64, width), options.vocabulary)
    keras.config.set_dtype_policy("float32")
    return model


def size(variables):
    import numpy as np

    return sum(np.prod(v.shape) * v.value.dtype.size for v in variables)


def measure(options):
    import warnings

    import keras
    import numpy as np

    import keras_distill as kd

    warnings.filterwarnings("ignore", "Layer .* does not have a `quantize`")
    first, mode, second, rank = VARIANTS[options.variant]
    np.asarray(keras.ops.ones(3))
    before = peak()
    teacher, student = bert(12, first, options), bert(6, second, options)
    if mode:
        teacher.quantize(mode)
    if rank:
        student.backbone.enable_lora(rank)
    distiller = kd.Distiller(teacher=teacher, student=student)
    distiller.compile(
        keras.optimizers.Adam(1e-5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    rng = np.random.default_rng(0)
    shape = options.rows * options.steps, options.length
    x = {
        "token_ids": rng.integers(1, options.vocabulary, shape),
        "segment_ids": np.zeros(shape, "int32"),
        "padding_mask": np.ones(shape, "int32"),
    }
    y = rng.integers(0, 2, len(x["token_ids"]))
    history = distiller.fit(x, y, batch_size=options.rows, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.weights.h5"
        distiller.save_weights(path)
        checkpoint = path.stat().st_size
    return {
        "teacher": size(teacher.weights),
        "optimizer": size(distiller.optimizer.variables),
        "checkpoint": checkpoint,
        "peak": peak() - before,
        "loss": history.history["loss"][-1],
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocabulary", type=int, default=30522)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--variant", choices=VARIANTS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps({k: float(v) for k, v in measure(options).items()}))
        return
    columns = "teacher", "optimizer", "checkpoint", "peak"
    print(f"| | {' | '.join(columns)} | loss |")
    print("|---|" + "---:|" * 5)
    for name in VARIANTS:
        command = [sys.executable, __file__, *sys.argv[1:], "--variant", name]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        found = json.loads(output.stdout.splitlines()[-1])
        sizes = " | ".join(f"{found[c] / GIB:.2f}" for c in columns)
        print(f"| {name} | {sizes} | {found['loss']:.3f} |", flush=True)


if __name__ == "__main__":
    main()
