"""The report's figures: SVG whose colours and fonts are the page's."""

import itertools
import math

from keras_distill.experiments import results
from keras_distill.experiments.report import exported
from keras_distill.experiments.report import tables
from keras_distill.experiments.report.drawing import GRID
from keras_distill.experiments.report.drawing import INK
from keras_distill.experiments.report.drawing import MUTED
from keras_distill.experiments.report.drawing import PAPER
from keras_distill.experiments.report.drawing import SERIES
from keras_distill.experiments.report.drawing import VARIABLES
from keras_distill.experiments.report.drawing import figure_of
from keras_distill.experiments.report.drawing import style
from keras_distill.experiments.report.drawing import svg

TRANSFER = " + transfer"
WIDTH = 3.9


def styles(arms):
    """Colour and dashes of each arm: with transfer dashed, else the same.

    Args:
        arms: Names.

    Returns:
        Dict from the name to a pair.
    """
    bases = list(dict.fromkeys(arm.removesuffix(TRANSFER) for arm in arms))
    return {
        arm: (
            SERIES[bases.index(arm.removesuffix(TRANSFER)) % len(SERIES)],
            (0, (4, 2)) if arm.endswith(TRANSFER) else "solid",
        )
        for arm in arms
    }


def legend(arms):
    """What the colours and dashes mean, for the page to draw.

    Args:
        arms: Names.

    Returns:
        List of dicts with `name`, `color` (of CSS) and `dashed`.
    """
    return [
        {
            "name": arm,
            "color": f"var({VARIABLES[color]})",
            "dashed": dashes != "solid",
        }
        for arm, (color, dashes) in styles(arms).items()
    ]


def differences(rows):
    """Each arm's difference to the control, with its interval.

    Args:
        rows: The rows of one student.

    Returns:
        String, an SVG element; empty where there is only the control.
    """
    rows = [row for row in rows if "against_control" in row]
    if not rows:
        return ""
    with style():
        figure, axes = figure_of(WIDTH, 0.62 + 0.3 * len(rows))
        for y, row in enumerate(reversed(rows)):
            found = row["against_control"]
            color = SERIES[2] if found["shown"] else MUTED
            ends = [100 * found["low"], 100 * found["high"]]
            axes.plot(ends, [y, y], color=color, linewidth=1.8)
            axes.plot(100 * found["value"], y, "o", color=color, markersize=5)
        axes.axvline(0, color=INK, linewidth=0.8)
        names = [row["arm"] for row in reversed(rows)]
        axes.set_yticks(range(len(rows)), names, color=INK)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("points on test, against the control")
        return svg(figure, "Differences to the control, with intervals")


def learning_curves(rows, measure="accuracy"):
    """The score on dev after each epoch: mean over seeds, and their range.

    Args:
        rows: The rows of one student.
        measure: String, `Task.measure`.

    Returns:
        String, an SVG element.
    """
    drawn = styles([row["arm"] for row in rows])
    with style():
        figure, axes = figure_of(WIDTH, 2.7)
        for row in rows:
            color, dashes = drawn[row["arm"]]
            curves = [curve["val_score"] for curve in row["curves"]]
            # A student that broke has no score, and ended before the others.
            by_epoch = [
                [100 * v for v in values if v is not None] or [math.nan]
                for values in itertools.zip_longest(*curves)
            ]
            epochs = range(1, len(by_epoch) + 1)
            means = [sum(values) / len(values) for values in by_epoch]
            marker = "o" if len(by_epoch) == 1 else None
            axes.plot(
                epochs,
                means,
                color=color,
                linestyle=dashes,
                marker=marker,
                markersize=4,
            )
            if len(curves) > 1:
                axes.fill_between(
                    epochs,
                    [min(values) for values in by_epoch],
                    [max(values) for values in by_epoch],
                    color=color,
                    alpha=0.12,
                    linewidth=0,
                )
        axes.grid(axis="y")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("epoch")
        axes.set_ylabel(f"{measure} on dev, %")
        return svg(figure, "Learning curves")


def accuracy_and_latency(found):
    """The score on test against latency, and the front of the best.

    Args:
        found: Dict, from `report.build`.

    Returns:
        String, an SVG element; empty where nothing was timed.
    """
    points = _points(found)
    if len(points) < 2:
        return ""
    with style():
        figure, axes = figure_of(WIDTH, 2.9)
        front = results.pareto([(p["latency"], p["accuracy"]) for p in points])
        axes.step(
            [points[i]["latency"] for i in front],
            [points[i]["accuracy"] for i in front],
            where="post",
            color=MUTED,
            linewidth=0.9,
        )
        for point in points:
            axes.plot(
                point["latency"],
                point["accuracy"],
                "D" if point["teacher"] else "o",
                color=point["color"],
                markerfacecolor=point["color"] if point["filled"] else PAPER,
                markersize=6,
            )
        axes.set_xscale("log")
        axes.grid(axis="y")
        axes.margins(x=0.12, y=0.12)
        _label_points(axes, points)
        _plain_log_ticks(axes)
        axes.set_xlabel(f"milliseconds a {found['task']['noun']}, one thread")
        axes.set_ylabel(f"{found['task']['measure']} on test, %")
        return svg(figure, "Accuracy against latency")


def reliability(found):
    """Accuracy by confidence, on the diagonal if calibrated.

    Args:
        found: Dict, from `significance.reliability`.

    Returns:
        String, an SVG element.
    """
    bins = len(found["count"])
    total = sum(found["count"])
    with style():
        figure, axes = figure_of(1.75, 1.75)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
        for i, count in enumerate(found["count"]):
            left = i / bins
            axes.bar(left, count / total, 1 / bins, align="edge", color=GRID)
        filled = [i for i, count in enumerate(found["count"]) if count]
        axes.plot(
            [found["confidence"][i] for i in filled],
            [found["accuracy"][i] for i in filled],
            "o-",
            color=SERIES[2],
            markersize=3,
            linewidth=1.1,
        )
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.set_aspect("equal")
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
        return svg(figure, "Reliability diagram")


def _points(found):
    """What has an accuracy and a latency."""
    points = []
    file = found["teacher"]["file"]
    if file is not None and "refused" not in file:
        points.append(
            {
                "name": "teacher",
                "latency": file["latency_ms"],
                "accuracy": 100 * found["teacher"]["test_score"],
                "color": INK,
                "filled": True,
                "teacher": True,
            }
        )
    drawn = styles([row["arm"] for row in found["rows"]])
    for row in tables.sound(found["rows"]):
        file = exported.measured(found, row)
        if file is None or "refused" in file:
            continue
        points.append(
            {
                "name": row["student"],
                "latency": file["latency_ms"],
                "accuracy": 100 * row["test_score"]["mean"],
                "color": drawn[row["arm"]][0],
                "filled": not row["transfer"],
                "teacher": False,
            }
        )
    return points


def _label_points(axes, points):
    """Names at the highest point of each latency."""
    highest = {}
    for point in points:
        name = point["name"]
        if name not in highest or point["accuracy"] > highest[name]["accuracy"]:
            highest[name] = point
    to_axes = axes.transData + axes.transAxes.inverted()
    for name, point in highest.items():
        place = point["latency"], point["accuracy"]
        across = to_axes.transform(place)[0]
        # Centred above the first point, a name would reach into the ticks.
        side = {0: "left", 3: "right"}.get(int(4 * across), "center")
        axes.annotate(
            name,
            place,
            xytext=(0, 7),
            textcoords="offset points",
            ha=side,
        )


def _plain_log_ticks(axes):
    from matplotlib import ticker

    low, high = axes.get_xlim()
    # Over more than that the labels of 1, 2 and 5 run into each other.
    subs = (1, 2, 5) if high < 100 * low else (1,)
    axes.xaxis.set_major_locator(ticker.LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
