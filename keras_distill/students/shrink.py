"""A smaller encoder of the teacher's family."""

import dataclasses
import itertools

import keras
import keras_hub
from keras import ops

from keras_distill import taps
from keras_distill._backend import reads_output
from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill.layer_maps import LAYER_MAPS
from keras_distill.students._inputs import encoder_of
from keras_distill.students._inputs import has_pooler
from keras_distill.students._shrink_config import FAMILIES
from keras_distill.students._shrink_config import check_is_model
from keras_distill.students._shrink_config import checked_encoder
from keras_distill.students._shrink_config import complete_layer_map
from keras_distill.students._shrink_config import encoder_like
from keras_distill.students._shrink_config import family_names
from keras_distill.students._shrink_config import shrunk_config
from keras_distill.students.base import WIDEST
from keras_distill.students.base import Student
from keras_distill.students.bi_encoder import bi_encoder
from keras_distill.students.bi_encoder import reads_apart

AUTO = "auto"
PAIR_ENCODERS = AUTO, "cross", "bi"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shrink(Student):
    """`shrink` for any teacher.

    Args:
        layers: Integer, or None for half of the teacher's.
        width: Integer, of the states, or None for the teacher's.
        layer_map: String, which of the teacher's layers are copied, as in
            `shrink`; or `"auto"`: `"even"` for a bi-encoder, else `"first"`.
        pair_encoder: String. `"cross"`: the tokens of a pair see those of the
            other text, as in the teacher. `"bi"`: each text is read by itself,
            by what `bi_encoder` makes of the copied layers. `"auto"`: as the
            task has it, `"bi"` for scores, where the teacher's layers can.
        copy_from: Path of a `.keras` file, or a preset, with another encoder of
            the teacher's sizes, but for its layers: these are copied instead.
            Fine-tuned on pairs in a row, an encoder has lost some of what it
            knew of single texts.

    Example:

    >>> Shrink(layers=3, learning_rate=1e-4).epochs
    4
    """

    layers: int | None = None
    width: int | None = None
    layer_map: str = AUTO
    pair_encoder: str = AUTO
    copy_from: str | None = None
    # Copied layers know the task's texts already, and unlearn them in large
    # steps: a teacher's rate, and few epochs.
    epochs: int = 4
    learning_rate: float = 5e-5
    fewest_steps, most_epochs = 500, 10

    title = "fewer layers"
    copies_layers = True

    def __post_init__(self):
        super().__post_init__()
        for name in ("layers", "width"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1, WIDEST)
        check_choice("layer_map", self.layer_map, (AUTO, *LAYER_MAPS))
        check_choice("pair_encoder", self.pair_encoder, PAIR_ENCODERS)
        if self.copy_from is not None:
            object.__setattr__(self, "copy_from", str(self.copy_from))
            check_is_model("copy_from", self.copy_from)

    def check_backbone(self, kind):
        if kind is not None and not issubclass(kind, FAMILIES):
            raise ValueError(
                "The student `shrink` needs a teacher with one of the encoders "
                f"{family_names()}. Take another student, or another teacher. "
                f"Received: a teacher with {kind.__name__}"
            )

    def build(self, task, teacher):
        if not self._is_bi_encoder(task, teacher):
            # The copy of a teacher has the task's inputs and outputs.
            return self.of_text(task, teacher)
        encoder = self._copied(checked_encoder(teacher), "even")
        rows = task.encoded["train"].inputs
        return task.with_last_layer(
            bi_encoder(encoder, task.num_outputs, task.separators, rows)
        )

    def _is_bi_encoder(self, task, teacher):
        if self.pair_encoder == "bi" and task.sides != 2:
            raise ValueError(
                '`pair_encoder="bi"` (`--pair-encoder bi`) reads the texts of '
                "a pair one by one. Leave it out where there is one text. "
                f"Received: {task.name}"
            )
        if self.pair_encoder != AUTO:
            return self.pair_encoder == "bi"
        wanted = task.sides == 2 and task.pair_encoder == "bi"
        return wanted and reads_apart(checked_encoder(teacher))

    def starts_from(self, teacher):
        """Whose layers it has."""
        return self.copy_from or super().starts_from(teacher)

    def of_tokens(self, task, teacher):
        return self.of_text(task, teacher)

    def of_text(self, task, teacher):
        del task
        return self._copied(teacher, "first")

    def _copied(self, teacher, usual):
        layers = self.layers
        if layers is None:
            layers = max(1, len(taps.encoder_layers(teacher)) // 2)
        layer_map = usual if self.layer_map == AUTO else self.layer_map
        model = shrink(
            teacher, layers, hidden_dim=self.width, layer_map=layer_map
        )
        if self.copy_from is not None:
            small = checked_encoder(model)
            source = encoder_like(small, self.copy_from)
            pairs = complete_layer_map(layer_map, source, small.get_config())
            copy_backbone(source, small, pairs)
        return model

    def hidden_states(self, model):
        # A bi-encoder has no state that has seen both texts.
        return [] if encoder_of(model) is None else taps.hidden_states(model)


def shrink(
    teacher,
    num_layers=4,
    hidden_dim=None,
    intermediate_dim=None,
    num_heads=None,
    layer_map=None,
    dtype=None,
):
    """A KerasHub encoder with fewer or narrower layers than the teacher's.

    Every layer whose weights keep their shapes starts as a copy of the
    teacher's: the embeddings, the encoder layers that `layer_map` chooses, the
    pooler and the head. A layer that changes its width starts afresh
    (`keras.utils.set_random_seed` makes it repeatable). The copies are the
    student's own: training it leaves the teacher as it is.

    ALBERT's layers share their weights, by group: the student keeps the number
    of groups and copies each group.

    Args:
        teacher: A KerasHub BERT, RoBERTa, XLM-RoBERTa, DeBERTa-v3, DistilBERT,
            ALBERT, ELECTRA or RoFormer v2 backbone, a task with such a
            backbone (a text classifier), or a functional Keras model around
            one.
        num_layers: Integer, at most the teacher's.
        hidden_dim: Integer, at most the teacher's, which is the default.
        intermediate_dim: Integer. Defaults to the teacher's ratio of it to
            `hidden_dim`, and to 1200 for the standard width 312.
        num_heads: Integer, a divisor of `hidden_dim`. Defaults to the
            teacher's number of heads, else to its size of heads, where that
            divides `hidden_dim`, and to 12 for the standard width 312.
        layer_map: List of pairs `(teacher_layer, student_layer)`, counted from
            1, one for each layer of the student. `(0, 0)`, the embeddings, may
            be in it. Or `"first"`: those next to the input; `"even"`, the
            default, those of `uniform_layer_map`: 12 layers to 4 copies the
            layers 3, 6, 9 and 12.
        dtype: The student's dtype or dtype policy. Defaults to the teacher's.

    Returns:
        What `teacher` is: a backbone, a task (sharing the teacher's
        preprocessor), or a functional model. All of it is trainable, but for
        the [CLS] pooler in a functional model that does not read it.

    Raises:
        ValueError: If `teacher` is no such model, if a size is out of range or
            does not fit the others, or if `layer_map` does not name a teacher
            layer for each student layer.

    Example:

    >>> import keras_hub
    >>> teacher = keras_hub.models.BertBackbone(50, 6, 2, 16, 32)
    >>> student = shrink(teacher, num_layers=3)  # Copies layers 2, 4 and 6.
    >>> student.num_layers, student.hidden_dim
    (3, 16)

    Reference:
        Sun et al., 2019, https://arxiv.org/abs/1908.09355, section 4.3 (layers
        copied); Jiao et al., 2020, https://arxiv.org/abs/1909.10351 (4 x 312).
    """
    backbone = checked_encoder(teacher)
    config = shrunk_config(
        backbone, num_layers, hidden_dim, intermediate_dim, num_heads
    )
    layer_map = complete_layer_map(layer_map, backbone, config)
    if dtype is not None:
        config["dtype"] = keras.dtype_policies.serialize(
            keras.dtype_policies.get(dtype)
        )
    small = type(backbone).from_config(config)
    copy_backbone(backbone, small, layer_map)
    if teacher is backbone:
        return small
    if isinstance(teacher, keras_hub.models.Task):
        return _shrink_task(teacher, small)
    return _shrink_functional(teacher, backbone, small)


def copy_backbone(teacher, student, layer_map):
    """Copies all layers by name, and the encoder layers by `layer_map`."""
    _copy_layers(teacher, student, skip=_encoder_layers(teacher))
    if isinstance(teacher, keras_hub.models.AlbertBackbone):
        pairs = zip(_encoder_layers(teacher), _encoder_layers(student))
    else:
        pairs = (
            (
                teacher.transformer_layers[t - 1],
                student.transformer_layers[s - 1],
            )
            for s, t in layer_map.items()
        )
    for source, target in pairs:
        _copy_where_shapes_agree(source, target)


def _encoder_layers(backbone):
    return keras.tree.flatten(backbone.transformer_layers)


def _copy_layers(teacher, student, skip):
    """Copies the direct layers that both models have under one name."""
    targets = {layer.name: layer for layer in student.layers}
    for layer in teacher.layers:
        if layer.name in targets and not any(layer is one for one in skip):
            _copy_where_shapes_agree(layer, targets[layer.name])


def _copy_where_shapes_agree(source, target):
    """Copies each innermost layer whose weights all have the same shapes.

    All or none of a layer: a bias without its kernel would be no use.
    """
    pairs = zip(source.weights, target.weights, strict=True)
    for _, group in itertools.groupby(pairs, lambda pair: _owner(pair[0])):
        pairs_of_layer = list(group)
        if all(weight.shape == copy.shape for weight, copy in pairs_of_layer):
            for weight, copy in pairs_of_layer:
                # On JAX an assignment alone would share the teacher's memory.
                copy.assign(ops.copy(weight.value))


def _owner(weight):
    return weight.path.rpartition("/")[0]


def _shrink_task(teacher, backbone):
    config = teacher.get_config()
    del config["name"]
    config["backbone"] = backbone
    config["preprocessor"] = teacher.preprocessor
    if config.get("hidden_dim") == teacher.backbone.hidden_dim:
        config["hidden_dim"] = backbone.hidden_dim
    student = type(teacher).from_config(config)
    _copy_layers(teacher, student, skip=[teacher.backbone])
    return student


def _shrink_functional(teacher, backbone, small):
    """Clones the model with the small backbone in the place of the large."""

    def clone(layer):
        if layer is backbone:
            return small
        twin = type(layer).from_config(layer.get_config())
        twin.trainable = True
        return twin

    student = keras.models.clone_model(teacher, clone_function=clone)
    _copy_layers(teacher, student, skip=[backbone])
    if has_pooler(small):
        # What no output depends on learns nothing.
        index = sorted(backbone.output).index("pooled_output")
        small.pooled_dense.trainable = reads_output(teacher, backbone, index)
    return student
