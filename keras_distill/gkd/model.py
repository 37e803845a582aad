"""`GKDDistiller`: a `keras.Model` that trains a student on its own text."""

import random

import keras
from keras import ops

from keras_distill._backend import check_backend
from keras_distill._replicas import replicas
from keras_distill.gkd import arguments
from keras_distill.gkd import compatibility
from keras_distill.gkd.losses import TokenLosses
from keras_distill.gkd.on_policy import OnCompletedBatches
from keras_distill.gkd.rollout import Rollout
from keras_distill.gkd.sources import Sampling
from keras_distill.gkd.state import GKDState
from keras_distill.gkd.state import Trackers
from keras_distill.gkd.steps import STEPS
from keras_distill.gkd.steps import TEST_STEPS


class GKDDistiller(OnCompletedBatches):
    """Trains `student` to write as `teacher` does, partly on its own text.

    For each prompt a completion comes from the student itself (with
    probability `lmbda`), else from the teacher (`seq_kd=True`) or the data
    set. The loss is the divergence between the two models' next-token
    distributions, summed over the vocabulary and averaged over all tokens of
    the batch's completions. No gradient flows through the sampling.

    Under `tf.distribute.MirroredStrategy`, or with `keras.distribution` on
    JAX, the devices of a machine share each batch and its loss; with the
    former the first one writes for all.

    Batches are dicts with `"token_ids"`, `"prompt_mask"` and
    `"completion_mask"`, as `GKDPreprocessor.batches` makes them. `evaluate`
    reports the divergence on the data set's responses; `predict` and
    `generate` are the student's. Checkpoints hold the student, the optimizer
    and the state of all draws, and no teacher.

    Args:
        teacher: `keras_hub.models.CausalLM`, trained. It runs with
            `training=False` and is never changed.
        student: `keras_hub.models.CausalLM` with the same vocabulary.
        beta: Float in `[0, 1]`. 0 is `KL(teacher || student)`, 1 is
            `KL(student || teacher)`, between them it is
            `beta KL(T || M) + (1 - beta) KL(S || M)` with
            `M = beta T + (1 - beta) S`.
        lmbda: Float in `[0, 1]`, the probability of a completion by the
            student, or a schedule of it over the training's batches.
        seq_kd: Boolean. Whether the teacher writes the other completions.
        temperature: Positive float, for sampling only.
        loss_temperature: Positive float that divides the logits in the loss.
        max_completion_length: Integer, tokens of a generated completion.
        granularity: `"sample"` for a draw per row, `"batch"` for one per
            batch.
        seed: Integer that seeds all draws. None takes one from Python's
            `random`, which `keras.utils.set_random_seed` seeds.
        divergence: None for the above, a loss such as
            `kd.losses.ReverseKL()`, or a function of teacher's and student's
            logits of shape `[tokens, vocabulary]` that gives `[tokens]`.
        normalize: Boolean. Whether the divergence is divided by
            `beta (1 - beta)`, which makes it continuous in `beta`.
        sft_weight: Number, at least 0, weight of the cross-entropy of the
            data set's responses, in rows where they were drawn.
        sampler: None for sampling from the whole vocabulary, or a KerasHub
            sampler or its name. The models' own samplers are not used.
        student_dropout: Boolean. Whether the student is trained with dropout.
        stop_token_ids: Integers that end a completion. None takes the
            tokenizer's end tokens; with `()` only the length ends it.
        sources: Pair of `Source`: drawn with probability `lmbda`, and
            otherwise. None for the above.
        micro_batch_size: Integer. Rows, on each device, for which gradients
            are computed at a time, with the result of the whole batch. None
            for all.
        chunk_tokens: Integer, for how many tokens logits are in memory at a
            time; None for all of the (micro-)batch; `"auto"` decides.
        name: String.

    Raises:
        ValueError: if the models do not fit together or an argument is not
            as described.

    Example:

    >>> import keras_hub
    >>> import numpy as np
    >>> def gpt2(width):
    ...     return keras_hub.models.GPT2CausalLM(keras_hub.models.GPT2Backbone(
    ...         vocabulary_size=30, num_layers=1, num_heads=2,
    ...         hidden_dim=width, intermediate_dim=8, max_sequence_length=8))
    >>> distiller = GKDDistiller(gpt2(8), gpt2(4), lmbda=1.0,
    ...     max_completion_length=4, stop_token_ids=(0,))
    >>> distiller.compile(optimizer="adam")
    >>> prompts = np.array([[5, 6, 0, 0, 0, 0], [7, 0, 0, 0, 0, 0]])
    >>> batch = {"token_ids": prompts, "prompt_mask": prompts > 0,
    ...     "completion_mask": np.zeros((2, 6), bool)}
    >>> history = distiller.fit(batch, batch_size=2, verbose=0)
    >>> history.history["student_fraction"]
    [1.0]

    Reference:
        Agarwal et al., 2024, https://arxiv.org/abs/2306.13649, algorithm 1.
    """

    def __init__(  # noqa: PLR0913 - One flag for each choice of the method.
        self,
        teacher,
        student,
        beta=0.5,
        lmbda=0.5,
        seq_kd=False,
        temperature=0.9,
        loss_temperature=1.0,
        max_completion_length=512,
        granularity="sample",
        seed=None,
        divergence=None,
        normalize=False,
        sft_weight=0.0,
        sampler=None,
        student_dropout=False,
        stop_token_ids=None,
        sources=None,
        micro_batch_size=None,
        chunk_tokens="auto",
        name="gkd_distiller",
    ):
        check_backend()
        compatibility.check_pair(teacher, student)
        arguments.check_numbers(
            micro_batch_size, chunk_tokens, seed, sft_weight
        )
        super().__init__(name=name, dtype=student.dtype_policy)
        self.student = student
        self.evaluating = False
        self.prepared = True
        self.built = True
        self.micro_batch_size = micro_batch_size
        self.sft_weight = sft_weight
        self.token_losses = TokenLosses(
            teacher,
            student,
            arguments.divergence_function(
                divergence, beta, loss_temperature, normalize
            ),
            student_dropout,
            chunk_tokens,
        )
        sizes = self.token_losses.vocabulary_sizes
        compatibility.warn_of_padded_vocabulary(*sizes)
        stops = compatibility.stop_tokens(
            stop_token_ids, teacher, student, min(sizes)
        )
        self.rollout = Rollout(
            arguments.pair_of_sources(sources, seq_kd),
            Sampling(
                teacher,
                student,
                sampler,
                temperature,
                stops,
                min(sizes),
                max_completion_length,
                compatibility.max_lengths(teacher, student),
            ),
            granularity,
        )
        arguments.check_lmbda(lmbda, sft_weight, self.rollout.sources)
        self.lmbda_schedule = lmbda if callable(lmbda) else None
        self.state = GKDState(
            lmbda(0) if callable(lmbda) else lmbda,
            random.randint(0, 2**31 - 1) if seed is None else seed,
            self.rollout.sources,
        )
        self._trackers = Trackers(self.rollout.statistics)

    # Keras saves and restores what `dir` lists: the teacher must not be there.
    def __dir__(self):
        return [name for name in super().__dir__() if name != "teacher"]

    @property
    def teacher(self):
        """The teacher as it was given."""
        return self.token_losses.teacher.model

    def compile(self, optimizer="rmsprop", **kwargs):
        """Configures the optimizer.

        Args:
            optimizer: As in `keras.Model.compile`.
            **kwargs: `jit_compile`, `run_eagerly` and `auto_scale_loss`, as
                in `keras.Model.compile`.

        Raises:
            ValueError: if there is a loss or metrics among the arguments, the
                optimizer accumulates gradients, or the strategy of
                `tf.distribute` mirrors no variables.
        """
        arguments.check_compile(kwargs)
        replicas(self)
        super().compile(optimizer=optimizer, **kwargs)
        arguments.check_optimizer(self.optimizer)

    def call(self, inputs, training=None):
        """The student's logits."""
        if "prompt_mask" in inputs:
            inputs = {
                "token_ids": ops.convert_to_tensor(inputs["token_ids"]),
                "padding_mask": ops.logical_or(
                    inputs["prompt_mask"], inputs["completion_mask"]
                ),
            }
        return super().call(inputs, training)

    def generate(self, *args, **kwargs):
        """Generates with the student, as `CausalLM.generate` does."""
        return self.student.generate(*args, **kwargs)

    def training_loss(self, x, teacher_states, counts, number, training=True):
        """The share of a part of the batch in the batch's loss.

        Args:
            x: Dict of `rollout.model_inputs`, the part.
            teacher_states: What `token_losses.teacher_states(x)` gave.
            counts: Tensor of shape `[2]`, the batch's `"token_counts"`.
            number: Integer, how many parts there are.
            training: Boolean.

        Returns:
            Pair of the share, and a tensor of shape `[3]`: the shares of the
            loss, the divergence and the cross-entropy.
        """
        states = self.token_losses.student_states(x, training)
        tokens, responses = ops.unstack(ops.maximum(counts, 1.0))
        divergence = self.token_losses.divergence_sum(x, teacher_states, states)
        loss = divergence = divergence / tokens
        cross_entropy = ops.zeros(())
        if self.sft_weight:
            cross_entropy = self.token_losses.cross_entropy_sum(x, states)
            cross_entropy = cross_entropy / responses
            loss = loss + self.sft_weight * cross_entropy
        loss = loss + self.own_losses() / ops.cast(number, "float32")
        return loss, ops.stack([loss, divergence, cross_entropy])

    def update_metrics(self, x, terms, counts):
        """Adds one step's values to the metrics behind the logs."""
        self._trackers.update(terms, counts, x)

    def train_step(self, *args):
        """One step: `(data)` on TensorFlow, `(state, data)` on JAX."""
        return STEPS[keras.backend.backend()](self, *args)

    def test_step(self, *args):
        """One step: `(data)` on TensorFlow, `(state, data)` on JAX."""
        return TEST_STEPS[keras.backend.backend()](self, *args)

    @property
    def metrics(self):
        """The loss, its terms and, while training, the completions'."""
        if not self.compiled:
            return []
        return self._trackers.of(
            sft=bool(self.sft_weight), origins=not self.evaluating
        )

    @property
    def non_trainable_variables(self):
        """On JAX also the teacher's, which the step takes as state."""
        own = super().non_trainable_variables
        if keras.backend.backend() != "jax":
            return own
        return own + self.teacher.variables
