"""Distil a BERT into a TextCNN, with few labels and much unlabelled text.

    python examples/bert_to_text_cnn.py --smoke
    python examples/bert_to_text_cnn.py
    python examples/bert_to_text_cnn.py --teacher bert_base_en_uncased \
        --data FOLDER --teacher-epochs 3 --teacher-rate 5e-5

The teacher learns from all labels; the student sees a few of them, and the
teacher's outputs on all texts. The same student without the teacher is the
control. By default a 2-layer BERT is trained from scratch on docstrings of the
installed packages, so nothing is downloaded. FOLDER holds train.tsv, dev.tsv
and test.tsv with the columns text and label. With `--teacher-epochs 0` a
preset that is fine-tuned already is taken as it is.
"""

import argparse

import keras
import keras_hub
import numpy as np

import keras_distill as kd
from keras_distill.data import docstrings

# Rows with the label -1 have none: only the soft loss counts them.
CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(
    from_logits=True, ignore_class=-1
)
LENGTH = 32  # Tokens; the rest of a longer text is cut.
SMOKE = {"labels": 60, "filters": 8, "teacher_epochs": 1, "epochs": 1}


def build_teacher(options, splits):
    """A classifier of token ids, and the layer that makes them from text."""
    if options.teacher:
        classifier = keras_hub.models.BertTextClassifier
        name, kind = options.teacher, classifier.preprocessor_cls
        new = {"num_classes": splits.num_classes}
        head = new if options.teacher_epochs else {}
        teacher = classifier.from_preset(name, preprocessor=None, **head)
        return teacher, kind.from_preset(name, sequence_length=LENGTH)
    vocabulary = kd.data.train_vocabulary(splits.train.texts)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(vocabulary),
        num_layers=2,
        num_heads=2,
        hidden_dim=128,
        intermediate_dim=512,
    )
    # From scratch, the mean over the tokens learns where [CLS] does not.
    teacher = kd.students.mean_pooled_classifier(backbone, splits.num_classes)
    return teacher, kd.data.bert_preprocessor(vocabulary, LENGTH)


def fine_tune(teacher, encoded, epochs, learning_rate):
    """Plain Keras: AdamW with a warm-up."""
    rows = kd.data.batches(encoded, 32, shuffle=True)
    steps = epochs * int(rows.cardinality())
    warm_up = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=learning_rate, warmup_steps=steps // 10
    )
    teacher.compile(keras.optimizers.AdamW(warm_up), CROSS_ENTROPY)
    teacher.fit(rows, epochs=epochs, verbose=2)


def accuracy(model, encoded):
    """The share of texts whose largest logit is the label's."""
    logits = model.predict(kd.data.batches(encoded, 256), verbose=0)
    return np.mean(logits.argmax(axis=-1) == encoded.labels)


def main(options):
    """Teacher, control and student, one after the other."""
    keras.utils.set_random_seed(0)
    if options.smoke:
        splits = docstrings.build(("numpy", "keras_hub"), max_per_class=150)
    else:
        splits = kd.data.load(options.data)
    teacher, preprocessor = build_teacher(options, splits)
    if options.teacher_epochs:
        train = kd.data.encode(splits.train, preprocessor)
        fine_tune(teacher, train, options.teacher_epochs, options.teacher_rate)

    few = kd.data.keep_labels(splits, options.labels)
    train = kd.data.encode(few.train, preprocessor)
    test = kd.data.encode(few.test, preprocessor)
    rows = kd.data.batches(train, 64, shuffle=True, labelled_per_batch=16)
    classes, filters = splits.num_classes, options.filters
    student = kd.students.text_cnn(classes, teacher, filters=filters)
    control = keras.models.clone_model(student)
    control.set_weights(student.get_weights())
    control.compile("adam", CROSS_ENTROPY)
    control.fit(rows, epochs=options.epochs, verbose=0)

    distiller = kd.Distiller(teacher, student)
    kl = kd.losses.ForwardKL(temperature=4.0)
    distiller.compile("adam", loss=CROSS_ENTROPY, soft_loss=kl)
    distiller.fit(rows, epochs=options.epochs, verbose=2)

    names = ("teacher", "few labels", "distilled")
    for name, model in zip(names, (teacher, control, student)):
        score = accuracy(model, test)
        print(f"{name:10} {model.count_params():>12,} parameters  {score:.1%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--teacher", help="KerasHub preset or its folder")
    parser.add_argument("--data", default="docstrings", help="folder or file")
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--filters", type=int, default=128)
    parser.add_argument("--teacher-epochs", type=int, default=2)
    parser.add_argument("--teacher-rate", type=float, default=5e-4)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    if arguments.smoke:
        vars(arguments).update(SMOKE)
    main(arguments)
