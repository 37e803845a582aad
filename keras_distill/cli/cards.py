"""The model card of `keras-distill distill`."""

from keras_distill.cli import arms
from keras_distill.cli import transfer
from keras_distill.cli.report import percent
from keras_distill.comparison import cards
from keras_distill.comparison import tables
from keras_distill.comparison import verdict

METHODS = {
    "kd": "T² KL divergence to the teacher's probabilities at T = {0:g}",
    "mse": "mean squared error to the teacher's logits",
    "annealing": "Annealing-KD, the teacher's logits scaled up in {0:g} steps, "
    "then the labels",
    "hidden": "T² KL divergence to the teacher's probabilities at T = {0:g}, "
    "and hidden states matched",
}


def write(report, corpus, folder):
    """Writes `export/README.md` on the distilled student.

    Args:
        report: Dict, the contents of `report.json`.
        corpus: `Corpus`.
        folder: Path of the run's folder.
    """
    settings = report["settings"]
    models = {model["name"]: model for model in report["models"]}
    student = models[arms.DISTILLED]
    sections = {
        "What it is": _purpose(settings, student, corpus),
        "Data": _data(report["data"], settings, corpus),
        "Teacher": cards.teacher(
            {
                "parameters": models["teacher"]["parameters"],
                "test_accuracy": models["teacher"]["test_accuracy"][0],
            },
            settings,
        ),
        "Training": _training(settings, student),
        "Metrics": _metrics(report, models),
        "Limits": cards.limits(None, corpus),
        "How to repeat": cards.repeat(settings, report["machine"]),
    }
    cards.write_cards(
        folder / "export",
        f"Text classifier for {settings['data']}, {settings['student']}",
        sections,
        student["files"],
        corpus,
    )


def _purpose(settings, student, corpus):
    labels = ", ".join(map(str, corpus.splits.label_names))
    return (
        f"A text classifier ({labels}), {student['parameters']:,} weights: a "
        f"{settings['student']} distilled from a larger model with "
        "`keras-distill distill`."
    )


def _data(data, settings, corpus):
    rows = data["rows"]
    told = [
        f"{settings['data']}: {rows['train']:,} train texts, {rows['dev']:,} "
        f"dev and {rows['test']:,} test.",
        *data["notes"],
    ]
    if transfer.is_wanted(corpus.settings):
        told.append(transfer.note(corpus.settings, len(corpus.transfer)))
    return "\n".join(f"- {sentence}" for sentence in told)


def _training(settings, student):
    how = METHODS[settings["method"]].format(settings["temperature"])
    weights = ""
    if settings["method"] != "annealing":
        weights = (
            f" Weights: {settings['hard_weight']:g} for the labels, "
            f"{settings['soft_weight']:g} for the teacher."
        )
    return (
        f"Cross-entropy with {student['labels']:,} labels; {how}.{weights} "
        f"{settings['epochs']} epochs of {settings['batch_size']} texts a "
        f"step, Adam, learning rate {settings['learning_rate']:g}. Of the "
        f"seeds {settings['seeds']}, the one best on dev is here."
    )


def _metrics(report, models):
    found = report["difference"]
    lines = [
        "| | Test % | Dev % |",
        "| --- | ---: | ---: |",
        *(
            f"| {model['description']} | "
            f"{percent(model['test_accuracy'])} | "
            f"{percent(model['dev_accuracy'])} |"
            for model in models.values()
        ),
        "",
        "Mean ± standard deviation over seeds. Against the same student on "
        f"the same labels without a teacher: {verdict.headline(found)}",
        "",
        *tables.files_markdown({"": models[arms.DISTILLED]["files"]}),
    ]
    return "\n".join(lines)
