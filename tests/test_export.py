"""Exports reloaded by their own runtimes, and exports that must not be."""

import contextlib
import json
import pathlib
import subprocess
import sys
import types
import warnings

import keras
import keras_hub
import markdown_it
import numpy as np
import pytest
import tensorflow as tf

from keras_distill import _pairs
from keras_distill import export
from keras_distill import students
from keras_distill.export import _litert
from keras_distill.export import _saved_model
from keras_distill.export import conversion
from keras_distill.export import latency
from keras_distill.export.inputs import read_inputs
from keras_distill.export.markdown import escape
from keras_distill.export.options import ExportOptions
from keras_distill.export.recurrence import portable_recurrence
from keras_distill.export.report import compare
from keras_distill.quantization import QuantizationAware

LENGTH = 8
WORDS = ["the", "film", "is", "good", "bad", "dull", "fun", "not", "very"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
LABELS = ["negative", "neutral", "positive"]


def randomise(model, scale=0.5):
    """Weights large enough that the examples' predictions differ."""
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape, scale=scale))
    return model


@pytest.fixture(scope="module")
def text_cnn():
    return randomise(students.text_cnn(3, embeddings=(50, 6), filters=4))


@pytest.fixture(scope="module")
def bilstm():
    return randomise(students.bilstm(3, embeddings=(50, 6), units=4))


@pytest.fixture(scope="module")
def ngram():
    return randomise(students.ngram(3, embeddings=(50, 6), buckets=64))


@pytest.fixture(scope="module")
def wide():
    """Convolutions and n-grams."""
    return randomise(students.text_cnn(3, (50, 6), filters=4, ngram_buckets=64))


@pytest.fixture(scope="module")
def bert():
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=50,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=LENGTH,
    )
    classifier = keras_hub.models.BertTextClassifier(backbone, num_classes=3)
    return randomise(classifier)


@pytest.fixture(scope="module")
def preprocessor():
    return keras_hub.models.BertTextClassifierPreprocessor(
        keras_hub.models.BertTokenizer(vocabulary=VOCABULARY),
        sequence_length=LENGTH,
    )


def token_ids(rows=12, length=LENGTH):
    rng = np.random.default_rng(1)
    ids = rng.integers(5, 50, (rows, length))
    lengths = rng.integers(1, length + 1, (rows, 1))
    ids = np.where(np.arange(length) < lengths, ids, 0)
    return {
        "token_ids": ids,
        "padding_mask": ids > 0,
        "segment_ids": np.zeros_like(ids),
    }


def logits(student, examples):
    names = [tensor.name for tensor in student.inputs]
    return np.asarray(student({name: examples[name] for name in names}))


def run_litert(path, examples):
    """The file's logits, by the interpreter's public signature runner."""
    interpreter = latency.LiteRTModel(path)._interpreter
    runner = interpreter.get_signature_runner("serving_default")
    names = runner.get_input_details()
    rows = [
        runner(**{n: np.int32(examples[n][i : i + 1]) for n in names})["logits"]
        for i in range(len(examples["token_ids"]))
    ]
    return np.concatenate(rows)


def run_saved_model(path, inputs):
    loaded = tf.saved_model.load(str(path))
    tensors = {name: tf.constant(x) for name, x in inputs.items()}
    return loaded.signatures["serving_default"](**tensors)["logits"].numpy()


def files(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("name", ["text_cnn", "ngram", "wide", "bert"])
def test_litert_float32_is_the_student(name, request, tmp_path):
    student, examples = request.getfixturevalue(name), token_ids()
    path = tmp_path / "student.tflite"
    report = export.litert(student, path, examples=examples)
    assert report.path == path
    assert report.agreement == 1
    assert report.examples == 12
    assert report.size_bytes == path.stat().st_size
    assert 0 <= report.mean_difference <= report.max_difference < 1e-4
    assert report.latency_ms > 0
    np.testing.assert_allclose(
        run_litert(path, examples), logits(student, examples), atol=1e-4
    )
    assert files(tmp_path) == ["student.metadata.json", "student.tflite"]


def test_litert_dynamic_is_smaller_and_agrees(tmp_path):
    student = randomise(students.text_cnn(3, (500, 32), filters=32), 0.1)
    plain, dynamic = (
        export.litert(
            student,
            tmp_path / f"{quantization}.tflite",
            quantization,
            examples=token_ids(),
            min_agreement=0.8,
        )
        for quantization in (None, "dynamic")
    )
    assert dynamic.size_bytes < 0.4 * plain.size_bytes
    assert plain.max_difference < dynamic.max_difference < 0.1


@pytest.mark.parametrize("name", ["text_cnn", "ngram", "wide"])
def test_litert_of_any_length(name, request, tmp_path):
    student = request.getfixturevalue(name)
    path = tmp_path / "student.tflite"
    export.litert(student, path, examples=token_ids(), sequence_length=None)
    runtime = latency.LiteRTModel(path)
    for length in (13, 5, 1):
        other = token_ids(length=length)
        np.testing.assert_allclose(
            runtime.predict(other)["logits"],
            logits(student, other),
            atol=1e-5,
        )


def test_a_stated_length_is_that_of_texts(tmp_path):
    """A row of numbers beside the tokens is as long as it is."""
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    numbers = keras.Input((3,), name="numbers")
    mean = keras.layers.GlobalAveragePooling1D()
    read = mean(keras.layers.Embedding(20, 4)(tokens))
    both = keras.layers.Concatenate()([read, numbers])
    student = keras.Model([tokens, numbers], keras.layers.Dense(2)(both))
    rows = {
        "token_ids": np.arange(32).reshape(4, 8) % 20,
        "numbers": np.eye(4, 3, dtype="float32"),
    }
    path = tmp_path / "student.tflite"
    export.litert(student, path, examples=rows, sequence_length=8)
    with pytest.raises(ValueError, match="sequence_length=3, .*'token_ids'"):
        export.litert(student, path, examples=rows, sequence_length=3)


@pytest.mark.large
@pytest.mark.parametrize("length", ["examples", None])
@pytest.mark.filterwarnings("ignore:Attention bears")
@pytest.mark.parametrize("quantization", [None, "float16", "dynamic", "int8"])
@pytest.mark.parametrize(
    "name", ["text_cnn", "ngram", "wide", "bilstm", "bert"]
)
def test_litert_of_every_kind(name, quantization, length, request, tmp_path):
    if (name, quantization) == ("bilstm", "int8"):
        pytest.skip("refused: see test_messages_that_need_a_model")
    report = export.litert(
        request.getfixturevalue(name),
        tmp_path / "student.tflite",
        quantization,
        calibration=token_ids(40) if quantization == "int8" else None,
        examples=token_ids(40),
        sequence_length=length,
        min_agreement=0.8,
    )
    # One wrong int8 operation is enough for a difference of 2.
    bounds = {None: 1e-4, "float16": 0.01, "dynamic": 0.1, "int8": 0.5}
    assert report.max_difference < bounds[quantization]


@pytest.mark.parametrize("fails", [False, True])
def test_tracing_leaves_the_recurrent_layers_as_they_were(bilstm, fails):
    layer = bilstm.get_layer("bilstm").forward_layer
    with contextlib.suppress(KeyError), portable_recurrence(bilstm):
        assert layer.use_cudnn is False
        if fails:
            raise KeyError
    assert layer.use_cudnn == "auto"


def test_litert_of_a_loop_without_quantization(bilstm, tmp_path):
    path = tmp_path / "student.tflite"
    report = export.litert(bilstm, path, examples=token_ids())
    assert report.max_difference < 1e-4


@pytest.mark.parametrize("name", ["text_cnn", "bert"])
def test_saved_model_is_the_student(name, request, tmp_path):
    student = request.getfixturevalue(name)
    path = tmp_path / "student"
    report = export.saved_model(student, path, examples=token_ids(40))
    assert report.agreement == 1
    assert report.max_difference < 1e-4
    assert report.size_bytes > 1000
    names = [tensor.name for tensor in student.inputs]
    for examples in token_ids(1), token_ids(5, length=6):
        inputs = {name: np.int32(examples[name]) for name in names}
        np.testing.assert_allclose(
            run_saved_model(path, inputs), logits(student, inputs), atol=1e-4
        )
    assert files(tmp_path) == ["student"]


def test_saved_model_reads_text(text_cnn, preprocessor, tmp_path):
    texts = ["the film is good", "not fun", "very very dull film", "unheard"]
    path = tmp_path / "student"
    report = export.saved_model(
        text_cnn, path, preprocessor, examples=texts, labels=LABELS
    )
    assert report.examples == 4
    np.testing.assert_allclose(
        run_saved_model(path, {"text": texts}),
        logits(text_cnn, preprocessor(texts)),
        atol=1e-5,
    )
    vocabulary = path / "assets.extra" / "vocabulary.txt"
    assert vocabulary.read_text().split() == VOCABULARY


def test_a_saved_model_is_traced_once(
    text_cnn, preprocessor, tmp_path, monkeypatch
):
    traced = []

    def preprocess(*args):
        traced.append(tf.inside_function())
        return _pairs.preprocess(*args)

    stand_in = types.SimpleNamespace(preprocess=preprocess)
    monkeypatch.setattr(_saved_model, "_pairs", stand_in)
    export.saved_model(
        text_cnn, tmp_path / "student", preprocessor, examples=["not good"]
    )
    assert traced.count(True) == 1


LOAD = """
import sys
import tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
print(serve(text=tf.constant(["not good"]))["logits"].numpy().argmax())
assert not {"keras_hub", "keras_distill"} & set(sys.modules)
"""


@pytest.mark.large
def test_saved_model_needs_no_keras_hub(text_cnn, preprocessor, tmp_path):
    path = tmp_path / "student"
    export.saved_model(text_cnn, path, preprocessor, examples=["not good"])
    result = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    expected = logits(text_cnn, preprocessor(["not good"])).argmax()
    assert int(result.stdout) == expected


def test_metadata_is_the_contract(text_cnn, preprocessor, tmp_path):
    path = tmp_path / "student.tflite"
    report = export.litert(
        text_cnn,
        path,
        examples=token_ids(),
        labels=LABELS,
        tokenizer=preprocessor.tokenizer,
    )
    metadata = json.loads((tmp_path / "student.metadata.json").read_text())
    assert metadata["labels"] == LABELS
    assert metadata["inputs"] == [
        {"name": name, "dtype": "int32", "shape": [1, LENGTH]}
        for name in ("token_ids", "padding_mask")
    ]
    assert metadata["outputs"] == [
        {"name": "logits", "dtype": "float32", "shape": [None, 3]}
    ]
    assert metadata["sequence_length"] == LENGTH
    assert metadata["padding_id"] == 0
    assert metadata["special_tokens"]["[SEP]"] == 3
    assert metadata["quantization"] is None
    assert metadata["check"]["agreement"] == report.agreement
    (vocabulary,) = metadata["vocabulary_files"]
    assert (tmp_path / vocabulary).read_text().split() == VOCABULARY


def test_a_later_export_leaves_no_vocabulary_of_an_earlier_one(
    text_cnn, preprocessor, tmp_path
):
    path = tmp_path / "student.tflite"
    for tokenizer in preprocessor.tokenizer, None:
        export.litert(text_cnn, path, examples=token_ids(), tokenizer=tokenizer)
    assert files(tmp_path) == ["student.metadata.json", "student.tflite"]


def corrupt_convert(student, *args):
    """Converts a student with other weights."""
    twin = keras.models.clone_model(student)
    twin.set_weights([-w for w in student.get_weights()])
    return conversion.convert(twin, *args)


def test_a_wrong_file_is_not_published(text_cnn, tmp_path, monkeypatch):
    monkeypatch.setattr(_litert, "convert", corrupt_convert)
    path = tmp_path / "student.tflite"
    with pytest.raises(export.ExportError, match=r"less than min_agreement"):
        export.litert(text_cnn, path, examples=token_ids(40))
    assert files(tmp_path) == []


def test_a_failure_keeps_the_earlier_file(text_cnn, tmp_path, monkeypatch):
    path = tmp_path / "student.tflite"
    export.litert(text_cnn, path, examples=token_ids())
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(_litert, "convert", corrupt_convert)
    with pytest.raises(export.ExportError):
        export.litert(text_cnn, path, examples=token_ids(40))
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_wrong_saved_model_is_not_published(text_cnn, tmp_path, monkeypatch):
    save = tf.saved_model.save

    def corrupt_save(module, *args, **kwargs):
        for variable in module.student_variables:
            variable.assign(-variable)
        save(module, *args, **kwargs)

    student = keras.models.clone_model(text_cnn)
    student.set_weights(text_cnn.get_weights())
    path = tmp_path / "student"
    export.saved_model(student, path, examples=token_ids(40))
    before = (path / "assets.extra" / "metadata.json").read_bytes()
    monkeypatch.setattr(tf.saved_model, "save", corrupt_save)
    with pytest.raises(export.ExportError, match="Nothing was written"):
        export.saved_model(student, path, examples=token_ids(40))
    assert files(tmp_path) == ["student"]
    assert (path / "assets.extra" / "metadata.json").read_bytes() == before


def test_an_earlier_saved_model_is_replaced(text_cnn, tmp_path):
    path = tmp_path / "student"
    for labels in LABELS, LABELS[::-1]:
        export.saved_model(text_cnn, path, examples=token_ids(), labels=labels)
    metadata = (path / "assets.extra" / "metadata.json").read_text()
    assert json.loads(metadata)["labels"] == LABELS[::-1]
    assert files(tmp_path) == ["student"]


@pytest.mark.parametrize("name", ["notes", "notes.tflite"])
def test_what_is_no_export_is_not_replaced(text_cnn, name, tmp_path):
    path = tmp_path / name
    exporter = export.litert if path.suffix else export.saved_model
    if path.suffix:
        path.write_text("mine")
    else:
        path.mkdir()
        (path / "mine").touch()
    with pytest.raises(FileExistsError, match="an earlier export"):
        exporter(text_cnn, path, examples=token_ids())


def distiller_of(student):
    """A model that holds a `student`, as a Distiller does."""
    model = keras.Sequential([keras.layers.Dense(2)])
    model.student = student
    return model


OPTIONS = [
    ({"quantization": "int3"}, r"one of \[None, 'float16', 'dynamic', 'int8'"),
    ({"quantization": "int8"}, "`calibration` is required"),
    ({"calibration": token_ids()}, "unused otherwise"),
    ({"path": "student.bin"}, r"must end in `.tflite`. Received: path='stu"),
    ({"examples": None}, "real inputs of the student"),
    ({"examples": {"token_ids": np.ones((2, 8))}}, r"\['padding_mask'\]"),
    ({"examples": ["a film"]}, "does not tokenise"),
    ({"labels": ["no", "yes"]}, "2 labels for logits of width {'logits': 3}"),
    ({"labels": "abc"}, "one for each logit"),
    ({"min_agreement": 99}, "Received: min_agreement=99"),
    ({"task": "ranking"}, "Received: task='ranking'"),
    ({"task": "regression"}, "tolerance=None"),
    ({"tolerance": 0.1}, "tolerance=0.1"),
    ({"tokenizer": "bert"}, "a KerasHub tokenizer"),
    ({"sequence_length": 16}, "sequence_length=16"),
    ({"sequence_length": "long"}, "sequence_length='long'"),
    ({"student": "student.keras"}, "must be a `keras.Model`"),
    ({"student": keras.Sequential([keras.layers.Dense(2)])}, "unbuilt"),
]


@pytest.mark.parametrize(("arguments", "message"), OPTIONS)
def test_message(arguments, message, text_cnn, tmp_path, monkeypatch):
    monkeypatch.setattr(_litert, "convert", pytest.fail)
    arguments = {
        "student": text_cnn,
        "examples": token_ids(),
        "path": "student.tflite",
        **arguments,
    }
    path = tmp_path / arguments.pop("path")
    if path.name == "student.bin":
        monkeypatch.chdir(tmp_path)
        path = pathlib.Path(path.name)
    with pytest.raises(ValueError, match=message):
        export.litert(arguments.pop("student"), path, **arguments)
    assert files(tmp_path) == []


def test_messages_that_need_a_model(text_cnn, bilstm, tmp_path):
    path = tmp_path / "student.tflite"
    with pytest.raises(ValueError, match="Pass `distiller.student`"):
        export.litert(distiller_of(text_cnn), path, examples=token_ids())
    with pytest.raises(ValueError, match="Use 'dynamic'"):
        export.litert(
            bilstm,
            path,
            "int8",
            token_ids(),
            examples=token_ids(),
        )
    with pytest.raises(ValueError, match="shapes of `examples`"):
        export.litert(
            text_cnn,
            path,
            "int8",
            token_ids(length=5),
            examples=token_ids(),
        )


def test_saved_model_messages(text_cnn, preprocessor, tmp_path):
    path = tmp_path / "student"
    with pytest.raises(ValueError, match="must be a folder"):
        export.saved_model(
            text_cnn, path.with_suffix(".keras"), examples=token_ids()
        )
    with pytest.raises(ValueError, match="a list of strings"):
        export.saved_model(
            text_cnn, path, preprocessor, examples=token_ids()["token_ids"]
        )
    with pytest.raises(ValueError, match="a KerasHub preprocessor"):
        export.saved_model(text_cnn, path, str.lower, examples=["a"])
    with pytest.raises(ValueError, match="brings its own"):
        export.saved_model(
            text_cnn,
            path,
            preprocessor,
            examples=["a"],
            tokenizer=preprocessor.tokenizer,
        )
    assert files(tmp_path) == []


def test_a_missing_runtime_says_the_pip_line(monkeypatch, text_cnn, tmp_path):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    monkeypatch.setattr(_litert, "convert", pytest.fail)
    path = tmp_path / "student.tflite"
    with pytest.raises(ImportError, match="pip install ai-edge-litert"):
        export.litert(text_cnn, path, examples=token_ids())
    assert files(tmp_path) == []


TASKS = [
    ({}, [[1.0, 2.0], [3.0, 1.0]], [[1.0, 9.0], [1.0, 1.1]], 0.5),
    (
        {"task": "multi_label"},
        [[1.0, -2.0], [3.0, 1.0]],
        [[9.0, -0.1], [3.0, -0.1]],
        0.5,
    ),
    (
        {"task": "regression", "tolerance": 0.1},
        [[1.0], [2.0], [3.0], [4.0]],
        [[1.05], [2.2], [2.8], [9.0]],
        0.25,
    ),
    ({}, [[1.0, 0.0]], [[np.nan, np.nan]], 0.0),
]


def held_to(task="classification", tolerance=None):
    return ExportOptions(None, None, 0, task, tolerance)


@pytest.mark.parametrize(("options", "expected", "actual", "value"), TASKS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_agreement(options, expected, actual, value):
    options = held_to(**options)
    result = compare(
        {"logits": np.array(expected)}, {"logits": np.array(actual)}, options
    )
    assert result["agreement"] == value


def test_agreement_counts_tokens_not_padding():
    expected = np.zeros((1, 3, 2)) + [1.0, 0.0]
    actual = expected.copy()
    actual[0, 1:] = [0.0, 1.0]
    valid = np.array([[True, True, False]])
    options = held_to()
    result = compare({"y": expected}, {"y": actual}, options, valid)
    assert result["agreement"] == 0.5
    assert result["mean_difference"] == 0.5


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(50, 4)
        self.head = keras.layers.Dense(2)

    def call(self, inputs):
        x = self.embedding(inputs["token_ids"])
        x = keras.ops.where(inputs["padding_mask"][..., None], x, 0.0)
        return {"a": self.head(keras.ops.mean(x, axis=1)), "b": x[..., 0]}


def test_a_subclassed_student_with_two_outputs(tmp_path):
    student, examples = Subclassed(), token_ids()
    del examples["segment_ids"]
    student(examples)
    path = tmp_path / "student.tflite"
    export.litert(student, path, examples=examples)
    outputs = latency.LiteRTModel(path).predict(examples)
    expected = student(examples)
    for name in "a", "b":
        np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5)


@pytest.mark.parametrize("structure", [dict, list])
def test_inputs_go_where_their_names_say(structure):
    inputs = {name: keras.Input((2,), name=name) for name in ("b", "a")}
    x = inputs["a"] - 2 * inputs["b"]
    nested = inputs if structure is dict else list(inputs.values())
    student = keras.Model(nested, x)
    examples = {name: np.full((3, 2), i) for i, name in enumerate("abc")}
    read = read_inputs(student, examples)
    outputs = read.predict(student, read.arrays(examples), batch_size=2)
    np.testing.assert_array_equal(outputs["logits"], np.full((3, 2), -2))


@pytest.mark.parametrize(
    ("make", "name"),
    [(export.litert, "a.tflite"), (export.saved_model, "a")],
)
def test_names_that_no_signature_can_have_are_told(make, name, tmp_path):
    x = keras.Input((3,), name="my-input")
    student = keras.Model(x, keras.layers.Dense(2)(x))
    with pytest.raises(ValueError, match="names of letters.*'my-input'"):
        make(student, tmp_path / name, examples=np.eye(3))


def test_two_kinds_of_files_do_not_share_what_is_told_of_them(tmp_path):
    student = students.static(3, embeddings=(9, 4))
    ids = np.array([[1, 5, 0]], "int32")
    rows = {"token_ids": ids, "padding_mask": np.int32(ids > 0)}
    export.vectors(student, tmp_path / "a.npz", examples=rows)
    with pytest.raises(FileExistsError, match="more than the ending.*as npz"):
        export.litert(student, tmp_path / "a.tflite", examples=rows)
    export.vectors(student, tmp_path / "a.npz", examples=rows)


def test_latency_is_the_median_after_the_warm_up(monkeypatch):
    seconds = iter([0.0, 0.001, 1.0, 1.002, 2.0, 2.5])
    monkeypatch.setattr(latency.time, "perf_counter", lambda: next(seconds))
    calls = []
    value = export.measure_latency(
        lambda row: calls.append(row.shape) or row,
        np.zeros((4, 2)),
        repeats=3,
        warmup=2,
    )
    assert value == pytest.approx(2.0)
    assert calls == [(1, 2)] * 5


def test_latency_messages(text_cnn, tmp_path):
    with pytest.raises(ValueError, match="Received: model='student'"):
        export.measure_latency("student", token_ids())
    path = tmp_path / "student.tflite"
    export.litert(text_cnn, path, examples=token_ids())
    assert export.measure_latency(path, token_ids(), repeats=2) > 0
    with pytest.raises(ValueError, match=r"without \['padding_mask'\]"):
        export.measure_latency(path, {"token_ids": np.ones((1, 8))})


@pytest.fixture
def wrong_files(monkeypatch):
    predict = _litert.LiteRTModel.predict

    def wrong(model, arrays):
        return {key: -value for key, value in predict(model, arrays).items()}

    monkeypatch.setattr(_litert.LiteRTModel, "predict", wrong)


@pytest.mark.parametrize(
    ("trained_so", "advice"), [(False, "Train the student"), (True, "finer")]
)
@pytest.mark.usefixtures("wrong_files")
def test_int4_that_is_not_the_student(text_cnn, tmp_path, trained_so, advice):
    student = text_cnn
    if trained_so:
        student = QuantizationAware(student, weights="int4")
    with pytest.raises(export.ExportError, match=f"err most.*{advice}"):
        export.litert(
            student, tmp_path / "a.tflite", "int4", examples=token_ids()
        )


@pytest.mark.parametrize(
    ("name", "advice"),
    [("bert", "Attention.*quantization='dynamic'"), ("text_cnn", "finer")],
)
@pytest.mark.usefixtures("wrong_files")
def test_int8_that_is_not_the_student(name, advice, request, tmp_path):
    with (
        warnings.catch_warnings(record=True, action="always") as told,
        pytest.raises(export.ExportError, match=advice),
    ):
        export.litert(
            request.getfixturevalue(name),
            tmp_path / "a.tflite",
            "int8",
            token_ids(8),
            examples=token_ids(),
            sequence_length="examples",
        )
    assert files(tmp_path) == []
    before = [str(one.message) for one in told]
    assert any("Attention" in text for text in before) == (name == "bert")


def test_a_loop_is_not_calibrated(tmp_path):
    class Loop(keras.Layer):
        def call(self, x):
            return keras.ops.while_loop(
                lambda y: keras.ops.sum(y) < 10.0, lambda y: (y + 1.0,), (x,)
            )[0]

    x = keras.Input((2,), name="x")
    student = keras.Model(x, Loop()(x))
    examples = np.ones((3, 2))
    with pytest.raises(export.ExportError, match="cannot calibrate a loop"):
        export.litert(
            student, tmp_path / "a.tflite", "int8", examples, examples=examples
        )
    assert files(tmp_path) == []


def test_an_operation_litert_lacks_is_named(tmp_path):
    x = keras.Input((4,), name="x")
    y = keras.layers.Lambda(tf.linalg.trace, output_shape=())(
        keras.ops.reshape(x, (-1, 2, 2))
    )
    student = keras.Model(x, keras.ops.reshape(keras.ops.erfinv(y), (-1, 1)))
    with pytest.raises(export.ExportError, match=r"built-in operations"):
        export.litert(
            student, tmp_path / "a.tflite", examples=np.ones((3, 4)) / 9
        )
    assert files(tmp_path) == []


HOSTILE = [
    "<script>alert(1)</script> & &lt; <!-- x",
    "# title\n\n---\n- one\u2028| a | b |",
    "*a* _b_ __c__ ~~d~~ `e` $x$ \\*f\\*",
    "[a](https://x) ![b](c) [d]: e <https://f>",
    "1. one\n2) two",
    "3)",
    "===",
    "text_cnn, sst-2 (fine)",
    "",
]


def shown(markdown):
    """The blocks of a text, and the signs in it if they are text alone."""
    tokens = markdown_it.MarkdownIt("gfm-like", {"linkify": False}).parse(
        markdown
    )
    leaves = [leaf for token in tokens for leaf in token.children or ()]
    assert {leaf.type for leaf in leaves} <= {"text", "text_special"}
    blocks = [token.tag for token in tokens if token.tag]
    return blocks, "".join(leaf.content for leaf in leaves)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("frame", ["{}", "# {}", "- {}", "| {} |\n| --- |"])
def test_escaped_text_is_shown_and_does_nothing(text, frame):
    blocks, found = shown(frame.format(escape(text)))
    assert found == " ".join(text.split())
    if text:
        assert blocks == shown(frame.format("plain"))[0]


def test_a_number_is_no_list():
    assert escape("349.8 kB") == "349.8 kB"


def test_a_card_shows_what_things_are_called(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = ['say "no"', "`yes`\n```"]
    x = keras.Input((3,), name="x")
    student = keras.Model(x, keras.layers.Dense(2)(x))
    examples = {"x": np.eye(3)}
    files = ["s.tflite", 'my "own"']
    export.litert(student, files[0], examples=examples, labels=names)
    export.saved_model(student, files[1], examples=examples, labels=names)
    card = export.model_card(tmp_path, "*T*\n# U", {"Data": "None."}, files)
    text = card.read_text()
    assert "\n# \\*T\\* # U\n" in text
    for block in text.split("```python\n")[1:]:
        exec(block.split("\n```\n")[0], {})
    assert capsys.readouterr().out == f"{names[0]}\n" * 2
