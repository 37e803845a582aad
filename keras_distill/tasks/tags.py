"""Tags: a sentence in, a tag for each of its words out."""

import functools

import keras
import keras_hub
import numpy as np

from keras_distill import data
from keras_distill import students
from keras_distill.data.pipelines import with_special_tokens
from keras_distill.tasks import counts_of_sets
from keras_distill.tasks import measures
from keras_distill.tasks.base import PARTS
from keras_distill.tasks.base import TRANSFER
from keras_distill.tasks.of_texts import EMBEDDED
from keras_distill.tasks.of_texts import SMOKE
from keras_distill.tasks.of_texts import TextTask

IGNORED = data.UNLABELLED


class TokenClassification(TextTask):
    """A tag for each word of a sentence; cross-entropy, F1 of entities.

    `splits` is a `data.TagSplits`. Models have logits for each token; the
    first token of a word counts, for its label and its prediction, the others
    are left out of the loss on labels. The teacher's probabilities are
    imitated on all tokens that are no padding. An entity is right where its
    type and both its ends are, as in CoNLL and seqeval.

    Example:

    >>> import keras_distill as kd
    >>> words = "[PAD] [UNK] [CLS] [SEP] [MASK] in o ##slo".split()
    >>> part = kd.data.TextDataset(["in oslo in"], [[0, 1, 0]])
    >>> names = ["O", "B-place", "I-place"]
    >>> task = TokenClassification.from_texts(
    ...     kd.data.TagSplits(part, part, part, names),
    ...     kd.data.bert_preprocessor(words, 8))
    >>> task.encoded["train"].labels.tolist()
    [[-1, 0, 1, -1, 0, -1, -1, -1]]

    Reference:
        Devlin et al., 2019, https://arxiv.org/abs/1810.04805, section 5.3
        (first tokens); Tjong Kim Sang and De Meulder, 2003,
        https://aclanthology.org/W03-0419 (F1 of entities).
    """

    splits_kind = data.TagSplits
    measure = "entity F1"
    pipeline_tag = "token-classification"
    # Nine of ten words are outside. Above 1 the divergence is mostly about
    # which of the other tags such a word is least like, which nobody asks.
    temperature = 1.0
    further = {
        "macro_f1": ("Macro F1 %", "the mean of the types' F1"),
        "words": ("Words %", "words with the right tag"),
    }

    def __init__(self, splits, encoded, preprocessor=None, **details):
        super().__init__(splits, dict(encoded), preprocessor, **details)
        self._firsts = {}
        for part in PARTS:
            texts = getattr(splits, part).texts
            self._align(part, texts, getattr(splits, part).labels)

    def _align(self, part, texts, labels):
        """Puts the labels of words where their first tokens are."""
        rows = self.encoded[part]
        layer = self.preprocessor
        if part == TRANSFER:
            layer = with_special_tokens(layer)
        self._firsts[part] = first_tokens(texts, rows, layer.tokenizer)
        self.encoded[part] = data.EncodedDataset(
            rows.inputs, self._of_tokens(part, labels), rows.lengths, True
        )

    def _of_tokens(self, part, labels):
        """Labels `[rows, tokens]` of labels of words."""
        firsts = self._firsts[part]
        labels = labels[:, : firsts.shape[1]]
        found = np.full((len(labels), self.encoded[part].width), IGNORED)
        rows, words = np.nonzero(firsts[:, : labels.shape[1]] >= 0)
        found[rows, firsts[rows, words]] = labels[rows, words]
        return found.astype("int32")

    def add_transfer(self, texts):
        super().add_transfer(texts)
        missing = np.full((len(texts), 1), IGNORED)
        self._align(TRANSFER, texts, missing)

    def labels(self, count, seed):
        return self._of_tokens("train", super().labels(count, seed))

    @staticmethod
    def outputs_in_words(label_names):
        return f"{len(label_names)} tags"

    @property
    def logits_shape(self):
        return (self.encoded["train"].width, self.num_outputs)

    def predicted(self, logits, part):
        """The tags of each word, a list of lists of strings.

        Args:
            logits: Array `[rows, length, tags]`.
            part: String, `"dev"` or `"test"`.
        """
        names = np.array(self.splits.label_names, object)
        firsts = self._firsts[part]
        chosen = np.take_along_axis(
            logits.argmax(axis=-1), np.maximum(firsts, 0), axis=1
        )
        # A word that was cut off has no token: it is outside.
        tags = names[np.where(firsts < 0, 0, chosen)]
        counts = self._word_counts(part)
        return [list(row[:n]) for row, n in zip(tags, counts)]

    def _word_counts(self, part):
        return [len(t.split(" ")) for t in getattr(self.splits, part).texts]

    @functools.cached_property
    def _entities(self):
        """The entities of each row of each part, as the labels have them."""
        names = np.array(self.splits.label_names, object)
        return {
            part: [
                counts_of_sets.entities(names[row[row >= 0]])
                for row in getattr(self.splits, part).labels
            ]
            for part in PARTS
        }

    def statistics(self, logits, part):
        """Of each row, entities rightly found, wrongly, and missed."""
        return counts_of_sets.set_counts(
            self._found(logits, part), self._entities[part]
        )

    def _found(self, logits, part):
        """The entities of each row, as the model has them."""
        return [
            counts_of_sets.entities(tags)
            for tags in self.predicted(logits[part], part)
        ]

    of_means = staticmethod(counts_of_sets.f1_of_counts)

    def further_scores(self, logits):
        """The mean of the types' F1, and the share of words that are right."""
        types = [row["F1"] for row in self.details(logits) if row["test"]]
        names = np.array(self.splits.label_names, object)
        right = [
            held == names[label]
            for tags, row in zip(
                self.predicted(logits["test"], "test"), self.splits.test.labels
            )
            for held, label in zip(tags, row)
        ]
        return {
            "macro_f1": float(np.mean(types)) if types else 0.0,
            "words": float(np.mean(right)),
        }

    def details(self, logits):
        """Of each type its entities in test, those found, and F1."""
        predicted = self._found(logits, "test")
        found = []
        for name in self.splits.types:
            ours, theirs = (
                [{e for e in row if e[0] == name} for row in side]
                for side in (predicted, self._entities["test"])
            )
            counts = counts_of_sets.set_counts(ours, theirs).sum(axis=0)
            found.append(
                {
                    "type": name,
                    "test": sum(map(len, theirs)),
                    "predicted": sum(map(len, ours)),
                    "F1": float(counts_of_sets.f1_of_counts(counts)),
                }
            )
        return found

    def reliability(self, logits, part):
        """Of the largest probability of each first token."""
        known = self.encoded[part].labels >= 0
        return measures.reliability(
            logits[part][known], self.encoded[part].labels[known]
        )

    def agreement(self, first, second):
        """The share of words of test with the same tag."""
        known = self.encoded["test"].labels >= 0
        return measures.agreement(first[known], second[known])

    def pseudo_labels(self, logits):
        """The tags that the teacher predicts, at the first tokens."""
        parts = [part for part in (PARTS[0], TRANSFER) if part in self._firsts]
        firsts = np.concatenate([self._is_first(part) for part in parts])[
            : len(logits)
        ]
        return np.where(firsts, logits.argmax(axis=-1), IGNORED).astype("int32")

    def _is_first(self, part):
        """Boolean array `[rows, tokens]`."""
        held = self._firsts[part]
        return self._of_tokens(part, np.zeros(held.shape, "int32")) == 0

    def logits_in_words(self):
        return f"one for each tag of {self.name}, for each token"

    def student_model(self, student, teacher):
        return self.with_last_layer(student.of_tokens(self, teacher))

    def token_vectors(self, teacher):
        """None: the tag of a word is up to those around it."""

    def last_layer(self):
        """Adds the logarithm of each tag's share: nine of ten words have O."""
        labels = self.encoded["train"].labels
        counts = np.bincount(labels[labels >= 0], minlength=self.num_outputs)
        share = (counts + 1) / (counts.sum() + self.num_outputs)
        return keras.layers.Rescaling(
            1.0, np.log(share).tolist(), name="tag_logits", dtype="float32"
        )

    def embedded_teacher(self, smoke=False):
        """A small BERT from scratch; needs no network."""
        model = students.token_classifier(
            self.embedded_backbone(*(SMOKE if smoke else EMBEDDED)),
            self.num_outputs,
            name="embedded_teacher",
        )
        return self.with_last_layer(model)

    def preset_teacher(self, preset):
        """A KerasHub encoder with a new head, which knows no tags yet."""
        backbone = keras_hub.models.Backbone.from_preset(preset)
        model = students.token_classifier(backbone, self.num_outputs)
        return self.with_last_layer(model), False

    def linear_model(self, labels):
        """Logistic regression on a word, its form and its neighbours."""
        from keras_distill.tasks import linear_tags

        if len(np.unique(labels[labels >= 0])) < 2:
            return None
        return linear_tags.of_task(self, labels, self._firsts)


def first_tokens(texts, rows, tokenizer):
    """Where the first token of each word is.

    Each word is tokenised by itself: what a vocabulary of word pieces, or of
    byte pairs after a blank, gives within the sentence, too.

    Args:
        texts: List of strings, words with one blank between them.
        rows: `data.EncodedDataset` of these texts.
        tokenizer: The KerasHub tokenizer that made it.

    Returns:
        Integer array `[rows, words]`: positions in the row, -1 for words that
        were cut off, or that have no token, and after the last one.

    Raises:
        ValueError: The tokens of a sentence are not those of its words.
    """
    # Byte pairs of a word differ by whether a blank is before it.
    words = [
        [word if i == 0 else f" {word}" for i, word in enumerate(t.split(" "))]
        for t in texts
    ]
    known = sorted({word for row in words for word in row})
    counts = dict(zip(known, [len(held) for held in tokenizer(known)]))
    ids = rows.inputs["token_ids"]
    begin = int(ids[0, 0] == tokenizer.start_token_id)
    found = np.full((len(texts), max(map(len, words))), -1)
    for i, row in enumerate(words):
        pieces = np.array([counts[word] for word in row])
        places = begin + np.concatenate([[0], np.cumsum(pieces)[:-1]])
        length = rows.lengths[i]
        end = length - int(ids[i, length - 1] == tokenizer.end_token_id)
        if begin + pieces.sum() != end and length < rows.width:
            raise ValueError(
                "The tokens of a sentence must be those of its words: this "
                "teacher's tokenizer joins or parts words otherwise. Received: "
                f"{end - begin} tokens, {pieces.sum()} of its words, for "
                f"{texts[i]!r}"
            )
        found[i, : len(row)] = np.where(
            (pieces > 0) & (places < end), places, -1
        )
    return found
