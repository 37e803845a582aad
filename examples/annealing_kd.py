"""Annealing-KD in two stages, with the two controls that it needs.

    python examples/annealing_kd.py --smoke
    python examples/annealing_kd.py
    python examples/annealing_kd.py --control constant
    python examples/annealing_kd.py --control one_stage

Stage I regresses the teacher's logits times phi, which grows from
1 / max_temperature to 1 as the temperature steps down to 1. Stage II goes on
from the best student of stage I with the labels alone. The controls take as
many epochs: `constant` has phi = 1 throughout, `one_stage` trains on logits
and labels at once. Annealing helped only if it beats both, over several seeds.
By default a 2-layer BERT is trained from scratch on docstrings of the
installed packages; `--data FOLDER` takes train.tsv, dev.tsv and test.tsv.
"""

import argparse
import dataclasses

import keras
import keras_hub

import keras_distill as kd
from keras_distill.data import docstrings

CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
LENGTH = 32  # Tokens; the rest of a longer text is cut.
SMOKE = {"max_temperature": 3, "hold": 1, "hard_epochs": 1}


def train_teacher(splits, vocabulary, train):
    """A BERT from scratch, whose head takes the mean over the tokens."""
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(vocabulary),
        num_layers=2,
        num_heads=2,
        hidden_dim=128,
        intermediate_dim=512,
    )
    teacher = kd.students.mean_pooled_classifier(backbone, splits.num_classes)
    steps = 2 * int(train.cardinality())
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=5e-4, warmup_steps=steps // 10
    )
    teacher.compile(keras.optimizers.AdamW(schedule), CROSS_ENTROPY)
    teacher.fit(train, epochs=2, verbose=2)
    teacher.compile(loss=CROSS_ENTROPY, metrics=["accuracy"])
    return teacher


def stages(options):
    """The recipe, or one of its controls."""
    annealing, hard = kd.annealing_kd_stages(
        options.max_temperature,
        epochs_per_temperature=options.hold,
        hard_epochs=options.hard_epochs,
        monitor="val_accuracy",
    )
    if options.control == "constant":
        annealing = dataclasses.replace(annealing, temperature=1.0)
    if options.control == "one_stage":
        epochs = annealing.epochs + hard.epochs
        return [
            dataclasses.replace(
                annealing, epochs=epochs, temperature=1.0, hard_weight=1.0
            )
        ]
    return [annealing, hard]


def main(options):
    """Trains the teacher, then the student in its stages."""
    keras.utils.set_random_seed(options.seed)
    if options.smoke:
        splits = docstrings.build(("numpy", "keras_hub"), max_per_class=150)
    else:
        splits = kd.data.load(options.data)
    vocabulary = kd.data.train_vocabulary(splits.train.texts)
    preprocessor = kd.data.bert_preprocessor(vocabulary, LENGTH)
    train, dev, test = (
        kd.data.encode(part, preprocessor)
        for part in (splits.train, splits.dev, splits.test)
    )
    train = kd.data.batches(train, 64, shuffle=True)
    dev, test = kd.data.batches(dev, 256), kd.data.batches(test, 256)
    teacher = train_teacher(splits, vocabulary, train)

    student = kd.students.text_cnn(splits.num_classes, embeddings=teacher)
    distiller = kd.Distiller(teacher, student)
    distiller.compile("adam", loss=CROSS_ENTROPY, metrics=["accuracy"])
    switch = kd.callbacks.StageSwitch(stages(options))
    epochs = switch.total_epochs
    history = distiller.fit(
        train, validation_data=dev, epochs=epochs, callbacks=[switch], verbose=0
    )
    logs = history.history
    print("epoch  stage  temperature  val_accuracy")
    for epoch in range(epochs):
        values = [logs[k][epoch] for k in ("stage", "temperature")]
        print(epoch, *values, f"{logs['val_accuracy'][epoch]:.1%}", sep="\t")
    for name, model in {"teacher": teacher, "student": distiller}.items():
        scores = model.evaluate(test, verbose=0, return_dict=True)
        print(f"{name} test accuracy: {scores['accuracy']:.1%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="docstrings", help="folder or file")
    parser.add_argument("--max-temperature", type=int, default=7)
    parser.add_argument("--hold", type=int, default=2, help="epochs each")
    parser.add_argument("--hard-epochs", type=int, default=4)
    parser.add_argument("--control", choices=["constant", "one_stage"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    if arguments.smoke:
        vars(arguments).update(SMOKE)
    main(arguments)
