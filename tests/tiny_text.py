"""Texts of two classes that words tell apart, a task and its teachers."""

import dataclasses

import keras
import keras_hub
import numpy as np

from keras_distill import data
from keras_distill import students
from keras_distill.experiments.teaching import Teacher
from keras_distill.students import TextCNN
from keras_distill.tasks import TextClassification

WORDS = {"good": "fine great nice lovely", "bad": "awful poor dull sad"}
LABELS = list(WORDS)
VOCABULARY = [
    *data.vocabulary.SPECIAL_TOKENS,
    *" ".join(WORDS.values()).split(),
    *"abcdefghijklmnopqrstuvwxyz0123456789",
    "the",
]
START, END = VOCABULARY.index("[CLS]"), VOCABULARY.index("[SEP]")
TRANSFER = [f"the {word} {i}" for i, word in enumerate(WORDS["good"].split())]
SIZES = {"train": 24, "dev": 10, "test": 12}
SMALL = TextCNN(width=4, epochs=1, batch_size=8)


def pair_row(first, second, separators=1, length=14):
    """Inputs of one pair, packed as a family packs it."""
    ids = [START, *first, *[END] * separators, *second, END]
    mask = [1] * len(ids) + [0] * (length - len(ids))
    # What stands in padding counts nothing.
    ids = [*ids, *[7] * (length - len(ids))]
    return {"token_ids": np.array([ids]), "padding_mask": np.array([mask])}


def write(folder, sizes):
    """A folder with the parts as .tsv files; their texts all differ."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for part, count in sizes.items():
        lines = ["text\tlabel"]
        for row in range(count):
            label = LABELS[row % 2]
            words = rng.choice(WORDS[label].split(), 3)
            lines.append(f"{part} {row} the {' '.join(words)}\t{label}")
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def part(rows):
    rng = np.random.default_rng(rows)
    texts = [
        " ".join(rng.choice(WORDS[LABELS[i % 2]].split(), 3))
        for i in range(rows)
    ]
    return data.TextDataset(texts, np.arange(rows) % 2)


def task(transfer=TRANSFER):
    splits = data.TextSplits(
        **{name: part(rows) for name, rows in SIZES.items()},
        label_names=LABELS,
    )
    return TextClassification.from_texts(
        splits,
        data.bert_preprocessor(VOCABULARY, 8),
        transfer=transfer,
        name="tiny",
    )


def network(filters=4, dropout=0.1):
    """A model of the task."""
    return students.text_cnn(
        2, (len(VOCABULARY), 4), filters=filters, dropout=dropout
    )


def cnn(task, teacher):
    """What `students.base.Custom` takes."""
    del task, teacher
    return network()


def encoder(task):
    """A BERT of one layer."""
    return task.embedded_teacher(smoke=True)


def teacher(task, model=None):
    """A `Teacher`, of a network of the seed 3 by default."""
    if model is None:
        keras.utils.set_random_seed(3)
        model = network()
    return Teacher.of(task, model)


def logits_alone(teacher):
    return dataclasses.replace(teacher, model=None)


def roberta(letters, length):
    """A preprocessor of byte pairs, whose tokens are letters."""
    begun = [f"Ġ{letter}" for letter in letters]
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ"]
    vocabulary = list(dict.fromkeys([*vocabulary, *letters, *begun]))
    tokenizer = keras_hub.models.RobertaTokenizer(
        {piece: i for i, piece in enumerate(vocabulary)},
        [f"Ġ {letter}" for letter in letters],
    )
    return keras_hub.models.RobertaTextClassifierPreprocessor(
        tokenizer, sequence_length=length
    )
