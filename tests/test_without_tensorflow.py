"""Training on JAX where TensorFlow is not installed, as on GPU machines."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import pathlib
import sys

for name in ("tensorflow", "tensorflow_text", "tensorflow_datasets"):
    sys.modules[name] = None  # Not to be imported.

import keras
import numpy as np
import tiny
import tiny_gkd

import keras_distill as kd

table = pathlib.Path(sys.argv[1], "texts.csv")
rows = [f"text {i},{('no', 'yes')[i % 2]}" for i in range(60)]
table.write_text("\\n".join(["text,label", *rows]))
splits = kd.data.load(str(table))
assert splits.label_names == ["no", "yes"] and len(splits.train) > 30
prompts = table.with_suffix(".txt")
prompts.write_text("\\n".join(rows))
assert len(kd.data.load_prompts(str(prompts)).train) > 30
assert kd.data.load_images("digits").image_shape == (8, 8, 1)

x, y = tiny.data(32)
hidden = kd.Match("hidden", "hidden", kd.losses.RKDDistance())
teacher = kd.Ensemble([tiny.mlp(16), tiny.mlp(12, seed=3)])
stages = kd.callbacks.StageSwitch([
    kd.Stage(1, hard_weight=0.0), kd.Stage(1, restore_best="loss")])
model = tiny.distiller(tiny.mlp(16), tiny.mlp(8), [hidden])
backup = kd.callbacks.Backup(sys.argv[1] + "/backup")
model.fit(x, y, epochs=2, verbose=0, callbacks=[stages, backup])
assert np.isfinite(model.evaluate(x, y, verbose=0))
tiny.distiller(teacher, tiny.mlp(8)).fit(x, y, verbose=0)

aware = kd.quantization.QuantizationAware(tiny.mlp(8), weights="int4")
aware.compile("adam", tiny.CROSS_ENTROPY)
aware.fit(x, y, verbose=0)
smaller = kd.pruning.prune(tiny.mlp(16), keep=0.5)
assert smaller.count_params() < tiny.mlp(16).count_params()
found = kd.pruning.search(
    tiny.mlp(16), {"parameters": 60}, (x, y))
mesh = keras.distribution.DeviceMesh((1, 1), ("batch", "model"), ["cpu:0"])
assert kd.layout_map(mesh, tiny.mlp(16))["hidden/kernel"]
kd.students.text_cnn(2, (20, 4), filters=4)
kd.students.shrink(tiny.bert(2, 8), num_layers=1)

preprocessor = kd.gkd.GKDPreprocessor(
    None, max_completion_length=tiny_gkd.ROOM, max_prompt_length=6,
    start_token_id=None, stop_token_id=tiny_gkd.STOP)
prompts = [[5, 6], [7, 8, 9], [4]] * 3
batches = preprocessor.batches(
    prompts, [[10, 11]] * 9, batch_size=4, seed=1)
assert isinstance(batches, keras.utils.PyDataset)
first = [batches[i]["token_ids"] for i in range(len(batches))]
batches.on_epoch_end()
second = [batches[i]["token_ids"] for i in range(len(batches))]
assert sum(map(len, first)) == sum(map(len, second)) == 9
assert not all(np.array_equal(a, b) for a, b in zip(first, second))
model = tiny_gkd.distiller(compiled=True)
assert np.isfinite(model.fit(batches, verbose=0, epochs=2).history["loss"][1])
assert int(model.state.step.numpy()) == 2 * len(batches)
"""


@pytest.mark.large
def test_trainings_do_without(request, tmp_path):
    pytest.importorskip("jax")
    result = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", SCRIPT, tmp_path],
        capture_output=True,
        text=True,
        cwd=request.path.parent,
        env=os.environ | {"KERAS_BACKEND": "jax"},
    )
    assert result.returncode == 0, result.stderr[-3000:]
