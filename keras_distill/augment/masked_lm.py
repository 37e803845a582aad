"""Replacement by what a masked language model would write instead."""

import keras
import keras_hub
import numpy as np

from keras_distill._checks import check_between
from keras_distill._checks import check_integer
from keras_distill.augment.neighbours import WHOLE_WORD
from keras_distill.augment.words import replace_each


class MaskedLMReplacement:
    """Replaces words by the likeliest ones of a masked language model.

    Each word of a text is masked in turn, all in one pass over the text, and
    the candidates are the likeliest whole words there. They are kept for the
    last text only, as `kd.augment.transfer_set` makes all copies of a text in
    a row: one pass for each text, whatever `times`.

    Args:
        masked_lm: A KerasHub masked language model with a WordPiece tokenizer,
            such as `keras_hub.models.BertMaskedLM`.
        probability: Float, of each word. Defaults to `0.4`.
        candidates: Integer, at least 1, among how many to draw. Defaults to
            `15`.
        max_words: Integer, at least 1: the words after it stay. Defaults to
            `64`.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> import random
    >>> tokenizer = keras_hub.models.BertTokenizer(
    ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"])
    >>> backbone = keras_hub.models.BertBackbone(
    ...     vocabulary_size=7, num_layers=1, num_heads=1, hidden_dim=4,
    ...     intermediate_dim=8, max_sequence_length=8)
    >>> model = keras_hub.models.BertMaskedLM(
    ...     backbone, keras_hub.models.BertMaskedLMPreprocessor(tokenizer))
    >>> method = MaskedLMReplacement(model, probability=1.0, candidates=1)
    >>> method(["good"], random.Random(0))
    ['bad']

    Reference:
        Jiao et al., 2020, https://arxiv.org/abs/1909.10351, algorithm 1.
    """

    def __init__(self, masked_lm, probability=0.4, candidates=15, max_words=64):
        if not isinstance(masked_lm, keras_hub.models.MaskedLM):
            raise ValueError(
                "`masked_lm` must be a `keras_hub.models.MaskedLM`. "
                f"Received: masked_lm={masked_lm!r}"
            )
        tokenizer = getattr(masked_lm.preprocessor, "tokenizer", None)
        if not isinstance(tokenizer, keras_hub.tokenizers.WordPieceTokenizer):
            raise ValueError(
                "`masked_lm` must have a preprocessor with a WordPiece "
                "tokenizer, as BERT has. Received: "
                f"tokenizer={type(tokenizer).__name__}"
            )
        check_between("probability", probability, 0, 1)
        check_integer("candidates", candidates, minimum=1)
        check_integer("max_words", max_words, minimum=1)
        self.masked_lm = masked_lm
        self.probability = probability
        self.candidates = candidates
        self.max_words = max_words
        self._tokenizer = tokenizer
        vocabulary = tokenizer.get_vocabulary()
        self._vocabulary = vocabulary
        self._whole = np.array(
            [bool(WHOLE_WORD.fullmatch(word)) for word in vocabulary]
        )
        if self._whole.sum() <= candidates:
            raise ValueError(
                "The vocabulary must have more whole words than `candidates`. "
                f"Received: {self._whole.sum()} whole words, "
                f"candidates={candidates}"
            )
        self._last = None, []

    def replace(self, words, position, rng):
        """Another word for `words[position]`, or the same."""
        words = tuple(words)
        if self._last[0] != words:
            self._last = words, self._propose(words[: self.max_words])
        proposals = self._last[1]
        if position >= len(proposals):
            return words[position]
        word = words[position]
        others = [w for w in proposals[position] if w != word.lower()]
        return rng.choice(others[: self.candidates])

    def __call__(self, words, rng):
        return replace_each(
            words,
            rng,
            self.probability,
            lambda position: self.replace(words, position, rng),
        )

    def _propose(self, words):
        """The likeliest whole words at each position, best first."""
        if not words:
            return []
        inputs = self._inputs(words)
        logits = self.masked_lm(inputs, training=False)
        logits = keras.ops.convert_to_numpy(
            keras.ops.cast(logits[:, 0], "float32")
        )
        logits = np.where(self._whole, logits, -np.inf)
        best = np.argsort(-logits, axis=-1, kind="stable")
        best = best[:, : self.candidates + 1]
        return [[self._vocabulary[i] for i in row] for row in best]

    def _inputs(self, words):
        """One row for each word, with a mask in its place."""
        tokenizer = self._tokenizer
        pieces = [
            np.asarray(tokenizer.tokenize(word)).tolist() for word in words
        ]
        start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
        rows, places = [], []
        for position in range(len(words)):
            before = sum(pieces[:position], [start])
            after = sum(pieces[position + 1 :], [])
            rows.append([*before, tokenizer.mask_token_id, *after, end])
            places.append([len(before)])
        length = max(map(len, rows))
        pad = tokenizer.pad_token_id
        ids = np.array([row + [pad] * (length - len(row)) for row in rows])
        given = {
            "token_ids": ids.astype("int32"),
            "padding_mask": (ids != pad).astype("int32"),
            "segment_ids": np.zeros_like(ids, dtype="int32"),
            "mask_positions": np.array(places, "int32"),
        }
        return {name: given[name] for name in self.masked_lm.input}
