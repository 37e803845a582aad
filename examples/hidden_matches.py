"""Distil an encoder into one of 4 layers that imitates its hidden states.

    python examples/hidden_matches.py --smoke
    python examples/hidden_matches.py
    python examples/hidden_matches.py --teacher bert_base_en_uncased \
        --student-dim 312 --data FOLDER --rate 5e-5

Layer k of the student is matched with the teacher's layer at the same relative
depth, in two ways: the mean squared error of the states, for which a trained
projection brings the student's states to the teacher's width, and the error
of the token-by-token Gram matrices ("MMD"), which needs no projection. By
default a BERT of 6 layers is trained on docstrings of the installed packages.
"""

import argparse

import keras
import keras_hub

import keras_distill as kd
from keras_distill.data import docstrings

CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
LENGTH = 32  # Tokens; the rest of a longer text is cut.
TINY_TEACHER = {"teacher_layers": 3, "teacher_dim": 16}
SMOKE = TINY_TEACHER | {"student_layers": 2, "student_dim": 8, "epochs": 2}


def build_teacher(options, splits):
    """An encoder with a mean-pooled head, and the layer that makes its ids."""
    bert = keras_hub.models.BertBackbone
    if options.teacher:
        backbone = bert.from_preset(options.teacher)
        kind = keras_hub.models.BertTextClassifierPreprocessor
        preprocessor = kind.from_preset(options.teacher, sequence_length=LENGTH)
    else:
        vocabulary = kd.data.train_vocabulary(splits.train.texts)
        backbone = bert(
            vocabulary_size=len(vocabulary),
            num_layers=options.teacher_layers,
            num_heads=2,
            hidden_dim=options.teacher_dim,
            intermediate_dim=4 * options.teacher_dim,
        )
        preprocessor = kd.data.bert_preprocessor(vocabulary, LENGTH)
    teacher = kd.students.mean_pooled_classifier(backbone, splits.num_classes)
    return teacher, preprocessor


def hidden_matches(teacher, student):
    """Two matches for each of the student's states, state 0 included."""
    layers = [len(kd.hidden_states(model)) - 1 for model in (teacher, student)]
    matches = []
    for t, s in kd.uniform_layer_map(*layers):
        matches.append(kd.Match(t, s, kd.losses.HiddenMSE()))
        # A Gram matrix relates two layers of one model: here one to itself.
        gram = kd.losses.NeuronSelectivity()
        matches.append(kd.Match([t, t], [s, s], gram))
    return matches


def optimizer(options, rows):
    """AdamW with a warm-up, then a decay to 0."""
    steps = options.epochs * int(rows.cardinality())
    decay = keras.optimizers.schedules.CosineDecay
    peak, rise = options.rate, steps // 10
    rate = decay(0.0, steps, warmup_target=peak, warmup_steps=rise)
    return keras.optimizers.AdamW(rate)


def main(options):
    """Trains the teacher, then the student with all matches."""
    keras.utils.set_random_seed(0)
    if options.smoke:
        splits = docstrings.build(("numpy", "keras_hub"), max_per_class=150)
    else:
        splits = kd.data.load(options.data)
    teacher, preprocessor = build_teacher(options, splits)
    train = kd.data.encode(splits.train, preprocessor)
    test = kd.data.encode(splits.test, preprocessor)
    rows = kd.data.batches(train, 32, shuffle=True)
    test_rows = kd.data.batches(test, 256)
    teacher.compile(
        optimizer(options, rows), CROSS_ENTROPY, metrics=["accuracy"]
    )
    teacher.fit(rows, epochs=options.epochs, verbose=2)

    layers, width = options.student_layers, options.student_dim
    student = kd.students.shrink(teacher, layers, hidden_dim=width)
    distiller = kd.Distiller(teacher, student, hidden_matches(teacher, student))
    distiller.compile(
        optimizer(options, rows),
        loss=CROSS_ENTROPY,
        soft_loss=kd.losses.ForwardKL(8.0),
        metrics=["accuracy"],
    )
    logs = distiller.fit(rows, epochs=options.epochs, verbose=0).history
    for name, values in logs.items():
        print(f"{name:56} {values[0]:8.4f} -> {values[-1]:8.4f}")
    for name, model in {"teacher": teacher, "student": distiller}.items():
        scores = model.evaluate(test_rows, verbose=0, return_dict=True)
        print(f"{name} test accuracy: {scores['accuracy']:.1%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--teacher", help="KerasHub preset or its folder")
    parser.add_argument("--data", default="docstrings", help="folder or file")
    parser.add_argument("--teacher-layers", type=int, default=6)
    parser.add_argument("--teacher-dim", type=int, default=128)
    parser.add_argument("--student-layers", type=int, default=4)
    parser.add_argument("--student-dim", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    if arguments.smoke:
        vars(arguments).update(SMOKE)
    main(arguments)
