"""What `stories.py` found: tables, paired intervals, curves.

    python tests/benchmarks/stories_report.py --results runs/stories \\
        --figure docs/gkd_curves.svg

Test prompts, nats per token, mean ± standard deviation over seeds; intervals
by a bootstrap that draws seeds and blocks of 16 prompts, paired by both, of
arms that have the same seeds. The curves are of the dev prompts; their seconds
are updates times `seconds.json`, which `stories.py --seconds` measured.
"""

import argparse
import itertools
import json
import pathlib
import statistics

import numpy as np
from stories import ARMS
from stories import START
from stories import STUDENTS
from stories import results_of

from keras_distill.experiments.significance import paired_bootstrap

MEASURES = {
    "own text: KL(S ‖ T)": ("student", "reverse_kl"),
    "own text: KL(T ‖ S)": ("student", "forward_kl"),
    "own text: JSD": ("student", "jsd"),
    "own text: teacher's cross-entropy": ("student", "teacher_nll"),
    "teacher's text: KL(T ‖ S)": ("teacher", "forward_kl"),
    "teacher's text: JSD": ("teacher", "jsd"),
}
COMPARED = ("own text: JSD", "teacher's text: JSD", "own text: KL(S ‖ T)")
PAIRS = (
    ("supervised KD, JSD", "GKD 0.5, JSD"),
    ("supervised KD, JSD", "GKD 1, JSD"),
    ("supervised KD, JSD", "SeqKD, JSD"),
    ("SeqKD, JSD", "SeqKD with ten texts, JSD"),
    ("SeqKD with ten texts, JSD", "GKD 1, JSD"),
    ("GKD 1, JSD", "GKD 1, forward KL"),
    ("GKD 1, JSD", "GKD 1, reverse KL"),
)
RIVALS = ("supervised KD, JSD", "SeqKD with ten texts, JSD")


def ratio(means):
    """From means of sums and of tokens to a mean over tokens."""
    return means[..., 0] / means[..., 1]


def sums(blocks, measure):
    """Array `[blocks, 2]`: the sum over the tokens, and their number."""
    return np.array([[b[measure] * b["tokens"], b["tokens"]] for b in blocks])


def value(scores, measure):
    writer, name = MEASURES[measure]
    return float(ratio(sums(scores[writer], name).mean(axis=0)))


def spread(values):
    sd = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{sd}"


class Results:
    """Cells by student, arm and seed, and seconds per update."""

    def __init__(self, folder):
        self.cells = {}
        for row in results_of(folder):
            seeds = self.cells.setdefault((row["student_name"], row["arm"]), {})
            seeds[row["seed"]] = row
        path = folder / "seconds.json"
        self.seconds = json.loads(path.read_text()) if path.exists() else {}

    def table(self):
        print(f"| student | arm | {' | '.join(MEASURES)} | s per update |")
        print("| --- " * 2 + "| ---: " * (len(MEASURES) + 1) + "|")
        for name, arm in itertools.product(STUDENTS, [START, *ARMS]):
            seeds = self.cells.get((name, arm))
            if not seeds:
                continue
            columns = [
                spread([value(row["test"], m) for row in seeds.values()])
                for m in MEASURES
            ]
            taken = self.seconds.get(name, {}).get(arm)
            columns.append("" if taken is None else f"{taken:.3f}")
            few = "" if len(seeds) == 3 else f" ({len(seeds)} seeds)"
            print(f"| {name} | {arm}{few} | {' | '.join(columns)} |")

    def intervals(self):
        print(f"| student | from | to | {' | '.join(COMPARED)} |")
        print("| --- " * 3 + "| ---: " * len(COMPARED) + "|")
        for name, (first, second) in itertools.product(STUDENTS, PAIRS):
            pair = [self.cells.get((name, arm), {}) for arm in (first, second)]
            seeds = sorted(set(pair[0]) & set(pair[1]))
            if seeds:
                columns = [
                    self._interval(pair, seeds, measure) for measure in COMPARED
                ]
                print(
                    f"| {name} | {first} | {second} | {' | '.join(columns)} |"
                )

    @staticmethod
    def _interval(pair, seeds, measure):
        writer, key = MEASURES[measure]
        sides = [
            np.array([sums(side[s]["test"][writer], key) for s in seeds])
            for side in pair
        ]
        found = paired_bootstrap(*sides, ratio)
        bold = "**" if found.is_shown else ""
        return (
            f"{bold}{found.value:+.3f}{bold} [{found.low:+.3f}, "
            f"{found.high:+.3f}]"
        )

    def curve(self, name, arm, measure):
        """Updates, and dev scores of each seed, the start in front."""
        seeds = self.cells.get((name, arm), {})
        starts = self.cells.get((name, START), {})
        rows = [
            {**starts[seed]["dev"], **seeds[seed]["dev"]}
            for seed in sorted(set(seeds) & set(starts))
        ]
        if not rows:
            return None
        updates = sorted(map(int, rows[0]))
        scores = [
            [value(row[str(n)], measure) for n in updates] for row in rows
        ]
        return np.array(updates), np.array(scores)

    def overtaking(self, measure):
        """Until when others are below the on-policy arm.

        Both curves as lines over seconds, means over the seeds.
        """
        for name, rival in itertools.product(STUDENTS, RIVALS):
            arms = rival, "GKD 1, JSD"
            found = [self.curve(name, arm, measure) for arm in arms]
            taken = [self.seconds.get(name, {}).get(arm) for arm in arms]
            if None in (*found, *taken):
                continue
            (at, first), (_, second) = found
            grid = np.linspace(0, min(taken) * at[-1], 1000)
            lines = [
                np.interp(grid, at * cost, scores.mean(axis=0))
                for cost, scores in zip(taken, (first, second))
            ]
            behind = grid[lines[1] > lines[0]]
            until = f"{behind.max():.0f} s" if len(behind) else "never"
            print(
                f"{name}, {measure}: on-policy is behind {rival!r} until "
                f"{until} of {grid[-1]:.0f}"
            )

    def figure(self, path):
        import matplotlib

        matplotlib.use("svg")
        matplotlib.rcParams["svg.hashsalt"] = "stories"
        matplotlib.rcParams["svg.fonttype"] = "none"
        from matplotlib import pyplot

        measures = ("own text: JSD", "teacher's text: JSD")
        figure, axes = pyplot.subplots(
            len(STUDENTS) * 2, 2, figsize=(10, 14), sharey="row"
        )
        rows = itertools.product(STUDENTS, measures)
        for (name, measure), row in zip(rows, axes):
            for arm in ARMS:
                found = self.curve(name, arm, measure)
                if found is None:
                    continue
                updates, scores = found
                mean = scores.mean(axis=0)
                cost = self.seconds.get(name, {}).get(arm)
                for axis, scale in zip(row, (1, cost)):
                    if scale is None:
                        continue
                    (line,) = axis.plot(updates * scale, mean, label=arm)
                    sd = scores.std(axis=0, ddof=len(scores) > 1)
                    axis.fill_between(
                        updates * scale,
                        mean - sd,
                        mean + sd,
                        color=line.get_color(),
                        alpha=0.12,
                        linewidth=0,
                    )
            row[0].set_ylabel(f"{name}\n{measure}, nats per token")
            row[0].set_xlabel("updates")
            row[1].set_xlabel("seconds of training")
            for axis in row:
                axis.grid(alpha=0.3)
        figure.legend(
            *axes[0, 0].get_legend_handles_labels(),
            loc="upper center",
            ncols=4,
            fontsize=9,
        )
        figure.tight_layout(rect=(0, 0, 1, 0.965))
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--figure", type=pathlib.Path)
    arguments = parser.parse_args()
    results = Results(arguments.results)
    results.table()
    print()
    results.intervals()
    print()
    for measure in COMPARED:
        results.overtaking(measure)
    if arguments.figure:
        results.figure(arguments.figure)
