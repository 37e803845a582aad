"""Cut models as files, in a process that has no keras_distill."""

import json
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest
import tiny_graphs
from keras import layers

from keras_distill import export
from keras_distill import pruning
from keras_distill import students

pytestmark = [
    pytest.mark.large,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="JAX exports through TensorFlow, tested with it",
    ),
]
ROWS, LENGTH = 4, 7
LOADED = """
import json, pathlib, sys
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

found = {}
for place in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    rows = dict(np.load(place / "rows.npz"))
    served = tf.saved_model.load(place / "saved").signatures["serving_default"]
    lite = Interpreter(str(place / "lite.tflite")).get_signature_runner()
    count = len(next(iter(rows.values())))
    single = [{k: v[i : i + 1] for k, v in rows.items()} for i in range(count)]
    found[place.name] = {
        "SavedModel": np.concatenate([
            served(**{k: tf.constant(v) for k, v in row.items()})["logits"]
            for row in single
        ]).tolist(),
        "LiteRT": np.concatenate(
            [lite(**row)["logits"] for row in single]
        ).tolist(),
    }
assert "keras_distill" not in sys.modules
print(json.dumps(found))
"""


def drawn(seed):
    rng = np.random.default_rng(seed)
    model = tiny_graphs.drawn(seed)
    rows = rng.normal(size=(ROWS, *tiny_graphs.SHAPE)).astype("float32")
    return model, {model.inputs[0].name: rows}


def texts(model, *names):
    ids = np.arange(ROWS * LENGTH, dtype="int32").reshape(ROWS, LENGTH) % 9
    mask = np.int32(np.arange(LENGTH) < [[7], [3], [5], [1]])
    held = {"token_ids": ids * mask, "padding_mask": mask}
    held["segment_ids"] = np.zeros_like(ids)
    return model, {name: held[name] for name in names}


def of_tokens(*held):
    inputs = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    x = layers.Embedding(9, 6)(inputs)
    for layer in held:
        x = layer(x)
    return texts(keras.Model(inputs, layers.Dense(2)(x)), "token_ids")


def attention():
    inputs = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    x = layers.Embedding(9, 8)(inputs)
    x = layers.Add()([x, layers.MultiHeadAttention(4, 2)(x, x)])
    x = layers.EinsumDense("abc,cd->abd", (None, 6), bias_axes="d")(x)
    x = layers.GlobalAveragePooling1D()(x)
    return texts(keras.Model(inputs, layers.Dense(2)(x)), "token_ids")


def encoder():
    backbone = keras_hub.models.BertBackbone(9, 2, 2, 8, 16)
    model = students.mean_pooled_classifier(backbone, 2)
    return texts(model, "token_ids", "padding_mask", "segment_ids")


def unfolded():
    model, rows = encoder()
    return pruning.unfold(model), rows


MODELS = {
    **{f"drawn_{seed}": lambda seed=seed: drawn(seed) for seed in range(6)},
    "recurrent": lambda: of_tokens(
        layers.LSTM(5, return_sequences=True),
        layers.GRU(4, return_sequences=True),
        layers.SimpleRNN(4),
    ),
    "bidirectional": lambda: of_tokens(layers.Bidirectional(layers.GRU(4))),
    "attention": attention,
    "encoder": encoder,
    "unfolded": unfolded,
    "text_cnn": lambda: texts(
        students.text_cnn(2, (9, 8), filters=4), "token_ids", "padding_mask"
    ),
    "bilstm": lambda: texts(
        students.bilstm(2, (9, 8), units=4), "token_ids", "padding_mask"
    ),
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """What each cut model gives here, and its files in another process."""
    folder, here = tmp_path_factory.mktemp("cut"), {}
    for name, make in MODELS.items():
        keras.utils.set_random_seed(0)
        model, rows = make()
        smaller = pruning.prune(model, 0.5)
        assert smaller.count_params() < model.count_params()
        place = folder / name
        for kind, path in (
            (export.saved_model, place / "saved"),
            (export.litert, place / "lite.tflite"),
        ):
            kind(smaller, path, examples=rows)
        np.savez(place / "rows.npz", **rows)
        x = rows if len(rows) > 1 else next(iter(rows.values()))
        here[name] = np.asarray(smaller(x, training=False))
    command = [sys.executable, "-c", LOADED, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return here, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("form", ["SavedModel", "LiteRT"])
@pytest.mark.parametrize("name", MODELS)
def test_files_compute_what_the_cut_model_does(loaded, name, form):
    here, there = loaded
    scale = 1 + np.abs(here[name]).max()
    np.testing.assert_allclose(there[name][form], here[name], atol=1e-4 * scale)
