"""Tables of tokens without those that no text needs."""

import collections.abc

import keras
import keras_hub
import numpy as np

from keras_distill._backend import symbolic_inputs
from keras_distill._checks import check_integer
from keras_distill._scripts import script
from keras_distill.pruning import graph
from keras_distill.pruning.copies import Copy

# Where layers and backbones say how many tokens they know.
SETTINGS = ("vocabulary_size", "input_dim")
BATCH = 1024
TRIED, TRIED_LENGTH, NEAR = 8, 12, 1e-4


def vocabulary(model, tokenizer, texts, min_count=1):
    """A model, and its tokenizer, of the tokens that texts need.

    What stays are the tokens that occur in the texts, the special ones, and
    all of one character, so that other words can still be spelled: letters of
    the scripts that the texts are written in, and whatever is no letter. Texts
    that need nothing else are cut into the same tokens as before, since the
    longest piece that fits is still there, and so have the same outputs.

    Args:
        model: Functional or `Sequential` `keras.Model` of token ids, a KerasHub
            backbone, or a task with one, which stays such a task with a
            preprocessor of the new tokenizer.
        tokenizer: The KerasHub `WordPieceTokenizer` that makes its ids, as
            BERT's, DistilBERT's and ELECTRA's.
        texts: Sequence of strings, read once.
        min_count: Integer, how often a token must occur.

    Returns:
        `(model, tokenizer)`, new ones; both that are given stay as they are.

    Raises:
        ValueError: An argument is wrong; the model has no table of the
            tokenizer's tokens, or reads ids otherwise than by tables, as
            hashed n-grams do.

    Example:

    >>> from keras_distill import students
    >>> tokenizer = keras_hub.tokenizers.BertTokenizer(
    ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "low",
    ...      "##est", "high"])
    >>> model = students.text_cnn(2, (10, 8), filters=4)
    >>> smaller, kept = vocabulary(model, tokenizer, ["lowest low"])
    >>> kept.get_vocabulary()[5:]
    ['a', '##b', 'low', '##est']
    """
    smaller = fewer_tokens(tokenizer, texts, min_count)
    return of_tokens(model, tokenizer, smaller), smaller


def fewer_tokens(tokenizer, texts, min_count=1):
    """The tokenizer that `vocabulary` gives.

    Args:
        tokenizer: As of `vocabulary`.
        texts: As of `vocabulary`.
        min_count: As of `vocabulary`.

    Raises:
        ValueError: An argument is wrong.
    """
    if not isinstance(tokenizer, keras_hub.tokenizers.WordPieceTokenizer):
        raise ValueError(
            "`tokenizer` must be a KerasHub WordPieceTokenizer: others cut "
            "texts into other tokens when some are gone. "
            f"Received: {type(tokenizer).__name__}"
        )
    check_integer("min_count", min_count, minimum=1)
    _check_texts(texts)
    tokens = tokenizer.get_vocabulary()
    kept = [tokens[i] for i in _kept(tokenizer, texts, min_count)]
    return with_vocabulary(tokenizer, kept)


def with_vocabulary(tokenizer, vocabulary):
    """A tokenizer like another one, of other tokens.

    Args:
        tokenizer: KerasHub `WordPieceTokenizer`.
        vocabulary: List of strings, or the path of a `vocab.txt`.
    """
    config = tokenizer.get_config() | {"vocabulary": vocabulary}
    return type(tokenizer).from_config(config)


def of_tokens(model, tokenizer, smaller):
    """The model that `vocabulary` gives.

    Args:
        model: As of `vocabulary`.
        tokenizer: That of the model.
        smaller: One with some of its tokens, in their order.

    Raises:
        ValueError: The model has no known graph, no table of the tokenizer's
            tokens, or reads ids otherwise than by tables.
    """
    graph.check_graph(model)
    tokens = tokenizer.get_vocabulary()
    kept = np.flatnonzero(np.isin(tokens, smaller.get_vocabulary()))
    copied = _Fewer(tokens, kept, smaller).of(model)
    is_same = copied.count_params() == model.count_params()
    if is_same and len(kept) < len(tokens):
        raise ValueError(
            f"`model` must have a table of the tokenizer's {len(tokens):,} "
            "tokens. Received: a model in which no layer says so"
        )
    _check_same(model, copied, kept)
    return copied


def _check_texts(texts):
    sized = isinstance(texts, collections.abc.Sized)
    if not sized or isinstance(texts, str | bytes) or not len(texts):
        raise ValueError(
            "`texts` must be a sequence of at least one string. Received: "
            f"{str(texts)[:80]!r}"
        )
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                "`texts` must be strings. Received: "
                f"texts[{row}]={str(text)[:80]!r} ({type(text).__name__})"
            )


def _kept(tokenizer, texts, min_count):
    """The ids that stay, in their order."""
    counts = np.zeros(tokenizer.vocabulary_size(), int)
    for start in range(0, len(texts), BATCH):
        found = tokenizer(list(texts[start : start + BATCH]))
        for row in found:
            np.add.at(counts, np.asarray(row), 1)
    tokens = tokenizer.get_vocabulary()
    special = {tokenizer.oov_token, *tokenizer.special_tokens}
    letters = "".join(tokens[i] for i in np.flatnonzero(counts))
    scripts = {script(letter) for letter in letters} | {None}

    def spells(token):
        text = token.removeprefix(tokenizer.suffix_indicator)
        return len(text) == 1 and script(text) in scripts

    return np.array(
        [
            i
            for i, token in enumerate(tokens)
            if counts[i] >= min_count or token in special or spells(token)
        ]
    )


class _Fewer(Copy):
    """Models of the same layers, whose tables have fewer rows."""

    def __init__(self, tokens, kept, tokenizer):
        super().__init__()
        self._tokens, self._kept, self._tokenizer = tokens, kept, tokenizer

    def stays(self, model):
        del model
        return True

    def changed(self, layer, config):
        fewer = {
            name: len(self._kept)
            for name in SETTINGS
            if config.get(name) == len(self._tokens)
        }
        return super().changed(layer, config | fewer)

    def preprocessor_of(self, task):
        if task.preprocessor is None:
            return None
        tokens = task.preprocessor.tokenizer.get_vocabulary()
        if tokens != self._tokens:
            raise ValueError(
                "`tokenizer` must be that of the task's preprocessor. "
                "Received: one with another vocabulary"
            )
        # What reads texts needs TensorFlow, which pruning does not.
        from keras_distill.data.lengths import like

        return like(task.preprocessor, tokenizer=self._tokenizer)

    def value(self, old, new):
        value = super().value(old, new)
        for axis, size in enumerate(new.shape):
            if size != value.shape[axis]:
                value = np.take(value, self._kept, axis)
        return value


def _check_same(model, smaller, kept):
    """Raises `ValueError` unless kept tokens mean what they did."""
    lengths = {x.shape[1] for x in keras.tree.flatten(symbolic_inputs(model))}
    length = max(lengths - {None}, default=TRIED_LENGTH)
    rng = np.random.default_rng(0)
    new = rng.integers(0, len(kept), (TRIED, length)).astype("int32")
    expected, found = (
        keras.ops.convert_to_numpy(
            keras.tree.flatten(each(_inputs(model, ids), training=False))[0]
        )
        for each, ids in ((model, kept[new].astype("int32")), (smaller, new))
    )
    if expected.shape != found.shape or abs(expected - found).max() > NEAR:
        raise ValueError(
            "`model` must read token ids by tables alone. Received: a model "
            "whose outputs change with the numbers of tokens, as with hashed "
            "n-grams. A student of a run has none with `--no-linear-part` and "
            "`--ngram-buckets None`"
        )


def _inputs(model, ids):
    symbolic = symbolic_inputs(model)
    held = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    named = {
        x.name: held.get(x.name, np.zeros_like(ids))
        for x in keras.tree.flatten(symbolic)
    }
    if len(named) == 1:
        named = dict.fromkeys(named, ids)
    flat = [named[x.name] for x in keras.tree.flatten(symbolic)]
    return keras.tree.pack_sequence_as(symbolic, flat)
