"""The phases that score: what the models write on held-out prompts."""

import dataclasses
import functools

import numpy as np

from keras_distill.experiments.language_models import curve
from keras_distill.experiments.language_models import models
from keras_distill.experiments.language_models import training
from keras_distill.gkd.decoding import Generator
from keras_distill.gkd.evaluation import WritingScores

SAMPLES = 4
WRITERS = ("student", "teacher")
WEIGHTS = {"before": training.START, "after": training.STUDENT}


class Scoring:
    """Scores the student before and after the distillation.

    One student for both, with other weights: what writes is compiled for it
    once.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.
    """

    def __init__(self, settings, corpus):
        self._settings = settings
        self._corpus = corpus

    def __call__(self, when):
        """Scores the student, and lets it write.

        Args:
            when: `"before"` or `"after"` the distillation.

        Returns:
            Dict from each writer to its `WritingScores`, `"batches"`, those of
            the student for each batch of prompts, and `"samples"`.
        """
        student = self._models["student"]
        student.backbone.load_weights(self._corpus.folder / WEIGHTS[when])
        parts = {writer: self._score(writer=writer) for writer in WRITERS}
        scores = {
            writer: dataclasses.asdict(WritingScores.pooled(found))
            for writer, found in parts.items()
        }
        writers = WRITERS if when == "before" else ["student"]
        return scores | {
            "batches": list(map(dataclasses.asdict, parts["student"])),
            "samples": {name: self._write(name) for name in writers},
        }

    @functools.cached_property
    def _models(self):
        return {
            "student": models.student(self._settings, self._corpus),
            "teacher": models.trained_teacher(self._settings, self._corpus),
        }

    @functools.cached_property
    def _score(self):
        return curve.scorer(
            **self._models, settings=self._settings, corpus=self._corpus
        )

    @functools.cached_property
    def _generators(self):
        return {
            writer: Generator(
                model,
                temperature=self._settings.temperature,
                stop_token_ids=(self._corpus.preprocessor.stop_token_id,),
            )
            for writer, model in self._models.items()
        }

    def _write(self, writer):
        """Lets a model complete the first prompts of the dev part.

        Returns:
            List of `[prompt, completion]`, as texts.
        """
        settings, corpus = self._settings, self._corpus
        batch = next(iter(corpus.batches("dev", SAMPLES, rows=SAMPLES)))
        token_ids = np.asarray(batch["token_ids"])
        lengths = np.asarray(batch["prompt_mask"]).sum(1)
        limits = np.minimum(
            lengths + corpus.completion_length, token_ids.shape[1]
        )
        found, ends = self._generators[writer](
            token_ids, lengths, limits, settings.seed
        )
        return [
            [
                models.text(corpus.tokenizer, row[:length]),
                models.text(corpus.tokenizer, row[length:end]),
            ]
            for row, length, end in zip(found, lengths, ends)
        ]


def summary(result):
    """One line on the result of `score`."""
    own = result["student"]
    return (
        f"on the student's own text: KL(student || teacher) "
        f"{own['reverse_kl']:.3f} nats per token, the teacher's cross-entropy "
        f"{own['teacher_nll']:.2f}"
    )
