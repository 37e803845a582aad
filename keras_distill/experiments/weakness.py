"""When a teacher is not worth imitating, and what to do then."""

import dataclasses
import statistics

from keras_distill.experiments import results
from keras_distill.experiments import significance
from keras_distill.experiments.cells import ARM
from keras_distill.experiments.cells import CONTROL
from keras_distill.experiments.floor import LINEAR
from keras_distill.experiments.places import EMBEDDED

SOFT_ADVICE = "A better teacher would give the students more."
ADVICE = (
    "Fine-tune it longer (`--teacher-minutes`, `--teacher-epochs`, "
    "`--teacher-learning-rate`) or take another one (`--teacher`)."
)
EMBEDDED_ADVICE = (
    "It knows no more than the train part: name a pretrained one (`--teacher`, "
    "of compress `--model`)."
)
GO_ON = "`--keep-weak-teacher` goes on with it."


@dataclasses.dataclass(frozen=True)
class Weakness:
    """What does better on dev than the teacher.

    Args:
        told: String, a sentence on it.
        ends: Boolean. Whether it has seen no more labels than the students,
            and does better by more than chance: then the teacher has nothing
            to give them. What has seen all labels, as the teacher has, is no
            reason not to imitate it where the students see few.
    """

    told: str
    ends: bool


def of(task, teacher, floors, controls):
    """How weak a teacher is, judged on dev; None if nothing does better.

    Args:
        task: `Task`.
        teacher: `Teacher`.
        floors: Dict of `floor.Floor`.
        controls: List of `Finished`, students on labels alone.

    Returns:
        `Weakness` or None.
    """
    score = task.score(teacher.logits, "dev")
    chance = significance.chance(task, teacher.logits)
    better = [
        (sees_as_much, value, name)
        for value, name, sees_as_much in _rivals(floors, controls)
        if value > score
    ]
    if not better:
        return None
    # What could end the run is told before what is better and could not.
    sees_as_much, value, name = max(better)
    ends = sees_as_much and value - score > chance
    told = (
        f"the teacher's {task.measure} on dev, {100 * score:.1f} %, is below "
        f"that of {name}, {100 * value:.1f} %"
    )
    advice = EMBEDDED_ADVICE if teacher.source == EMBEDDED else ADVICE
    if ends:
        told = f"{told}, so there is little to imitate. {advice} {GO_ON}"
    elif sees_as_much:
        told = f"{told}, which may be chance. {advice}"
    else:
        told = f"{told}. {SOFT_ADVICE}"
    return Weakness(told, ends)


def _rivals(floors, controls):
    """Triples: a score on dev, a name, whether it saw what students see."""
    for name, found in floors.items():
        seen = found.results[0]["labels"]
        yield (
            found.mean("dev_score"),
            f"the linear model ({seen:,} labels)",
            name == LINEAR,
        )
    for name, cells in results.by_student(controls):
        for _, group in results.by_arm(cells):
            sound = results.whole(group)
            # What was trained on no label says nothing about the labels.
            if sound and sound[0].cell.role != ARM:
                seen = sound[0].result["labels"]
                yield (
                    statistics.mean(f.result["dev_score"] for f in sound),
                    f"{name} on labels alone ({seen:,} labels)",
                    sound[0].cell.role == CONTROL,
                )
