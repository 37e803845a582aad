"""What the numbers say, in plain words."""

from keras_distill.experiments import results
from keras_distill.experiments.floor import LINEAR

FEW_SEEDS = 3


def verdicts(outcome, teacher_score, measure="accuracy"):
    """What can be said about each student.

    The distilled arm that is best on dev is compared with the control, on
    test: choosing it on test would flatter it.

    Args:
        outcome: `engine.Outcome`.
        teacher_score: Float, the teacher's on test.
        measure: String, `Task.measure`.

    Returns:
        List of dicts, one for each student: `student`, `arm` (the distilled
        arm that is judged, or None), `answer` (`"helps"`, `"hurts"`, `"not
        shown"`, `"not tried"` or `"failed"`), `headline`, `details`, `warnings`
        and `failures` (sentences), and `difference`.
    """
    found = []
    for name, cells in results.by_student(outcome.finished):
        told = _of_student(name, cells, teacher_score, measure)
        warnings, details = _warnings(outcome, cells), told["details"]
        linear, is_ahead = _linear(outcome, cells) or (None, False)
        if linear:
            (warnings if is_ahead else details).append(linear)
        details = [*warnings, *details]
        found.append({**told, "details": details, "warnings": warnings})
    return found


def points(difference):
    """A difference as people read it, `2.1 ± 0.4`, in percentage points.

    Example:

    >>> points({"value": 0.021, "low": 0.017, "high": 0.026})
    '2.1 ± 0.5'
    """
    half = (difference["high"] - difference["low"]) / 2
    return f"{100 * difference['value']:.1f} ± {100 * half:.1f}"


def interval(difference):
    """The interval in words.

    Example:

    >>> interval({"low": -0.0049, "high": 0.017})
    '95 % interval −0.5 to +1.7'
    """
    low, high = (signed(difference[end]) for end in ("low", "high"))
    return f"95 % interval {low} to {high}"


def signed(share):
    """A share of 1 as percentage points with a sign.

    Example:

    >>> signed(0.021), signed(-0.004), signed(-0.0001)
    ('+2.1', '−0.4', '0.0')
    """
    text = f"{100 * share:+.1f}"
    if float(text) == 0:
        return "0.0"
    return text.replace("-", "−")


def p_value(value):
    """A p-value without false precision.

    Example:

    >>> p_value(0.0312), p_value(0.00001)
    ('p = 0.031', 'p < 0.001')
    """
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def _of_student(name, cells, teacher_score, measure):
    control = results.control_of(cells)
    distilled = [f for f in cells if f.cell.recipe.is_distilled]
    if not distilled:
        return _no_verdict(
            name,
            "not tried",
            "no arm with a teacher was run, so nothing can be said about "
            "distillation.",
            cells,
        )
    best = results.best_arm_on_dev(distilled)
    if best is None or not results.paired(control, best):
        which = "every arm with a teacher" if best is None else "the control"
        return _no_verdict(
            name,
            "failed",
            f"{which} failed, so nothing can be said about distillation.",
            cells,
        )
    found = results.difference(control, best)
    found["control"] = control[0].cell.recipe.name
    cell = best[0].cell
    return {
        "student": name,
        "arm": cell.arm,
        "answer": answer(found),
        "headline": f"{name}: {headline(found)}",
        "details": [
            _judged(cell, best, teacher_score, measure),
            *_sources(cell, cells, best),
            *_caveats(found, len(results.paired(control, best))),
            *_failures(cells),
        ],
        "failures": _failures(cells),
        "difference": found,
    }


def _warnings(outcome, cells):
    """Sentences on what does better than the student, or than its teacher."""
    found = []
    if outcome.weak_teacher:
        found.append(f"Weak teacher: {outcome.weak_teacher}")
    best = results.best_arm_on_dev(cells)
    tried = any(f.cell.recipe.is_distilled for f in cells)
    if best is not None and tried and not best[0].cell.recipe.is_distilled:
        found.append(
            f"“{best[0].cell.arm}” is better on dev here than every arm with a "
            "teacher: it is the one to ship."
        )
    return found


def _linear(outcome, cells):
    """A sentence on the linear model, and whether it is ahead; or None."""
    best = results.best_arm_on_dev(cells)
    if best is None or LINEAR not in outcome.floors:
        return None
    floor = outcome.floors[LINEAR]
    found = results.against_floor(floor, best)
    is_ahead = found["value"] < 0
    told = "reaches"
    if is_ahead:
        told = "does better:" if found["shown"] else "may be better:"
    return (
        f"A linear model on the same labels {told} "
        f"{100 * floor.mean('test_score'):.1f} % on test; against it "
        f"“{best[0].cell.arm}”, the best on dev, brings {_told(found)}.",
        is_ahead,
    )


def _no_verdict(name, told, words, cells):
    return {
        "student": name,
        "arm": None,
        "answer": told,
        "headline": f"{name}: {words}",
        "details": _failures(cells),
        "failures": _failures(cells),
        "difference": None,
    }


def _failures(cells):
    """One sentence on each cell whose student is of no use."""
    return [f"Failed: {f.cell.title}: {f.failed}." for f in cells if f.failed]


def answer(found):
    """`"helps"`, `"hurts"` or `"not shown"`: where the interval lies."""
    if not found["shown"]:
        return "not shown"
    return "helps" if found["value"] > 0 else "hurts"


def headline(found):
    """The answer in one sentence.

    Args:
        found: Dict, from `results.between`, and the name of the `control`.

    Returns:
        String.
    """
    told = answer(found)
    if told == "helps":
        return (
            f"distillation helps by {points(found)} points ({interval(found)})."
        )
    if told == "hurts":
        worse = {**found, "value": -found["value"]}
        return (
            f"distillation hurts, by {points(worse)} points "
            f"({interval(found)})."
        )
    return (
        f"no difference can be shown between distillation and "
        f"{found['control']} ({signed(found['value'])} points, "
        f"{interval(found)})."
    )


def _judged(cell, best, teacher_score, measure):
    score = _mean(best)
    told = (
        f"Judged is the arm “{cell.arm}”, the best distilled one on dev: "
        f"{measure} {100 * score:.1f} % on test"
    )
    if teacher_score <= 0:
        return f"{told}; the teacher is never right there."
    return (
        f"{told}, {100 * score / teacher_score:.1f} % of the teacher's "
        f"{100 * teacher_score:.1f} %."
    )


def _sources(cell, cells, best):
    """Where a difference comes from: the texts, or the teacher's logits."""
    if not cell.recipe.transfer:
        return []
    sentences = []
    same_texts = [
        f
        for f in cells
        if f.cell.recipe.transfer and not f.cell.recipe.is_distilled
    ]
    if results.paired(same_texts, best):
        found = results.difference(same_texts, best)
        sentences.append(
            "Against the teacher's predictions as hard labels on the same "
            f"rows, its logits bring {_told(found)}."
        )
    stripped = cell.arm.removesuffix(" + transfer")
    without = [f for f in cells if f.cell.arm == stripped]
    if stripped != cell.arm and results.paired(without, best):
        found = results.difference(without, best)
        sentences.append(f"The transfer set itself brings {_told(found)}.")
    return sentences


def _told(found):
    shown = "" if found["shown"] else ", no difference shown"
    return f"{signed(found['value'])} points ({interval(found)}{shown})"


def _caveats(found, seeds):
    test, sentences = found["mcnemar"], []
    if test is not None:
        sentences.append(
            f"Of the pooled predictions, {test['only_second']:,} are right "
            f"with distillation only and {test['only_first']:,} without it "
            f"only (McNemar, {p_value(test['p_value'])})."
        )
    if seeds == 1:
        sentences.append(
            "One seed: the interval holds the chance of the test set, not "
            "that of the training. Run more seeds before you believe it."
        )
    elif seeds < FEW_SEEDS:
        sentences.append(
            f"{seeds} seeds say little about the chance of the training: the "
            "interval is rather too narrow."
        )
    return sentences


def _mean(cells):
    return sum(f.result["test_score"] for f in cells) / len(cells)
