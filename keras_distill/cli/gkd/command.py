"""`keras-distill gkd`: options in, tables and texts out."""

from keras_distill.experiments.language_models import cards
from keras_distill.experiments.language_models import run as language_models


def run(options, screen):
    """Runs the command.

    Args:
        options: `GKD`.
        screen: `Screen`.

    Raises:
        UsageError: The options, the data or the models are wrong.
    """
    chosen = {
        **vars(options.models),
        **vars(options.lengths),
        **vars(options.method),
        **vars(options.training),
        "smoke": options.run.smoke,
        "redo": options.run.redo,
    }
    output = chosen["output"]
    report = language_models.distill_language_model(watcher=screen, **chosen)
    before, after = report["before"], report["after"]
    screen.table(
        f"Student of {report['student']['parameters']:,} weights, teacher of "
        f"{report['teacher']['parameters']:,}. Held-out prompts.",
        cards.COLUMNS,
        cards.rows(before, after),
    )
    _print_samples(before, after, screen)
    if "sentence" in report["curve"]:
        screen.line(report["curve"]["sentence"])
    screen.line(
        f"Written: {output / 'report.json'}, the student in "
        f"{output / report['student']['path']}"
    )


def _print_samples(before, after, screen):
    writers = {
        "teacher": before["samples"]["teacher"],
        "start": before["samples"]["student"],
        "distilled": after["samples"]["student"],
    }
    for number, (prompt, _) in enumerate(writers["teacher"]):
        screen.line(f"\n{prompt} ...")
        for name, samples in writers.items():
            screen.line(f"  {name + ':':<11}{samples[number][1]}")
    screen.line("")
