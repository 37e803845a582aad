"""Static vectors: of each token one, and of a text their mean."""

import dataclasses

import keras
import numpy as np

from keras_distill._checks import check_integer
from keras_distill.students._inputs import divide_by_count
from keras_distill.students._inputs import embedded_sum
from keras_distill.students._inputs import main_axes
from keras_distill.students._inputs import token_inputs
from keras_distill.students.base import THE_TEACHERS
from keras_distill.students.base import WIDEST
from keras_distill.students.base import Student

# A token with this share of the texts weighs half of a rare one. Ten times the
# paper's: training forgets the difference but for frequent words that tell
# texts apart, as those of questions do.
HALVED = 1e-2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Static(Student):
    """`static` for tasks of vectors, started from the teacher's.

    Args:
        width: Integer, columns of the table of tokens; more than the teacher
            has dimensions are as many.

    Example:

    >>> Static(width=128).batch_size
    256
    """

    width: int = 256
    batch_size: int = 256
    # A table that starts from good vectors soon learns its texts by heart.
    epochs: int = 10
    fewest_steps, most_epochs = 300, 100

    title = "Static"
    export_forms = ("NumPy",)

    def __post_init__(self):
        super().__post_init__()
        check_integer("width", self.width, 1, WIDEST)

    def starts_from(self, teacher):
        """Whose vectors of tokens it has."""
        return None if teacher is None else THE_TEACHERS

    def of_vectors(self, task, teacher):
        width = min(self.width, task.num_outputs)
        vocabulary = task.preprocessor.tokenizer.vocabulary_size()
        model = static(task.num_outputs, (vocabulary, width))
        if teacher is not None:
            weights = start(*task.token_vectors(teacher), width)
            model.set_weights([*weights, np.zeros(task.num_outputs)])
        return model


def static(num_outputs, embeddings, name="static", dtype=None):
    """One vector for each token, their mean, and a linear map.

    As the mean comes first, the map is one small product for a text, whatever
    its length: nothing is faster but a shorter table.

    A functional `keras.Model` of stock layers, which reads `token_ids` and
    `padding_mask` as `text_cnn` does. Word order means nothing to it.

    Args:
        num_outputs: Integer, dimensions of the vectors.
        embeddings: As in `text_cnn`: a KerasHub model, an array `[vocabulary,
            width]`, or a tuple `(vocabulary, width)`.
        name: String, the model's name.
        dtype: The layers' dtype or dtype policy. Defaults to the global one.

    Returns:
        A `keras.Model` from token ids to vectors `[batch, num_outputs]`.

    Raises:
        ValueError: If `embeddings` holds no table.

    Example:

    >>> import numpy as np
    >>> model = static(3, embeddings=np.eye(4, 3, dtype="float32"))
    >>> ids = np.array([[0, 2, 0]])
    >>> tuple(model({"token_ids": ids, "padding_mask": ids * 0 + 1}).shape)
    (1, 3)

    Reference:
        Tulkens and van Dongen, 2024, "Model2Vec: Fast State-of-the-Art Static
        Embeddings", https://github.com/MinishLab/model2vec.
    """
    check_integer("num_outputs", num_outputs, minimum=1)
    token_ids, padding_mask = token_inputs()
    total, count = embedded_sum(
        token_ids, padding_mask, embeddings, None, dtype
    )
    vectors = keras.layers.Dense(num_outputs, dtype=dtype, name="vectors")(
        divide_by_count(total, count)
    )
    return keras.Model([token_ids, padding_mask], vectors, name=name)


def start(vectors, counts, width):
    """The table and the map that a static model starts from.

    The principal components of the tokens' vectors, each token weighted by how
    rare it is, `a / (a + p)` for the share `p` of all tokens; the map turns
    them back. Without training this is what Model2Vec makes of a teacher, but
    that the shares are counted here, and not guessed from ranks.

    Args:
        vectors: Float array `[vocabulary, dimensions]`, what the teacher says
            of each token alone; NaN where it was not asked, which counts
            nothing.
        counts: Integer array `[vocabulary]`, how often each occurs in the
            texts.
        width: Integer, how many components are kept.

    Returns:
        Pair of float32 arrays, `[vocabulary, width]` and `[width,
        dimensions]`.

    Example:

    >>> table, turn = start(np.eye(3), np.array([0, 0, 0]), 2)
    >>> table.shape, turn.shape
    ((3, 2), (2, 3))

    Reference:
        Arora et al., 2017, https://openreview.net/forum?id=SyK00v5xx,
        algorithm 1 (the weights).
    """
    table, turn = main_axes(vectors, width)
    share = counts / max(counts.sum(), 1)
    weights = (HALVED / (HALVED + share)).astype("float32")
    return table * weights[:, None], turn
