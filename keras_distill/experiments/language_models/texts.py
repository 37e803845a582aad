"""A language model's data: prompts and completions as token ids."""

import dataclasses
import functools
import pathlib
import statistics

from keras_distill import _files
from keras_distill import data
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.data import docstrings
from keras_distill.experiments.language_models import models
from keras_distill.experiments.language_models.settings import EMBEDDED
from keras_distill.experiments.language_models.settings import MOST
from keras_distill.experiments.language_models.settings import SMOKE_ROWS
from keras_distill.gkd.preprocessor import GKDPreprocessor

PARTS = ("train", "dev")
TOKENS = pathlib.Path("data") / "tokens.json"
EVALUATION_BATCH = 32
LONGEST_COMPLETION, LONGEST_START = 512, 16


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What the phases after `data` read.

    Args:
        folder: Path of the run's folder, where the phase left its files.
        settings: `Settings`.
    """

    folder: pathlib.Path
    settings: object

    def load(self):
        """Loads all that a training reads, anew.

        What is loaded later would draw random numbers between the seed and the
        training, or not, if it had been loaded by the phase before.
        """
        for name in ("tokens", "lengths", "tokenizer", "preprocessor"):
            vars(self).pop(name, None)
        return self.tokens, self.tokenizer, self.preprocessor

    @functools.cached_property
    def tokens(self):
        """Dict from each part to its list of `(prompt, completion)`."""
        return _files.read_json(self.folder / TOKENS)

    @functools.cached_property
    def lengths(self):
        """As `lengths` gives them."""
        return lengths(self.tokens, self.settings)

    @property
    def completion_length(self):
        """The most tokens of a completion, the stop token among them."""
        return self.lengths[1]

    @functools.cached_property
    def tokenizer(self):
        """The teacher's tokenizer."""
        return models.tokenizer(self.settings, self.folder)

    @functools.cached_property
    def preprocessor(self):
        """The `GKDPreprocessor` of both models."""
        return GKDPreprocessor(
            self.tokenizer,
            max_completion_length=self.completion_length,
            max_prompt_length=self.lengths[0],
            long_prompts="cut",
        )

    def batches(self, part, batch_size=EVALUATION_BATCH, rows=None, seed=None):
        """Batches of `GKDPreprocessor`.

        Args:
            part: `"train"` or `"dev"`.
            batch_size: Integer.
            rows: Integer, only so many of the first rows. None for all.
            seed: Integer to shuffle by. None for the order of the data.
        """
        prompts, completions = zip(*self.tokens[part][:rows])
        return self.preprocessor.batches(
            list(prompts),
            None if None in completions else list(completions),
            batch_size=batch_size,
            shuffle=seed is not None,
            seed=seed,
        )


def build(settings, folder):
    """Loads and tokenises the texts, and leaves them in `folder`.

    Args:
        settings: `Settings`.
        folder: Path.

    Returns:
        Dict: rows, tokens, notes.

    Raises:
        UsageError: The data, or the teacher's tokenizer, cannot be loaded.
    """
    with as_usage_error(
        ValueError, OSError, advice="See `--data` in `--help`."
    ):
        splits = _load(settings)
    if settings.teacher == EMBEDDED:
        words = [" ".join(filter(None, row)) for row in splits.train]
        # A rare piece is rarely written, and costs each step of the softmax.
        vocabulary = data.train_vocabulary(words, min_count=9)
        with _files.complete_file(folder / models.VOCABULARY) as draft:
            data.write_vocabulary(vocabulary, draft)
    tokenizer = models.tokenizer(settings, folder)
    rows = {
        part: [_ids(row, tokenizer) for row in getattr(splits, part)]
        for part in PARTS
    }
    start = settings.prompt_tokens or _prompt_tokens(rows["train"])
    tokens = {part: [*_with_prompts(rows[part], start)] for part in PARTS}
    models.check_pair(settings)
    _check_rows(tokens, settings, start)
    prompt, completion = lengths(tokens, settings)
    _files.write_json(folder / TOKENS, tokens)
    return {
        "rows": {part: len(held) for part, held in tokens.items()},
        "notes": list(splits.notes),
        "vocabulary_size": tokenizer.vocabulary_size(),
        "max_prompt_length": prompt,
        "max_completion_length": completion,
        "left_out": {p: len(rows[p]) - len(tokens[p]) for p in PARTS},
        "cut": _cut(tokens, prompt, completion),
    }


def files(settings):
    """The paths of what `build` leaves."""
    made_here = settings.teacher == EMBEDDED
    return (TOKENS, models.VOCABULARY) if made_here else (TOKENS,)


def summary(result):
    """One line on the result of `build`."""
    rows, short = result["rows"], sum(result["left_out"].values())
    return (
        f"{rows['train']:,} train and {rows['dev']:,} dev prompts, "
        f"{result['vocabulary_size']:,} tokens in the vocabulary; prompts of "
        f"{result['max_prompt_length']} tokens and completions of "
        f"{result['max_completion_length']} at most"
        + (f", {short:,} texts as short as a prompt left out" if short else "")
        + "".join(
            f", {share:.2g} % of the {side} cut"
            for side, share in result["cut"].items()
            if share
        )
    )


def _load(settings):
    if not settings.smoke:
        return data.load_prompts(settings.data)
    if settings.data == "docstrings":
        small = docstrings.build(("numpy", "keras"), max_per_class=500)
        splits = data.PromptSplits(
            *([(None, t) for t in getattr(small, p).texts] for p in PARTS)
        )
    else:
        splits = data.load_prompts(settings.data)
    few = {p: getattr(splits, p)[:rows] for p, rows in SMOKE_ROWS.items()}
    note = f"--smoke: at most {SMOKE_ROWS} rows"
    return data.PromptSplits(**few, notes=(*splits.notes, note))


def _ids(row, tokenizer):
    """A prompt and a completion as lists of ids, either None as it was."""
    prompt, completion = row
    return (
        None if prompt is None else models.ids(tokenizer, prompt),
        models.ids(tokenizer, completion) if completion else None,
    )


def _prompt_tokens(rows):
    """How many tokens of a text are its prompt, where nobody has chosen."""
    found = [len(text) for prompt, text in rows if prompt is None]
    third = statistics.median(found) // 3 if found else 1
    return int(min(max(third, 1), LONGEST_START))


def _with_prompts(rows, cut):
    """Yields the rows; of a text without a prompt it is the first tokens."""
    for prompt, completion in rows:
        if prompt is not None:
            yield prompt, completion or None
        elif len(completion) > cut:
            yield completion[:cut], completion[cut:]


def lengths(tokens, settings):
    """What the data take and the models read, where nobody has chosen.

    Args:
        tokens: Dict from each part to its list of `(prompt, completion)`.
        settings: `Settings`.

    Returns:
        Pair of integers, the most tokens of a prompt, a start token among
        them, and of a completion, with its stop token.

    Raises:
        UsageError: The models do not read so many.
    """
    held, answers = _counts(tokens)
    limit = models.longest(settings) or MOST
    longest = 1 + max(held)
    prompt = settings.max_prompt_length or min(longest, limit // 2)
    completion = settings.max_completion_length
    if completion is None:
        answer = 1 + max(answers, default=LONGEST_COMPLETION)
        completion = min(answer, LONGEST_COMPLETION, limit - prompt)
    if settings.max_prompt_length is None:  # What completions leave.
        prompt = min(longest, max(limit - completion, 1))
    if prompt + completion > limit:
        raise UsageError(
            f"The models read {limit} tokens, prompt and completion together. "
            "Lower `--max-prompt-length` or `--max-completion-length`. "
            f"Received: {prompt} and {completion}"
        )
    return prompt, completion


def _counts(tokens):
    """The tokens of each prompt, and of each completion that there is."""
    rows = [row for part in PARTS for row in tokens[part]]
    return [len(p) for p, _ in rows], [len(c) for _, c in rows if c is not None]


def _cut(tokens, prompt, completion):
    """Per cent of the prompts and of the completions that are longer."""
    return {
        side: 100 * sum(1 + n > most for n in counts) / max(len(counts), 1)
        for side, most, counts in zip(
            ("prompts", "completions"), (prompt, completion), _counts(tokens)
        )
    }


def _check_rows(tokens, settings, start):
    for part, rows in tokens.items():
        if not rows:
            raise UsageError(
                f"No row of {part} is longer than its prompt. Lower "
                "`--prompt-tokens`. "
                f"Received: prompt_tokens={start}"
            )
    trained = settings.teacher_epochs or settings.start_epochs
    drawn = settings.lmbda < 1 and not settings.seq_kd
    missing = sum(completion is None for _, completion in tokens["train"])
    if missing and (trained or drawn):
        raise UsageError(
            f"{missing} of the {len(tokens['train'])} train rows have no "
            "completion. Pass `--start-epochs 0` (the student then starts as "
            "it is) with `--lmbda 1` or `--seq-kd`, where the models write "
            f"all completions. Received: start_epochs={settings.start_epochs}, "
            f"lmbda={settings.lmbda:g}, seq_kd={settings.seq_kd}"
        )
