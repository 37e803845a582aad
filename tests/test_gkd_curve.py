"""Whether a distillation of language models was long enough to compare."""

import dataclasses

import numpy as np
import pytest

from keras_distill.callbacks import Backup
from keras_distill.experiments.language_models import curve
from keras_distill.gkd.evaluation import WritingScores


def scores(jsd, tokens=100):
    return WritingScores(0.0, 0.0, jsd, 0.0, 0.0, tokens, 4, 25.0, 0.0)


def points(*values, batches=8, noise=0.0):
    """Of `4, 8, ...` steps: the scores of each batch, around a value."""
    rng = np.random.default_rng(0)
    around = rng.normal(0, noise, (len(values), batches))
    return {
        100 * k: [dataclasses.asdict(scores(value + one)) for one in row]
        for k, (value, row) in enumerate(zip(values, around))
    }


@pytest.mark.parametrize(
    ("values", "noise", "falls"),
    [
        ((0.22, 0.20, 0.18, 0.16, 0.14), 0.001, True),
        ((0.22, 0.15, 0.14, 0.14, 0.14), 0.001, False),
        # As steep as the first, but its batches differ by more.
        ((0.22, 0.20, 0.18, 0.16, 0.14), 0.1, False),
        ((0.14, 0.16, 0.18, 0.20, 0.22), 0.001, False),
    ],
)
def test_a_curve_that_falls_is_told(values, noise, falls):
    found = curve.told(points(*values, noise=noise))
    assert found["still_falls"] is falls
    assert ("--steps 1600" in found["sentence"]) is falls
    assert "From step 200 to 400" in found["sentence"]
    assert [steps for steps, _ in found["points"]] == [0, 100, 200, 300, 400]


def test_batches_count_by_their_tokens():
    held = [dataclasses.asdict(scores(*one)) for one in ((0.1, 30), (0.3, 10))]
    found = curve.told({0: held, 8: held})
    assert found == {
        "points": [[0, pytest.approx(0.15)], [8, pytest.approx(0.15)]]
    }


def test_of_few_batches_nothing_is_told():
    assert "sentence" not in curve.told(points(0.3, 0.2, 0.1, batches=3))


def test_a_training_that_goes_on_keeps_its_points(tmp_path):
    values = iter([0.3, 0.2, 0.1])
    asked = lambda: [scores(next(values))]  # noqa: E731
    made = (tmp_path / "curve.json", 8, 50)
    first = curve.Curve(asked, *made)
    for epoch in range(5):
        first.on_epoch_end(epoch)
    second = curve.Curve(asked, *made)
    assert second.points() == first.points()
    for epoch in range(5, 8):
        second.on_epoch_end(epoch)
    found = second.points()
    assert {k: held[0]["jsd"] for k, held in found.items()} == {
        100: 0.3,
        200: 0.2,
        300: 0.1,
    }
    path = tmp_path / "curve.json"
    path.write_text(path.read_text().replace("0.2", "0.4"))
    assert curve.Curve(asked, *made).points() == {}
    assert not list(Backup(tmp_path)._numbers())


def test_a_short_training_has_no_points(tmp_path):
    found = curve.Curve(None, tmp_path / "curve.json", 1, 3)
    found.on_epoch_end(0)
    assert found.points() == {}
