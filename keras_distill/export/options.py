"""What both exporters are told about the student, beside its inputs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_distill._checks import check_between
from keras_distill._checks import check_choice
from keras_distill._checks import check_positive

WITH_TOLERANCE = ("regression", "vectors")
TASKS = ("classification", "multi_label", *WITH_TOLERANCE)


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """The keywords that `saved_model` and `litert` share, checked.

    Args:
        labels: As `litert` takes it, like all others.
        tokenizer: KerasHub tokenizer, or `None`.
        min_agreement: Float in `[0, 1]`.
        task: One of `TASKS`.
        tolerance: Float for those `WITH_TOLERANCE`, `None` elsewhere.

    Raises:
        ValueError: If a value is out of its range.
    """

    labels: Sequence[str] | None
    tokenizer: Any
    min_agreement: float
    task: str
    tolerance: float | None

    def __post_init__(self):
        check_between("min_agreement", self.min_agreement, 0, 1)
        check_choice("task", self.task, TASKS)
        if (self.task in WITH_TOLERANCE) != (self.tolerance is not None):
            raise ValueError(
                "`tolerance` is required for `task='regression'` and "
                "`task='vectors'`, and means nothing elsewhere. Received: "
                f"task={self.task!r}, tolerance={self.tolerance}"
            )
        if self.tolerance is not None:
            check_positive("tolerance", self.tolerance)
        if isinstance(self.labels, str):
            raise ValueError(
                "`labels` must be a list of strings, one for each logit. "
                f"Received: labels={self.labels!r}"
            )
        if self.tokenizer is not None:
            check_tokenizer("tokenizer", self.tokenizer)

    def check_labels(self, outputs):
        """Raises `ValueError` unless there is one label for each logit."""
        if self.labels is None:
            return
        widths = {name: value.shape[-1] for name, value in outputs.items()}
        if set(widths.values()) != {len(self.labels)}:
            raise ValueError(
                "`labels` must name each of the student's logits. Received: "
                f"{len(self.labels)} labels for logits of width {widths}"
            )


def check_tokenizer(name, tokenizer):
    """Raises `ValueError` unless `tokenizer` can save its vocabulary."""
    if not hasattr(tokenizer, "save_assets"):
        raise ValueError(
            f"`{name}` must be a KerasHub tokenizer. "
            f"Received: {name}={tokenizer!r}"
        )
