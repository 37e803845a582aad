"""Classification of pairs: two texts in, one class out."""

from keras_distill.tasks.text import TextClassification


class PairClassification(TextClassification):
    """One of several classes for each pair of texts; cross-entropy, accuracy.

    `splits` is a `data.TextSplits` of pairs.

    Example:

    >>> import keras_distill as kd
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> part = kd.data.TextDataset([("good", "good"), ("good", "bad")], [1, 0])
    >>> splits = kd.data.TextSplits(part, part, part, ["other", "same"])
    >>> task = PairClassification.from_texts(
    ...     splits, kd.data.bert_preprocessor(words, 8)
    ... )
    >>> task.encoded["train"].inputs["token_ids"][0].tolist()
    [2, 5, 3, 5, 3, 0, 0, 0]
    """

    # What two texts are to each other no vector of both in one says.
    contrasts, method = False, "kd"

    def __init__(self, splits, *arguments, **details):
        super().__init__(splits, *arguments, **details)
        if self.sides != 2:
            raise ValueError(
                "Every row must hold a pair of texts. For one text use "
                "`kd.tasks.TextClassification`. Received: "
                f"{splits.train.texts[0]!r}"
            )
