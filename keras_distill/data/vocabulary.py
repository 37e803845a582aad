"""A WordPiece vocabulary of one's own, and the KerasHub layers that use it."""

import pathlib

import keras_hub
import tensorflow as tf

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_vocabulary(texts, vocabulary_size=8000):
    """Trains a lower-cased WordPiece vocabulary.

    KerasHub's trainer takes pieces that occur at least ten times, so a small
    set of texts gives fewer entries than asked for.

    Args:
        texts: Sequence of strings, the train part only.
        vocabulary_size: Integer, the most entries it may have. Defaults to
            `8000`.

    Returns:
        List of strings; the special tokens are first and `[PAD]` is 0.

    Raises:
        ValueError: There are no texts, or the size leaves no room for words.

    Example:

    >>> train_vocabulary(["low lower lowest"] * 9, 14)[:6]
    ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'e']

    Reference:
        Schuster and Nakajima, 2012, "Japanese and Korean voice search".
    """
    if not len(texts):
        raise ValueError(
            "A vocabulary needs texts to learn from. Received: len(texts)=0"
        )
    if vocabulary_size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"`vocabulary_size` must exceed the {len(SPECIAL_TOKENS)} special "
            f"tokens. Received: vocabulary_size={vocabulary_size}"
        )
    return keras_hub.tokenizers.compute_word_piece_vocabulary(
        tf.data.Dataset.from_tensor_slices(list(texts)).batch(256),
        vocabulary_size,
        lowercase=True,
        reserved_tokens=list(SPECIAL_TOKENS),
    )


def write_vocabulary(vocabulary, path):
    """Writes one token per line, as BERT's `vocab.txt`.

    Args:
        vocabulary: List of strings.
        path: Path of the file.
    """
    text = "".join(f"{token}\n" for token in vocabulary)
    pathlib.Path(path).write_text(text, encoding="utf-8")


def bert_preprocessor(vocabulary, sequence_length=64):
    """A preprocessor from strings to BERT's three inputs.

    Args:
        vocabulary: List of strings, or the path of a `vocab.txt`.
        sequence_length: Integer, tokens with `[CLS]` and `[SEP]`.

    Returns:
        `keras_hub.models.BertTextClassifierPreprocessor`, lower-casing.

    Example:

    >>> layer = bert_preprocessor(train_vocabulary(["a b c"]), 6)
    >>> layer("a c")["token_ids"].numpy().tolist()
    [2, 5, 7, 3, 0, 0]
    """
    if not isinstance(vocabulary, list):
        vocabulary = str(vocabulary)
    tokenizer = keras_hub.models.BertTokenizer(
        vocabulary=vocabulary, lowercase=True
    )
    return keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=sequence_length
    )
