"""Traces, checkpoints, and what a killed training goes on with."""

import subprocess
import sys

import h5py
import keras
import numpy as np
import pytest
import tiny

from keras_distill import losses
from keras_distill.matching import Match

X, Y = tiny.data()


def match(**kwargs):
    loss = keras.losses.MeanSquaredError()
    return Match("hidden", "hidden", loss, name="hidden", **kwargs)


def make(seed=1, **kwargs):
    keras.utils.set_random_seed(seed)
    teacher, student = tiny.mlp(16), tiny.mlp(8, seed=seed)
    options = {"optimizer": keras.optimizers.Adam(0.01)} | kwargs
    return tiny.distiller(teacher, student, [match()], **options)


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}])
def test_an_assignment_is_no_retrace(options):
    distiller = make(optimizer=keras.optimizers.SGD(0.0), **options)
    first = distiller.train_on_batch(X, Y, return_dict=True)
    traces = distiller.traces
    distiller.schedules.temperatures["soft"].assign(8.0)
    second = distiller.train_on_batch(X, Y, return_dict=True)
    distiller.schedules.factors["soft"].assign(0.0)
    distiller.schedules.weights_by_term["hidden"].assign(0.0)
    third = distiller.train_on_batch(X, Y, return_dict=True)
    assert distiller.traces == traces
    t, s = (model(X) for model in (distiller.teacher, distiller.student))
    for logs, temperature in ((first, 2.0), (second, 8.0)):
        assert float(logs["soft_loss"]) == pytest.approx(
            float(losses.ForwardKL(temperature)(t, s)), rel=1e-4
        )
    assert float(third["loss"]) == pytest.approx(
        0.5 * float(third["hard_loss"]), rel=1e-5
    )


def test_the_first_step_is_traced_once():
    distiller = make()
    distiller.fit(X, Y, epochs=2, verbose=0)
    assert distiller.traces == 1


def test_the_callers_loss_keeps_its_number():
    loss = losses.ForwardKL(3.0)
    distiller = make(soft_loss=loss)
    distiller.schedules.temperatures["soft"].assign(8.0)
    assert loss.temperature == 3.0
    again = make(soft_loss=loss)
    assert float(again.schedules.temperatures["soft"]) == 3.0


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.set_losses(soft_loss=losses.LogitsMSE()),
        lambda d: d.set_losses(
            loss=keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, ignore_class=0
            )
        ),
        lambda d: d.set_active(hard=False),
        lambda d: d.set_active(matches=[]),
    ],
)
def test_a_change_of_terms_is_one_retrace(change):
    distiller = make()
    for _ in range(2):
        before = distiller.train_on_batch(X, Y, return_dict=True)
    traces = distiller.traces
    change(distiller)
    assert distiller.traces == traces
    for _ in range(2):
        after = distiller.train_on_batch(X, Y, return_dict=True)
    first = distiller.traces
    for _ in range(3):
        distiller.train_on_batch(X, Y)
    assert distiller.traces == first
    assert first - traces <= 2  # The step, and Keras' symbolic build.
    assert {k: float(v) for k, v in before.items()} != {
        k: float(v) for k, v in after.items()
    }


def test_terms_that_are_off_leave_the_logs():
    distiller = make()
    distiller.set_active(hard=False, soft=True, matches=[])
    assert sorted(distiller.fit(X, Y, verbose=0).history) == [
        "loss",
        "soft_loss",
    ]
    distiller.set_active(hard=True, soft=False, matches=["hidden"])
    history = distiller.fit(X, Y, verbose=0).history
    assert sorted(history) == ["hard_loss", "hidden", "loss"]
    with pytest.raises(ValueError, match="must be one of"):
        distiller.set_active(matches=["other"])


def test_new_losses_take_over_the_temperature():
    distiller = make()
    distiller.fit(X, Y, verbose=0)
    distiller.set_losses(soft_loss=losses.ReverseKL(5.0))
    assert float(distiller.schedules.temperatures["soft"]) == 5.0
    logs = make_still(distiller).train_on_batch(X, Y, return_dict=True)
    t, s = (model(X) for model in (distiller.teacher, distiller.student))
    assert float(logs["soft_loss"]) == pytest.approx(
        float(losses.ReverseKL(5.0)(t, s)), rel=1e-4
    )


def make_still(distiller):
    distiller.optimizer.learning_rate = 0.0
    return distiller


def keys(path):
    found = []
    with h5py.File(path) as file:
        file.visit(found.append)
        sizes = [
            item.shape
            for item in (file[name] for name in found)
            if isinstance(item, h5py.Dataset)
        ]
    return found, sizes


def test_a_checkpoint_holds_everything_but_the_teacher(tmp_path):
    path = str(tmp_path / "x.weights.h5")
    distiller = make()
    distiller.fit(X, Y, epochs=2, verbose=0)
    state = distiller.schedules
    state.temperatures["soft"].assign(6.0)
    state.factors["soft"].assign(0.25)
    state.weights_by_term["hidden"].assign(3.0)
    state.stage.assign(1)
    distiller.save_weights(path)
    names, shapes = keys(path)
    assert not any("teacher" in name for name in names)
    assert (tiny.FEATURES, 16) not in shapes  # The teacher's first kernel.
    twin = make(seed=70)
    assert not tiny.equal(tiny.values(twin), tiny.values(distiller))
    twin.load_weights(path)
    assert tiny.equal(tiny.values(twin.student), tiny.values(distiller.student))
    for name in ("projections", "schedules"):
        first, second = getattr(twin, name), getattr(distiller, name)
        if name == "projections":
            (first,), (second,) = first, second
        assert tiny.equal(tiny.values(first), tiny.values(second))
    assert tiny.equal(
        tiny.values(twin.optimizer), tiny.values(distiller.optimizer)
    )
    one, other = (
        d.fit(X, Y, shuffle=False, verbose=0).history for d in (distiller, twin)
    )
    assert one == other
    assert tiny.equal(tiny.values(twin.student), tiny.values(distiller.student))


class Killed(RuntimeError):
    pass


class Kill(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise Killed


def test_a_killed_training_goes_on_where_it_was(tmp_path):
    whole = make()
    whole.fit(X, Y, epochs=4, shuffle=False, verbose=0)
    backup = str(tmp_path / "backup")

    def callbacks(*more):
        return [keras.callbacks.BackupAndRestore(backup), *more]

    with pytest.raises(Killed):
        make().fit(
            X,
            Y,
            epochs=4,
            shuffle=False,
            verbose=0,
            callbacks=callbacks(Kill()),
        )
    resumed = make(seed=70)
    history = resumed.fit(
        X, Y, epochs=4, shuffle=False, verbose=0, callbacks=callbacks()
    )
    assert history.epoch == [2, 3]
    assert tiny.equal(tiny.values(whole.student), tiny.values(resumed.student))
    assert tiny.equal(
        tiny.values(whole.projections[0]), tiny.values(resumed.projections[0])
    )


def test_dropout_goes_on_with_the_draws_that_were_next(tmp_path):
    def trained(epochs, first=0, path=None):
        keras.utils.set_random_seed(1)
        student = tiny.mlp(8, dropout=0.5)
        distiller = tiny.distiller(tiny.mlp(16), student, run_eagerly=True)
        if path is not None:
            distiller.load_weights(path)
        distiller.fit(
            X, Y, initial_epoch=first, epochs=epochs, shuffle=False, verbose=0
        )
        return distiller

    path = str(tmp_path / "x.weights.h5")
    trained(1).save_weights(path)
    whole, resumed = trained(2), trained(2, 1, path)
    assert tiny.equal(tiny.values(whole.student), tiny.values(resumed.student))


@pytest.mark.parametrize("rates", [(0.5, 0.0), (0.0, 0.5)])
def test_weights_load_into_a_student_with_other_dropout(rates, tmp_path):
    path = str(tmp_path / "x.weights.h5")
    first, second = (
        tiny.distiller(tiny.mlp(16), tiny.mlp(8, seed, dropout=rate))
        for seed, rate in enumerate(rates)
    )
    first.save_weights(path)
    second.load_weights(path)
    assert tiny.equal(first.student.get_weights(), second.student.get_weights())


def test_projections_that_are_not_there_are_not_skipped(tmp_path):
    path = str(tmp_path / "x.weights.h5")
    first, second = (
        tiny.distiller(tiny.mlp(16), tiny.subclassed(), [match()])
        for _ in range(2)
    )
    first.fit(X, Y, verbose=0)
    first.save_weights(path)
    with pytest.raises(ValueError, match="distiller.prepare"):
        second.load_weights(path)
    second.prepare(X)
    second.load_weights(path)
    for name in ("student", "schedules", "optimizer"):
        one, other = getattr(first, name), getattr(second, name)
        assert tiny.equal(tiny.values(one), tiny.values(other))
    assert tiny.equal(
        tiny.values(first.projections[0]), tiny.values(second.projections[0])
    )


def test_model_checkpoint_of_weights(tmp_path):
    path = str(tmp_path / "{epoch}.weights.h5")
    callback = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
    distiller = make()
    distiller.fit(X, Y, epochs=2, verbose=0, callbacks=[callback])
    twin = make(seed=70)
    twin.load_weights(str(tmp_path / "2.weights.h5"))
    assert tiny.equal(tiny.values(twin.student), tiny.values(distiller.student))


def test_a_distiller_is_not_saved_as_a_whole(tmp_path):
    distiller = make()
    path = str(tmp_path / "x.keras")
    with pytest.raises(NotImplementedError, match="distiller.student.save"):
        distiller.save(path)
    with pytest.raises(NotImplementedError, match="distiller.student.save"):
        distiller.export(str(tmp_path / "exported"))
    callback = keras.callbacks.ModelCheckpoint(path)
    before = tiny.values(distiller.student)
    with pytest.raises(ValueError, match="save_weights_only=True"):
        distiller.fit(X, Y, verbose=0, callbacks=[callback])
    assert tiny.equal(before, tiny.values(distiller.student))
    assert not list(tmp_path.iterdir())


SCRIPT = """
import sys
import keras
import numpy as np
model = keras.saving.load_model(sys.argv[1])
np.save(sys.argv[3], model(np.load(sys.argv[2])))
assert "keras_distill" not in sys.modules
"""


@pytest.mark.large
def test_the_student_is_a_plain_keras_model(tmp_path):
    distiller = make()
    distiller.fit(X, Y, verbose=0)
    distiller.student.save(tmp_path / "student.keras")
    np.save(tmp_path / "x.npy", X)
    names = ("student.keras", "x.npy", "y.npy")
    paths = [str(tmp_path / name) for name in names]
    subprocess.run([sys.executable, "-c", SCRIPT, *paths], check=True)
    np.testing.assert_allclose(
        np.load(paths[2]), distiller.student(X), rtol=1e-5, atol=1e-6
    )


def test_compiling_again_starts_from_new_weights_and_schedules():
    distiller = make()
    distiller.fit(X, Y, verbose=0)
    distiller.set_active(hard=False)
    distiller.compile(optimizer="sgd", loss=tiny.CROSS_ENTROPY, hard_weight=0.1)
    assert float(distiller.schedules.weights_by_term["hard"]) == pytest.approx(
        0.1
    )
    history = distiller.fit(X, Y, verbose=0).history
    assert sorted(history) == ["hard_loss", "hidden", "loss", "soft_loss"]
    kept = {id(v) for v in distiller.non_trainable_variables}
    ours = {id(v) for v in distiller.schedules.variables}
    assert ours <= kept
    before = make()
    assert len(kept) == len({id(v) for v in before.non_trainable_variables})
