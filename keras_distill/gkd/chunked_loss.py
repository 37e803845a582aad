"""The divergence of two language models, a chunk of tokens at a time.

With `n` tokens, hidden states `x` and the head's weights `W` the logits are
`z = x W`, and the loss is a sum of functions of one row of `z` each. So is the
gradient `g = dL/dz`: that of a chunk of rows needs no other row. Both pull
backs are linear in `g`:

    dL/dx = g W^T, a row for each row        dL/dW = x^T g, a sum over rows

and so are known chunk by chunk, in the forward pass, while the chunk's logits
are there. They are made once, where a loss that forgets them would make them
again for the backward pass, and die with their chunk. What the backward pass
needs is of the size of `x` and `W`, and it does no more than multiply it with
the number that comes from above.

What is left of the time are the matrix products, as many as without chunks, and
what lies between `z` and `g`: some 30 passes over the chunk's logits, each too
little work for the memory that it moves. XLA fuses them: 0.7 instead of 2.8
seconds of processor time for 1,024 tokens of a vocabulary of 50,257 and the
Jensen-Shannon divergence, more than what chunks cost.
"""

import functools

import keras
from keras import ops

from keras_distill._backend.steps import after
from keras_distill._compiled import compile_pure
from keras_distill._compiled import vjp


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
        # Read here once, and not in each chunk.
        self.values = [ops.convert_to_tensor(v.value) for v in self.variables]
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
        self.value_and_gradient = compile_pure(
            functools.partial(_value_and_gradient, divergence)
        )
        self.added = compile_pure(self._added)
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
            more, d_chunk, d_values = self._chunk(
                start, states, values, d_values
            )
            d_states = ops.slice_update(d_states, (start, 0), d_chunk)
            gradients = [d_states, *d_values]
            following = after(start + self.chunk_tokens, gradients)
            return following, total + more, *gradients

        zeros = [ops.zeros(ops.shape(x), "float32") for x in (states, *values)]
        _, total, *gradients = ops.while_loop(
            lambda start, *_: start < self.count,
            body,
            (ops.zeros((), "int32"), ops.zeros((), "float32"), *zeros),
        )
        return total, gradients

    def _chunk(self, start, states, values, sums):
        """One chunk, which begins at row `start`.

        Returns its value, the gradient of its states, and `sums`, the
        gradients of the head's `values`, with the chunk's own added.
        """
        counts = start + ops.arange(self.chunk_tokens) < self.count

        def part(states):
            shape = self.chunk_tokens, states.shape[-1]
            # What does not count may hold anything: keep it out.
            return ops.where(
                counts[:, None], ops.slice(states, (start, 0), shape), 0
            )

        teacher_logits = self.teacher.logits(part(self.teacher.constant_states))
        inputs = part(states)
        logits, to_inputs = vjp(
            lambda states: self.student.logits(states, values), inputs
        )
        total, gradient = self.value_and_gradient(
            teacher_logits, logits, counts
        )
        gradient, scale = _in_half_precision(gradient, logits.dtype)
        (d_inputs,) = to_inputs(gradient)
        if values:
            sums = self.added(sums, values, inputs, gradient, scale)
        return total, ops.cast(d_inputs, "float32") * scale, sums

    def _added(self, sums, values, inputs, gradient, scale):
        """`sums` with the pull-back of `gradient` to the head's `values`.

        By XLA, which sees that the logits themselves are not asked for, and
        multiplies so that the product of a tied head needs no transposition,
        as large as the vocabulary, in each chunk.
        """
        _, to_values = vjp(
            lambda *values: self.student.logits(inputs, values), *values
        )
        return [
            total + ops.cast(more, "float32") * scale
            for total, more in zip(sums, to_values(gradient))
        ]


def _value_and_gradient(divergence, teacher_logits, logits, counts):
    """The sum over the rows that count, and its gradient to `logits`."""

    def summed(logits):
        values = divergence(teacher_logits, logits)
        return ops.sum(ops.where(counts, values, 0.0))

    total, pull = vjp(summed, ops.cast(logits, "float32"))
    (gradient,) = pull(ops.ones_like(total))
    return total, gradient


def _in_half_precision(gradient, dtype):
    """A float32 gradient in the logits' dtype, and what it was divided by."""
    scale = ops.ones((), "float32")
    if keras.backend.standardize_dtype(dtype) == "float16":
        # It loses small numbers, and no loss scale has reached these yet.
        scale = ops.maximum(ops.max(ops.abs(gradient)), 1e-30)
    return ops.cast(gradient / scale, dtype), scale
