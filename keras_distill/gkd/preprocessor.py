"""Prompts and responses to batches that a `GKDDistiller` reads."""

import bisect
import importlib.util
import itertools
import random

import numpy as np

from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill._untuned import untuned
from keras_distill.gkd.batching import PyBatches
from keras_distill.gkd.batching import batches_of_rows
from keras_distill.gkd.compatibility import special_token
from keras_distill.gkd.rows import KEYS
from keras_distill.gkd.rows import Rows
from keras_distill.gkd.sources import DATASET

LONG_PROMPTS = ("refuse", "cut")
SMALLEST_BUCKET = 16


class GKDPreprocessor:
    """Makes right-padded batches of prompts and responses.

    Positions say what is prompt, response and padding, never the values of
    tokens: a tokenizer whose end token is also its padding works. Each row
    has room for its prompt and `max_completion_length` tokens. The lengths
    of rows are those of a few buckets, so that few shapes are compiled.

    Args:
        tokenizer: A KerasHub tokenizer, such as
            `CausalLM.preprocessor.tokenizer`, or None where prompts and
            responses come as token ids.
        max_completion_length: Integer, tokens of a response, the stop token
            included. Longer ones are cut, and then have no stop token.
        max_prompt_length: Integer, tokens of a prompt. Defaults to `512`.
        buckets: Increasing integers: the lengths to which prompts are padded,
            the last of them `max_prompt_length`. Defaults to powers of two
            from 16 on.
        long_prompts: `"refuse"` to raise an error for prompts that are longer
            than `max_prompt_length`, `"cut"` to keep their last tokens.
        stop_token_id: Integer that is appended to responses which do not end
            with it. None takes the tokenizer's end token.
        start_token_id: Integer that is put in front of prompts which do not
            begin with it. None takes the tokenizer's start token; with
            `False`, and where there is none, nothing is put there.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> preprocessor = GKDPreprocessor(
    ...     None, max_completion_length=4, max_prompt_length=3, stop_token_id=2)
    >>> batch = preprocessor([[5, 6, 7], [5]], responses=[[8], [9, 9]])
    >>> batch["token_ids"].tolist()
    [[5, 6, 7, 8, 2, 0, 0], [5, 9, 9, 2, 0, 0, 0]]
    >>> batch["completion_mask"].astype(int).tolist()
    [[0, 0, 0, 1, 1, 0, 0], [0, 1, 1, 1, 0, 0, 0]]
    """

    def __init__(
        self,
        tokenizer,
        max_completion_length=512,
        max_prompt_length=512,
        buckets=None,
        long_prompts="refuse",
        stop_token_id=None,
        start_token_id=None,
    ):
        check_integer("max_completion_length", max_completion_length, minimum=1)
        check_integer("max_prompt_length", max_prompt_length, minimum=1)
        check_choice("long_prompts", long_prompts, LONG_PROMPTS)
        _check_tokenizer(tokenizer)
        self.tokenizer = tokenizer
        self.max_completion_length = max_completion_length
        self.max_prompt_length = max_prompt_length
        self.buckets = _buckets(buckets, max_prompt_length)
        self.long_prompts = long_prompts
        self.stop_token_id = _token("stop_token_id", stop_token_id, tokenizer)
        if self.stop_token_id is None:
            raise ValueError(
                "Responses must end with a stop token, and the tokenizer has "
                "no `end_token_id`. Pass `stop_token_id`. "
                f"Received: tokenizer={tokenizer!r}, stop_token_id=None"
            )
        self.start_token_id = _token(
            "start_token_id", start_token_id, tokenizer
        )

    def __call__(self, prompts, responses=None):
        """One batch, as long as its longest prompt's bucket.

        Args:
            prompts: List of strings or of lists of token ids.
            responses: The same, as many, or None: then completions can only
                be generated.

        Returns:
            Dict of `"token_ids"`, int32, and the boolean `"prompt_mask"` and
            `"completion_mask"`, arrays of shape `[rows, length]`.

        Raises:
            ValueError: if a prompt is empty or too long, or there are not as
                many responses as prompts.
        """
        return self._batch(self._examples(prompts, responses))

    def batches(
        self, prompts, responses=None, batch_size=8, shuffle=True, seed=None
    ):
        """A data set of batches, each from one bucket, for `fit`.

        Args:
            prompts: As in a call.
            responses: As in a call.
            batch_size: Integer, rows of a batch. What is left over in the
                buckets makes smaller batches.
            shuffle: Boolean. Whether the order is another one in each epoch.
            seed: Integer for `shuffle`, None for any order.

        Returns:
            `tf.data.Dataset` of what a call returns; where TensorFlow is not
            installed a `keras.utils.PyDataset` of the same batches.

        Raises:
            ValueError: as a call.
        """
        check_integer("batch_size", batch_size, minimum=1)
        examples = self._examples(prompts, responses)
        buckets = [self._bucket(prompt) for prompt, _ in examples]
        if shuffle and seed is None:
            seed = random.randint(0, 2**31 - 1)

        def batches_of(epoch):
            rng = np.random.default_rng([seed, epoch]) if shuffle else None
            return batches_of_rows(buckets, batch_size, rng)

        def batch_of(rows):
            return self._batch([examples[row] for row in rows])

        if importlib.util.find_spec("tensorflow") is None:
            return PyBatches(batches_of, batch_of)
        import tensorflow as tf

        epochs = itertools.count()

        def generate():
            yield from map(batch_of, batches_of(next(epochs)))

        signature = {
            name: tf.TensorSpec((None, None), dtype)
            for name, dtype in zip(KEYS, ("int32", "bool", "bool"))
        }
        dataset = tf.data.Dataset.from_generator(
            generate, output_signature=signature
        )
        number = len(batches_of_rows(buckets, batch_size, None))
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(number))
        return untuned(dataset.prefetch(1))

    def _examples(self, prompts, responses):
        prompts = list(prompts)
        if responses is None:
            responses = [None] * len(prompts)
        responses = list(responses)
        if not prompts or len(prompts) != len(responses):
            raise ValueError(
                "There must be at least one prompt, and as many responses as "
                f"prompts, or `responses=None`. Received: {len(prompts)} "
                f"prompts, {len(responses)} responses"
            )
        given = [r is not None for r in responses]
        written = iter(self._tokenize([r for r in responses if r is not None]))
        responses = [next(written) if some else None for some in given]
        return [
            (self._prompt(row, prompt), self._response(response))
            for row, (prompt, response) in enumerate(
                zip(self._tokenize(prompts), responses)
            )
        ]

    def _tokenize(self, texts):
        """Lists of token ids, from strings or token ids."""
        if not any(isinstance(text, str) for text in texts):
            return [np.asarray(text, "int32").reshape(-1) for text in texts]
        if self.tokenizer is None or not all(
            isinstance(text, str) for text in texts
        ):
            raise ValueError(
                "Prompts and responses must all be strings, with a "
                "`tokenizer`, or all token ids. Received: "
                f"tokenizer={self.tokenizer!r} and "
                f"{sorted({type(text).__name__ for text in texts})}"
            )
        tokens = self.tokenizer(texts)
        tokens = tokens if isinstance(tokens, list) else tokens.to_list()
        return [np.asarray(row, "int32") for row in tokens]

    def _prompt(self, row, prompt):
        start = [] if self.start_token_id is None else [self.start_token_id]
        if list(prompt[:1]) == start:
            prompt = prompt[len(start) :]
        room = self.max_prompt_length - len(start)
        if len(prompt) > room and self.long_prompts == "refuse":
            raise ValueError(
                f"Prompts must have at most {self.max_prompt_length} tokens. "
                f"Received: prompt {row} with {len(prompt) + len(start)}. "
                "Raise `max_prompt_length`, or keep the last tokens of long "
                'prompts with `long_prompts="cut"`'
            )
        kept = prompt[max(len(prompt) - room, 0) :]
        prompt = np.concatenate([np.array(start, "int32"), kept])
        if not prompt.size:
            raise ValueError(
                "A prompt must have at least one token, which predicts the "
                f"first token of the completion. Received: prompt {row} with "
                "none. Pass a `start_token_id`, or leave empty prompts out"
            )
        return prompt

    def _response(self, response):
        if response is None:
            return np.zeros(0, "int32")
        if list(response[-1:]) != [self.stop_token_id]:
            response = np.append(response, self.stop_token_id)
        return response[: self.max_completion_length].astype("int32")

    def _bucket(self, prompt):
        return self.buckets[bisect.bisect_left(self.buckets, len(prompt))]

    def _batch(self, examples):
        prompts, responses = zip(*examples)
        lengths = np.array([len(prompt) for prompt in prompts], "int32")
        width = self._bucket(max(prompts, key=len)) + self.max_completion_length
        token_ids = np.zeros((len(examples), width), "int32")
        for row, example in zip(token_ids, examples):
            tokens = np.concatenate(example)
            row[: len(tokens)] = tokens
        ends = lengths + np.array([len(r) for r in responses], "int32")
        origins = np.full(len(examples), DATASET, object)
        return Rows(token_ids, lengths, ends, origins).batch()


def _buckets(buckets, max_prompt_length):
    """Increasing prompt lengths, the last of them the longest allowed."""
    if buckets is None:
        powers = itertools.takewhile(
            lambda length: length < max_prompt_length,
            (SMALLEST_BUCKET << power for power in itertools.count()),
        )
        return [*powers, max_prompt_length]
    buckets = list(buckets)
    for bucket in buckets:
        check_integer("buckets", bucket, minimum=1)
    if buckets != sorted(set(buckets)) or buckets[-1:] != [max_prompt_length]:
        raise ValueError(
            "`buckets` must be increasing prompt lengths, the last of them "
            f"`max_prompt_length`, {max_prompt_length}. "
            f"Received: buckets={buckets}"
        )
    return buckets


def _token(name, value, tokenizer):
    """The token id that an argument stands for, or None."""
    if value is False:
        return None
    if value is None:
        return special_token(tokenizer, name.replace("stop", "end"))
    check_integer(name, value, minimum=0)
    return int(value)


def _check_tokenizer(tokenizer):
    """Raises `ValueError` for a tokenizer that adds to the text."""
    config = {} if tokenizer is None else tokenizer.get_config()
    for name in ("sequence_length", "add_bos", "add_eos"):
        value = config.get(name)
        if value:
            raise ValueError(
                "The tokenizer must give the tokens of a text alone, start "
                "and stop tokens and padding are added here. Build it "
                f"without `{name}`. Received: {name}={value!r}"
            )
