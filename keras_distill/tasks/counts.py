"""What of the texts is cut, unknown, or in train and test: counted and told."""

from keras_distill.augment.texts import keys_of
from keras_distill.augment.texts import text_key
from keras_distill.data import lengths

FEW_TOKENS = 1000  # So many in vain take no notable part of a file.


def of_texts(splits, encoded, preprocessor):
    """Counts what a score would not show.

    Args:
        splits: `data.TextSplits`.
        encoded: Dict from the parts to `data.EncodedDataset`.
        preprocessor: The KerasHub preprocessor between them.

    Returns:
        Dict that JSON can hold: `cut_train_texts`, those longer than a row;
        `unknown_tokens`, the share of the tokens of train that the vocabulary
        lacks; `unused_tokens`, those of the vocabulary that train lacks;
        `test_texts_in_train`, those that have the `augment.text_key` of a
        train text.
    """
    train = encoded["train"]
    keys = keys_of((splits.train,))
    return {
        "cut_train_texts": lengths.count_cut(splits.train, train, preprocessor),
        "unknown_tokens": lengths.unknown_share(train, preprocessor.tokenizer),
        "unused_tokens": lengths.count_unused(train, preprocessor.tokenizer),
        "test_texts_in_train": sum(
            text_key(text) in keys for text in splits.test.texts
        ),
    }


def notes(facts):
    """Sentences on the counts that are not zero.

    Args:
        facts: Dict, from `TextClassification.facts`.
    """
    rows, told = facts["rows"], []
    if facts["cut_train_texts"]:
        told.append(
            f"{facts['cut_train_texts']:,} of {rows['train']:,} train texts "
            f"({_percent(_cut_share(facts))}) are longer than "
            f"{facts['sequence_length']} tokens and were cut."
        )
    if facts["unknown_tokens"]:
        told.append(
            f"{_percent(facts['unknown_tokens'])} of the tokens of train are "
            "unknown: the vocabulary lacks them."
        )
    unused, size = facts["unused_tokens"], facts["vocabulary_size"]
    if unused > max(FEW_TOKENS, size / 2):
        told.append(
            f"{unused:,} of the vocabulary's {size:,} tokens occur in no train "
            "text: `--min-count 1` leaves most of them out of every file."
        )
    if facts["test_texts_in_train"]:
        told.append(
            f"{facts['test_texts_in_train']:,} of {rows['test']:,} test texts "
            "are in train, too, but for case, blanks, punctuation and symbols."
        )
    return told


def summary(facts):
    """The same in a few words, empty where all counts are zero.

    Example:

    >>> summary({"rows": {"train": 9}, "sequence_length": 64,
    ...     "cut_train_texts": 3, "unknown_tokens": 0.0,
    ...     "test_texts_in_train": 1})
    '; 33 % of the train texts cut at 64 tokens, 1 test text in train'
    """
    parts = []
    if facts["cut_train_texts"]:
        parts.append(
            f"{_percent(_cut_share(facts))} of the train texts cut at "
            f"{facts['sequence_length']} tokens"
        )
    if facts["unknown_tokens"]:
        parts.append(f"{_percent(facts['unknown_tokens'])} of tokens unknown")
    copies = facts["test_texts_in_train"]
    if copies:
        texts = "text" if copies == 1 else "texts"
        parts.append(f"{copies:,} test {texts} in train")
    return "; " + ", ".join(parts) if parts else ""


def _cut_share(facts):
    return facts["cut_train_texts"] / facts["rows"]["train"]


def _percent(share):
    """A share in two digits; one that is not zero is not shown as zero."""
    if share < 0.0001:
        return "less than 0.01 %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"
