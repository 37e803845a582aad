"""Sentences with a tag for each word: CoNLL files."""

import pathlib
import re

import numpy as np

from keras_distill._text_files import all_lines
from keras_distill._text_files import read_text
from keras_distill._text_files import shown
from keras_distill._text_files import shown_path
from keras_distill.data.labelled import UNLABELLED
from keras_distill.data.labelled import has_label
from keras_distill.data.text_splits import TextSplits

OUTSIDE = "O"
TAG = re.compile(r"O|[BI]-\S+")
DOCUMENT = "-DOCSTART-"


class TagSplits(TextSplits):
    """Train, dev and test of a set of tagged words, such as named entities.

    As `TextSplits`, but that a text is a sentence, its words with one blank
    between them, and `labels` an array `[rows, words]`: of each word the
    position of its tag in `label_names`, `-1` after the last word, and
    throughout in train rows without tags. Tags are those of IOB2: `B-` begins
    an entity, `I-` goes on with it, `O` is outside.

    Raises:
        ValueError: A part is empty, the number of tags is not that of the
            words, or an `I-` goes on with nothing.

    Example:

    >>> from keras_distill.data import TextDataset
    >>> part = TextDataset(["in New York", "no"], [[0, 1, 2], [0, -1, -1]])
    >>> TagSplits(part, part, part, ["O", "B-place", "I-place"]).types
    ['place']
    """

    label_columns = ("ner", "ner_tags", "tags")
    draws_by_class = of_classes = False
    suffixes, per_word = (".conll",), True

    @property
    def types(self):
        """The types of entities, a list of strings."""
        return sorted({name[2:] for name in self.label_names} - {""})

    @staticmethod
    def check_names(label_names):
        """Raises `ValueError` unless there is a type beside `O`."""
        if len(label_names) < 2 or label_names[0] != OUTSIDE:
            raise ValueError(
                "Tags must be O and, of at least one type, B- and I-. "
                f"Received: label_names={list(label_names)}"
            )

    def _check_labels(self, name, labels):
        if labels.dtype.kind == "f" or labels.ndim != 2:
            raise ValueError(
                "Tags must be integers, a row for each sentence and a column "
                f"for each word. Received: {name}.labels of shape "
                f"{labels.shape}, dtype {labels.dtype}"
            )
        counts = np.array(
            [len(text.split(" ")) for text in getattr(self, name).texts]
        )
        place = np.arange(labels.shape[1])
        fits = ((labels >= 0) == (place < counts[:, None])).all(axis=1)
        fits &= counts <= labels.shape[1]
        if name == "train":
            fits |= ~has_label(labels)
        if not fits.all():
            row = int(np.argmin(fits))
            raise ValueError(
                f"Each word of {name} needs a tag. Received: {name} row {row}, "
                f"{counts[row]} words with {int((labels[row] >= 0).sum())} tags"
            )
        names = np.array(self.label_names)
        for row in np.flatnonzero(has_label(labels)):
            try:
                self.check_tags(names[labels[row, : counts[row]]].tolist())
            except ValueError as error:
                raise ValueError(f"{error}; in {name} row {row}") from error

    @staticmethod
    def read_file(path, *columns):
        """The sentences and tags of a CoNLL file.

        A word and its tag a line, with further columns between them or not;
        tabs between the columns, or blanks; an empty line after a sentence.
        IOB1, where `B-` stands only between entities of one type that touch,
        is known by this and read as IOB2.

        Args:
            path: Path of a file of text.
            *columns: Not used: the first column holds the word, the last the
                tag.

        Returns:
            List of pairs of a sentence and a tuple of tags.

        Raises:
            ValueError: A line has no tag, or one that is none; or an `I-` goes
                on with nothing.
        """
        del columns
        path = pathlib.Path(path)
        sentences = list(_sentences(path))
        if not sentences:
            raise ValueError(
                "A file of tags must hold words, one a line. Received: "
                f"{shown_path(path)}"
            )
        if _is_iob1([tags for _, _, tags in sentences]):
            sentences = [(n, words, _as_iob2(t)) for n, words, t in sentences]
        for line, _, tags in sentences:
            try:
                TagSplits.check_tags(tags)
            except ValueError as error:
                raise ValueError(
                    f"{error}; in {path.name}, the sentence of line {line}"
                ) from error
        return [(" ".join(words), tags) for _, words, tags in sentences]

    @staticmethod
    def check_tags(tags):
        """Raises `ValueError` for an `I-` that goes on with nothing."""
        for i, tag in enumerate(tags):
            if tag.startswith("I-") and not _goes_on(tags, i):
                raise ValueError(
                    f"{tag} must follow B-{tag[2:]} or {tag}; begin each "
                    f"entity with B-. Received: {tag} after "
                    f"{tags[i - 1] if i else 'nothing'}, word {i + 1}"
                )

    @staticmethod
    def names_of(labels, columns):
        """`O`, and `B-` and `I-` of each type."""
        del columns
        types = {tag[2:] for tags in labels for tag in tags or ()} - {""}
        return [OUTSIDE, *(f"{b}-{t}" for t in sorted(types) for b in "BI")]

    @classmethod
    def to_array(cls, part, items, labels, names):
        """Array `[rows, words]` of positions, -1 after the last word."""
        cls.check_known(part, items, [held or () for held in labels], names)
        position = {name: i for i, name in enumerate(names)}
        words = max(len(text.split(" ")) for text in items)
        found = np.full((len(labels), words), UNLABELLED, "int32")
        for row, held in zip(found, labels):
            if held is not None:
                row[: len(held)] = [position[tag] for tag in held]
        return found

    def made_texts(self, times, seed):
        """Train sentences with other mentions in the place of their own.

        Each entity gives way to one of its type, drawn from those in train by
        how often they occur.

        Args:
            times: Integer, how many of each sentence with an entity.
            seed: Integer.

        Returns:
            List of strings.

        Reference:
            Dai and Adel, 2020, https://arxiv.org/abs/2010.11683, section 3
            (mention replacement).
        """
        rng, found = np.random.default_rng(seed), []
        parts = [
            _parts(text.split(" "), [self.label_names[i] for i in tags])
            for text, tags in zip(self.train.texts, self.train.labels)
            if tags[0] >= 0
        ]
        mentions = {}
        for kind, words in (part for row in parts for part in row):
            mentions.setdefault(kind, []).append(words)
        for row in parts:
            if all(kind == OUTSIDE for kind, _ in row):
                continue
            for _ in range(times):
                held = [
                    words
                    if kind == OUTSIDE
                    else mentions[kind][rng.integers(len(mentions[kind]))]
                    for kind, words in row
                ]
                found.append(" ".join(word for words in held for word in words))
        return found


def _sentences(path):
    """Yields the first line, the words and the tags of each sentence."""
    begin, words, tags = 1, [], []
    lines = all_lines(read_text(path))
    # Other blanks, such as U+00A0, stand in a word, which is then refused.
    between = "\t" if any("\t" in line for line in lines[:100]) else "[ \t]+"
    for number, line in enumerate([*lines, ""], start=1):
        fields = re.split(between, line.strip(" "))
        if not line.strip() or fields[0] == DOCUMENT:
            if words:
                yield begin, words, tuple(tags)
            begin, words, tags = number + 1, [], []
            continue
        word, tag = fields[0].strip(), fields[-1].strip()
        if len(fields) < 2 or not TAG.fullmatch(tag):
            raise ValueError(
                "Each line must hold a word and, last, its tag: O, B-TYPE or "
                f"I-TYPE. Received: {shown(line)} in {path.name}, line {number}"
            )
        if not word or len(word.split()) > 1:
            raise ValueError(
                "A word must have no blanks in it. Received: "
                f"{shown(word)} in {path.name}, line {number}"
            )
        words.append(word)
        tags.append(tag)


def _parts(words, tags):
    """The words outside one by one, and the entities: pairs of type, words."""
    found = []
    for word, tag in zip(words, tags):
        if tag[0] == "I":
            found[-1][1].append(word)
        else:
            found.append((tag[2:] or OUTSIDE, [word]))
    return found


def _goes_on(tags, i):
    return i > 0 and tags[i - 1] in (f"B-{tags[i][2:]}", f"I-{tags[i][2:]}")


def _is_iob1(sentences):
    """Whether no `B-` stands but after its own type, and some are missing."""
    begun = [
        (tag, _goes_on(tags, i))
        for tags in sentences
        for i, tag in enumerate(tags)
        if tag != OUTSIDE
    ]
    return any(t[0] == "I" and not after for t, after in begun) and all(
        after for t, after in begun if t[0] == "B"
    )


def _as_iob2(tags):
    return tuple(
        f"B-{tag[2:]}" if tag[0] == "I" and not _goes_on(tags, i) else tag
        for i, tag in enumerate(tags)
    )
