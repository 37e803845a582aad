"""What the numbers say, in plain words."""

from keras_distill.comparison import results

FEW_SEEDS = 3


def verdicts(finished, labels, teacher_accuracy):
    """What can be said about each student.

    The distilled arm that is best on dev is compared with the control, on
    test: choosing it on test would flatter it.

    Args:
        finished: List of `results.Finished`.
        labels: Integer array, the labels of the test part.
        teacher_accuracy: Float, the teacher's on test.

    Returns:
        List of dicts, one for each student: `student`, `arm` (the distilled
        arm that is judged, or None), `answer` (`"helps"`, `"hurts"`, `"not
        shown"` or `"not tried"`), `headline`, `details` (sentences), and
        `difference`.
    """
    return [
        _of_student(name, cells, labels, teacher_accuracy)
        for name, cells in results.by_student(finished)
    ]


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


def _of_student(name, cells, labels, teacher_accuracy):
    control = [f for f in cells if f.cell.arm.is_control]
    distilled = [f for f in cells if f.cell.arm.is_distilled]
    if not distilled:
        return {
            "student": name,
            "arm": None,
            "answer": "not tried",
            "headline": f"{name}: no arm with a teacher was run, so nothing "
            "can be said about distillation.",
            "details": [],
            "difference": None,
        }
    best = results.best_arm_on_dev(distilled)
    found = results.difference(control, best, labels)
    arm = best[0].cell.arm
    return {
        "student": name,
        "arm": arm.name,
        "answer": answer(found),
        "headline": f"{name}: {headline(found)}",
        "details": [
            _judged(arm, best, teacher_accuracy),
            *_sources(arm, cells, best, labels),
            *_caveats(found, len(control)),
        ],
        "difference": found,
    }


def answer(found):
    """`"helps"`, `"hurts"` or `"not shown"`: where the interval lies."""
    if not found["shown"]:
        return "not shown"
    return "helps" if found["value"] > 0 else "hurts"


def headline(found):
    """The answer in one sentence.

    Args:
        found: Dict, from `results.between`, against hard labels.

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
        "no difference can be shown between distillation and hard labels "
        f"({signed(found['value'])} points, {interval(found)})."
    )


def _judged(arm, best, teacher_accuracy):
    accuracy = _mean(best)
    return (
        f"Judged is the arm “{arm.name}”, the best distilled one on dev: "
        f"{100 * accuracy:.1f} % on test, "
        f"{100 * accuracy / teacher_accuracy:.1f} % of the teacher's "
        f"{100 * teacher_accuracy:.1f} %."
    )


def _sources(arm, cells, best, labels):
    """Where a difference comes from: the texts, or the teacher's logits."""
    if not arm.transfer:
        return []
    sentences = []
    same_texts = [
        f for f in cells if f.cell.arm.transfer and not f.cell.arm.is_distilled
    ]
    if same_texts:
        found = results.difference(same_texts, best, labels)
        sentences.append(
            "Against the teacher's classes as hard labels on the same texts, "
            f"its logits bring {_told(found)}."
        )
    stripped = arm.name.removesuffix(" + transfer")
    without = [f for f in cells if f.cell.arm.name == stripped]
    if without and stripped != arm.name:
        found = results.difference(without, best, labels)
        sentences.append(f"The transfer text itself brings {_told(found)}.")
    return sentences


def _told(found):
    shown = "" if found["shown"] else ", no difference shown"
    return f"{signed(found['value'])} points ({interval(found)}{shown})"


def _caveats(found, seeds):
    test = found["mcnemar"]
    sentences = [
        f"Of the pooled predictions, {test['only_second']:,} are right with "
        f"distillation only and {test['only_first']:,} without it only "
        f"(McNemar, {p_value(test['p_value'])})."
    ]
    if seeds == 1:
        sentences.append(
            "One seed: the interval holds the chance of the test texts, not "
            "that of the training. Run more seeds before you believe it."
        )
    elif seeds < FEW_SEEDS:
        sentences.append(
            f"{seeds} seeds say little about the chance of the training: the "
            "interval is rather too narrow."
        )
    return sentences


def _mean(cells):
    return sum(f.result["test_accuracy"] for f in cells) / len(cells)
