"""Right after the cut: what a model still knows, by the way units are chosen.

    python tests/benchmarks/pruning.py --model resnet20.keras \\
        --data cifar10.npz --keep 0.8 0.65 0.5

Nothing is trained. `--data` holds `x_train`, `y_train`, `x_test`, `y_test`, as
`keras_distill.data.load_images` reads them. Prints accuracy on test, and what
is left of weights and multiplications; random choices in three seeds.
"""

import argparse

import keras
import numpy as np

from keras_distill import data
from keras_distill import pruning

SEEDS = 3


def run(arguments):
    model = keras.models.load_model(arguments.model)
    splits = data.load_images(arguments.data)
    rows = np.random.default_rng(0).permutation(len(splits.train))
    train = splits.train.take(rows[: arguments.images])
    images = train.images.astype("float32"), train.labels
    orders = {
        "taylor": [pruning.importance(model, images)],
        "weight": [pruning.importance(model, method="weight")],
        "random": [
            pruning.importance(model, method="random", seed=seed)
            for seed in range(SEEDS)
        ],
    }

    def accuracy(model):
        test = splits.test
        found = model.predict(
            test.images.astype("float32"), batch_size=256, verbose=0
        )
        return 100 * np.mean(found.argmax(-1) == test.labels)

    print(f"whole: {accuracy(model):.1f}, {model.count_params():,} weights")
    for keep in arguments.keep:
        for name, held in orders.items():
            cut = [pruning.prune(model, keep, found) for found in held]
            scores = [accuracy(each) for each in cut]
            sd = f" ± {np.std(scores, ddof=1):.1f}" if len(scores) > 1 else ""
            weights = cut[0].count_params() / model.count_params()
            print(
                f"keep={keep}, {name}: {np.mean(scores):.1f}{sd}, "
                f"{weights:.0%} of the weights",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--keep", type=float, nargs="+", default=[0.8, 0.5])
    parser.add_argument("--images", type=int, default=1024)
    run(parser.parse_args())
