"""A network of images cut to a budget, and taught by itself.

    python tests/benchmarks/pruning.py --model resnet20.keras \\
        --data cifar10.npz --output runs/pruning --budget 0.73 0.5 --seeds 3

`--budget` is a share of the multiplications. `--data` holds `x_train`,
`y_train`, `x_test`, `y_test`, as `keras_distill.data.load_images` reads them.
The cut is by Taylor, by weights, and by chance, to the budget by
`pruning.search`, and evenly, with the same share of each group. Taylor's reads
shifted and mirrored images: a model that knows its train images by heart has
no loss on them to tell from. Then the whole model teaches what is left for
`--epochs` on such images, which both see. With `--mixed` every second one is a
mixture of two, of which the whole model alone can say what it shows, so that no
label is used.
Accuracy on test right after the cut and after the last epoch: nothing is
chosen. `--seeds` is how many; several numbers are the seeds themselves. A
second call goes on after the last epoch of the first one, with the images that
it would have had.
"""

import argparse
import itertools
import json
import pathlib
import shutil

import keras
import numpy as np
import tensorflow as tf

import keras_distill as kd
from keras_distill import data
from keras_distill import pruning
from keras_distill.augment.images import ShiftAndFlip
from keras_distill.cli.shared import choices
from keras_distill.experiments import engine
from keras_distill.pruning import budgets

METHODS = "taylor", "weight", "random"
SPREADS = "search", "evenly"
BATCH = 128


def accuracy(model, split):
    found = model.predict(
        split.images.astype("float32"), batch_size=256, verbose=0
    )
    return 100 * float(np.mean(found.argmax(-1) == split.labels))


def multiplications(model):
    return budgets.total(model, pruning.structure(model), "multiplications")


def evenly(model, share, values):
    """The largest cut by `prune` that is within a share of the cost."""
    whole = multiplications(model)
    for keep in np.arange(1, 0, -0.01):
        smaller = pruning.prune(model, float(keep), values)
        if multiplications(smaller) <= share * whole:
            return smaller
    raise ValueError(f"There is no such cut: {share}")


def moved(split, seed, mixed=False):
    """Batches of augmented images, others in each epoch."""
    change = ShiftAndFlip(shift=4, flip=True)
    seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)

    def changed(rows, number):
        images, labels = rows
        key = tf.stack([number, number])
        images = tf.cast(change({"images": images}, key)["images"], "float32")
        if mixed:
            share = tf.random.stateless_uniform((BATCH // 2, 1, 1, 1), key + 2)
            share = tf.concat([tf.ones_like(share), share], 0)
            images = share * images + (1 - share) * tf.roll(images, 1, 0)
        return images, labels

    rows = tf.data.Dataset.from_tensor_slices((split.images, split.labels))
    rows = rows.shuffle(len(split), seed=seed).batch(BATCH, drop_remainder=True)
    return tf.data.Dataset.zip(rows, seeds).map(changed).prefetch(2)


def teach(student, teacher, rows, loss, arguments, folder):
    distiller = kd.Distiller(teacher=teacher, student=student)
    steps = int(rows.cardinality())
    total = arguments.epochs * steps
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, total, warmup_target=0.05, warmup_steps=total // 20
    )
    distiller.compile(
        keras.optimizers.SGD(
            rate,
            momentum=0.9,
            nesterov=True,
            weight_decay=arguments.weight_decay,
        ),
        loss,
    )
    backup = kd.callbacks.Backup(folder)
    done = backup.restore(distiller)
    distiller.fit(
        rows.repeat().skip(done * steps),
        epochs=arguments.epochs,
        initial_epoch=done,
        steps_per_epoch=steps,
        callbacks=[backup],
        verbose=0,
    )


def measured(model, splits, share, values, spread, seed, arguments, folder):
    """What one arm comes to."""
    keras.utils.set_random_seed(seed)
    if spread == "evenly":
        smaller = evenly(model, share, values)
    else:
        smaller = pruning.search(
            model, {"multiplications": share}, importance=values, verbose=0
        )
    found = {
        "cut": accuracy(smaller, splits.test),
        "weights": smaller.count_params(),
        "multiplications": multiplications(smaller),
    }
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if arguments.mixed:
        loss = None
    rows = moved(splits.train, seed, arguments.mixed)
    teach(smaller, model, rows, loss, arguments, folder)
    return found | {"taught": accuracy(smaller, splits.test)}


def run(arguments):
    path = arguments.output / f"{pathlib.Path(arguments.model).stem}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    model = keras.models.load_model(arguments.model)
    splits = data.load_images(arguments.data)
    rows = np.random.default_rng(0).permutation(len(splits.train))
    few = splits.train.take(rows[: arguments.images])
    print(f"whole: {accuracy(model, splits.test):.1f}", flush=True)
    arms = itertools.product(
        engine.as_seeds(choices.seeds(arguments.seeds)),
        arguments.budget,
        arguments.methods,
        arguments.spreads,
    )
    for seed, share, method, spread in arms:
        name = f"{share}, {method}, {spread}, {arguments.epochs} epochs"
        name += ", mixed" * arguments.mixed
        if arguments.weight_decay:
            name += f", weight decay {arguments.weight_decay}"
        if str(seed) in found.setdefault(name, {}):
            continue
        values = pruning.importance(
            model, moved(few, seed), method=method, seed=seed
        )
        backup = path.with_name(f"{path.stem}, {name}, seed {seed}")
        found[name][str(seed)] = measured(
            model,
            splits,
            share,
            values,
            spread,
            seed,
            arguments,
            backup,
        )
        path.write_text(json.dumps(found, indent=1))
        shutil.rmtree(backup)
        print(seed, name, found[name][str(seed)], flush=True)
    for name, held in found.items():
        line = name
        for key in ("cut", "taught"):
            scores = [one[key] for one in held.values()]
            sd = f" ± {np.std(scores, ddof=1):.1f}" if len(scores) > 1 else ""
            line += f": {key} {np.mean(scores):.1f}{sd}"
        print(line, f"({len(held)} seeds)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--budget", type=float, nargs="+", default=[0.73, 0.5])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--spreads", nargs="+", default=SPREADS)
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3])
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--weight-decay", type=float)
    run(parser.parse_args())
