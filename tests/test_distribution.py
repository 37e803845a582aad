"""On several devices and workers as on one, and what their layouts divide."""

import types

import keras
import keras_hub
import numpy as np
import pytest
import tiny
import tiny_devices

import keras_distill as kd
from keras_distill._replicas import replicas

large = pytest.mark.large
TENSORFLOW = keras.backend.backend() == "tensorflow"


@large
@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", list(tiny_devices.KINDS))
def test_many_devices_are_one(tmp_path, backend):
    pytest.importorskip(backend)
    worst = tiny_devices.differences(backend, tmp_path)
    assert len(worst) == 9 * (len(tiny_devices.KINDS[backend]) - 1)
    # On different devices something was added up in another order.
    wrong = {k: pair for k, pair in worst.items() if not 0 < max(pair) < 1e-5}
    assert not wrong


def worker(port, folder, *deadly):
    """Two processes that train together in `folder`."""
    return tiny_devices.processes(
        "worker_job.py",
        *((index, port, folder, *deadly) for index in (0, 1)),
    )


@large
@pytest.mark.skipif(not TENSORFLOW, reason="tf.distribute")
def test_workers_go_on_where_one_was_killed(tmp_path):
    port = tiny_devices.free_port
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    tiny_devices.outputs(worker(port(), undisturbed))
    chief, other = worker(port(), disturbed, 3)
    other.communicate()
    assert other.returncode == -9
    chief.kill()
    chief.communicate()
    tiny_devices.outputs(worker(port(), disturbed))
    for index in (0, 1):
        expected, found = (
            dict(np.load(folder / f"end_{index}.npz"))
            for folder in (undisturbed, disturbed)
        )
        assert (expected.pop("done"), found.pop("done")) == (0, 3)
        assert tiny.equal(list(expected.values()), list(found.values()))


class Resolver:
    """The cluster of the second of three workers."""

    task_type, task_id = "worker", 0

    def cluster_spec(self):
        import tensorflow as tf

        return tf.train.ClusterSpec(
            {"chief": ["a:1"], "worker": ["a:2", "a:3"], "evaluator": ["a:4"]}
        )


@pytest.mark.skipif(not TENSORFLOW, reason="tf.distribute")
def test_who_writes():
    from keras_distill import _replicas

    strategy = types.SimpleNamespace(cluster_resolver=Resolver())
    model = types.SimpleNamespace(distribute_strategy=strategy)
    assert _replicas.workers(model) == 3
    assert _replicas.worker(model) == 1
    strategy.cluster_resolver.task_type = "chief"
    assert _replicas.worker(model) == 0


@pytest.mark.parametrize("number", [0, 1])
def test_only_the_first_worker_writes(tmp_path, monkeypatch, number):
    monkeypatch.setattr(kd.callbacks.backup, "worker", lambda _: number)
    model = tiny.distiller(tiny.mlp(), tiny.mlp(), run_eagerly=True)
    backup = kd.callbacks.Backup(tmp_path)
    model.fit(*tiny.data(8), epochs=2, callbacks=[backup], verbose=0)
    assert bool(list(tmp_path.iterdir())) == (number == 0)
    assert set(backup.logs) >= {"loss", "hard_loss"}


def test_workers_without_a_folder_in_common(tmp_path, monkeypatch):
    monkeypatch.setattr(kd.callbacks.backup, "of_workers", lambda *_: [2, 0])
    backup = kd.callbacks.Backup(tmp_path)
    with pytest.raises(ValueError, match=r"they share.*epochs \[2, 0\]"):
        backup.restore(tiny.distiller(tiny.mlp(), tiny.mlp()))


@pytest.mark.parametrize("number", [0, 1])
def test_each_worker_keeps_its_own_best(tmp_path, monkeypatch, number):
    from keras_distill.callbacks import stage_switch

    monkeypatch.setattr(stage_switch, "worker", lambda _: number)
    stages = [kd.Stage(1), kd.Stage(1, restore_best="loss")]
    model = tiny.distiller(tiny.mlp(), tiny.mlp(), run_eagerly=True)
    switch = kd.callbacks.StageSwitch(stages, directory=tmp_path)
    model.fit(*tiny.data(8), epochs=2, callbacks=[switch], verbose=0)
    assert (tmp_path / "worker_1").exists() == (number == 1)
    assert (tmp_path / "stage_0.json").exists() == (number == 0)


@pytest.mark.skipif(not TENSORFLOW, reason="tf.distribute")
def test_other_strategies_are_refused():
    strategy = types.SimpleNamespace(num_replicas_in_sync=np.int64(2))
    model = types.SimpleNamespace(distribute_strategy=strategy)
    with pytest.raises(ValueError, match="MultiWorker.* Received: Simple"):
        replicas(model)


# -- What is divided ----------------------------------------------------------


def mesh(count=2):
    """A mesh of devices that need not exist."""
    devices = np.array([f"cpu:{index}" for index in range(count)])
    return keras.distribution.DeviceMesh(
        (1, count), ("batch", "model"), devices.reshape(1, count)
    )


def divided(model, count=2):
    """Dict from the variables' paths to the axis that is divided, or None."""
    layouts = kd.layout_map(mesh(count), model)
    found = {}
    for variable in model.variables:
        layout = layouts[variable.path]
        axes = layout.axes if layout else ()
        found[variable.path] = axes.index("model") if "model" in axes else None
        assert axes == () or len(axes) == len(variable.shape)
    return found


SMALL = {"vocabulary_size": 20, "num_layers": 2, "hidden_dim": 8}
HEADS = SMALL | {"num_heads": 4, "intermediate_dim": 16}
QUERIES = SMALL | {
    "num_query_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_dim": 16,
}
# Where the heads are: of queries, of what puts heads together again.
FAMILIES = {
    "Bert": (HEADS, 1, 0),
    "Roberta": (HEADS, 1, 0),
    "DebertaV3": (HEADS, 1, 0),
    "GPT2": (HEADS, 1, 0),
    "OPT": (HEADS, 1, 0),
    "Bloom": (HEADS, 1, 0),
    "GPTNeoX": (HEADS, 1, 0),
    "Bart": (HEADS, 1, 0),
    "Llama": (QUERIES, 1, 0),
    "Mistral": (QUERIES, 1, 0),
    "Qwen": (QUERIES, 1, 0),
    "Qwen3": (QUERIES | {"head_dim": 2}, 1, 0),
    "Phi3": (QUERIES, 1, 0),
    "Gemma": (QUERIES | {"head_dim": 2, "intermediate_dim": 32}, 0, 0),
}
READ = ("attention_output/kernel", "output_dense/kernel", "linear/kernel")


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_divided_by_heads_and_widths(family):
    """Every matrix inside a layer is: what makes units and what reads them."""
    options, heads, reads = FAMILIES[family]
    model = getattr(keras_hub.models, f"{family}Backbone")(**options)
    seen = set()
    for path, axis in divided(model).items():
        *_, layer, name = path.split("/")
        if "norm" in layer:
            assert axis is None
        elif layer == "token_embedding" and name == "embeddings":
            assert axis == 0
        elif ("layer" in path or "block" in path) and name == "kernel":
            is_head = layer.split("_")[0] in ("query", "key", "value")
            is_reader = path.endswith(READ)
            expected = reads if is_reader else heads if is_head else 1
            assert axis == expected, path
            seen.add((is_head, is_reader))
        elif ("layer" in path or "block" in path) and name == "bias":
            is_reader = path.replace("bias", "kernel").endswith(READ)
            assert axis == (None if is_reader else 0), path
    assert {(True, False), (False, True), (False, False)} == seen


def test_units_are_divided_in_every_other_layer():
    widths = [(f"dense_{i}", 8) for i in range(4)] + [("logits", 3)]
    layers = [keras.layers.Dense(size, name=name) for name, size in widths]
    model = keras.Sequential([keras.Input((5,)), *layers])
    found = divided(model)
    kernels = [found[layer.kernel.path] for layer in model.layers]
    assert kernels == [1, 0, 1, 0, None]
    biases = [found[layer.bias.path] for layer in model.layers]
    assert biases == [0, None, 0, None, None]


def test_what_cannot_be_shared_evenly_is_everywhere():
    backbone = keras_hub.models.LlamaBackbone(
        **QUERIES | {"num_key_value_heads": 1, "vocabulary_size": 21}
    )
    found = divided(backbone)
    first = "transformer_layer_0/self_attention"
    assert found[f"{first}/query/kernel"] == 1
    assert found[f"{first}/key/kernel"] is None
    assert found["token_embedding/embeddings"] is None


def test_a_model_of_one_layer_tells_those_of_many():
    layouts = kd.layout_map(
        mesh(), keras_hub.models.GPT2Backbone(**HEADS | {"num_layers": 1})
    )
    large = keras_hub.models.GPT2Backbone(**HEADS | {"num_layers": 3})
    path = "transformer_layer_2/self_attention/query/kernel"
    assert path in {variable.path for variable in large.variables}
    assert layouts[path].axes == (None, "model", None)


def test_a_model_that_is_made_again():
    """Keras gives it another number, which is in the paths of its weights."""
    layouts, again = kd.layout_map(mesh(), tiny.sequential()), tiny.sequential()
    hidden, logits = (layer.kernel.path for layer in again.layers)
    assert hidden == "sequential_1/hidden/kernel"
    assert layouts[hidden].axes == (None, "model")
    assert layouts[logits].axes == ("model", None)


def test_subclassed_models_are_divided_by_their_kinds_of_layers():
    model = tiny.subclassed()
    found = divided(model)
    assert found[model.hidden.kernel.path] == 1
    assert found[model.hidden.bias.path] == 0
    assert found[model.logits.kernel.path] == 0
    assert found[model.logits.bias.path] is None


def test_models_that_do_not_agree():
    with pytest.raises(ValueError, match="hidden/kernel.*other names"):
        kd.layout_map(mesh(), tiny.mlp(8), tiny.mlp(7))
    with pytest.raises(ValueError, match="mesh's axes.*'rows'"):
        kd.layout_map(mesh(), tiny.mlp(), axis="rows")
