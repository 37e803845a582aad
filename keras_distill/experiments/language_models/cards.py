"""The model card of a distilled language model."""

from keras_distill.experiments.report import cards
from keras_distill.experiments.report import tables
from keras_distill.export import model_card
from keras_distill.export.markdown import escape

LIMITS = (
    "It writes what is likely, not what is true, and may repeat what is wrong "
    "in its texts.",
    "The figures are those of one training with one seed.",
    "The teacher is the measure: where it is wrong, to be near it is no merit.",
)
COLUMNS = ("nats per token", "start", "distilled")
ROWS = (
    ("student", "reverse_kl", "own text: KL(student || teacher)"),
    ("student", "forward_kl", "own text: KL(teacher || student)"),
    ("student", "jsd", "own text: Jensen-Shannon"),
    ("student", "teacher_nll", "own text: the teacher's cross-entropy"),
    ("teacher", "forward_kl", "teacher's text: KL(teacher || student)"),
    ("teacher", "student_nll", "teacher's text: the student's cross-entropy"),
)
LOAD = """```python
import keras
import keras_hub

student = {call}
```"""


TAG = "text-generation"


def write(report, folder):
    """Writes `README.md` beside the distilled student.

    Args:
        report: Dict, the contents of `report.json`.
        folder: Path of the run's folder.

    Returns:
        The path of the card.
    """
    path = folder / report["student"]["path"]
    is_preset = path.is_dir()
    sections = {
        "What it is": (
            f"A causal language model of {report['student']['parameters']:,} "
            "weights, distilled from a larger one on text of its own with "
            "`keras-distill gkd`."
        ),
        "Data": _data(report),
        "Teacher": (
            f"{escape(report['settings']['teacher'])}, "
            f"{report['teacher']['parameters']:,} weights."
        ),
        "Training": _training(report["settings"]),
        "Metrics": _metrics(report),
        "Limits": "\n".join(f"- {sentence}" for sentence in LIMITS),
        "How to load": LOAD.format(
            call=(
                'keras_hub.models.CausalLM.from_preset(".")'
                if is_preset
                else f'keras.models.load_model("{path.name}", compile=False)'
            )
        ),
        "How to repeat": cards.repeat(
            report["settings"], report["environment"]
        ),
    }
    title = f"Causal language model for {report['settings']['data']}"
    return model_card(
        path if is_preset else folder, title, sections, (), pipeline_tag=TAG
    )


def _data(report):
    counts, settings = report["data"]["rows"], report["settings"]
    told = [
        f"{settings['data']}: {counts['train']:,} train texts, "
        f"{counts['dev']:,} held out.",
        *report["data"]["notes"],
    ]
    return tables.listed(told)


def _training(settings):
    otherwise = "the teacher" if settings["seq_kd"] else "the data set"
    return (
        f"{settings['steps']} updates of {settings['batch_size']} prompts, "
        f"AdamW, learning rate {settings['gkd_learning_rate']:g}. A completion "
        f"is the student's own with probability {settings['lmbda']:g}, sampled "
        f"at temperature {settings['temperature']:g}, and otherwise from "
        f"{otherwise}. Generalised Jensen-Shannon divergence, beta "
        f"{settings['beta']:g}, at temperature "
        f"{settings['loss_temperature']:g}; weight of the cross-entropy "
        f"{settings['sft_weight']:g}. Seed {settings['seed']}."
    )


def _metrics(report):
    lines = [COLUMNS, ("---", "---:", "---:")]
    lines += rows(report["before"], report["after"])
    table = [
        tables.line([cell.replace("||", "‖") for cell in row]) for row in lines
    ]
    said = report["curve"].get("sentence")
    return "\n".join(
        [*table, "", "On held-out prompts.", *filter(None, [said])]
    )


def rows(before, after):
    """The rows of the table, lists of strings as `COLUMNS`.

    Args:
        before: Dict, the scores of the student's start.
        after: Dict, those of the distilled student.
    """
    return [
        [title, f"{before[writer][name]:.3f}", f"{after[writer][name]:.3f}"]
        for writer, name, title in ROWS
    ]
