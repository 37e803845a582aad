"""In Python what the commands do: the same numbers, and how it goes on."""

import json

import numpy as np
import pytest
import tiny_text

import keras_distill as kd
from keras_distill import _files
from keras_distill._errors import UsageError
from keras_distill.cli import main
from keras_distill.experiments import Teacher
from keras_distill.experiments import training
from keras_distill.experiments.bench import Bench
from keras_distill.students import TextCNN

SIZES = {"train": 60, "dev": 20, "test": 20}
TRAINING = ("seconds", "date", "settings", "environment", "measured")
SMOKE = {"width": 8, "epochs": 1}


@pytest.fixture
def texts(tmp_path):
    return tiny_text.write(tmp_path / "texts", SIZES)


@pytest.fixture
def prepared(texts, tmp_path):
    """Data and teacher in a folder, as `--smoke` makes them."""

    def run(folder, command, **chosen):
        return kd.experiments.prepare(
            tmp_path / folder,
            command,
            data=str(texts),
            smoke=True,
            **chosen,
        )

    return run


def command(name, texts, output, *arguments):
    given = [name, "--smoke", "--data", str(texts), "--output", str(output)]
    assert main([*given, *arguments]) == 0
    return _files.read_json(output / "report.json")


def numbers(report):
    """What is not of this moment: no times, and no sizes of files.

    These hold names that Keras counts up in a process.
    """

    def kept(value):
        if isinstance(value, dict):
            return {
                key: kept(item)
                for key, item in value.items()
                if key not in (*TRAINING, "latency_ms", "size_bytes")
            }
        return [kept(v) for v in value] if isinstance(value, list) else value

    return json.loads(json.dumps(kept(report)))


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_distill_is_the_command(prepared, texts, tmp_path):
    arguments = "--labels", "20", "--seeds", "1", "--method", "hidden"
    theirs = command(
        "distill", texts, tmp_path / "a", *arguments, "--student", "bilstm"
    )
    with prepared("b", "distill", labels=20).folder as folder:
        run = prepared_in(folder, texts, labels=20)
        ours = kd.distill(
            run.task,
            run.teacher,
            kd.students.BiLSTM(**SMOKE),
            folder,
            kd.recipes.hidden(),
            labels=20,
            seeds=1,
        )
    assert numbers(ours) == numbers(theirs)
    assert ours["models"][1]["test_accuracy"]


def prepared_in(folder, texts, **chosen):
    """What lies in a folder, loaded as a later process would."""
    preparation = kd.experiments.Preparation(
        data=str(texts), smoke=True, **chosen
    )
    return kd.experiments.Prepared(preparation, folder)


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_compare_is_the_command(prepared, texts, tmp_path):
    theirs = command(
        "compare",
        texts,
        tmp_path / "a",
        *("--labels", "20", "--no-html", "--seeds", "2"),
        *("--arms", "hard", "kd", "kd+transfer", "--transfer", "augment:1"),
    )
    chosen = prepared("b", "compare", labels=20, transfer="augment:1")
    kd_recipe = kd.recipes.kd()
    with chosen.folder as folder:
        ours = kd.compare(
            chosen.task,
            chosen.teacher,
            {"TextCNN": TextCNN(**SMOKE)},
            folder,
            [kd.recipes.hard(), kd_recipe, kd_recipe.with_transfer()],
            seeds=2,
            labels=20,
            html=False,
        )
    assert numbers(ours) == numbers(theirs)


@pytest.mark.large
@pytest.mark.exhaustive
def test_a_language_model_is_the_command(tmp_path):
    lines = [f"{a}{b} {b}{a} {a}{a}" for a in "abcdefg" for b in "hijklmn"]
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(lines))
    arguments = ["--data", str(path), "--prompt-tokens", "2"]
    output = tmp_path / "a"
    assert main(["gkd", "--smoke", "--output", str(output), *arguments]) == 0
    theirs = _files.read_json(output / "report.json")
    ours = kd.experiments.distill_language_model(
        tmp_path / "b", data=str(path), prompt_tokens=2, smoke=True
    )
    assert numbers(ours) == numbers(theirs)


@pytest.mark.large
def test_what_is_prepared_is_not_made_again(prepared, monkeypatch):
    first = prepared("out", "experiment")
    first.folder.close()

    def fit(*args):
        raise AssertionError("A training has begun.")

    monkeypatch.setattr(training, "fit", fit)
    second = prepared("out", "experiment")
    assert second.teacher.hash() == first.teacher.hash()
    second.folder.close()
    with pytest.raises(UsageError, match="belongs to"):
        prepared("out", "compare")
    with pytest.raises(UsageError, match="teacher_epochs: 1 there, 2 now"):
        prepared("out", "experiment", teacher_epochs=2)


@pytest.mark.large
@pytest.mark.exhaustive
def test_a_student_that_broke_is_failed(prepared, texts, tmp_path):
    """A rate that leads out of the numbers: told, and not averaged."""
    chosen = prepared("out", "compare")

    def broken(task, teacher):
        vocabulary = task.preprocessor.tokenizer.vocabulary_size()
        model = kd.students.text_cnn(2, (vocabulary, 4), filters=4)
        model.layers[-1].bias.assign([np.nan, 0])
        return model

    with chosen.folder as folder:
        found = kd.compare(
            chosen.task,
            chosen.teacher,
            {
                "sound": TextCNN(**SMOKE),
                "broken": kd.students.Custom(builder=broken, epochs=1),
            },
            folder,
            [kd.recipes.hard(), kd.recipes.kd()],
            seeds=1,
            html=False,
        )
    sound, _, *others = found["rows"]
    assert not sound["failed"]
    assert all("finite" in row["failed"]["0"] for row in others)
    answers = {v["student"]: v["answer"] for v in found["verdicts"]}
    assert answers["broken"] == "failed"
    assert set(found["exports"]) == {"teacher", "sound"}
    json.dumps(found, allow_nan=False)
    assert not (folder.path / "cells" / "broken.kd.0").exists()


@pytest.fixture(scope="module")
def bench():
    task = tiny_text.task()
    return Bench(task, tiny_text.teacher(task))


def test_a_teacher_of_nan_is_refused(bench):
    model = tiny_text.network()
    model.layers[-1].bias.assign([np.nan, 0])
    with pytest.raises(UsageError, match="must be finite"):
        Teacher.of(bench.task, model)


def test_other_logits_are_another_teacher(bench, tmp_path):
    teacher = bench.teacher
    assert tiny_text.teacher(bench.task).hash() == teacher.hash()
    teacher.save(tmp_path / "logits.npz")
    held = Teacher.restore(tmp_path / "logits.npz", None, "x")
    assert held.hash() == teacher.hash()
    changed = {part: array.copy() for part, array in held.logits.items()}
    changed["dev"][0, 0] += 1e-3
    assert Teacher(changed).hash() != teacher.hash()


def test_a_task_that_was_saved_is_the_same(bench, tmp_path):
    task = tiny_text.task(transfer=())
    task.save(tmp_path)
    held = type(task).restore(tmp_path, task.preprocessor, name=task.name)
    assert held.hashes() == task.hashes()
    assert held.hashes()["texts"] == bench.task.hashes()["texts"]
    assert held.hashes()["transfer"] != bench.task.hashes()["transfer"]
    assert held.facts() == task.facts()
    assert held.raw_examples(3) == task.raw_examples(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"student": 3}, "callable"),
        ({"teacher": Teacher({})}, "same parts"),
        ({"recipe": kd.recipes.hard()}, "must learn from the teacher"),
        ({"seeds": 0}, "seeds=0"),
        ({"recipe": kd.recipes.hidden()}, "needs a student with states"),
        ({"recipe": kd.recipes.annealing()}, "more epochs"),
        ({"student": lambda task, teacher: 3}, "built `keras.Model`"),
    ],
)
def test_wrong_arguments_of_distill(change, message, bench, tmp_path):
    options = {
        "teacher": bench.teacher,
        "student": tiny_text.SMALL,
        "export": False,
    } | change
    with pytest.raises(UsageError, match=message):
        kd.distill(bench.task, output=tmp_path, **options)
    assert not (tmp_path / "cells").exists()
