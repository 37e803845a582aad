"""The token loss: a NumPy reference, then plain and chunked must agree."""

import functools

import keras
import numpy as np
import pytest
import tiny_lm
from helpers import compiled
from keras import ops
from scipy.special import log_softmax

from keras_distill import divergences
from keras_distill.gkd import token_loss
from keras_distill.gkd.language_model import LanguageModel
from keras_distill.gkd.token_loss import token_divergence

LENGTH, ROWS = 7, 3
MASKS = {
    "all": np.ones((ROWS, LENGTH), "int32"),
    "some": np.array(
        [[0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 1], [0, 1, 0, 1, 1, 1, 1]]
    ),
    "none": np.zeros((ROWS, LENGTH), "int32"),
}
TEACHERS = {
    "untied": lambda: tiny_lm.llama(vocabulary_size=44, layers=1, width=8),
    "tied": lambda: tiny_lm.gpt2(vocabulary_size=44, layers=1, width=8),
}
STUDENTS = {
    "tied": lambda: tiny_lm.gpt2(layers=1, seed=1),
    "untied": lambda: tiny_lm.llama(layers=1, seed=1),
}
INPUTS = tiny_lm.tokens(ROWS, LENGTH)


def close(actual, wanted, tolerance=1e-5):
    """Within `tolerance` of the largest number."""
    scale = max(np.max(np.abs(wanted)), 1e-6)
    np.testing.assert_allclose(actual, wanted, 0, tolerance * scale)


class Step:
    """Loss and gradients of a student, as a train step computes them."""

    def __init__(self, teacher, student, **options):
        self.teacher = LanguageModel(teacher)
        self.student = LanguageModel(student)
        self.variables = student.trainable_variables
        self.options = {"divergence": divergences.generalized_jsd, **options}

    def loss(self, mask, scale=1.0):
        """Mean over tokens, as scaled as a loss of half precision is."""
        total, count = token_divergence(
            teacher_head=self.teacher,
            teacher_states=self.teacher.hidden_states(**INPUTS),
            student_head=self.student,
            student_states=self.student.hidden_states(**INPUTS),
            mask=mask,
            **self.options,
        )
        return scale * total / ops.maximum(count, 1)

    def run(self, mask, jit=False, scale=1.0):
        """Returns the loss and the gradients, as arrays."""
        step = self.on_jax if keras.backend.backend() == "jax" else self.on_tf
        if jit:
            step = compiled(step)
        loss, gradients = step(np.asarray(mask), scale)
        return [np.asarray(ops.cast(x, "float32")) for x in (loss, *gradients)]

    def on_tf(self, mask, scale):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = self.loss(mask, scale)
        found = tape.gradient(
            loss,
            [v.value for v in self.variables],
            unconnected_gradients="zero",
        )
        return loss, [tf.convert_to_tensor(g) for g in found]

    def on_jax(self, mask, scale):
        import jax

        def loss(values):
            with keras.StatelessScope(list(zip(self.variables, values))):
                return self.loss(mask, scale)

        return jax.value_and_grad(loss)([v.value for v in self.variables])


def step(student="tied", teacher="untied", **options):
    return Step(TEACHERS[teacher](), STUDENTS[student](), **options)


@pytest.mark.parametrize("chunk_tokens", [None, 4])
def test_equals_reference(chunk_tokens):
    one = step(chunk_tokens=chunk_tokens, divergence=divergences.reverse_kl)
    logits = [
        np.float64(ops.convert_to_numpy(x.model(INPUTS)))[..., :40]
        for x in (one.teacher, one.student)
    ]
    p, q = (log_softmax(x, -1) for x in logits)
    values = (np.exp(q) * (q - p)).sum(-1)
    states = [x.hidden_states(**INPUTS) for x in (one.teacher, one.student)]
    total, count = token_divergence(
        divergences.reverse_kl,
        one.teacher,
        states[0],
        one.student,
        states[1],
        MASKS["some"].astype("bool"),
        chunk_tokens=chunk_tokens,
    )
    for value in (total, count):
        assert keras.backend.standardize_dtype(value.dtype) == "float32"
        assert tuple(value.shape) == ()
    assert float(count) == 9
    close(total, values[MASKS["some"] == 1].sum())


@pytest.mark.parametrize(
    ("student", "teacher", "jit"),
    [
        ("tied", "untied", False),
        ("untied", "tied", False),
        pytest.param("tied", "untied", True, marks=pytest.mark.large),
        pytest.param("untied", "tied", True, marks=pytest.mark.large),
    ],
)
def test_chunks_change_nothing(student, teacher, jit):
    wanted = step(student, teacher, chunk_tokens=None)
    chunked = step(student, teacher, chunk_tokens=4)
    assert max(np.abs(x).max() for x in wanted.run(MASKS["some"])[1:]) > 0.01
    for mask in ("some", "all"):
        pairs = zip(
            chunked.run(MASKS[mask], jit),
            wanted.run(MASKS[mask], jit),
            strict=True,
        )
        # One scale for all: softmax ignores a bias of keys, whose gradient
        # is rounding alone.
        found, expected = (
            np.concatenate([np.ravel(x) for x in side]) for side in zip(*pairs)
        )
        close(found, expected)


@pytest.mark.parametrize("chunk_tokens", [1, 9, 100])
def test_any_chunk_size(chunk_tokens):
    wanted = step(chunk_tokens=None).run(MASKS["some"])
    found = step(chunk_tokens=chunk_tokens).run(MASKS["some"])
    close(found[0], wanted[0])
    close(found[1], wanted[1])


@pytest.mark.parametrize(
    "jit", [False, pytest.param(True, marks=pytest.mark.large)]
)
@pytest.mark.parametrize(
    "chunk_tokens", [pytest.param(None, marks=pytest.mark.large), 4]
)
def test_nothing_counts(chunk_tokens, jit):
    found = step(chunk_tokens=chunk_tokens).run(MASKS["none"], jit)
    assert all(np.all(x == 0) for x in found)


@pytest.mark.parametrize("chunk_tokens", [None, 4])
def test_what_does_not_count_may_be_anything(chunk_tokens):
    student = LanguageModel(STUDENTS["tied"]())
    states = np.random.default_rng(0).normal(size=(1, 6, 16)).astype("float32")
    mask = np.array([[0, 1, 1, 0, 1, 0]])
    wild = np.where(mask[..., None] == 1, states, np.nan)
    options = {"chunk_tokens": chunk_tokens}
    head = divergences.forward_kl, student
    wanted, _ = token_divergence(
        *head, states[:, ::-1], student, states, mask, **options
    )
    found, _ = token_divergence(
        *head, wild[:, ::-1], student, wild, mask[:, ::-1] * mask, **options
    )
    assert np.isfinite(float(wanted))
    assert np.isfinite(float(found))


@pytest.mark.parametrize("chunk_tokens", [None, 4])
def test_student_equal_to_teacher(chunk_tokens):
    model = STUDENTS["untied"]()
    found = Step(model, model, chunk_tokens=chunk_tokens).run(MASKS["some"])
    for x in found:
        np.testing.assert_allclose(x, 0, atol=1e-6)


@pytest.mark.parametrize("chunk_tokens", [None, 4])
def test_no_gradient_reaches_the_teacher(chunk_tokens):
    one = step(chunk_tokens=chunk_tokens)
    one.variables = one.teacher.model.trainable_variables
    assert all(np.all(g == 0) for g in one.run(MASKS["some"])[1:])


@pytest.mark.parametrize("chunk_tokens", [None, 4])
def test_scaled_loss_has_scaled_gradients(chunk_tokens):
    one = step(chunk_tokens=chunk_tokens)
    wanted = one.run(MASKS["some"])
    for a, b in zip(one.run(MASKS["some"], scale=64.0), wanted):
        close(a, 64 * b)


@pytest.mark.parametrize("chunk_tokens", [None, 4])
def test_frozen_head(chunk_tokens):
    one = step("untied", chunk_tokens=chunk_tokens)
    wanted = one.run(MASKS["some"])
    head = one.student.head_variables[0]
    kept = [v is not head for v in one.variables]
    head.trainable = False
    one.variables = [v for v, keep in zip(one.variables, kept) if keep]
    found = one.run(MASKS["some"])
    for a, b in zip(found[1:], [g for g, k in zip(wanted[1:], kept) if k]):
        close(a, b)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision(policy):
    def models():
        return TEACHERS["untied"](), STUDENTS["tied"]()

    wanted = Step(*models(), chunk_tokens=None).run(MASKS["some"])
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        half = models()
    finally:
        keras.config.set_dtype_policy(before)
    # As a loss scale; a gradient of this size needs none.
    plain = Step(*half, chunk_tokens=None).run(MASKS["some"], scale=64.0)
    found = Step(*half, chunk_tokens=4).run(MASKS["some"], scale=64.0)
    tolerance = 0.01 if policy == "mixed_float16" else 0.06
    close(found[0], plain[0], 1e-3)
    embedding = 1 + [v.name for v in half[1].trainable_variables].index(
        "embeddings"
    )
    close(found[embedding], plain[embedding], tolerance)
    close(found[embedding] / 64, wanted[embedding], tolerance)


def test_float16_keeps_small_gradients():
    """Where teacher and student nearly agree, before any loss scale."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        student = LanguageModel(tiny_lm.gpt2(vocabulary_size=3000, layers=1))
    finally:
        keras.config.set_dtype_policy("float32")
    rng = np.random.default_rng(0)
    states = rng.normal(0, 0.05, (2, 1, 8, 16)).astype("float16")

    def loss(chunk_tokens):
        def total(states_):
            value, _ = token_divergence(
                divergences.forward_kl,
                student,
                states[0],
                student,
                states_,
                np.ones((1, 8)),
                chunk_tokens=chunk_tokens,
            )
            return 1e4 * value

        return total

    plain, chunked = (gradient_of(loss(c), states[1]) for c in (None, 4))
    close(chunked, plain, 0.02)


def gradient_of(fn, array):
    """Gradient in the array's own dtype."""
    if keras.backend.backend() == "jax":
        import jax

        return np.float32(jax.grad(fn)(ops.convert_to_tensor(array)))
    import tensorflow as tf

    tensor = tf.convert_to_tensor(array)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        value = fn(tensor)
    return np.float32(tape.gradient(value, tensor))


def test_vocabulary_in_common():
    teacher, student = (
        LanguageModel(tiny_lm.llama(40, seed=i)) for i in (0, 1)
    )
    wide = LanguageModel(tiny_lm.llama(44, seed=1))
    head = wide.head_variables[0]
    narrow = student.head_variables[0]
    head.assign(
        np.pad(ops.convert_to_numpy(narrow), [[0, 0], [0, 4]], mode="edge")
    )
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, 1, 6, 16)).astype("float32")
    common = divergences.forward_kl, teacher, states[0]
    rest = states[1], np.ones((1, 6))
    wanted, _ = token_divergence(*common, student, *rest)
    for options in ({}, {"vocabulary": 40}, {"chunk_tokens": 4}):
        found, _ = token_divergence(*common, wide, *rest, **options)
        close(found, wanted)
    fewer, _ = token_divergence(*common, wide, *rest, vocabulary=30)
    assert abs(float(fewer) - float(wanted)) > 1e-3


@pytest.mark.parametrize(
    ("tokens", "vocabulary", "width", "chunk"),
    [
        (2048, 50_257, 768, 205),  # 10 chunks; at most 208 in each.
        (384, 50_257, 768, None),  # Half the width.
        (385, 50_257, 768, 193),
        (1024, 512, 64, None),  # No more than one chunk.
        (1025, 512, 64, 513),
        (None, 50_257, 768, 208),
        (None, 512, 64, None),
        (10**6, 10**8, 64, 1),
    ],
)
def test_when_to_use_chunks(tokens, vocabulary, width, chunk):
    assert token_loss._chunk_tokens(tokens, vocabulary, width) == chunk


def test_chunks_on_accelerators(monkeypatch):
    monkeypatch.setattr(token_loss, "accelerators", lambda: ["gpu:0"])
    chosen = functools.partial(token_loss._chunk_tokens, width=4096)
    assert chosen(8192, 151_936) == 256
    assert chosen(None, 151_936) == 256
    assert chosen(8192, 2**13) == 1024


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="XLA tells what it needs on JAX"
)
def test_chunks_take_less_memory():
    import jax

    width, vocabulary = 256, 40_000
    models = [
        LanguageModel(tiny_lm.gpt2(vocabulary, layers=1, width=width, seed=k))
        for k in (0, 1)
    ]
    held = [[v.value for v in model.head_variables] for model in models]

    def needed(tokens, chunk_tokens):
        def value(values, states):
            mapping = zip(models[1].head_variables, values)
            with keras.StatelessScope(state_mapping=list(mapping)):
                return token_divergence(
                    divergences.generalized_jsd,
                    *(models[0], ops.stop_gradient(states)),
                    *(models[1], states),
                    np.ones((1, tokens)),
                    chunk_tokens=chunk_tokens,
                )[0]

        states = jax.ShapeDtypeStruct((1, tokens, width), "float32")
        run = jax.jit(jax.value_and_grad(value, argnums=(0, 1)))
        plan = run.lower(held[1], states).compile().memory_analysis()
        return plan.temp_size_in_bytes

    # Two and four times as many tokens as the width.
    assert needed(512, "auto") < 0.7 * needed(512, None)
    assert needed(1024, "auto") < 0.35 * needed(1024, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary": 41}, r"44 \(teacher\) and 40 \(student\). .*=41"),
        ({"vocabulary": 0}, "integer of at least 1. Received: vocabulary=0"),
        ({"chunk_tokens": 0}, "Received: chunk_tokens=0"),
        ({"chunk_tokens": 2.5}, "Received: chunk_tokens=2.5"),
    ],
)
def test_message(arguments, message):
    with pytest.raises(ValueError, match=message):
        step(**arguments).loss(MASKS["all"])
