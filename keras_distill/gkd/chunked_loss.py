"""The divergence of two language models, a chunk of tokens at a time.

The logits of a chunk live until its gradient is known, which is before the
next chunk: the gradient is computed in the forward pass. What the backward
pass needs is of the size of the hidden states and of the head.
"""

import keras
from keras import ops

from keras_distill._backend import after
from keras_distill._backend import vjp


class HeadOnRows:
    """A head, and those of its inputs that it is to read.

    Args:
        head: `LanguageModel`.
        states: Tensor of shape `[batch, length, width]`.
        rows: Integer tensor: which of the `batch * length` states to read, and
            in which order.
        vocabulary: Number of leading logits to keep.
    """

    def __init__(self, head, states, rows, vocabulary):
        self.head = head
        self.vocabulary = vocabulary
        flat = ops.reshape(states, (-1, head.hidden_dim))
        self.states = ops.take(flat, rows, axis=0)
        self.variables = list(head.head_variables)
        # Copied, to be read here once and not in each chunk.
        self.values = [ops.copy(v.value) for v in self.variables]
        # JAX: what is being differentiated reaches a custom gradient through
        # its arguments or not at all.
        self.constants = [ops.stop_gradient(value) for value in self.values]
        self.constant_states = ops.stop_gradient(self.states)

    @property
    def trained_values(self):
        """Values of the trainable ones among the head's variables."""
        pairs = zip(self.variables, self.values)
        return [value for variable, value in pairs if variable.trainable]

    def logits(self, states, trained_values=None):
        """Logits of `states`; no gradient reaches the head's own values."""
        mapping = list(zip(self.variables, self.constants))
        if trained_values is not None:
            trained = [v for v in self.variables if v.trainable]
            mapping += zip(trained, trained_values)
        with keras.StatelessScope(state_mapping=mapping):
            logits = self.head.logits(states)
        return logits[:, : self.vocabulary]


class ChunkedDivergence:
    """Sum of a divergence over the first `count` rows of two heads.

    Args:
        divergence: Callable of the teacher's and the student's logits.
        teacher: `HeadOnRows`, gets no gradient.
        student: `HeadOnRows` with as many rows.
        count: Integer scalar tensor.
        chunk_tokens: Integer that divides the number of rows.
    """

    def __init__(self, divergence, teacher, student, count, chunk_tokens):
        self.divergence = divergence
        self.teacher = teacher
        self.student = student
        self.count = count
        self.chunk_tokens = chunk_tokens

    def total(self):
        """The sum, a float32 scalar that knows its gradient."""

        @ops.custom_gradient
        def summed(*inputs):
            # Hidden from an outer tape, which would keep what follows.
            hidden = [ops.stop_gradient(x) for x in inputs]
            total, gradients = self._all_chunks(*hidden)

            def gradient(upstream):
                return tuple(
                    ops.cast(g * upstream, x.dtype)
                    for g, x in zip(gradients, inputs)
                )

            return total, gradient

        return summed(self.student.states, *self.student.trained_values)

    def _all_chunks(self, states, *values):
        """Value and float32 gradients, to the states and to the values."""

        def body(start, total, d_states, *d_values):
            value, gradients = self._chunk(start, states, *values)
            first, *rest = (ops.cast(g, "float32") for g in gradients)
            gradients = [
                ops.slice_update(d_states, (start, 0), first),
                *(d + more for d, more in zip(d_values, rest)),
            ]
            following = after(start + self.chunk_tokens, gradients)
            return following, total + value, *gradients

        zeros = [ops.zeros(ops.shape(x), "float32") for x in (states, *values)]
        _, total, *gradients = ops.while_loop(
            lambda start, *_: start < self.count,
            body,
            (ops.zeros((), "int32"), ops.zeros((), "float32"), *zeros),
        )
        return total, gradients

    def _chunk(self, start, states, *values):
        """Value and gradients of the chunk that begins at row `start`."""
        counts = start + ops.arange(self.chunk_tokens) < self.count

        def part(states):
            shape = self.chunk_tokens, states.shape[-1]
            # What does not count may hold anything: keep it out.
            return ops.where(
                counts[:, None], ops.slice(states, (start, 0), shape), 0
            )

        teacher_logits = self.teacher.logits(part(self.teacher.constant_states))

        def summed(student_logits):
            values = self.divergence(teacher_logits, student_logits)
            return ops.sum(ops.where(counts, values, 0.0))

        logits, to_inputs = vjp(
            lambda states, *values: self.student.logits(states, values),
            part(states),
            *values,
        )
        total, to_logits = vjp(summed, ops.cast(logits, "float32"))
        (gradient,) = to_logits(ops.ones_like(total))
        return total, _pull_back(to_inputs, gradient, logits.dtype)


def _pull_back(pull, gradient, dtype):
    """Pulls a float32 `gradient` back through logits of `dtype`."""
    if keras.backend.standardize_dtype(dtype) != "float16":
        return pull(ops.cast(gradient, dtype))
    # Float16 loses small numbers, and no loss scale has reached these yet.
    scale = ops.maximum(ops.max(ops.abs(gradient)), 1e-30)
    return [
        ops.cast(g, "float32") * scale
        for g in pull(ops.cast(gradient / scale, dtype))
    ]
