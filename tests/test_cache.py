"""What is written for the data comes back beside the data."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import keras_distill as kd
from keras_distill import cache
from keras_distill.cache import writer

large = pytest.mark.large
LAYOUT = cache.Layout(batch_size=4, shard_size=8)
ROWS = 19


def dataset(rows=ROWS):
    return tf.data.Dataset.from_tensor_slices(tiny.data(rows))


def encoder_inputs(rows=ROWS):
    inputs, labels = tiny.tokens(rows, length=8)
    return {k: v.astype("int32") for k, v in inputs.items()}, labels


def encoder():
    """Hidden states `[batch, length, 6]` and logits; reads rows of any length.

    Small, where a KerasHub encoder would do the same in ten times the time.
    """
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("token_ids", "padding_mask")
    }
    x = keras.layers.Embedding(tiny.VOCABULARY, 6)(inputs["token_ids"])
    hidden = keras.layers.Dense(6, "tanh", name="hidden")(x)
    mean = keras.layers.GlobalAveragePooling1D()(
        hidden, mask=inputs["padding_mask"]
    )
    return keras.Model(inputs, keras.layers.Dense(tiny.CLASSES)(mean))


def signals(attached, rows=ROWS):
    """All elements in one batch: student inputs, signal, and the rest."""
    element = next(iter(attached.batch(rows)))
    x, *rest = element if isinstance(element, tuple) else (element,)
    assert set(x) == {"student", "teacher_signal"}
    return x["student"], x["teacher_signal"], rest


@pytest.mark.parametrize(
    ("dtype", "digits"),
    [("float16", 3), ("bfloat16", 2), pytest.param("float32", 6, marks=large)],
)
def test_logits_come_back(tmp_path, dtype, digits):
    teacher, (x, y) = tiny.mlp(), tiny.data(ROWS)
    manifest = cache.write(
        teacher, dataset(), tmp_path, dtype=dtype, layout=LAYOUT
    )
    student, signal, rest = signals(cache.attach(dataset(), tmp_path))
    np.testing.assert_array_equal(student, x)
    np.testing.assert_array_equal(rest[0], y)
    assert signal["logits"].dtype == "float32"
    np.testing.assert_allclose(signal["logits"], teacher(x), atol=10.0**-digits)
    assert manifest.examples == ROWS
    assert [s["examples"] for s in manifest.shards] == [8, 8, 3]
    assert cache.Manifest.load(tmp_path) == manifest


X, Y = tiny.data(ROWS)
W = np.linspace(0, 1, ROWS).astype("float32")
SLICES = tf.data.Dataset.from_tensor_slices
FORMS = {
    "x": (lambda: SLICES(X), []),
    "x, y, batched": (lambda: SLICES((X, Y)).batch(5), [Y]),
    "x, y, weights": (lambda: SLICES((X, Y, W)), [Y, W]),
    "two readers": (
        lambda: SLICES(({"teacher": X, "student": 2 * X}, Y)),
        [Y],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_elements_keep_their_form(tmp_path, form):
    make, expected = FORMS[form]
    teacher = tiny.mlp()
    cache.write(teacher, make(), tmp_path, layout=LAYOUT)
    attached = cache.attach(make(), tmp_path)
    assert attached.cardinality() == ROWS
    student, signal, rest = signals(attached)
    scale = 2 if form == "two readers" else 1
    np.testing.assert_array_equal(student, scale * X)
    np.testing.assert_allclose(signal["logits"], teacher(X), atol=1e-3)
    assert len(rest) == len(expected)
    for found, wanted in zip(rest, expected):
        np.testing.assert_array_equal(found, wanted)


def distil(teacher, student, rows, match):
    """History and weights after two epochs, shuffled and in other batches."""
    distiller = tiny.distiller(teacher, student, [match])
    shuffled = rows.shuffle(ROWS, seed=3).batch(6)
    history = distiller.fit(shuffled, epochs=2, verbose=0).history
    return history, tiny.values(student)


def check_training(path, teacher, student, hidden):
    """Trains with the teacher and from its cache: the same comes out."""
    rows = SLICES(encoder_inputs())
    layout = cache.Layout(4, 8, lengths=(4, 8))
    cache.write(
        teacher, rows, path, states={"top": hidden}, dtype="float32",
        layout=layout,
    )  # fmt: skip
    match = kd.Match(hidden, hidden, kd.losses.HiddenMSE(), name="top")
    start = student.get_weights()
    expected = distil(teacher, student, rows, match)
    student.set_weights(start)
    attached = cache.attach(rows, path, teacher=teacher)
    found = distil(None, student, attached, match)
    for name, value in expected[0].items():
        np.testing.assert_allclose(found[0][name], value, rtol=1e-4)
    for value, wanted in zip(found[1], expected[1]):
        np.testing.assert_allclose(value, wanted, rtol=1e-3, atol=1e-5)


def test_states_of_another_layer_are_another_cache(tmp_path):
    """Their names and shapes are the same."""
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input((4,))
    for name in ("one", "two"):
        x = keras.layers.Dense(4, name=name)(x)
    teacher = keras.Model(inputs, keras.layers.Dense(2)(x))
    rows = SLICES(np.ones((6, 4), "float32"))
    cache.write(teacher, rows, tmp_path, states={"h": "one"})
    cache.write(teacher, rows, tmp_path, states={"h": teacher.layers[1]})
    with pytest.raises(cache.CacheError, match="another `states`"):
        cache.write(teacher, rows, tmp_path, states={"h": "two"})


def test_training_from_a_cache_equals_training_with_the_teacher(tmp_path):
    check_training(tmp_path, encoder(), encoder(), "hidden")


@large
def test_a_keras_hub_encoder_is_a_teacher(tmp_path):
    teacher = tiny.bert(dropout=0.0)
    check_training(tmp_path, teacher, tiny.bert(dropout=0.0), 2)
    maps = {"map": kd.attention_maps(teacher)[1]}
    rows, found = SLICES(encoder_inputs()), []
    for lengths in (None, (4, 8)):
        path, layout = tmp_path / str(lengths), cache.Layout(4, 8, lengths)
        cache.write(teacher, rows, path, states=maps, layout=layout)
        found.append(signals(cache.attach(rows, path))[1])
    assert found[0]["map"].shape == (ROWS, 2, 8, 8)
    np.testing.assert_allclose(found[0]["map"], found[1]["map"], atol=1e-3)


def test_lengths_change_the_work_and_not_the_result(tmp_path):
    inputs, _ = encoder_inputs()
    teacher = encoder()
    layer = teacher.get_layer("hidden")
    widths, call, found = [], layer.call, {}

    def spy(x, *args, **kwargs):
        widths.append(x.shape[1])
        return call(x, *args, **kwargs)

    object.__setattr__(layer, "call", spy)
    for lengths in (None, (3, 5, 8)):
        path = tmp_path / str(lengths)
        del widths[:]
        cache.write(
            teacher, SLICES(inputs), path, states={"top": "hidden"},
            dtype="float32", layout=cache.Layout(4, 8, lengths),
        )  # fmt: skip
        signal = signals(cache.attach(SLICES(inputs), path))[1]
        found[lengths] = set(widths), signal
    assert found[None][0] == {7, 8}  # 7 shows which axes are tokens.
    assert {3, 5} & found[(3, 5, 8)][0]
    assert found[(3, 5, 8)][0] <= {3, 5, 7, 8}
    plain, cut = found[None][1], found[(3, 5, 8)][1]
    real = inputs["padding_mask"].astype(bool)
    for name in ("logits", "top"):
        assert plain[name].shape == cut[name].shape
        np.testing.assert_allclose(plain[name], cut[name], atol=1e-5)
    assert np.all(np.asarray(cut["top"])[~real] == 0)
    assert np.all(np.asarray(cut["top"])[real] != 0)


def test_rows_of_any_width(tmp_path):
    """Elements that are not padded yet: padded in a batch of the teacher."""
    inputs, _ = encoder_inputs()
    sizes = inputs["padding_mask"].sum(axis=1)
    teacher = encoder()

    def rows():
        for row, size in enumerate(sizes):
            yield {name: value[row, :size] for name, value in inputs.items()}

    spec = {name: tf.TensorSpec([None], "int32") for name in inputs}
    data = tf.data.Dataset.from_generator(rows, output_signature=spec)
    layout = cache.Layout(4, 8, lengths=(4, 8))
    cache.write(
        teacher, data, tmp_path, states={"top": "hidden"}, layout=layout
    )
    attached = cache.attach(data, tmp_path)
    for element, size in zip(attached, sizes):
        assert element["teacher_signal"]["top"].shape == (size, 6)
    padded = next(iter(attached.padded_batch(ROWS)))
    np.testing.assert_allclose(
        padded["teacher_signal"]["logits"],
        teacher({name: inputs[name] for name in teacher.input}),
        atol=1e-3,
    )


def several_outputs():
    inputs = keras.Input((tiny.FEATURES,))
    hidden = keras.layers.Dense(5, "tanh", name="hidden")(inputs)
    outputs = {"a": keras.layers.Dense(3)(hidden)}
    outputs["b"] = keras.layers.Dense(2)(hidden)
    return keras.Model(inputs, outputs)


def test_structures(tmp_path):
    """Several outputs, and a pair of layers for one match."""
    teacher = several_outputs()
    states = {"flow": ("hidden", "hidden")}
    cache.write(
        teacher, dataset(), tmp_path / "full", states=states, layout=LAYOUT
    )
    signal = signals(cache.attach(dataset(), tmp_path / "full"))[1]
    for name, value in teacher(X).items():
        np.testing.assert_allclose(signal["logits"][name], value, atol=1e-3)
    assert isinstance(signal["flow"], tuple)
    np.testing.assert_array_equal(*signal["flow"])
    cache.write(
        teacher, dataset(), tmp_path / "states", logits=None, states=states
    )
    signal = signals(cache.attach(dataset(), tmp_path / "states"))[1]
    assert set(signal) == {"flow"}


@pytest.mark.parametrize(
    "average", ["probabilities", pytest.param("logits", marks=large)]
)
def test_an_ensemble_is_a_teacher(tmp_path, average):
    first, second = tiny.mlp(seed=1), tiny.subclassed()
    teacher = kd.Ensemble([first, second], [1, 3], average)
    cache.write(teacher, dataset(), tmp_path, dtype="float32", layout=LAYOUT)
    attached = cache.attach(dataset(), tmp_path, teacher=teacher)
    signal = signals(attached)[1]
    np.testing.assert_allclose(signal["logits"], teacher(X), atol=1e-5)
    other = kd.Ensemble([first, second], [3, 1], average)
    with pytest.raises(cache.CacheError, match="another teacher"):
        cache.attach(dataset(), tmp_path, teacher=other)


def test_the_teacher_stays_as_it_was(tmp_path):
    teacher = tiny.mlp(dropout=0.5)
    teacher.get_layer("hidden").trainable = False
    before = tiny.values(teacher)
    flags = [layer.trainable for layer in teacher.layers]
    cache.write(teacher, dataset(), tmp_path, layout=LAYOUT)
    assert tiny.equal(tiny.values(teacher), before)
    assert [layer.trainable for layer in teacher.layers] == flags
    signal = signals(cache.attach(dataset(), tmp_path))[1]
    np.testing.assert_allclose(signal["logits"], teacher(X), atol=1e-3)


def test_one_pass_over_the_data(tmp_path, monkeypatch):
    """Each example is read once and labelled once."""
    reads = []

    def rows():
        for row in X:
            reads.append(1)
            yield row

    spec = tf.TensorSpec([tiny.FEATURES], "float32")
    data = tf.data.Dataset.from_generator(rows, output_signature=spec)
    teacher = tiny.mlp()
    with tiny.passes(teacher.get_layer("hidden")) as counter:
        cache.write(teacher, data, tmp_path, layout=LAYOUT)
        assert counter.executed == 5  # 8, 8 and 3 rows in batches of 4.
    assert len(reads) == ROWS


def test_bytes_are_reported(tmp_path):
    inputs, _ = encoder_inputs()
    manifest = cache.write(
        encoder(), SLICES(inputs), tmp_path, None, {"top": "hidden"}
    )
    assert manifest.tokens == inputs["padding_mask"].sum()
    assert manifest.bytes_per_token == 6 * 2  # Six units of float16.
    total = sum(file.stat().st_size for file in tmp_path.glob("shard-*"))
    assert manifest.bytes_per_example == total / ROWS


def hot():
    model = tiny.mlp()
    model.get_layer("logits").bias.assign([0, 1e5, 0])
    return model


def broken():
    model = tiny.mlp()
    model.get_layer("logits").bias.assign([0, float("nan"), 0])
    return model


def ragged():
    rows = tf.ragged.constant([[1.0], [1.0, 2.0]])
    return tf.data.Dataset.from_tensor_slices(rows)


def any_size():
    spec = tf.TensorSpec([None], "float32")
    return tf.data.Dataset.from_generator(list, output_signature=spec)


WRONG = {
    "no data set": (lambda: {"dataset": X}, "must be a `tf.data.Dataset`"),
    "endless": (lambda: {"dataset": dataset().repeat()}, "must end"),
    "empty": (lambda: {"dataset": dataset().take(0)}, "at least one example"),
    "ragged": (lambda: {"dataset": ragged()}, "dense tensors of known rank"),
    "any size": (lambda: {"dataset": any_size()}, "need a 'padding_mask'"),
    "no teacher": (lambda: {"teacher": None}, "`teacher` must be"),
    "a form": (lambda: {"logits": "top-k"}, "`logits` must be 'full'"),
    "k": (lambda: {"logits": cache.TopK(3)}, "less than the number of classes"),
    "dtype": (lambda: {"dtype": "float64"}, "`dtype` must be one of"),
    "a layer": (lambda: {"states": {"a": "nowhere"}}, "no layer 'nowhere'"),
    "a name": (lambda: {"states": {"logits": "hidden"}}, "cannot be named"),
    "settings": (lambda: {"settings": {"a": X}}, "what JSON can hold"),
    "too large": (lambda: {"teacher": hot()}, "Example 0.*too large for float"),
    "not a number": (lambda: {"teacher": broken()}, "is not a number"),
    "lengths": (
        lambda: {"layout": cache.Layout(lengths=(4, 8))},
        "need a 'padding_mask'",
    ),
    "batched": (
        lambda: {"layout": cache.Layout(batched=True)},
        "does not fit the data",
    ),
    "attached": (
        lambda: {"dataset": SLICES({"student": X, "teacher_signal": X})},
        "carries a teacher signal already",
    ),
    "nothing for the teacher": (
        lambda: {"dataset": SLICES({"student": X})},
        "inputs are missing",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(tmp_path, case):
    make, message = WRONG[case]
    arguments = {"teacher": tiny.mlp(), "dataset": dataset()} | make()
    with pytest.raises(ValueError, match=message):
        cache.write(path=tmp_path / "cache", **arguments)
    assert not list(tmp_path.glob("**/shard-*"))
    assert not list(tmp_path.glob("**/.draft-*"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cache.Layout(batch_size=0), "`batch_size` must be an integer"),
        (lambda: cache.Layout(lengths=(8, 4)), "`lengths` must increase"),
        (lambda: cache.Layout(batched=2), "`batched` must be"),
        (lambda: cache.TopK(0), "`k` must be an integer"),
        (lambda: cache.TopK(1, temperature=0), "`temperature` must be"),
        (lambda: cache.Sampled(2**16), "`draws` must fit 16 bits"),
    ],
)
def test_wrong_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_lengths_must_hold_the_longest_row(tmp_path):
    inputs, _ = encoder_inputs()
    layout = cache.Layout(4, 8, lengths=(4, 6))
    with pytest.raises(ValueError, match="the longest row, which has [78] tok"):
        cache.write(encoder(), SLICES(inputs), tmp_path, layout=layout)


def test_batches_of_a_model_that_does_not_know_its_inputs(tmp_path):
    data = SLICES(X).batch(ROWS, drop_remainder=True)
    with pytest.raises(ValueError, match="cannot be told"):
        cache.write(tiny.subclassed(), data, tmp_path)
    for batched, number in ((True, ROWS), (None, ROWS)):
        rows = data if batched else SLICES(X).batch(4)
        layout = cache.Layout(batched=batched)
        manifest = cache.write(
            tiny.subclassed(), rows, tmp_path / str(batched), layout=layout
        )
        assert manifest.examples == number


def test_shard_names_sort_as_their_numbers():
    assert writer.shard_name(10) > writer.shard_name(9)
