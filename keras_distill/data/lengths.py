"""How long rows must be, and what of the texts a model does not get to see."""

import keras_hub
import numpy as np

from keras_distill.data.pipelines import encode

SHORTEST, LONGEST, STEP = 16, 512, 8
WHOLE = 0.99
# The choice is made on so many texts, evenly spaced.
SAMPLE = 10_000


def like(preprocessor, **changed):
    """A preprocessor like another one, but for what is named.

    Args:
        preprocessor: A KerasHub text classifier preprocessor.
        **changed: Of its configuration, such as `sequence_length`, tokens with
            those that start and end a text, or `tokenizer`.
    """
    own = {"tokenizer": preprocessor.tokenizer, **changed}
    return type(preprocessor).from_config(preprocessor.get_config() | own)


def fitting_length(dataset, preprocessor, longest=None):
    """The tokens that hold 99 % of the texts, between 16 and 512.

    Args:
        dataset: `TextDataset`.
        preprocessor: A KerasHub text classifier preprocessor.
        longest: Integer, the most that a model should read, or None.

    Returns:
        Integer, a multiple of 8 or the most that is allowed.

    Example:

    >>> from keras_distill.data import TextDataset, bert_preprocessor
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> texts = TextDataset(["good " * 20, "good"], [0, 1])
    >>> fitting_length(texts, bert_preprocessor(words))
    24
    """
    most = min(LONGEST, longest or LONGEST)
    rows = np.unique(
        np.linspace(0, len(dataset) - 1, min(SAMPLE, len(dataset)), dtype=int)
    )
    sample = encode(
        dataset.take(rows), like(preprocessor, sequence_length=most)
    )
    needed = np.quantile(sample.lengths, WHOLE, method="higher")
    rounded = STEP * int(np.ceil(needed / STEP))
    return min(max(rounded, SHORTEST), most)


def count_cut(dataset, encoded, preprocessor):
    """How many texts are longer than their rows.

    Args:
        dataset: `TextDataset`.
        encoded: `EncodedDataset`, what `encode` made of it.
        preprocessor: The preprocessor that it was made with.

    Returns:
        Integer.
    """
    full = np.flatnonzero(encoded.lengths == encoded.width)
    if not len(full):
        return 0
    wider = like(preprocessor, sequence_length=encoded.width + 1)
    lengths = encode(dataset.take(full), wider).lengths
    return int((lengths > encoded.width).sum())


def unknown_share(encoded, tokenizer):
    """Which share of the tokens the vocabulary lacks.

    Args:
        encoded: `EncodedDataset`.
        tokenizer: The KerasHub tokenizer that it was made with.

    Returns:
        Float, 0 for a tokenizer that knows every character or byte. Tokens
        that start, end and fill rows are not counted.
    """
    unknown = _unknown_id(tokenizer)
    if unknown is None:
        return 0.0
    ids = encoded.inputs["token_ids"]
    others = [
        getattr(tokenizer, f"{name}_token_id", None)
        for name in ("start", "end", "cls", "sep", "pad")
    ]
    counted = ~np.isin(ids, [i for i in others if i is not None])
    counted &= encoded.inputs["padding_mask"].astype(bool)
    return float((ids[counted] == unknown).sum() / max(counted.sum(), 1))


def count_unused(encoded, tokenizer):
    """How many tokens of a vocabulary occur in no row.

    Args:
        encoded: `EncodedDataset`.
        tokenizer: The KerasHub tokenizer that it was made with.

    Returns:
        Integer, 0 for tokenizers that no token can be taken from: those that
        are not of word pieces (see `pruning.vocabulary`).
    """
    if not isinstance(tokenizer, keras_hub.tokenizers.WordPieceTokenizer):
        return 0
    used = np.unique(encoded.inputs["token_ids"])
    return tokenizer.vocabulary_size() - len(used)


def _unknown_id(tokenizer):
    if isinstance(tokenizer, keras_hub.tokenizers.WordPieceTokenizer):
        return tokenizer.token_to_id(tokenizer.oov_token)
    if isinstance(tokenizer, keras_hub.tokenizers.SentencePieceTokenizer):
        # Of XLM-RoBERTa another one than the file's.
        own = getattr(tokenizer, "unk_token_id", None)
        return tokenizer.token_to_id("<unk>") if own is None else own
    return None
