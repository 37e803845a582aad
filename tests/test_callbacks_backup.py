"""`callbacks.Backup`: kills, damage, and what goes on afterwards."""

import keras
import numpy as np
import pytest
import tiny
import variants

from keras_distill import _files
from keras_distill.callbacks import Backup

EPOCHS = 5


class Killed(BaseException):
    """The process ends here."""


def distiller():
    return tiny.distiller(
        tiny.mlp(seed=7),
        tiny.mlp(seed=1, dropout=0.5),
        optimizer=keras.optimizers.Adam(0.05),
        run_eagerly=True,
    )


def train(folder, epochs=EPOCHS):
    """Goes on in `folder`; the model, and from which epoch it did."""
    keras.utils.set_random_seed(0)
    model = distiller()
    backup = Backup(folder)
    done = backup.restore(model)
    x, y = tiny.data()
    model.fit(
        x,
        y,
        batch_size=8,
        epochs=epochs,
        initial_epoch=done,
        shuffle=False,
        callbacks=[backup],
        verbose=0,
    )
    return model, done


def state(model):
    return [
        tiny.array(v)
        for v in (*model.student.variables, *model.optimizer.variables)
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    model, _ = train(tmp_path_factory.mktemp("undisturbed"))
    return state(model)


def check_goes_on(folder, undisturbed, done):
    model, found = train(folder)
    assert found == done
    assert tiny.equal(state(model), undisturbed)


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_the_last_two_epochs_are_kept(tmp_path):
    train(tmp_path)
    assert names(tmp_path) == [
        f"epoch_00000{number}.{suffix}"
        for number in (4, 5)
        for suffix in ("json", "weights.h5")
    ]


def test_a_training_that_stopped_goes_on_bit_by_bit(tmp_path, undisturbed):
    train(tmp_path, epochs=2)
    check_goes_on(tmp_path, undisturbed, done=2)


def test_a_finished_training_has_nothing_to_do(tmp_path, undisturbed):
    """A process killed after `fit`: the last epoch's logs are there, too."""
    train(tmp_path)
    check_goes_on(tmp_path, undisturbed, done=EPOCHS)
    backup = Backup(tmp_path)
    assert backup.logs == {}
    assert backup.restore(distiller()) == EPOCHS
    assert {"loss", "soft_loss"} <= set(backup.logs)


NUMBER = 4


def before(real):
    """`real`, unless it writes what belongs to epoch 4: then a kill."""

    def call(*arguments):
        if any(f"{NUMBER:06}" in str(argument) for argument in arguments):
            raise Killed
        return real(*arguments)

    return call


def before_clearing(backup):
    if (backup._folder / f"epoch_{NUMBER:06}.json").exists():
        raise Killed
    return numbers(backup)


numbers = Backup._numbers
KILLS = {
    "before the weights": (_files, "put_in_place", None, NUMBER - 1),
    "before their hash": (_files, "write_json", None, NUMBER - 1),
    "before old ones go": (Backup, "_numbers", before_clearing, NUMBER),
}


@pytest.mark.large
@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
def test_a_kill_between_two_files(kill, tmp_path, undisturbed, monkeypatch):
    """While epoch 4 is kept."""
    owner, name, killing, done = kill
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killing or before(getattr(owner, name)))
        with pytest.raises(Killed):
            train(tmp_path)
    assert f"epoch_{done:06}.json" in names(tmp_path)
    assert f"epoch_{done + 1:06}.json" not in names(tmp_path)
    check_goes_on(tmp_path, undisturbed, done)


def flip(path):
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 1
    path.write_bytes(bytes(held))


DAMAGE = {
    "a flipped bit": flip,
    "half": lambda path: path.write_bytes(
        path.read_bytes()[: path.stat().st_size // 2]
    ),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "other": lambda path: path.write_bytes(b"[1, 2]"),
}


@pytest.mark.large
@pytest.mark.parametrize("suffix", ["json", "weights.h5"])
@pytest.mark.parametrize(
    "damage", variants.in_ci(DAMAGE, "a flipped bit", "half")
)
def test_damaged_files_of_the_newest_epoch(
    damage, suffix, tmp_path, undisturbed
):
    train(tmp_path, epochs=3)
    DAMAGE[damage](tmp_path / f"epoch_000003.{suffix}")
    check_goes_on(tmp_path, undisturbed, done=2)


def test_nothing_whole_is_left(tmp_path, undisturbed):
    train(tmp_path, epochs=3)
    for number in (2, 3):
        flip(tmp_path / f"epoch_00000{number}.weights.h5")
    check_goes_on(tmp_path, undisturbed, done=0)


def test_damaged_epochs_give_way_to_new_ones(tmp_path, undisturbed):
    train(tmp_path, epochs=4)
    for number in (3, 4):
        flip(tmp_path / f"epoch_00000{number}.weights.h5")
    train(tmp_path, epochs=1)
    assert names(tmp_path) == ["epoch_000001.json", "epoch_000001.weights.h5"]
    check_goes_on(tmp_path, undisturbed, done=1)


def test_other_files_are_left_alone(tmp_path, undisturbed):
    train(tmp_path, epochs=2)
    (tmp_path / "epoch_last.json").write_text("{}")
    check_goes_on(tmp_path, undisturbed, done=2)
    assert "epoch_last.json" in names(tmp_path)


def test_one_epoch_after_the_other_is_the_same(tmp_path, undisturbed):
    """Killed after each epoch, four times."""
    for epochs in range(1, EPOCHS):
        _, done = train(tmp_path, epochs)
        assert done == epochs - 1
    check_goes_on(tmp_path, undisturbed, done=EPOCHS - 1)
    assert np.isfinite(undisturbed[0]).all()
