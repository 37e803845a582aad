"""From finished cells to words, tables and pages; nothing is trained here."""

import dataclasses
import html.parser
import json
import pathlib
import re

import numpy as np
import pytest

from keras_distill.comparison import html as page
from keras_distill.comparison import report
from keras_distill.comparison import results
from keras_distill.comparison import tables
from keras_distill.comparison import verdict
from keras_distill.comparison.arms import Arm
from keras_distill.comparison.arms import Student
from keras_distill.comparison.arms import default_arms
from keras_distill.comparison.cells import Cell
from keras_distill.comparison.engine import CompareOptions
from keras_distill.comparison.task import Task
from keras_distill.data import EncodedDataset
from keras_distill.data import TextDataset
from keras_distill.data import TextSplits

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


def fake_task(teacher=0.9):
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
    logits = {p: logits_of(teacher, LABELS[p], 7) for p in ROWS}
    return Task(
        TextSplits(**texts, label_names=NAMES, notes=("A note.",)),
        encoded,
        logits,
        name="made-up <data>",
    )


def finished(arm, seed, share, student="TextCNN", dev=None):
    """A cell that was never trained, right on about `share` of test."""
    folder = pathlib.Path("no-such-folder")
    cell = Cell(student, Student(lambda: None), arm, seed, None, folder)
    logits = logits_of(share, LABELS["test"], seed)
    right = float(np.mean(logits.argmax(-1) == LABELS["test"]))
    result = {
        "labels": 60,
        "texts": 60,
        "steps": 30,
        "best_epoch": 2,
        "parameters": 1234,
        "seconds": 36.0,
        "dev_accuracy": share if dev is None else dev,
        "test_accuracy": right,
        "ece": 0.05,
        "agreement": 0.9,
        "curves": {"val_accuracy": [share - 0.1, share, share - 0.02]},
    }
    return results.Finished(cell, result, logits)


def grid(shares, seeds=(0, 1, 2), student="TextCNN"):
    """Cells of the default arms; `shares` by arm."""
    arms = {arm.name: arm for arm in default_arms(transfer=True)}
    return [
        finished(arms[name], seed, share, student)
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
                "test_accuracy": 0.9,
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
                "test_accuracy": 0.84,
            },
            "int8": {
                "path": "student_int8.tflite",
                "refused": "agrees on 90 %",
            },
        },
    },
}


def build(cells=None, exports=(), **options):
    return report.build(
        grid(HELPS) if cells is None else cells,
        fake_task(),
        dict(exports),
        CompareOptions(**options),
    )


def test_rows_hold_means_over_seeds_and_differences():
    cells = grid(HELPS)
    rows = results.of_arms(cells, LABELS["test"], cost_per_hour=2.0)
    assert [row["arm"] for row in rows] == list(HELPS)
    control, kd = rows[0], rows[-1]
    assert "against_control" not in control
    tests = [f.result["test_accuracy"] for f in cells if f.cell.arm.is_control]
    assert control["test_accuracy"]["mean"] == pytest.approx(np.mean(tests))
    assert control["test_accuracy"]["sd"] == pytest.approx(
        np.std(tests, ddof=1)
    )
    found = kd["against_control"]
    means = [row["test_accuracy"]["mean"] for row in (control, kd)]
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
            [f for f in order if f.cell.arm.is_control],
            [f for f in order[::turn] if f.cell.arm.is_distilled],
            LABELS["test"],
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
    rows = results.of_arms(cells, LABELS["test"])
    assert [(r["student"], r["arm"]) for r in rows] == [
        ("BiLSTM", "hard labels"),
        ("BiLSTM", "KD"),
        ("TextCNN", "hard labels"),
        ("TextCNN", "KD"),
    ]
    assert rows[1]["against_control"]["value"] == pytest.approx(0.05, abs=0.02)
    assert rows[3]["against_control"]["value"] == pytest.approx(0.01, abs=0.02)
    told = verdict.verdicts(cells, LABELS["test"], 0.9)
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
    (told,) = verdict.verdicts(cells, LABELS["test"], 0.9)
    assert told["answer"] == answer
    assert re.search(words, told["headline"])
    assert "-" not in told["headline"]


def test_the_judged_arm_is_chosen_on_dev():
    """The arm that is best on test would be the other one."""
    kd, mse = (a for a in default_arms(False)[:0:-1])
    cells = [
        *grid({"hard labels": 0.7}, seeds=(0, 1)),
        *[finished(kd, s, 0.85, dev=0.6) for s in (0, 1)],
        *[finished(mse, s, 0.71, dev=0.9) for s in (0, 1)],
    ]
    (told,) = verdict.verdicts(cells, LABELS["test"], 0.9)
    assert told["arm"] == "logit MSE"
    assert told["answer"] == "not shown"


def test_the_verdict_says_where_it_comes_from():
    (told,) = verdict.verdicts(grid(HELPS), LABELS["test"], 0.9)
    text = " ".join(told["details"])
    assert "“KD + transfer”" in text
    assert "of the teacher's 90.0 %" in text
    assert re.search(r"its logits bring \+[78]\.\d points", text)
    assert re.search(r"transfer text itself brings \+[89]\.\d points", text)
    assert "McNemar, p < 0.001" in text


@pytest.mark.parametrize(
    ("seeds", "words"), [((4,), "One seed"), ((0, 1), "2 seeds say little")]
)
def test_few_seeds_are_called_few(seeds, words):
    cells = grid({"hard labels": 0.7, "KD": 0.8}, seeds)
    (told,) = verdict.verdicts(cells, LABELS["test"], 0.9)
    assert words in told["details"][-1]


def test_nothing_distilled_nothing_said():
    (told,) = verdict.verdicts(grid({"hard labels": 0.7}), LABELS["test"], 0.9)
    assert told["answer"] == "not tried"
    assert told["difference"] is None


def test_best_on_dev_takes_the_first_of_equals():
    arm = Arm("hard labels")
    cells = [
        finished(arm, s, 0.7, dev=d) for s, d in enumerate((0.5, 0.8, 0.8))
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
    held = [
        dataclasses.replace(
            f, cell=dataclasses.replace(f.cell, folder=tmp_path)
        )
        for f in grid(HELPS)
    ]
    for f in held:
        f.cell.file("json").write_text(json.dumps({"cell": f.cell.name}))
    assert build(held)["left_out"] == []
    found = build([f for f in held if f.cell.arm.name != "KD"])
    assert found["left_out"] == [f"TextCNN, KD, seed {i}" for i in range(3)]
    told = " ".join(found["measured"])
    assert "none was left out" not in told
    assert "3 further trainings in this folder were not asked for" in told


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
    assert re.fullmatch(
        r"\+14\.\d \[\+1\d\.\d, \+1\d\.\d\]", last["vs hard labels"]
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


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ImportError, match="pip install 'keras-distill"):
        page.require()


def test_written_files(tmp_path):
    found = build()
    report.write(found, tmp_path, with_html=False)
    assert sorted(f.name for f in tmp_path.iterdir()) == [
        "report.json",
        "report.md",
    ]
    assert json.loads((tmp_path / "report.json").read_text()) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoded": {}}, "must hold"),
        ({"logits": {"train": 1, "dev": 1, "test": 1, "more": 1}}, "more"),
        ({"logits": {"train": 1, "dev": 1, "test": 1, "transfer": 1}}, "same"),
        ({"logits": dict.fromkeys(ROWS, np.zeros((1, 3)))}, "one row for each"),
    ],
)
def test_a_task_that_does_not_fit(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(fake_task(), **change)
