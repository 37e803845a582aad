"""Stages: what each puts in force, kill and resume, bad arguments."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_distill import losses
from keras_distill.callbacks import AnnealTemperature
from keras_distill.callbacks import StageSwitch
from keras_distill.distiller import Distiller
from keras_distill.matching import Match
from keras_distill.schedules import Linear
from keras_distill.schedules import StepDown
from keras_distill.stages import Stage
from keras_distill.stages import annealing_kd_stages

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4)).astype("float32")
Y = RNG.integers(0, 3, 24).astype("int32")
CrossEntropy = keras.losses.SparseCategoricalCrossentropy
LOSS = CrossEntropy(from_logits=True)
SUMMED = CrossEntropy(from_logits=True, reduction="sum")


class Counting(keras.layers.Layer):
    """Counts, on the side, how often the model it is in is traced."""

    calls = 0

    def call(self, inputs):
        self.calls += 1
        return inputs


def mlp(width, seed):
    init = keras.initializers.GlorotUniform(seed)
    inputs = keras.Input((4,))
    x = keras.layers.Dense(
        width, activation="tanh", kernel_initializer=init, name="hidden"
    )(Counting(name="counting")(inputs))
    x = keras.layers.BatchNormalization(name="norm")(x)
    head = keras.layers.Dense(3, kernel_initializer=init, name="head")
    return keras.Model(inputs, head(x))


class Trace(Distiller):
    """Counts how often the train step is traced."""

    traces = 0

    def train_step(self, *args):
        self.traces += 1
        return super().train_step(*args)


def compiled(matches=(), optimizer=None, **kwargs):
    keras.utils.set_random_seed(0)
    distiller = Trace(mlp(8, 1), mlp(6, 2), matches=matches)
    distiller.compile(
        optimizer=optimizer or keras.optimizers.Adam(0.05),
        loss=LOSS,
        **{"soft_loss": losses.ForwardKL(4.0), **kwargs},
    )
    return distiller


def near():
    mse = keras.losses.MeanSquaredError()
    return [Match("hidden", "hidden", mse, name="near", weight=0.5)]


def fit(distiller, *callbacks, epochs=4, batch_size=8, **kwargs):
    return distiller.fit(
        X,
        Y,
        batch_size=batch_size,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=list(callbacks),
        **kwargs,
    ).history


class Watch(keras.callbacks.Callback):
    """Reads a value after each batch."""

    def __init__(self, read):
        super().__init__()
        self.read = read
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(self.read(self.model))


class Script(keras.callbacks.Callback):
    """Puts the scripted values of a metric into the logs."""

    def __init__(self, values, name="val_accuracy"):
        super().__init__()
        self.values = values
        self.name = name

    def on_epoch_end(self, epoch, logs=None):
        logs[self.name] = self.values[epoch]


class Students(keras.callbacks.Callback):
    """Keeps the student's weights before and after each epoch."""

    def __init__(self):
        super().__init__()
        self.before = []
        self.after = []

    def on_epoch_begin(self, epoch, logs=None):
        self.before.append(self.model.student.get_weights())

    def on_epoch_end(self, epoch, logs=None):
        self.after.append(self.model.student.get_weights())


class Kill(keras.callbacks.Callback):
    """Ends training in the middle of an epoch, as a lost machine would."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch
        self.now = False

    def on_epoch_begin(self, epoch, logs=None):
        self.now = epoch == self.epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.now and batch == 1:
            raise KeyboardInterrupt


def assert_same(weights, others):
    assert len(weights) == len(others)
    for one, other in zip(weights, others):
        np.testing.assert_array_equal(one, other)


def passes(model):
    return model.get_layer("counting").calls


class Logs(keras.callbacks.Callback):
    """Keeps the logs of each epoch."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(dict(logs))


@pytest.mark.parametrize("start", [0, 3])
def test_terms_weights_and_losses_by_stage(start):
    stages = [
        Stage(1, hard_weight=0.0, soft_weight=0.2, matches=()),
        Stage(1, soft_loss=losses.LogitsMSE(), matches=["near"]),
        Stage(1, hard_weight=2.0, soft_weight=0.0, matches=()),
        Stage(1, loss=SUMMED),
    ]
    logs = Logs()
    fit(compiled(near()), StageSwitch(stages), logs, initial_epoch=start)
    terms = [
        {"soft_loss": 0.2},
        {"soft_loss": 0.2, "near": 0.5},
        {"hard_loss": 2.0},
        {"hard_loss": 2.0},
    ]
    assert len(logs.seen) == 4 - start
    for weights, seen in zip(terms[start:], logs.seen):
        assert set(seen) == {"loss", "stage", *weights}
        total = sum(weights[name] * seen[name] for name in weights)
        assert seen["loss"] == pytest.approx(total, rel=1e-5)
    summed = logs.seen[-1]["hard_loss"]
    assert summed > 5.0  # Over 8 examples, of about 1 each.


def test_one_fit_equals_one_fit_for_each_stage():
    stages = [
        Stage(2, hard_weight=0.0, soft_weight=1.0),
        Stage(2, hard_weight=1.0, soft_weight=0.0),
    ]
    switched, plain = compiled(), compiled(hard_weight=0.0, soft_weight=1.0)
    history = fit(switched, StageSwitch(stages))
    fit(plain, epochs=2)
    plain.schedules.weights_by_term["hard"].assign(1.0)
    plain.schedules.weights_by_term["soft"].assign(0.0)
    fit(plain, epochs=4, initial_epoch=2)
    assert_same(switched.student.get_weights(), plain.student.get_weights())
    assert history["stage"] == [0, 0, 1, 1]


def test_the_teacher_runs_only_where_a_stage_needs_it():
    stages = [
        Stage(1, soft_weight=0.0, matches=()),
        Stage(1, matches=["near"]),
        Stage(1, soft_weight=1.0, matches=()),
        Stage(1, soft_weight=0.0),
    ]
    distiller = compiled(near(), run_eagerly=True)
    watch = Watch(lambda model: passes(model.teacher))
    start = passes(distiller.teacher)
    fit(distiller, StageSwitch(stages), watch)
    runs = np.diff([start, *watch.seen])
    np.testing.assert_array_equal(runs, np.repeat([0, 1, 1, 0], 3))


def test_one_trace_for_each_stage():
    distiller = compiled(near())
    stages = [
        Stage(2, matches=(), temperature=Linear(4.0, 2.0, 2)),
        Stage(
            1, soft_loss=losses.ReverseKL(), hard_weight=0.0, freeze=["hidden"]
        ),
        Stage(1, learning_rate=0.1, temperature=2.0),
    ]
    watch = Watch(lambda model: model.traces)
    fit(distiller, StageSwitch(stages), watch, epochs=5)
    first = watch.seen[0]
    assert watch.seen == [first] * 6 + [first + 1] * 3 + [first + 2] * 6


def test_temperature_by_stage():
    stages = [
        Stage(2, temperature=StepDown(3, end=2)),
        Stage(1, soft_loss=losses.ReverseKL(temperature=5.0)),
        Stage(1, temperature=1.5),
    ]
    history = fit(compiled(run_eagerly=True), StageSwitch(stages), epochs=5)
    assert history["temperature"] == [3, 2, 5, 1.5, 1.5]


def test_learning_rate_by_stage():
    decay = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    stages = [
        Stage(1),
        Stage(1, learning_rate=0.25),
        Stage(1, learning_rate=decay),
        Stage(1, learning_rate=Linear(0.3, 0.0, length=3)),
    ]
    watch = Watch(lambda model: float(model.optimizer.learning_rate))
    fit(compiled(run_eagerly=True), StageSwitch(stages), watch)
    expected = [0.05] * 3 + [0.25] * 3 + [0.5, 0.25, 0.125, 0.3, 0.2, 0.1]
    np.testing.assert_allclose(watch.seen, expected, rtol=1e-6)


def frozen_flags(student):
    layers = [layer.trainable for layer in student.layers]
    return layers, [variable.trainable for variable in student.weights]


@pytest.mark.parametrize("first", [True, False])
def test_frozen_layers_stand_still_and_are_given_back(first):
    distiller = compiled()
    student = distiller.student
    student.get_layer("norm").trainable = False
    student.get_layer("hidden").bias.trainable = False
    flags = frozen_flags(student)
    frozen = Stage(1, freeze=["hidden", student.get_layer("norm")])
    stages = [frozen, Stage(1)] if first else [Stage(1), frozen]
    students = Students()
    fit(distiller, students, StageSwitch(stages), epochs=2)
    for epoch in range(2):
        kernel = (students.before[epoch][0], students.after[epoch][0])
        head = (students.before[epoch][-2], students.after[epoch][-2])
        assert np.array_equal(*kernel) == (epoch == (0 if first else 1))
        assert not np.array_equal(*head)
    assert frozen_flags(student) == flags
    kernel = student.get_weights()[0]
    fit(distiller, epochs=1)
    assert not np.array_equal(kernel, student.get_weights()[0])


def test_layers_are_given_back_after_an_exception():
    distiller = compiled(run_eagerly=True)
    flags = frozen_flags(distiller.student)
    switch = StageSwitch([Stage(1, freeze=["hidden"]), Stage(1)])
    with pytest.raises(KeyboardInterrupt):
        fit(distiller, switch, Kill(epoch=0), epochs=2, batch_size=12)
    assert frozen_flags(distiller.student) != flags
    fit(distiller, switch, epochs=2, batch_size=12)
    assert frozen_flags(distiller.student) == flags


@pytest.mark.parametrize(
    ("values", "mode", "best"),
    [
        ([0.1, 0.7, 0.7, 0.4, 0, 0], "auto", 1),
        ([0.1, 0.7, float("nan"), 0.4, 0, 0], "min", 0),
        ([float("nan"), 0.2, 0.1, 0.4, 9, 9], "max", 3),
    ],
)
def test_the_best_student_of_the_previous_stage_comes_back(
    values, mode, best, tmp_path
):
    stages = [Stage(4), Stage(2, restore_best="val_accuracy", mode=mode)]
    students = Students()
    switch = StageSwitch(stages, directory=tmp_path / "best")
    distiller = compiled(run_eagerly=True)
    fit(distiller, Script(values), switch, students, epochs=6, batch_size=24)
    assert_same(students.before[4], students.after[best])
    assert_same(students.before[5], students.after[4])
    files = sorted(path.name for path in (tmp_path / "best").iterdir())
    assert files == ["stage_0.json", f"stage_0_epoch_{best}.weights.h5"]


def test_the_best_student_by_a_real_metric(tmp_path):
    distiller = compiled(metrics=["accuracy"], run_eagerly=True)
    stages = [Stage(3), Stage(1, restore_best="val_loss")]
    students = Students()
    history = fit(
        distiller,
        StageSwitch(stages),
        students,
        batch_size=24,
        validation_data=(X, Y),
    )
    best = int(np.argmin(history["val_loss"][:3]))
    assert_same(students.before[3], students.after[best])


def test_a_former_training_in_the_directory_does_not_count(tmp_path):
    stages = [Stage(2), Stage(1, restore_best="val_accuracy")]
    for values in ([0.9, 0.8, 0], [0.1, 0.2, 0]):
        students = Students()
        switch = StageSwitch(stages, directory=tmp_path)
        fit(
            compiled(run_eagerly=True),
            Script(values),
            switch,
            students,
            epochs=3,
            batch_size=24,
        )
    assert_same(students.before[2], students.after[1])


SCRIPT = [0.3, 0.9, 0.5, 0.2, 0.1, 0.1]
FULL = [
    Stage(3, hard_weight=0.0, temperature=StepDown(3)),
    Stage(
        3,
        soft_loss=losses.ReverseKL(2.0),
        hard_weight=1.0,
        freeze=["hidden"],
        learning_rate=Linear(0.1, 0.0, length=9),
        restore_best="val_accuracy",
    ),
]


@pytest.mark.parametrize(
    ("epoch", "switch_first", "eager"),
    [
        pytest.param(1, True, True, marks=pytest.mark.large),
        (2, False, True),
        pytest.param(3, True, True, marks=pytest.mark.large),
        pytest.param(3, False, True, marks=pytest.mark.large),
        pytest.param(4, True, False, marks=pytest.mark.large),
    ],
)
def test_killed_and_resumed_equals_uninterrupted(
    tmp_path, epoch, switch_first, eager
):
    def callbacks(name, backup):
        switch = StageSwitch(FULL, directory=tmp_path / name)
        order = [switch, backup] if switch_first else [backup, switch]
        return [Script(SCRIPT), *order]

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup")

    whole = compiled(near(), run_eagerly=eager)
    steps = {"epochs": 6, "batch_size": 12}
    expected = fit(
        whole, *callbacks("whole", keras.callbacks.Callback()), **steps
    )
    with pytest.raises(KeyboardInterrupt):
        fit(
            compiled(near(), run_eagerly=eager),
            *callbacks("killed", backup()),
            Kill(epoch),
            **steps,
        )
    resumed = compiled(near(), run_eagerly=eager)
    history = fit(resumed, *callbacks("killed", backup()), **steps)
    assert len(history["loss"]) == 6 - epoch
    for name, values in history.items():
        tail = expected[name][-len(values) :]
        np.testing.assert_array_equal(values, tail, name)
    assert_same(whole.get_weights(), resumed.get_weights())
    optimizers = (whole.optimizer, resumed.optimizer)
    assert_same(*([v.numpy() for v in o.variables] for o in optimizers))


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_soft_loss_of_a_former_stage_keeps_its_temperature(epoch, tmp_path):
    def train(*callbacks):
        annealed = losses.AnnealedMSE(2)
        first = Stage(2, soft_loss=annealed, temperature=StepDown(2))
        switch = StageSwitch([first, Stage(2, hard_weight=0.5)])
        return fit(compiled(run_eagerly=True), switch, *callbacks)

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup")

    expected = train()
    assert expected["temperature"] == [2, 1, 1, 1]
    with pytest.raises(KeyboardInterrupt):
        train(backup(), Kill(epoch))
    history = train(backup())
    for name, values in expected.items():
        assert history[name] == values[epoch:], name


def test_a_checkpoint_within_the_first_epoch_of_a_stage(tmp_path):
    def callbacks():
        backup = keras.callbacks.BackupAndRestore(
            tmp_path / "backup", save_freq=1
        )
        switch = StageSwitch(FULL, directory=tmp_path / "best")
        return [Script(SCRIPT), backup, switch]

    killed, students = compiled(run_eagerly=True), Students()
    with pytest.raises(KeyboardInterrupt):
        fit(killed, *callbacks(), Kill(3), epochs=6, batch_size=12)
    resumed = compiled(run_eagerly=True)
    fit(resumed, *callbacks(), students, epochs=6, batch_size=12)
    assert_same(students.before[0], killed.student.get_weights())


def test_resumed_without_the_directory():
    stages = [Stage(3), Stage(1, restore_best="val_accuracy")]
    for epoch in (1, 3):
        with pytest.raises(ValueError, match="do not outlive the process"):
            fit(compiled(), StageSwitch(stages), initial_epoch=epoch)


def test_annealing_kd_recipe():
    stages = annealing_kd_stages(
        3, 2, hard_epochs=2, learning_rate=(0.02, 0.01)
    )
    distiller = compiled(near(), metrics=["accuracy"], run_eagerly=True)
    switch, students = StageSwitch(stages), Students()
    watch = Watch(lambda model: passes(model.teacher))
    start = passes(distiller.teacher)
    history = fit(
        distiller,
        switch,
        students,
        watch,
        epochs=9,
        batch_size=12,
        validation_data=(X, Y),
    )
    assert switch.total_epochs == 8
    assert history["temperature"] == [3, 3, 2, 2, 1, 1, 1, 1, 1]
    assert watch.seen[-1] - start == 6 * 2  # Stage II leaves it alone.
    np.testing.assert_allclose(
        history["learning_rate"], [0.02] * 6 + [0.01] * 3, rtol=1e-6
    )
    best = int(np.argmax(history["val_accuracy"][:6]))
    assert_same(students.before[6], students.after[best])


@pytest.mark.parametrize("epochs_per_temperature", [1, 3])
@pytest.mark.parametrize("maximum", [1, 2, 7])
def test_phi_ends_at_one_and_never_exceeds_it(maximum, epochs_per_temperature):
    first, _ = annealing_kd_stages(maximum, epochs_per_temperature)
    teacher, zeros = np.ones((1, 1), "float32"), np.zeros((1, 1), "float32")
    phi = []
    for epoch in range(2 * first.epochs):
        first.soft_loss.temperature = first.temperature(epoch)
        phi.append(float(first.soft_loss(teacher, zeros)) ** 0.5)
    steps = np.repeat(np.arange(1, maximum + 1), epochs_per_temperature)
    np.testing.assert_allclose(phi[: first.epochs], steps / maximum, rtol=1e-6)
    np.testing.assert_allclose(phi[first.epochs - 1 :], 1.0, rtol=1e-6)


def test_the_control_without_annealing():
    first, second = annealing_kd_stages(3, 1, hard_epochs=1)
    flat = dataclasses.replace(first, temperature=1.0)
    history = fit(
        compiled(metrics=["accuracy"], run_eagerly=True),
        StageSwitch([flat, second]),
        batch_size=24,
        validation_data=(X, Y),
    )
    assert history["temperature"] == [1] * 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stage(0), "epochs.*at least 1.*epochs=0"),
        (lambda: Stage(1.5), "epochs=1.5"),
        (lambda: Stage(1, name=""), "name=''"),
        (lambda: Stage(1, hard_weight=-1), "hard_weight=-1"),
        (lambda: Stage(1, matches="near"), "names of matches.*'near'"),
        (lambda: Stage(1, freeze="hidden"), "layers or their paths.*'hidden'"),
        (lambda: Stage(1, freeze=[3]), r"freeze=\[3\]"),
        (lambda: Stage(1, temperature=0), "positive.*temperature=0"),
        (lambda: Stage(1, temperature="4"), "a schedule or None.*'4'"),
        (lambda: Stage(1, learning_rate=-0.1), "learning_rate=-0.1"),
        (lambda: Stage(1, restore_best="val_x"), "mode='max' or mode='min'"),
        (lambda: Stage(1, restore_best="val_loss", mode="up"), "mode='up'"),
        (lambda: Stage(1, restore_best=1), "restore_best=1"),
        (lambda: Stage(1, mode="max"), "`mode` needs `restore_best`"),
        (lambda: StageSwitch([]), "at least one"),
        (lambda: StageSwitch(Stage(1)), "must be a list"),
        (lambda: StageSwitch([1]), "instances of `kd.Stage`. Received: 1"),
        (
            lambda: StageSwitch([Stage(1, restore_best="val_loss")]),
            "first stage has no previous",
        ),
        (lambda: annealing_kd_stages(0), "max_temperature=0"),
        (lambda: annealing_kd_stages(7.0), "max_temperature=7.0"),
        (lambda: annealing_kd_stages(2, 0), "epochs_per_temperature=0"),
        (lambda: annealing_kd_stages(hard_epochs=0), "hard_epochs=0"),
        (lambda: annealing_kd_stages(learning_rate=[1e-3]), "or a pair"),
        (lambda: annealing_kd_stages(monitor=None), "monitor=None"),
    ],
)
def test_message_of_a_wrong_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


TWO = [Stage(2), Stage(3)]
ARRAY = losses.ForwardKL(temperature=np.ones(8))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (TWO, "epochs=5 or more. Received: epochs=4"),
        ([Stage(1), Stage(1, name="b", matches=["x"])], r"In b: .*\['near'\]"),
        (
            [Stage(1, freeze=["hiden"])],
            "no layer 'hiden'. Did you mean 'hidden'",
        ),
        (
            [Stage(1, hard_weight=0.0), Stage(1, soft_weight=0, matches=())],
            "In stage 2: nothing is left to learn",
        ),
        ([Stage(1, soft_loss=ARRAY, temperature=2.0)], "needs a soft loss"),
        ([Stage(3, temperature=Linear(1, -1, 2))], "positive.*temperature=0.0"),
    ],
)
def test_message_before_training_starts(stages, message):
    distiller = compiled(near())
    with pytest.raises(ValueError, match=message):
        fit(distiller, StageSwitch(stages))
    assert distiller.traces == 0


def test_message_where_a_stage_freezes_everything():
    stages = [Stage(1), Stage(1, freeze=["hidden", "norm", "head"])]
    with pytest.raises(ValueError, match="leaves nothing to train"):
        fit(compiled(), StageSwitch(stages))


def test_message_with_an_optimizer_schedule():
    decay = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    distiller = compiled(optimizer=keras.optimizers.SGD(decay))
    with pytest.raises(ValueError, match="pass the schedule to the stage"):
        fit(distiller, StageSwitch([Stage(1, learning_rate=0.1)]))


def test_message_without_the_metric():
    stages = [Stage(3), Stage(1, restore_best="val_accuracy")]
    with pytest.raises(ValueError, match="'val_accuracy', logs:.*'hard_loss'"):
        fit(compiled(run_eagerly=True), StageSwitch(stages), batch_size=24)


def test_message_with_another_model():
    model = mlp(4, 0)
    model.compile(loss=LOSS)
    with pytest.raises(ValueError, match="`StageSwitch` works with"):
        fit(model, StageSwitch([Stage(1)]))


def test_compiling_again_switches_all_terms_on():
    distiller = compiled(near(), run_eagerly=True)
    off = Stage(1, soft_weight=0.0, matches=())
    fit(distiller, StageSwitch([off]), epochs=1, batch_size=24)
    assert not distiller.needs_teacher
    distiller.compile(loss=LOSS, run_eagerly=True)
    history = fit(distiller, epochs=1, batch_size=24)
    assert {"hard_loss", "soft_loss", "near"} <= set(history)


def test_annealing_next_to_stages():
    stages = [Stage(2), Stage(2, hard_weight=0.0)]
    history = fit(
        compiled(run_eagerly=True),
        StageSwitch(stages),
        AnnealTemperature(StepDown(4)),
        batch_size=24,
    )
    assert history["temperature"] == [4, 3, 2, 1]
