"""The soft losses of a Distiller, one for each output that has one."""

import copy

import keras

from keras_distill._checks import check_choice
from keras_distill.losses import LogitsLoss

SINGLE = "soft"
SPARSE = {"indices", "log_probabilities"}


class _OtherLoss(LogitsLoss):
    """A loss of any other kind, of outputs of whatever kind."""

    over = None
    temperature = None

    def __init__(self, loss):
        super().__init__(None, name=loss.name)
        self.loss = loss

    @property
    def title(self):
        return type(self.loss).__name__

    def __call__(self, y_true, y_pred, sample_weight=None):
        return self.loss(y_true, y_pred, sample_weight)


class _KerasDistillation(keras.losses.Loss):
    """A `keras.distillation` loss behind the interface of a Keras loss."""

    def __init__(self, wrapped):
        super().__init__(name=type(wrapped).__name__)
        self.wrapped = wrapped

    def __call__(self, y_true, y_pred, sample_weight=None):
        if sample_weight is not None:
            raise ValueError(
                "The losses of `keras.distillation` take no `sample_weight`. "
                f"Use a loss of `kd.losses` instead of {self.name}"
            )
        return self.wrapped.compute_loss(y_true, y_pred)


def _as_loss(name, loss):
    if isinstance(loss, LogitsLoss):
        return copy.copy(loss)  # It gets a temperature of its own.
    if isinstance(loss, keras.losses.Loss):
        return _OtherLoss(loss)
    if isinstance(loss, keras.distillation.DistillationLoss):
        return _OtherLoss(_KerasDistillation(loss))
    raise ValueError(
        f"`soft_loss` of output {name!r} must be an instance of a loss, such "
        f"as `kd.losses.ForwardKL(4.0)`, or None. Received: {loss!r}"
    )


def _is_sparse(structure):
    return isinstance(structure, dict) and set(structure) == SPARSE


def pick(structure, key, what):
    """The entry of `structure` that the soft loss under `key` is about."""
    if key == SINGLE and _is_sparse(structure):
        return structure
    if isinstance(structure, dict) and key in structure:
        return structure[key]
    if key == SINGLE:
        return _only(structure, what)
    if isinstance(structure, (list, tuple)) and isinstance(key, int):
        if key < len(structure):
            return structure[key]
        outputs = f"{len(structure)} of them"
    else:
        outputs = sorted(structure) if isinstance(structure, dict) else "one"
    raise ValueError(
        f"`soft_loss` names output {key!r}, which {what} does not have. "
        f"Its outputs: {outputs}"
    )


def _only(structure, what):
    leaves = keras.tree.flatten(structure)
    if len(leaves) != 1:
        raise ValueError(
            f"{what} has {len(leaves)} outputs: `soft_loss` must be a dict or "
            "a list like them, with None for outputs without a soft loss"
        )
    return leaves[0]


class SoftLosses:
    """What `compile(soft_loss=...)` takes, by output.

    Args:
        soft_loss: A loss, a dict or a list of losses, or None. `None` in a
            dict or list leaves that output out.

    Attributes:
        named: Dict, output key to its loss.

    Raises:
        ValueError: if something else than a loss is among them.
    """

    def __init__(self, soft_loss):
        if soft_loss is None:
            items = ()
        elif isinstance(soft_loss, dict):
            items = soft_loss.items()
        elif isinstance(soft_loss, (list, tuple)):
            items = enumerate(soft_loss)
        else:
            items = [(SINGLE, soft_loss)]
        self.named = {
            key: _as_loss(key, loss) for key, loss in items if loss is not None
        }

    @property
    def outputs(self):
        """Names of the outputs that have a soft loss."""
        return [str(key) for key in self.named]

    def bind(self, variables):
        """Replaces temperatures that are numbers by variables, set to them.

        Args:
            variables: Dict, output name to a scalar variable.

        Raises:
            ValueError: if an output has no variable.
        """
        for key, loss in self.named.items():
            check_choice("soft_loss", str(key), list(variables))
            if isinstance(loss.temperature, (int, float)):
                variables[str(key)].assign(loss.temperature)
                loss.temperature = variables[str(key)]

    @property
    def temperatures(self):
        """Dict, output name to the variable that is its temperature."""
        return {
            str(key): loss.temperature
            for key, loss in self.named.items()
            if isinstance(loss.temperature, keras.Variable)
        }

    def check_heads(self, activations, whose):
        """Raises `ValueError` if a loss on logits would get probabilities.

        Args:
            activations: The structure of a model's outputs, of the names of
                their activations, empty ones for logits.
            whose: String, what messages call the model.
        """
        for key, loss in self.named.items():
            activation = pick(activations, key, whose)
            if loss.over is not None and activation:
                raise ValueError(
                    f"`{loss.title}` needs logits, the {whose} ends in "
                    f"{activation!r}. Build it without the last activation"
                )

    def check_outputs(self, teacher_outputs, student_outputs):
        """Raises `ValueError` where a loss cannot compare the outputs."""
        for key, loss in self.named.items():
            teacher = pick(teacher_outputs, key, "the teacher")
            student = pick(student_outputs, key, "the student")
            _check_form(loss, teacher)
            loss.check_outputs(teacher, student, f"output {key!r}")

    def from_signal(self, signal):
        """The teacher's outputs that came with a batch."""
        if self.named and "logits" not in signal:
            raise ValueError(
                "The teacher signal must hold 'logits' for the soft loss. "
                f"Received: {sorted(signal)}"
            )
        return signal.get("logits")

    def __call__(self, teacher_outputs, student_outputs, sample_weight, labels):
        """Sum of the soft losses over the outputs that have one.

        Raises:
            ValueError: if a loss needs labels and there are none.
        """
        total = 0.0
        for key, loss in self.named.items():
            weight = sample_weight
            if isinstance(weight, (dict, list, tuple)):
                weight = pick(weight, key, "`sample_weight`")
            options = {"sample_weight": weight}
            if loss.needs_labels:
                options["labels"] = _labels(labels, key, loss)
            total += loss(
                pick(teacher_outputs, key, "the teacher"),
                pick(student_outputs, key, "the student"),
                **options,
            )
        return total


def _labels(labels, key, loss):
    if labels is None:
        raise ValueError(
            f"The soft loss `{loss.title}` needs labels, the data "
            "has none. Pass (x, y) batches, with -1 for rows without a "
            "label, or use `kd.losses.ForwardKL`"
        )
    return pick(labels, key, "the data's labels")


def _check_form(loss, teacher):
    """Raises `ValueError` unless `loss` takes targets of this form."""
    sparse = _is_sparse(teacher)
    if sparse != loss.reads_sparse:
        raise ValueError(
            f"The teacher's targets are {'sparse' if sparse else 'full'}, "
            f"`{loss.title}` takes "
            f"{'full logits' if sparse else 'sparse ones'}. Use "
            f"`{'kd.cache.SparseForwardKL' if sparse else 'kd.losses'}`"
        )
