"""What students with a table of token embeddings share."""

import dataclasses
import types

from keras_distill import pruning
from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill.students._inputs import centred
from keras_distill.students._inputs import encoder_of
from keras_distill.students._inputs import main_axes
from keras_distill.students.base import THE_TEACHERS
from keras_distill.students.base import WIDEST
from keras_distill.students.base import Student

AUTO_RANK = 128
EMBEDDINGS = "random", "teacher", "auto", "vectors"
# Fields of a student that starts from a pretrained table: a rate that does not
# wipe it out.
PRETRAINED = types.MappingProxyType(
    {"embeddings": "auto", "learning_rate": 1e-3, "width": 128}
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenStudent(Student):
    """A student with a table of token embeddings.

    Args:
        width: Integer, of embeddings and filters, states or n-grams.
        embeddings: `"random"`, new ones; `"teacher"`, a copy of the teacher's,
            as wide as there: `width` is then that of filters, states or n-grams
            alone; `"auto"`, the teacher's where it has a table, and at most
            `AUTO_RANK` columns of it; or `"vectors"`, what the teacher says of
            each token alone, its state after all layers, in as many columns.
        embedding_rank: Integer, columns of the table, which a linear map then
            widens; or None for a whole table.
        linear_part: Boolean. Whether a linear model of tokens and of pairs of
            them, fitted on the same labels, is added to the logits when the
            training has ended, where it is better on dev: for classes, or
            several labels, of single texts.
    """

    # Whether a map turns the columns of such vectors back to all of them.
    widens = True

    width: int = 64
    embeddings: str = "random"
    embedding_rank: int | None = None
    linear_part: bool = True

    def __post_init__(self):
        super().__post_init__()
        check_integer("width", self.width, 1, WIDEST)
        check_choice("embeddings", self.embeddings, EMBEDDINGS)
        if self.embedding_rank is not None:
            check_integer("embedding_rank", self.embedding_rank, 1, WIDEST)

    def starts_from(self, teacher):
        """Whose its table of tokens is."""
        copied = self.embeddings != "random" and encoder_of(teacher) is not None
        return THE_TEACHERS if copied else None

    def in_training(self, model):
        """With the linear map of a table taken in by what reads it."""
        if self.quantization is not None:
            return super().in_training(model)
        return pruning.merged(model)

    def finished(self, model, task):
        """Without the linear map that widens a table, see `pruning.merge`."""
        del task
        # What was trained under the rounding of its file must be that file.
        if self.quantization is not None:
            return model
        return pruning.merge(model)

    def table(self, task, teacher):
        """The embeddings and the rank that the functions take."""
        rank = self.embedding_rank
        if self.embeddings == "teacher":
            return teacher, rank
        if not self.starts_from(teacher):
            vocabulary = task.preprocessor.tokenizer.vocabulary_size()
            return (vocabulary, self.width), rank
        asked = self.embeddings == "vectors"
        found = task.token_vectors(teacher) if asked else None
        if found is None:
            table = encoder_of(teacher).token_embedding.embeddings
            return teacher, self._rank(table.shape[1])
        vectors, _ = found
        width = vectors.shape[1]
        # Two maps in a row learn faster than one; a pair would pay twice.
        if self.widens and task.sides == 1:
            return centred(vectors), self._rank(width)
        return main_axes(vectors, min(rank or AUTO_RANK, width))[0], None

    def _rank(self, width):
        """What was chosen, or what narrows a table of so many columns."""
        narrow = AUTO_RANK if width > AUTO_RANK else None
        return self.embedding_rank or narrow
