"""From finished cells to words, tables and pages; nothing is trained here."""

import dataclasses
import html.parser
import io
import json
import re
from unittest import mock

import numpy as np
import pytest

from keras_distill.data import EncodedDataset
from keras_distill.data import TextDataset
from keras_distill.data import TextSplits
from keras_distill.experiments import RunFolder
from keras_distill.experiments import Teacher
from keras_distill.experiments import default_recipes
from keras_distill.experiments import results
from keras_distill.experiments.cells import ARM
from keras_distill.experiments.cells import CONTROL
from keras_distill.experiments.cells import Cell
from keras_distill.experiments.descriptions import describe
from keras_distill.experiments.engine import Finished
from keras_distill.experiments.engine import Outcome
from keras_distill.experiments.phases import Phase
from keras_distill.experiments.report import cards
from keras_distill.experiments.report import contents
from keras_distill.experiments.report import figures
from keras_distill.experiments.report import html as page
from keras_distill.experiments.report import tables
from keras_distill.experiments.report import verdict
from keras_distill.recipes import hard
from keras_distill.recipes.base import slug
from keras_distill.students import Custom
from keras_distill.tasks import TextClassification
from keras_distill.tasks import measures

ROWS = {"train": 60, "dev": 40, "test": 400}
LABELS = {part: np.arange(rows) % 3 for part, rows in ROWS.items()}
NAMES = ["plain", "<b>bold</b>", "third & last"]


def logits_of(share, labels, seed):
    """Logits that are right on the first `share` of shuffled rows."""
    rng = np.random.default_rng(seed)
    hard = np.random.default_rng(9).permutation(len(labels))
    wrong = hard + rng.normal(0, 12, len(labels)) >= share * len(labels)
    shown = np.where(wrong, (labels + 1) % 3, labels)
    logits = rng.normal(0, 0.3, (len(labels), 3)).astype("float32")
    logits[np.arange(len(labels)), shown] += 2.5
    return logits


def fake_task():
    encoded = {
        part: EncodedDataset(
            {
                "token_ids": np.zeros((rows, 6), "int32"),
                "padding_mask": np.ones((rows, 6), "int32"),
            },
            LABELS[part],
            np.full(rows, 6),
        )
        for part, rows in ROWS.items()
    }
    texts = {
        part: TextDataset([f"{part} {i}" for i in range(rows)], LABELS[part])
        for part, rows in ROWS.items()
    }
    return TextClassification(
        TextSplits(**texts, label_names=NAMES, notes=("A note.",)),
        encoded,
        name="made-up <data>",
    )


def fake_teacher(share=0.9):
    return Teacher({p: logits_of(share, LABELS[p], 7) for p in ROWS})


def finished(recipe, seed, share, student="TextCNN", dev=None):
    """A cell that was never trained, right on about `share` of test."""
    cell = Cell(
        name=f"{slug(student)}.{slug(recipe.name)}.{seed}",
        title=f"{student}, {recipe.name}, seed {seed}",
        student_name=student,
        student=Custom(builder=lambda task, teacher: None),
        arm=recipe.name,
        recipe=recipe,
        seed=seed,
        role=CONTROL if recipe.is_control else ARM,
        learns_from=describe(recipe, 10),
    )
    logits = logits_of(share, LABELS["test"], seed)
    right = logits.argmax(-1) == LABELS["test"]
    result = {
        "labels": 60,
        "texts": 60,
        "steps": 30,
        "best_epoch": 2,
        "parameters": 1234,
        "seconds": 36.0,
        "dev_score": share if dev is None else dev,
        "test_score": float(right.mean()),
        **measures.class_scores(logits, LABELS["test"]),
        "ece": 0.05,
        "agreement": 0.9,
        "details": [],
        "curves": {"val_score": [share - 0.1, share, share - 0.02]},
    }
    reliability = measures.reliability(logits, LABELS["test"])
    return Finished(cell, result, right, reliability=reliability)


def grid(shares, seeds=(0, 1, 2), student="TextCNN"):
    """Cells of the default arms; `shares` by arm."""
    recipes = {r.name: r for r in default_recipes(transfer=True)}
    return [
        finished(recipes[name], seed, share, student)
        for seed in seeds
        for name, share in shares.items()
    ]


HELPS = {
    "hard labels": 0.70,
    "logit MSE": 0.72,
    "KD": 0.75,
    "hard labels + transfer": 0.76,
    "logit MSE + transfer": 0.80,
    "KD + transfer": 0.84,
}
EXPORTS = {
    "teacher": {
        "folder": "teacher",
        "files": {
            "float32": {
                "path": "teacher.tflite",
                "size_bytes": 9_000_000,
                "latency_ms": 11.0,
                "agreement": 1.0,
                "test_score": 0.9,
            }
        },
    },
    "TextCNN": {
        "folder": "textcnn",
        "arm": "KD + transfer",
        "seed": 1,
        "files": {
            "float32": {
                "path": "student.tflite",
                "size_bytes": 40_000,
                "latency_ms": 0.031,
                "agreement": 1.0,
                "test_score": 0.84,
            },
            "int8": {
                "path": "student_int8.tflite",
                "refused": "agrees on 90 %",
            },
        },
    },
}


class Empty:
    """A `RunFolder` that holds nothing."""

    def records(self):
        return {}

    def seconds(self):
        return {}


def build(cells=None, exports=(), folder=None, floors=None, **about):
    return contents.build(
        Outcome(grid(HELPS) if cells is None else cells, floors or {}),
        fake_task(),
        fake_teacher(),
        dict(exports),
        folder or Empty(),
        contents.About("compare", **about),
    )


def test_rows_hold_means_over_seeds_and_differences():
    cells = grid(HELPS)
    rows = results.of_arms(cells, cost_per_hour=2.0)
    assert [row["arm"] for row in rows] == list(HELPS)
    control, kd = rows[0], rows[-1]
    assert "against_control" not in control
    tests = [f.result["test_score"] for f in cells if f.cell.role == CONTROL]
    assert control["test_score"]["mean"] == pytest.approx(np.mean(tests))
    assert control["test_score"]["sd"] == pytest.approx(np.std(tests, ddof=1))
    found = kd["against_control"]
    means = [row["test_score"]["mean"] for row in (control, kd)]
    assert found["value"] == pytest.approx(means[1] - means[0])
    assert found["low"] < found["value"] < found["high"]
    gap = found["mcnemar"]["only_second"] - found["mcnemar"]["only_first"]
    assert gap == pytest.approx(found["value"] * 3 * ROWS["test"])
    assert kd["cost"] == pytest.approx(0.02)
    bins = kd["reliability"]
    assert sum(bins["count"]) == 3 * ROWS["test"]
    right = sum(n * (a or 0) for n, a in zip(bins["count"], bins["accuracy"]))
    assert right == pytest.approx(means[1] * 3 * ROWS["test"])
    json.dumps(rows)


def test_seeds_are_paired_whatever_their_order():
    cells = grid({"hard labels": 0.7, "KD": 0.8})
    pairs = [
        results.difference(
            [f for f in order if f.cell.role == CONTROL],
            [f for f in order[::turn] if f.cell.recipe.is_distilled],
        )
        for order in (cells, cells[::-1])
        for turn in (1, -1)
    ]
    assert all(pair == pairs[0] for pair in pairs)


def test_several_students_have_a_control_each():
    cells = [
        *grid({"hard labels": 0.6, "KD": 0.65}, student="BiLSTM"),
        *grid({"hard labels": 0.8, "KD": 0.81}, student="TextCNN"),
    ]
    rows = results.of_arms(cells)
    assert [(r["student"], r["arm"]) for r in rows] == [
        ("BiLSTM", "hard labels"),
        ("BiLSTM", "KD"),
        ("TextCNN", "hard labels"),
        ("TextCNN", "KD"),
    ]
    assert rows[1]["against_control"]["value"] == pytest.approx(0.05, abs=0.02)
    assert rows[3]["against_control"]["value"] == pytest.approx(0.01, abs=0.02)
    told = verdict.verdicts(Outcome(cells), 0.9)
    assert [v["student"] for v in told] == ["BiLSTM", "TextCNN"]


@pytest.mark.parametrize(
    ("shares", "answer", "words"),
    [
        ((0.7, 0.8), "helps", r"distillation helps by \d+\.\d ± \d\.\d points"),
        (
            (0.8, 0.7),
            "hurts",
            r"distillation hurts, by \d+\.\d ± \d\.\d points",
        ),
        ((0.75, 0.755), "not shown", r"no difference can be shown .* interval"),
    ],
)
def test_the_verdict_follows_the_interval(shares, answer, words):
    cells = grid(dict(zip(("hard labels", "KD"), shares)))
    (told,) = verdict.verdicts(Outcome(cells), 0.9)
    assert told["answer"] == answer
    assert re.search(words, told["headline"])
    assert "-" not in told["headline"]


def test_the_judged_arm_is_chosen_on_dev():
    """The arm that is best on test would be the other one."""
    kd, mse = default_recipes(False)[:0:-1]
    cells = [
        *grid({"hard labels": 0.7}, seeds=(0, 1)),
        *[finished(kd, s, 0.85, dev=0.6) for s in (0, 1)],
        *[finished(mse, s, 0.71, dev=0.9) for s in (0, 1)],
    ]
    (told,) = verdict.verdicts(Outcome(cells), 0.9)
    assert told["arm"] == "logit MSE"
    assert told["answer"] == "not shown"


def test_the_verdict_says_where_it_comes_from():
    (told,) = verdict.verdicts(Outcome(grid(HELPS)), 0.9)
    text = " ".join(told["details"])
    assert "“KD + transfer”" in text
    assert "of the teacher's 90.0 %" in text
    assert re.search(r"its logits bring \+[78]\.\d points", text)
    assert re.search(r"transfer set itself brings \+[89]\.\d points", text)
    assert "McNemar, p < 0.001" in text


@pytest.mark.parametrize(
    ("seeds", "words"), [((4,), "One seed"), ((0, 1), "2 seeds say little")]
)
def test_few_seeds_are_called_few(seeds, words):
    cells = grid({"hard labels": 0.7, "KD": 0.8}, seeds)
    (told,) = verdict.verdicts(Outcome(cells), 0.9)
    assert words in told["details"][-1]


def test_nothing_distilled_nothing_said():
    (told,) = verdict.verdicts(Outcome(grid({"hard labels": 0.7})), 0.9)
    assert told["answer"] == "not tried"
    assert told["difference"] is None


def test_best_on_dev_takes_the_first_of_equals():
    cells = [
        finished(hard(), s, 0.7, dev=d) for s, d in enumerate((0.5, 0.8, 0.8))
    ]
    assert results.best_on_dev(cells).cell.seed == 1


def test_pareto_front():
    points = [(2, 0.9), (1, 0.8), (3, 0.85), (1, 0.7), (4, 0.9), (5, 0.95)]
    assert results.pareto(points) == [1, 0, 5]
    assert results.pareto([]) == []


def test_the_report_says_what_was_run_and_what_not():
    found = build(cost_per_hour=2.0, labels=30)
    told = " ".join(found["measured"])
    for words in (
        "60 train, 40 dev and 400 test",
        "A note.",
        "1 student x 6 arms x 3 seeds (0, 1, 2) = 18 trainings",
        "none was left out",
        "30 of the train labels",
        "10,000 replicates",
        "2 an hour",
    ):
        assert words in told
    assert found["teacher"]["test_accuracy"] == pytest.approx(0.9, abs=0.02)
    assert found["environment"]["versions"]["keras"]
    json.dumps(found)


def test_the_report_names_what_it_leaves_out(tmp_path):
    held = grid(HELPS)
    with RunFolder(tmp_path, "compare") as folder:
        folder.execute(
            [
                Phase(
                    name=f.cell.name,
                    title=f.cell.title,
                    options={"recipe": f.cell.arm},
                    run=dict,
                    summary=str,
                )
                for f in held
            ]
        )
        assert build(held, folder=folder)["left_out"] == []
        found = build([f for f in held if f.cell.arm != "KD"], folder=folder)
    assert found["left_out"] == [f"TextCNN, KD, seed {i}" for i in range(3)]
    told = " ".join(found["measured"])
    assert "none was left out" not in told
    assert "3 further trainings in this folder were not asked for" in told


def test_trials_are_not_what_was_left_out(tmp_path):
    held = grid(HELPS)
    names = ["tune.kd-0.001", "textcnn.kd.7"]
    with RunFolder(tmp_path, "compare") as folder:
        folder.execute(
            [
                Phase(
                    name=name,
                    title=name,
                    options={"recipe": "KD"},
                    run=dict,
                    summary=str,
                )
                for name in names
            ]
        )
        assert build(held, folder=folder)["left_out"] == names[1:]


def test_what_arms_learn_from_where_students_differ():
    cells = [
        cell
        for student in ("TextCNN", "n-grams")
        for cell in grid({"hard labels": 0.7, "KD": 0.8}, (0,), student)
    ]
    cells[-1] = dataclasses.replace(
        cells[-1], cell=dataclasses.replace(cells[-1].cell, learns_from="5")
    )
    told = tables.arms(build(cells))
    assert list(told) == ["hard labels", "KD, TextCNN", "KD, n-grams"]
    assert told["KD, n-grams"].startswith("5. 60 labels")
    assert not told["KD, TextCNN"].startswith("5.")


def test_weights_are_those_of_the_seed_that_ships(tmp_path):
    """A linear part stands beside the network where it is better on dev."""
    cells = grid(HELPS)
    for held in cells:
        arm, seed = held.cell.arm, held.cell.seed
        if arm == "KD" or (arm, seed) == ("KD + transfer", 1):
            held.result["parameters"] = 5678
    found = build(cells, exports=EXPORTS)
    columns, body = tables.table(found)
    sizes = {
        row["cells"][1]: row["cells"][columns.index("Size")] for row in body
    }
    assert sizes.pop("KD") == sizes.pop("KD + transfer") == "40.0 kB"
    del sizes[body[0]["cells"][1]]
    assert set(sizes.values()) == {""}
    with mock.patch.object(cards, "model_card") as written:
        cards.write(found, fake_task(), tmp_path)
    assert "5,678 weights" in written.call_args.args[2]["What it is"]


@pytest.mark.parametrize("export", [True, False])
def test_missing_exports_are_mentioned(export):
    told = " ".join(build(export=export)["measured"])
    assert "Not exported" in told
    assert ("TensorFlow backend" in told) is export
    assert "one thread" in " ".join(build(exports=EXPORTS)["measured"])


def test_table():
    found = build(exports=EXPORTS, cost_per_hour=2.0)
    columns, body = tables.table(found)
    assert columns[-4:] == ("Cost", "Weights", "Size", "ms")
    assert {len(row["cells"]) for row in body} == {len(columns)}
    assert [row["kind"] for row in body] == ["teacher", "control"] + ["arm"] * 5
    assert [row["judged"] for row in body] == [False] * 6 + [True]
    last = dict(zip(columns, body[-1]["cells"]))
    assert last["Size"] == "40.0 kB"
    assert last["ms"] == "0.031"
    assert last["Cost"] == "0.02"
    assert re.fullmatch(r"8\d\.\d ± \d\.\d", last["Macro F1 %"])
    assert re.fullmatch(r"0\.7\d\d ± 0\.\d\d\d", last["MCC"])
    assert re.fullmatch(
        r"\+14\.\d \[\+1\d\.\d, \+1\d\.\d\]", last["vs control"]
    )
    assert last["p"] == "< 0.001"
    assert "Size" not in tables.table(build())[0]


def test_markdown():
    found = build(exports=EXPORTS)
    text = tables.markdown(found)
    assert text.count("\n| ") == 2 + 7 + 2 + 3
    assert found["verdicts"][0]["headline"] in text
    assert "not exported: agrees on 90 %" in text
    assert "| TextCNN | KD + transfer |" in text
    widths = {line.count("|") for line in text.splitlines() if line[:2] == "| "}
    assert len(widths) == 2


def test_bars_in_names_do_not_break_the_table():
    text = tables.markdown(build(grid({"hard labels": 0.7}, student="a|b")))
    (row,) = (line for line in text.splitlines() if line.startswith("| a"))
    assert row.startswith("| a\\|b |")


class Page(html.parser.HTMLParser):
    """What a browser would fetch, and whether the tags fit."""

    VOID = {"meta", "br", "img", "link", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.fetched, self.scripts = [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "data", "action"):
                self.fetched.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text():
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    settings = {"data": "</pre><script>alert(1)</script>"}
    return page.page(build(exports=EXPORTS, settings=settings))


def test_the_page_needs_nothing_else(text):
    found = Page(text)
    assert not found.open
    assert not found.scripts
    assert all(value.startswith("#") for value in found.fetched)
    urls = set(re.findall(r"https?://[^\"' ]+", text))
    assert urls <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not re.search(r"@import|@font-face|url\((?!#)", text)


def test_the_page_suits_phones_and_the_dark(text):
    assert 'name="viewport" content="width=device-width' in text
    assert "prefers-color-scheme: dark" in text
    assert text.count('class="scroll"') == text.count("<table") == 2
    for color in re.findall(r"#0[a0][0a]\w{3}\b", text):
        pytest.fail(f"A placeholder colour is left: {color}")
    assert "var(--series-2)" in text


def test_the_page_says_everything(text):
    assert "made-up &lt;data&gt;" in text
    assert "<script>" not in text
    for words in ("distillation helps by", "KD + transfer", "0.031", "A note."):
        assert words in text
    # Differences, curves, latency; seven reliability diagrams.
    assert text.count("<svg") == 3 + 7


def test_identifiers_of_figures_fit_their_uses(text):
    for use in set(re.findall(r'(?:xlink:href="|url\()#([\w-]+)', text)):
        assert f'id="{use}"' in text


def test_a_page_without_exports_and_differences():
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    made = page.page(build(grid({"hard labels": 0.7}, seeds=(0,))))
    assert "Accuracy against latency" not in made
    assert made.count("<svg") == 1 + 2


def test_names_of_points_stay_beside_the_ticks():
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    name = "layers of a teacher"
    exports = {"teacher": EXPORTS["teacher"], name: EXPORTS["TextCNN"]}
    found = build(grid(HELPS, student=name), exports=exports)
    with mock.patch.object(figures, "svg") as drawn:
        figures.accuracy_and_latency(found)
    figure = drawn.call_args.args[0]
    figure.savefig(io.BytesIO())
    (axes,) = figure.axes
    inside = axes.get_window_extent()
    names = [text.get_window_extent() for text in axes.texts]
    assert len(names) > 1
    assert min(name.x0 for name in names) >= inside.x0
    assert max(name.x1 for name in names) <= inside.x1


def test_a_student_that_broke_late_has_a_curve_as_far_as_it_went():
    """One seed stopped at an epoch without a number, the other went on."""
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    cells = grid({"hard labels": 0.7}, seeds=(0, 1))
    cells[0].result["curves"]["val_score"] = [0.5, None]
    cells[1].result["curves"]["val_score"] = [0.7, None, 0.9]
    rows = build(cells)["rows"]
    with mock.patch("matplotlib.axes.Axes.plot") as drawn:
        figures.learning_curves(rows)
    epochs, means = drawn.call_args.args
    assert [*epochs] == [1, 2, 3]
    np.testing.assert_allclose(means, [60, np.nan, 90])
    assert figures.learning_curves(rows).count("<path") > 0


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ImportError, match="pip install 'keras-distill"):
        page.require()


def test_written_files(tmp_path):
    found = build()
    contents.write(found, fake_task(), tmp_path)
    assert sorted(f.name for f in tmp_path.iterdir()) == [
        "report.json",
        "report.md",
    ]
    assert json.loads((tmp_path / "report.json").read_text()) == found


def test_a_task_without_its_parts():
    with pytest.raises(ValueError, match="must hold"):
        TextClassification(fake_task().splits, {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"more": np.zeros((1, 3))}, "more"),
        ({"transfer": np.zeros((1, 3))}, "same"),
        (dict.fromkeys(ROWS, np.zeros((1, 3))), "one row for each"),
        ({"dev": np.full((40, 3), np.nan)}, "must be finite"),
    ],
)
def test_a_teacher_that_does_not_fit(change, message):
    with pytest.raises(ValueError, match=message):
        Teacher(fake_teacher().logits | change).check_fits(fake_task())


def test_cells_of_no_use_are_failed_not_averaged():
    """Of one arm one seed broke, of another all of them."""
    held = grid({"hard labels": 0.7, "logit MSE": 0.9, "KD": 0.8})
    broken = [
        Finished(f.cell, _failed(f.result))
        if f.cell.arm == "logit MSE" or (f.cell.arm, f.cell.seed) == ("KD", 1)
        else f
        for f in held
    ]
    found = build(broken, cost_per_hour=2.0)
    _, mse, kd = found["rows"]
    assert mse["failed"] == dict.fromkeys("012", "it is NaN")
    assert kd["failed"] == {"1": "it is NaN"}
    assert mse["test_accuracy"]["mean"] is None
    assert "against_control" not in mse
    assert len(kd["test_accuracy"]["values"]) == 2
    (told,) = found["verdicts"]
    assert (told["arm"], told["answer"]) == ("KD", "helps")
    assert sum("Failed: " in line for line in told["details"]) == 4
    gap = told["difference"]["value"]
    assert gap == pytest.approx(
        kd["test_accuracy"]["mean"]
        - np.mean(
            [found["rows"][0]["test_accuracy"]["values"][i] for i in (0, 2)]
        )
    )
    assert "failed" in tables.markdown(found)
    json.dumps(found, allow_nan=False)


def test_the_verdict_of_failures_alone():
    held = grid({"hard labels": 0.7, "KD": 0.8})
    for arm, words in [
        ("KD", "every arm with a teacher failed"),
        ("hard labels", "the control failed"),
    ]:
        broken = [
            Finished(f.cell, _failed(f.result)) if f.cell.arm == arm else f
            for f in held
        ]
        (told,) = verdict.verdicts(Outcome(broken), 0.9)
        assert told["answer"] == "failed"
        assert words in told["headline"]
        tables.markdown(build(broken))


def _failed(result):
    gone = (
        *("dev_score", "test_score", "macro_f1", "matthews"),
        *("ece", "agreement", "curves", "details"),
    )
    kept = {k: v for k, v in result.items() if k not in gone}
    return {**kept, "best_epoch": None, "failed": "it is NaN"}


def test_details_are_of_no_reference():
    rows = [
        {
            "student": "S",
            "arm": arm,
            "role": role,
            "seeds": [3],
            "failed": {},
            "dev_score": {"mean": value},
            "test_score": {"values": [value]},
            "details": [[{"label": arm}]],
        }
        for arm, role, value in (
            ("hard", "control", 0.5),
            ("KD", "arm", 0.6),
            ("all labels", "reference", 0.9),
        )
    ]
    (found,) = tables.in_detail({"rows": rows})
    assert found == {"title": "S, KD, seed 3", "rows": [{"label": "KD"}]}
