"""Does learning on one's own text help? A real language model, small students.

    python tests/benchmarks/stories.py --teacher PRESET_FOLDER \\
        --stories TRAIN.txt --held-out VALID.txt --output runs/stories

The teacher is a KerasHub preset of a llama-type model; the stories are texts
separated by `<|endoftext|>`. Prompts are their first sentences. Every arm
starts from the same student (trained on the stories first) and takes the same
number of updates. Each (student, arm, seed) is one line of `results.jsonl` in
`--output`, all cells of a seed before the next seed's; a second run goes on
where the first one stopped.
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
import re
import statistics
import time

import keras
import keras_hub
import numpy as np

from keras_distill import gkd
from keras_distill.gkd.fine_tuning import next_tokens

COMPLETION, PROMPT, BATCH = 96, 64, 16
STUDENTS = {"2x48": (2, 48), "3x64": (3, 64)}
KL = {"beta": 0.0}
REVERSE = {"beta": 1.0}
ARMS = {
    "SFT": None,
    "supervised KD, JSD": {"lmbda": 0.0},
    "SeqKD, JSD": {"lmbda": 0.0, "seq_kd": True},
    "GKD 0.5, JSD": {"lmbda": 0.5},
    "GKD 1, JSD": {"lmbda": 1.0},
    "GKD 0.5, forward KL": {"lmbda": 0.5, **KL},
    "GKD 1, forward KL": {"lmbda": 1.0, **KL},
    "GKD 0.5, reverse KL": {"lmbda": 0.5, **REVERSE},
    "GKD 1, reverse KL": {"lmbda": 1.0, **REVERSE},
}
START_LEARNING_RATE, LEARNING_RATE = 3e-3, 5e-4
MEASURES = (
    ("student", "reverse_kl"),
    ("student", "forward_kl"),
    ("student", "jsd"),
    ("student", "teacher_nll"),
    ("teacher", "forward_kl"),
    ("teacher", "jsd"),
)


def read_stories(path):
    """Pairs of the first sentence of a story and the rest of it."""
    pairs = []
    for story in path.read_text(encoding="utf-8").split("<|endoftext|>"):
        found = re.match(r"\s*(.+?[.!?]\"?)\s+(.+)", story, re.S)
        if found:
            pairs.append((found[1], found[2].strip()))
    return pairs


def build(size, teacher):
    layers, width = size
    backbone = keras_hub.models.LlamaBackbone(
        vocabulary_size=teacher.backbone.vocabulary_size,
        num_layers=layers,
        num_query_heads=4,
        num_key_value_heads=4,
        hidden_dim=width,
        intermediate_dim=round(2.7 * width),
    )
    return keras_hub.models.LlamaCausalLM(backbone, preprocessor=None)


def optimizer(peak, steps):
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=peak, warmup_steps=max(1, steps // 10)
    )
    return keras.optimizers.AdamW(rate, weight_decay=0.01, clipnorm=1.0)


def reset(model, weights, student):
    """Back to `weights`, with a fresh optimizer."""
    student.set_weights(weights)
    for variable in model.optimizer.variables:
        variable.assign(keras.ops.zeros_like(variable))


class Study:
    """The models, compiled once, and the data."""

    def __init__(self, options):
        self.options = options
        self.teacher = keras_hub.models.CausalLM.from_preset(
            str(options.teacher)
        )
        self.preprocessor = gkd.GKDPreprocessor(
            self.teacher.preprocessor.tokenizer,
            max_completion_length=COMPLETION,
            max_prompt_length=PROMPT,
            buckets=(PROMPT,),
            long_prompts="cut",
        )
        self.train = read_stories(options.stories)
        self.held_out = self.batches(read_stories(options.held_out)[:128])
        self.students = {
            name: build(STUDENTS[name], self.teacher)
            for name in options.students
        }
        stops = (self.preprocessor.stop_token_id,)
        self.scorers = {
            name: gkd.WritingScorer(
                self.teacher, student, COMPLETION, stop_token_ids=stops
            )
            for name, student in self.students.items()
        }
        self.models = {}

    def batches(self, pairs, seed=None):
        return self.preprocessor.batches(
            *map(list, zip(*pairs)),
            batch_size=BATCH,
            shuffle=seed is not None,
            seed=seed,
        )

    def start(self, name, seed):
        """Weights of the student after some epochs on the stories."""
        path = self.options.output / f"start_{name}_{seed}.npz"
        if not path.exists():
            keras.utils.set_random_seed(seed)
            student = build(STUDENTS[name], self.teacher)
            epochs, steps = self.options.epochs, len(self.train) // BATCH
            student.compile(
                optimizer(START_LEARNING_RATE, epochs * steps),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                weighted_metrics=[],
            )
            rows = self.batches(self.train, seed).repeat().map(next_tokens)
            history = student.fit(
                rows,
                epochs=epochs,
                steps_per_epoch=steps,
                shuffle=False,
                verbose=0,
            )
            print(name, seed, "start", history.history["loss"], flush=True)
            np.savez(path, *student.get_weights())
        with np.load(path) as arrays:
            return [arrays[key] for key in arrays.files]

    def model(self, name, arm):
        """What is trained, compiled once for all seeds."""
        if (name, arm) not in self.models:
            student, steps = self.students[name], self.options.updates
            if ARMS[arm] is None:
                model = keras.Model(student.inputs, student.outputs)
                model.compile(
                    optimizer(LEARNING_RATE, steps),
                    keras.losses.SparseCategoricalCrossentropy(
                        from_logits=True
                    ),
                    weighted_metrics=[],
                )
            else:
                model = gkd.GKDDistiller(
                    self.teacher,
                    student,
                    temperature=1.0,
                    max_completion_length=COMPLETION,
                    stop_token_ids=(self.preprocessor.stop_token_id,),
                    seed=0,
                    **ARMS[arm],
                )
                model.compile(optimizer(LEARNING_RATE, steps))
            model.optimizer.build(model.trainable_variables)
            self.models[name, arm] = model
        return self.models[name, arm]

    def run(self, name, arm, seed):
        """Trains and scores one cell."""
        model = self.model(name, arm)
        reset(model, self.start(name, seed), self.students[name])
        rows = self.batches(self.train, 100 + seed).repeat()
        if ARMS[arm] is None:
            rows = rows.map(next_tokens)
        else:
            model.state.seed.assign(seed)
            model.state.step.assign(0)
        clock = Clock()
        model.fit(
            rows,
            steps_per_epoch=self.options.updates,
            callbacks=[clock],
            shuffle=False,
            verbose=0,
        )
        return self.scores(name) | {"seconds_per_update": clock.median()}

    def scores(self, name):
        return {
            writer: dataclasses.asdict(
                self.scorers[name](self.held_out, writer, seed=1)
            )
            for writer in ("student", "teacher")
        }


class Clock(keras.callbacks.Callback):
    """Times the updates."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        self._begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.seconds.append(time.perf_counter() - self._begin)

    def median(self):
        return statistics.median(self.seconds)


def results_of(options):
    path = options.output / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def table(options):
    names = " | ".join(f"{writer}'s text: {m}" for writer, m in MEASURES)
    print(f"| student | arm | seeds | {names} | s per update |")
    print("| --- " * 2 + "| ---: " * (len(MEASURES) + 2) + "|")
    results = results_of(options)
    for name, arm in itertools.product(options.students, ["start", *ARMS]):
        cells = [
            r for r in results if (r["student_name"], r["arm"]) == (name, arm)
        ]
        if not cells:
            continue
        columns = [
            spread([cell[writer][measure] for cell in cells])
            for writer, measure in MEASURES
        ]
        seconds = statistics.median(c["seconds_per_update"] for c in cells)
        print(
            f"| {name} | {arm} | {len(cells)} | {' | '.join(columns)} | "
            f"{seconds:.3f} |"
        )


def spread(values):
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teacher", type=pathlib.Path, required=True)
    parser.add_argument("--stories", type=pathlib.Path, required=True)
    parser.add_argument("--held-out", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--students", nargs="*", default=list(STUDENTS))
    parser.add_argument("--arms", nargs="*", default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    study = Study(options)
    done = {
        (r["student_name"], r["arm"], r["seed"]) for r in results_of(options)
    }
    arms = ["start", *options.arms]
    cells = itertools.product(range(options.seeds), options.students, arms)
    for seed, name, arm in cells:
        if (name, arm, seed) in done:
            continue
        if arm == "start":
            study.students[name].set_weights(study.start(name, seed))
            found = study.scores(name) | {"seconds_per_update": 0.0}
        else:
            found = study.run(name, arm, seed)
        row = {"student_name": name, "arm": arm, "seed": seed, **found}
        with (options.output / "results.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        own = row["student"]
        print(name, arm, seed, f"{own['reverse_kl']:.4f}", flush=True)
    table(options)


if __name__ == "__main__":
    main()
