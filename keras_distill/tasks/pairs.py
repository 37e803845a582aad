"""Classification of pairs: two texts in, one class out."""

from keras_distill import students
from keras_distill.tasks.text import TextClassification


class PairClassification(TextClassification):
    """One of several classes for each pair of texts; cross-entropy, accuracy.

    `splits` is a `data.TextSplits` of pairs. The teacher reads both texts in
    one row, as the preprocessor of its family packs them; so do students that
    are copied from it. Small students read them one by one, with one set of
    weights (`students.siamese`).

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

    noun, sides = "pair", 2

    def for_inputs(self, student):
        """The student for both texts, and what compares them."""
        tokenizer = self.preprocessor.tokenizer
        return students.siamese(
            student, (tokenizer.start_token_id, tokenizer.end_token_id)
        )
