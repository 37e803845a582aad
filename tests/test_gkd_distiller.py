"""The loss of a GKD step, its draws, and what a checkpoint goes on with."""

import keras
import numpy as np
import pytest
import tiny
import tiny_gkd
import tiny_lm
import variants

from keras_distill import divergences
from keras_distill import losses
from keras_distill import schedules
from keras_distill.gkd.replay import ReplayBuffer
from keras_distill.gkd.sources import DatasetResponses
from keras_distill.gkd.sources import StudentSampler

BATCH = tiny_gkd.batch()


def models(**kwargs):
    return tiny_gkd.teacher(), tiny_gkd.student(**kwargs)


def evaluated(model, data=BATCH, **kwargs):
    logs = model.evaluate(data, verbose=0, return_dict=True, **kwargs)
    return {name: float(value) for name, value in logs.items()}


def written(pair=None, **kwargs):
    """A Distiller whose completions a `Writer` writes."""
    sources = (tiny_gkd.Writer(), DatasetResponses())
    return tiny_gkd.distiller(pair, **({"sources": sources} | kwargs))


def step(model, data=BATCH):
    logs = model.train_on_batch(data, return_dict=True)
    return {name: float(value) for name, value in logs.items()}


@pytest.mark.parametrize(
    ("options", "beta", "temperature", "factor"),
    [
        ({"beta": 0.0}, 0.0, 1.0, 1.0),
        ({"beta": 1.0}, 1.0, 1.0, 1.0),
        ({"beta": 0.1}, 0.1, 1.0, 1.0),
        ({"normalize": True, "loss_temperature": 2.0}, 0.5, 2.0, 4.0),
        ({"divergence": divergences.reverse_kl}, 1.0, 1.0, 1.0),
        ({"divergence": losses.ForwardKL(1.0)}, 0.0, 1.0, 1.0),
        ({"chunk_tokens": 5}, 0.5, 1.0, 1.0),
        ({"chunk_tokens": None, "temperature": 3.0}, 0.5, 1.0, 1.0),
    ],
)
def test_summed_over_the_vocabulary_averaged_over_tokens(
    options, beta, temperature, factor
):
    pair = models()
    logs = evaluated(tiny_gkd.distiller(pair, **options))
    expected = factor * tiny_gkd.divergence(pair, BATCH, beta, temperature)
    assert logs["divergence"] == pytest.approx(expected, rel=1e-4)
    assert logs["loss"] == pytest.approx(expected, rel=1e-4)


def test_beta_is_not_swapped():
    pair = models()
    logs = [tiny_gkd.log_probabilities(model, BATCH) for model in pair]
    teacher_first, student_first = (
        tiny_gkd.at_completions(tiny_gkd.kl(*order), BATCH).mean()
        for order in (logs, logs[::-1])
    )
    assert abs(teacher_first - student_first) > 0.1
    for beta, expected in ((0.0, teacher_first), (1.0, student_first)):
        found = evaluated(tiny_gkd.distiller(pair, beta=beta))["loss"]
        assert found == pytest.approx(expected, rel=1e-4)


def test_the_first_token_counts_and_the_prompt_never():
    pair = models()
    data = tiny_gkd.batch(tiny_gkd.PROMPTS, tiny_gkd.PROMPTS + 1)
    logs = [tiny_gkd.log_probabilities(model, data) for model in pair]
    values = tiny_gkd.jsd(*logs, 0.5)
    expected = [v[n - 1] for v, n in zip(values, tiny_gkd.PROMPTS)]
    found = evaluated(tiny_gkd.distiller(pair), data)["loss"]
    assert found == pytest.approx(np.mean(expected), rel=1e-4)


def test_padding_may_be_the_stop_token():
    pair = models()
    found = []
    for padding in (tiny_gkd.STOP, 0, 39):
        data = {name: value.copy() for name, value in BATCH.items()}
        unused = ~(data["prompt_mask"] | data["completion_mask"])
        data["token_ids"][unused] = padding
        model = written(pair, lmbda=0.5, optimizer=keras.optimizers.SGD(0.0))
        with tiny_gkd.completed(model) as seen:
            logs = step(model, data)
        found.append((logs["loss"], seen[0]["completion_mask"].tolist()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "options",
    [{"chunk_tokens": None}, {"chunk_tokens": 4}, {"micro_batch_size": 2}],
    ids=["plain", "chunked", "micro-batched"],
)
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_a_student_like_the_teacher_has_nothing_to_learn(options, beta):
    pair = tiny_gkd.teacher(), tiny_gkd.teacher()
    model = written(pair, lmbda=0.5, beta=beta, **options)
    before = tiny.values(model.student)
    assert step(model)["loss"] == pytest.approx(0, abs=1e-6)
    for old, new in zip(before, tiny.values(model.student)):
        np.testing.assert_allclose(old, new, atol=1e-6)


@pytest.mark.large
@pytest.mark.parametrize("chunk_tokens", [None, 4])
@pytest.mark.parametrize("size", [1, 3])
def test_micro_batches_are_one_batch(chunk_tokens, size):
    results = []
    for micro_batch_size in (None, size):
        model = written(
            lmbda=0.7,
            sft_weight=0.5,
            chunk_tokens=chunk_tokens,
            micro_batch_size=micro_batch_size,
        )
        kernel = model.student.backbone.token_embedding.embeddings
        kernel.regularizer = keras.regularizers.L2(0.01)
        logs = step(model)
        results.append((logs, tiny.values(model.student)))
    (one, whole), (several, parts) = results
    assert one == pytest.approx(several, rel=1e-5)
    assert 0 < one["dataset_fraction"] < 1
    for a, b in zip(whole, parts):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_tokens_are_counted_after_generation():
    pair = models()
    model = written(pair, lmbda=1.0, optimizer=keras.optimizers.SGD(0.0))
    with tiny_gkd.completed(model) as seen:
        logs = step(model)
    data = tiny_gkd.as_batch(seen[0])
    lengths = data["completion_mask"].sum(1)
    assert lengths.tolist() != (tiny_gkd.ENDS - tiny_gkd.PROMPTS).tolist()
    expected = tiny_gkd.divergence(pair, data)
    assert logs["loss"] == pytest.approx(expected, rel=1e-4)
    assert logs["completion_length"] == pytest.approx(lengths.mean())
    stopped = [
        ids[mask][-1] == tiny_gkd.STOP
        for ids, mask in zip(data["token_ids"], data["completion_mask"])
    ]
    assert logs["truncated_fraction"] == pytest.approx(1 - np.mean(stopped))


class Silent(tiny_gkd.Writer):
    def __call__(self, rows, limits, seed):
        rows = super().__call__(rows, limits, seed)
        rows.lengths[:] = rows.prompt_lengths
        return rows


def test_nothing_written_is_nothing_learned():
    model = written(lmbda=1.0, sources=(Silent(), DatasetResponses()))
    before = tiny.values(model.student)
    assert step(model)["loss"] == 0
    assert tiny.equal(before, tiny.values(model.student))


def test_sft_is_the_cross_entropy_of_the_data_sets_rows():
    pair = models()
    model = written(
        pair,
        lmbda=0.5,
        sft_weight=0.25,
        chunk_tokens=7,
        optimizer=keras.optimizers.SGD(0.0),
    )
    with tiny_gkd.completed(model) as seen:
        logs = step(model)
    data = tiny_gkd.as_batch(seen[0])
    kept = seen[0]["response_mask"].any(1)
    assert 0 < kept.sum() < len(kept)
    responses = {name: value[kept] for name, value in data.items()}
    cross_entropy = tiny_gkd.cross_entropy(pair[1], responses)
    divergence = tiny_gkd.divergence(pair, data)
    assert logs["sft_loss"] == pytest.approx(cross_entropy, rel=1e-4)
    assert logs["divergence"] == pytest.approx(divergence, rel=1e-4)
    expected = divergence + 0.25 * cross_entropy
    assert logs["loss"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.large
def test_evaluation_does_not_depend_on_the_batches():
    pair = models()
    model = tiny_gkd.distiller(pair, sft_weight=1.0)
    whole, parts = (evaluated(model, batch_size=n) for n in (4, 3))
    assert set(whole) == {"loss", "divergence", "sft_loss"}
    assert whole == pytest.approx(parts, rel=1e-5)
    expected = tiny_gkd.cross_entropy(pair[1], BATCH)
    assert whole["sft_loss"] == pytest.approx(expected, rel=1e-4)


def test_the_students_dropout_is_off_unless_asked_for():
    found = []
    for student_dropout in (False, True):
        pair = models(dropout=0.5)
        model = written(
            pair,
            lmbda=0.0,
            student_dropout=student_dropout,
            optimizer=keras.optimizers.SGD(0.0),
        )
        found.append([step(model)["loss"] for _ in range(2)])
        assert (
            found[-1][0]
            == pytest.approx(tiny_gkd.divergence(pair, BATCH), rel=1e-4)
            or student_dropout
        )
    assert found[0][0] == found[0][1]
    assert found[1][0] != found[1][1]


def draws(model, steps=3):
    with tiny_gkd.completed(model) as seen:
        for _ in range(steps):
            step(model)
    return [filled["token_ids"].tolist() for filled in seen], [
        filled["statistics"].tolist() for filled in seen
    ]


@pytest.mark.large
def test_the_same_seed_draws_the_same():
    first, again, other = (
        draws(written(lmbda=0.5, seed=seed)) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other
    keras.utils.set_random_seed(1)
    first, second = (draws(written(lmbda=0.5, seed=None)) for _ in range(2))
    keras.utils.set_random_seed(1)
    again = draws(written(lmbda=0.5, seed=None))
    assert first == again
    assert first != second


@pytest.mark.large
def test_draws_are_per_row_or_per_batch():
    rows, batches = (
        [s[0] for s in draws(written(lmbda=0.5, granularity=g), 12)[1]]
        for g in ("sample", "batch")
    )
    assert set(batches) == {0.0, 1.0}
    assert set(rows) - {0.0, 1.0}
    assert 0.2 < np.mean(rows) < 0.8


def test_lmbda_follows_its_schedule_without_a_retrace():
    schedule = schedules.Piecewise([1, 2], [0.0, 1.0, 0.5])
    model = written(lmbda=schedule, compiled=True)
    fractions = [step(model)["writer_fraction"]]
    fractions += [step(model)["writer_fraction"]]
    traces = model.traces
    step(model)
    assert fractions == [0.0, 1.0]
    assert float(model.state.lmbda) == 0.5
    assert model.traces == traces <= 3


def replaying(pair=None, **kwargs):
    buffer = ReplayBuffer(6, 0.5, tiny_gkd.Writer())
    return written(pair, lmbda=0.6, sources=(buffer, DatasetResponses()))


class Killed(RuntimeError):
    pass


class Kill(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise Killed


def test_a_killed_training_goes_on_where_it_was(tmp_path):
    whole, killed, resumed = replaying(), replaying(), replaying()
    resumed.state.seed.assign(99)
    options = {"batch_size": 2, "shuffle": False, "verbose": 0}
    backup = keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
    with tiny_gkd.completed(whole) as all_batches:
        whole.fit(BATCH, epochs=4, **options)
    with pytest.raises(Killed):
        killed.fit(BATCH, epochs=4, callbacks=[backup, Kill()], **options)
    backup = keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
    with tiny_gkd.completed(resumed) as batches:
        history = resumed.fit(BATCH, epochs=4, callbacks=[backup], **options)
    assert history.epoch == [2, 3]
    assert int(resumed.state.step) == 8
    for one, other in zip(all_batches[4:], batches, strict=True):
        assert one["token_ids"].tolist() == other["token_ids"].tolist()
        assert one["statistics"].tolist() == other["statistics"].tolist()
    assert any(filled["statistics"][1] for filled in batches)
    assert tiny.equal(tiny.values(whole.student), tiny.values(resumed.student))


def test_the_teacher_stays_as_it_is_and_out_of_checkpoints(tmp_path):
    h5py = pytest.importorskip("h5py")
    pair = models()
    teacher_values = tiny.values(pair[0])
    model = written(pair, lmbda=0.5)
    step(model)
    assert tiny.equal(teacher_values, tiny.values(pair[0]))
    assert pair[0].trainable
    path = str(tmp_path / "x.weights.h5")
    model.save_weights(path)
    shapes, names = [], []

    def visit(name, item):
        names.append(name)
        shapes.append(getattr(item, "shape", ()))

    with h5py.File(path) as file:
        file.visititems(visit)
    assert not any("teacher" in name for name in names)
    assert (tiny_gkd.VOCABULARY, 8) in shapes
    assert not any(12 in shape for shape in shapes)
    with pytest.raises(NotImplementedError, match="student.save"):
        model.save(str(tmp_path / "x.keras"))


@pytest.mark.parametrize(
    "compiled", [pytest.param(False, marks=pytest.mark.large), True]
)
def test_the_student_learns_from_its_own_text(compiled):
    model = tiny_gkd.distiller(
        lmbda=1.0, compiled=compiled, optimizer=keras.optimizers.Adam(0.02)
    )
    prompts = tiny_gkd.batch(tiny_gkd.PROMPTS, tiny_gkd.PROMPTS)
    history = model.fit(prompts, batch_size=4, epochs=4, verbose=0).history
    assert history["student_fraction"] == [1.0] * 4
    assert history["loss"][-1] < 0.9 * history["loss"][0]
    assert history["loss"] == history["divergence"]
    if compiled:
        assert model.traces <= 4


@pytest.mark.large
def test_the_models_own_samplers_do_not_matter():
    keras_hub = pytest.importorskip("keras_hub")
    pair = models()
    model = tiny_gkd.distiller(pair, lmbda=1.0)
    model.optimizer.learning_rate = 0.0
    before = draws(model, 1)[0]
    pair[1].compile(sampler=keras_hub.samplers.TopKSampler(k=1))
    model.state.step.assign(0)
    assert draws(model, 1)[0] == before
    assert pair[1].sampler.k == 1
    pair[1].compile(sampler="greedy")
    greedy = tiny_gkd.distiller(pair, lmbda=1.0, sampler="greedy", seed=8)
    assert draws(greedy, 1)[0] != before


def test_call_predict_and_generate_are_the_students():
    pair = models()
    model = tiny_gkd.distiller(pair)
    found = model.predict(BATCH, verbose=0)
    inputs = {
        "token_ids": BATCH["token_ids"],
        "padding_mask": BATCH["prompt_mask"] | BATCH["completion_mask"],
    }
    expected = pair[1].predict(inputs, verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert model.student is pair[1]
    assert model.teacher is pair[0]


@pytest.mark.large
@pytest.mark.parametrize(
    "kind", variants.in_ci([tiny_lm.gpt2, tiny_lm.llama], tiny_lm.llama)
)
@pytest.mark.parametrize(
    "options",
    [
        {"lmbda": 0.5, "micro_batch_size": 3, "sft_weight": 0.1},
        variants.exhaustive({"lmbda": 0.0, "seq_kd": True}),
        variants.exhaustive({"sources": (ReplayBuffer(), DatasetResponses())}),
        {"sources": (StudentSampler(), ReplayBuffer())},
    ],
)
def test_everything_compiled(kind, options):
    pair = kind(width=16, seed=1), kind(width=8, seed=2)
    model = tiny_gkd.distiller(
        pair,
        compiled=True,
        optimizer=keras.optimizers.Adam(0.02),
        **options,
    )
    before = evaluated(model)["loss"]
    model.fit(BATCH, batch_size=3, epochs=10, verbose=0, validation_data=BATCH)
    assert evaluated(model)["loss"] < before
