"""Distil an embedder of texts into a table of token vectors, for NumPy.

    python examples/vectors.py --smoke
    python examples/vectors.py --teacher all-MiniLM-L6-v2/
    python examples/vectors.py --teacher all-MiniLM-L6-v2/ --data texts.txt

No labels are needed. The teacher is a folder of sentence-transformers, a
KerasHub embedder, or any encoder; with --smoke one that knows nothing. Without
--data the texts are summaries of the installed packages' functions. In the end
the arrays find the texts that are nearest to the first one of dev.
"""

import argparse
import pathlib
import tempfile

import numpy as np

import keras_distill as kd


def main(options):
    """Teacher, student, arrays, and what they find."""
    prepared = kd.experiments.prepare(
        options.output,
        command="distill",
        task="vectors",
        data=options.data,
        teacher=options.teacher,
        smoke=options.smoke,
    )
    task, student = prepared.task, kd.students.Static(width=options.width)
    with prepared.folder as folder:
        found = kd.distill(task, prepared.teacher, student, folder)
    print("neighbours kept on test")
    for model in found["models"]:
        print(f"{model['name']:10} {np.mean(model['test_score']):.1%}")

    file = found["models"][-1]["files"]["NumPy"]
    print(f"{file['path']} {file['size_bytes']:,} bytes")
    arrays = kd.export.StaticVectors(
        pathlib.Path(options.output) / "export" / file["path"]
    )
    texts, rows = task.splits.dev.texts, task.encoded["dev"].inputs
    vectors = arrays(rows["token_ids"], rows["padding_mask"])
    for row in np.argsort(-vectors @ vectors[0])[:4]:
        print(f"{vectors[row] @ vectors[0]:.2f} {texts[row][:70]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="docstrings", help="a .txt file")
    parser.add_argument("--teacher", default="embedded")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--output", default=None, help="a folder to keep")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.output is None:
            arguments.output = temporary
        main(arguments)
