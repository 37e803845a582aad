"""Does learning on one's own text help? A real language model, small students.

    python tests/benchmarks/stories.py --teacher PRESET_FOLDER \\
        --stories TRAIN.txt --held-out VALID.txt --output runs/stories

The teacher is a KerasHub preset of a llama-type model. Prompts are the first
sentences of stories: those of `--stories` to learn from, of `--held-out` 128 to
score on after every `--every` updates, and others to score on once, at the end.
Every arm starts from the same student (trained on the stories first) and takes
the same number of updates. "The teacher's stories" are completions of the train
prompts by the teacher, one of each, or ten: as many different texts as an arm
that writes its own in 1,500 updates of 16.

Each (student, arm, seed) is one line of `results.jsonl` in `--output`; a second
run goes on where the first one stopped; two of other `--students` or
`--seeds` may run side by side. `--seconds` times the arms in turns, on a
machine
that does nothing else; `stories_report.py` makes tables and curves.
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
import re
import time

import keras
import keras_hub
import numpy as np

from keras_distill import gkd
from keras_distill.gkd.decoding import Generator
from keras_distill.gkd.fine_tuning import next_tokens

COMPLETION, PROMPT, BATCH = 96, 32, 16
DEV, TEST = 128, 384
STUDENTS = {"2x48": (2, 48), "3x64": (3, 64)}
STORIES, ONE, TEN = "the data's", "the teacher's, one", "the teacher's, ten"
# What learns, and from which completions where it does not write its own.
ARMS = {
    "SFT": (None, STORIES),
    "supervised KD, JSD": ({"lmbda": 0.0}, STORIES),
    "SeqKD, JSD": ({"lmbda": 0.0}, ONE),
    "SeqKD with ten texts, JSD": ({"lmbda": 0.0}, TEN),
    "GKD 0.5, JSD": ({"lmbda": 0.5}, STORIES),
    "GKD 1, JSD": ({"lmbda": 1.0}, STORIES),
    "GKD 1, forward KL": ({"lmbda": 1.0, "beta": 0.0}, STORIES),
    "GKD 1, reverse KL": ({"lmbda": 1.0, "beta": 1.0}, STORIES),
}
START, START_EPOCHS = "start", 3
START_LEARNING_RATE, LEARNING_RATE = 3e-3, 5e-4


def read_stories(path):
    """Pairs of the first sentence of a story and the rest of it.

    Without `<|endoftext|>` stories and paragraphs end alike, and a story is
    known by how it begins.
    """
    text = path.read_text(encoding="utf-8")
    begins = ""
    parts = text.split("<|endoftext|>")
    if len(parts) == 1:
        begins, parts = "(?=Once|One day|There )", text.split("\n\n")
    found = [
        re.match(rf"\s*{begins}(.+?[.!?]\"?)\s+(.+)", part, re.S)
        for part in parts
    ]
    return [(match[1], match[2].strip()) for match in found if match]


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
        known = {prompt for prompt, _ in self.train}
        held_out = dict(read_stories(options.held_out))
        unseen = [pair for pair in held_out.items() if pair[0] not in known]
        if len(unseen) < DEV + TEST:
            raise SystemExit(f"{len(unseen)} prompts are held out: too few")
        prompts = [prompt for prompt, _ in unseen]
        self.dev, self.test = prompts[:DEV], prompts[DEV : DEV + TEST]
        self.students = {
            name: build(STUDENTS[name], self.teacher)
            for name in options.students
        }
        self.stops = (self.preprocessor.stop_token_id,)
        self.scorers = {
            name: gkd.WritingScorer(
                self.teacher, student, COMPLETION, stop_token_ids=self.stops
            )
            for name, student in self.students.items()
        }
        self.generators = {
            name: Generator(model, stop_token_ids=self.stops)
            for name, model in [
                ("teacher", self.teacher),
                *self.students.items(),
            ]
        }
        self.by_teacher = {
            len(prompts): self.completed("teacher", prompts, 1)
            for prompts in (self.dev, self.test)
        }
        self.models = {}

    def completed(self, writer, prompts, seed):
        """Pairs of a prompt and what a model writes behind it, token ids."""
        found = []
        for x in self.preprocessor.batches(
            prompts, batch_size=DEV, shuffle=False
        ):
            begins = x["prompt_mask"].numpy().sum(1)
            rows, ends = self.generators[writer](
                x["token_ids"].numpy(),
                begins,
                begins + COMPLETION,
                seed=10_000 * seed + len(found),
            )
            found += [
                (row[:begin], row[begin:end])
                for row, begin, end in zip(rows, begins, ends)
            ]
        return found

    def batches(self, pairs, **options):
        return self.preprocessor.batches(
            *map(list, zip(*pairs)), batch_size=BATCH, **options
        )

    def start(self, name, seed):
        """Weights of the student after some epochs on the stories."""
        path = self.options.output / f"start_{name}_{seed}.npz"
        if not path.exists():
            keras.utils.set_random_seed(seed)
            student = build(STUDENTS[name], self.teacher)
            steps = len(self.train) // BATCH
            student.compile(
                optimizer(START_LEARNING_RATE, START_EPOCHS * steps),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                weighted_metrics=[],
            )
            rows = self.batches(self.train, seed=seed).repeat().map(next_tokens)
            student.fit(
                rows,
                epochs=START_EPOCHS,
                steps_per_epoch=steps,
                shuffle=False,
                verbose=0,
            )
            np.savez(path, *student.get_weights())
        with np.load(path) as arrays:
            return [arrays[key] for key in arrays.files]

    def written(self, seed):
        """Ten completions of each train prompt by the teacher, token ids."""
        path = self.options.output / f"teacher_{seed}.json"
        if not path.exists():
            prompts = [prompt for prompt, _ in self.train]
            pairs = self.completed("teacher", 10 * prompts, 100 + seed)
            path.write_text(
                json.dumps([[ids.tolist() for ids in pair] for pair in pairs])
            )
        return json.loads(path.read_text())

    def rows(self, arm, seed):
        """Batches for ever, of the texts that the arm learns from."""
        method, texts = ARMS[arm]
        if texts == STORIES:
            pairs = self.train
        else:
            pairs = self.written(seed)
            pairs = pairs[: len(self.train)] if texts == ONE else pairs
        rows = self.batches(pairs, seed=100 + seed).repeat()
        return rows.map(next_tokens) if method is None else rows

    def model(self, name, arm):
        """What is trained, compiled once for all seeds."""
        method, _ = ARMS[arm]
        key = name, json.dumps(method)
        if key not in self.models:
            student, steps = self.students[name], self.options.updates
            if method is None:
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
                    stop_token_ids=self.stops,
                    seed=0,
                    **method,
                )
                model.compile(optimizer(LEARNING_RATE, steps))
            model.optimizer.build(model.trainable_variables)
            self.models[key] = model
        return self.models[key]

    def prepared(self, name, arm, seed):
        """The arm's model at its start, and what it reads."""
        model = self.model(name, arm)
        reset(model, self.start(name, seed), self.students[name])
        if ARMS[arm][0] is not None:
            model.state.seed.assign(seed)
            model.state.step.assign(0)
        return model, self.rows(arm, seed)

    def run(self, name, arm, seed):
        """Trains and scores one cell."""
        curve = {}
        if arm == START:
            self.students[name].set_weights(self.start(name, seed))
            curve = {0: self.scores(name, self.dev)}
        else:
            every = self.options.every
            model, rows = self.prepared(name, arm, seed)
            model.fit(
                rows,
                steps_per_epoch=every,
                epochs=self.options.updates // every,
                callbacks=[
                    keras.callbacks.LambdaCallback(
                        on_epoch_end=lambda epoch, logs: curve.update(
                            {every * (epoch + 1): self.scores(name, self.dev)}
                        )
                    )
                ],
                shuffle=False,
                verbose=0,
            )
        return {"dev": curve, "test": self.scores(name, self.test)}

    def scores(self, name, prompts):
        """Of each writer a list: the scores of each block of prompts."""
        texts = {
            "student": self.completed(name, prompts, 1),
            "teacher": self.by_teacher[len(prompts)],
        }
        return {
            writer: [
                dataclasses.asdict(self.scorers[name]([block], "dataset"))
                for block in self.batches(pairs, shuffle=False)
            ]
            for writer, pairs in texts.items()
        }

    def seconds(self, updates=40, rounds=4):
        """Seconds per update: of the arms' turns the fastest."""
        found = {}
        for _, name, arm in itertools.product(
            range(rounds), self.options.students, self.options.arms
        ):
            model, rows = self.prepared(name, arm, 0)
            fit = {"steps_per_epoch": updates, "shuffle": False, "verbose": 0}
            # What is compiled, and the first batches, are not counted.
            model.fit(rows, epochs=1, **fit)
            begin = time.perf_counter()
            model.fit(rows, epochs=1, **fit)
            taken = (time.perf_counter() - begin) / updates
            arms = found.setdefault(name, {})
            arms[arm] = min(taken, arms.get(arm, taken))
        return found


def results_of(folder):
    path = folder / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--teacher", type=pathlib.Path, required=True)
    parser.add_argument("--stories", type=pathlib.Path, required=True)
    parser.add_argument("--held-out", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--students", nargs="*", default=list(STUDENTS))
    parser.add_argument("--arms", nargs="*", default=list(ARMS))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--seconds", action="store_true")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    study = Study(options)
    if options.seconds:
        path = options.output / "seconds.json"
        path.write_text(json.dumps(study.seconds(), indent=1))
        return
    done = {
        (r["student_name"], r["arm"], r["seed"])
        for r in results_of(options.output)
    }
    for seed, name, arm in itertools.product(
        options.seeds, options.students, [START, *options.arms]
    ):
        if (name, arm, seed) in done:
            continue
        begin = time.perf_counter()
        row = {"student_name": name, "arm": arm, "seed": seed}
        row |= study.run(name, arm, seed)
        with (options.output / "results.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row["seed"], name, arm, time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
