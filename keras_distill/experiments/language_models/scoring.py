"""The phases that score: what the models write on held-out prompts."""

import dataclasses

import numpy as np

from keras_distill.experiments.language_models import models
from keras_distill.experiments.language_models import training
from keras_distill.gkd.decoding import Generator
from keras_distill.gkd.evaluation import WritingScorer

ROWS, SAMPLES = 256, 4
WRITERS = ("student", "teacher")
STUDENTS = {
    "before": training.started_student,
    "after": training.distilled_student,
}


def score(when, settings, corpus):
    """Scores the student, and lets it write.

    Args:
        when: `"before"` or `"after"` the distillation.
        settings: `Settings`.
        corpus: `Corpus`.

    Returns:
        Dict from each writer to its `WritingScores`, and `"samples"`.
    """
    teacher = models.trained_teacher(settings, corpus)
    student = STUDENTS[when](settings, corpus)
    scorer = WritingScorer(
        teacher,
        student,
        max_completion_length=settings.max_completion_length,
        stop_token_ids=(corpus.preprocessor.stop_token_id,),
    )
    dev = corpus.batches("dev", rows=ROWS)
    scores = {
        writer: dataclasses.asdict(scorer(dev, writer, settings.seed))
        for writer in WRITERS
    }
    samples = {"student": write(student, settings, corpus)}
    if when == "before":
        samples["teacher"] = write(teacher, settings, corpus)
    return scores | {"samples": samples}


def summary(result):
    """One line on the result of `score`."""
    own = result["student"]
    return (
        f"on the student's own text: KL(student || teacher) "
        f"{own['reverse_kl']:.3f} nats per token, the teacher's cross-entropy "
        f"{own['teacher_nll']:.2f}"
    )


def write(model, settings, corpus):
    """Lets a model complete the first prompts of the dev part.

    Returns:
        List of `[prompt, completion]`, as texts.
    """
    batch = next(iter(corpus.batches("dev", SAMPLES, rows=SAMPLES)))
    token_ids = np.asarray(batch["token_ids"])
    lengths = np.asarray(batch["prompt_mask"]).sum(1)
    generator = Generator(
        model,
        temperature=settings.temperature,
        stop_token_ids=(corpus.preprocessor.stop_token_id,),
    )
    limits = np.minimum(
        lengths + settings.max_completion_length, token_ids.shape[1]
    )
    found, ends = generator(token_ids, lengths, limits, settings.seed)
    return [
        [
            models.text(corpus.tokenizer, row[:length]),
            models.text(corpus.tokenizer, row[length:end]),
        ]
        for row, length, end in zip(found, lengths, ends)
    ]
