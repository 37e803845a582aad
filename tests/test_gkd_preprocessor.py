"""From prompts and responses to batches, and what is refused."""

import keras_hub
import numpy as np
import pytest

from keras_distill.gkd.preprocessor import GKDPreprocessor

STOP = 3


def tokenizer(**kwargs):
    """The end token is the start token; the padding's id is a letter's."""
    letters = "abcdefgh"
    vocabulary = {letter: index for index, letter in enumerate(letters)}
    vocabulary |= {"Ġ": 8, "<|endoftext|>": 9, "ab": 10, "Ġa": 11}
    return keras_hub.tokenizers.GPT2Tokenizer(
        vocabulary=vocabulary, merges=["a b", "Ġ a"], **kwargs
    )


def make(**kwargs):
    options = {
        "tokenizer": None,
        "max_completion_length": 4,
        "max_prompt_length": 5,
        "stop_token_id": STOP,
    }
    return GKDPreprocessor(**(options | kwargs))


def test_masks_come_from_positions():
    batch = make()([[3, 3], [0, 3, 5, 3]], [[3], [0, 0]])
    assert {name: array.dtype for name, array in batch.items()} == {
        "token_ids": np.int32,
        "prompt_mask": bool,
        "completion_mask": bool,
    }
    assert batch["token_ids"].tolist() == [
        [3, 3, 3, 0, 0, 0, 0, 0, 0],
        [0, 3, 5, 3, 0, 0, 3, 0, 0],
    ]
    assert batch["prompt_mask"].sum(1).tolist() == [2, 4]
    assert batch["completion_mask"].sum(1).tolist() == [1, 3]
    assert batch["completion_mask"][0].tolist() == [0, 0, 1] + 6 * [0]
    assert batch["completion_mask"][1].tolist() == 4 * [0] + 3 * [1] + 2 * [0]


def test_strings_and_their_special_tokens():
    preprocessor = GKDPreprocessor(tokenizer(), 4, 5)
    batch = preprocessor(["ab", "ab a"], [" a", "cdefgh"])
    assert batch["token_ids"].tolist() == [
        [9, 10, 11, 9, 0, 0, 0, 0, 0],
        [9, 10, 11, 2, 3, 4, 5, 0, 0],
    ]
    assert batch["prompt_mask"].sum(1).tolist() == [2, 3]
    assert batch["completion_mask"].sum(1).tolist() == [2, 4]
    bare = GKDPreprocessor(tokenizer(), 4, 5, start_token_id=False)
    assert bare(["ab"])["token_ids"].tolist() == [[10] + 8 * [0]]


def test_start_and_stop_tokens_are_put_once():
    batch = make(start_token_id=1)([[1, 5], [5]], [[6, STOP], [6]])
    assert batch["token_ids"][:, :4].tolist() == [[1, 5, 6, 3], [1, 5, 6, 3]]


def test_a_cut_response_has_no_stop_token():
    batch = make()([[5]], [[6, 7, 8, 9]])
    assert batch["token_ids"].tolist() == [[5, 6, 7, 8, 9, 0, 0, 0, 0]]
    assert batch["completion_mask"].sum() == 4


def test_rows_have_room_in_few_widths():
    preprocessor = make(max_prompt_length=40)
    assert preprocessor.buckets == [16, 32, 40]
    widths = {
        len(prompt): preprocessor([prompt])["token_ids"].shape[1]
        for prompt in ([5] * n for n in (1, 16, 17, 32, 33, 40))
    }
    assert widths == {1: 20, 16: 20, 17: 36, 32: 36, 33: 44, 40: 44}
    assert make(buckets=[2, 5])([[1], [1, 2, 3]])["token_ids"].shape == (2, 9)


def test_long_prompts_are_cut_to_their_end():
    preprocessor = make(long_prompts="cut", start_token_id=1)
    assert preprocessor([[1, *range(4, 12)]])["token_ids"].tolist() == [
        [1, 8, 9, 10, 11, 0, 0, 0, 0]
    ]


def rows(dataset):
    return [np.asarray(batch["token_ids"]).tolist() for batch in dataset]


def test_batches_hold_every_row_once():
    prompts = [[n] * (1 + n % 5) for n in range(4, 15)]
    responses = [[n] * (n % 3) for n in range(4, 15)]
    preprocessor = make(buckets=[2, 5])
    in_order = preprocessor.batches(prompts, responses, 3, shuffle=False)
    found = rows(in_order)
    assert int(in_order.cardinality()) == len(found) == 5
    assert {len(batch[0]) for batch in found} == {6, 9}
    assert found == rows(in_order)

    def firsts(batches):
        return [row[0] for batch in batches for row in batch]

    assert sorted(firsts(found)) == list(range(4, 15))
    shuffled = preprocessor.batches(prompts, responses, 3, seed=1)
    epochs = rows(shuffled), rows(shuffled)
    assert epochs[0] != epochs[1]
    assert sorted(firsts(epochs[1])) == list(range(4, 15))
    assert epochs[0] == rows(
        preprocessor.batches(prompts, responses, 3, seed=1)
    )


def test_prompts_without_responses():
    for responses in (None, [None, None]):
        batch = make()([[5], [6, 7]], responses)
        assert not batch["completion_mask"].any()
    mixed = make()([[5], [6, 7]], [None, [8]])
    assert mixed["completion_mask"].sum(1).tolist() == [0, 2]


WRONG = {
    "a long prompt": (
        lambda: make()([[5] * 2, [5] * 6]),
        r'prompt 1 with 6\. .*long_prompts="cut"',
    ),
    "an empty prompt": (lambda: make()([[5], []]), "prompt 1 with none"),
    "no prompts": (lambda: make()([]), "at least one prompt"),
    "too few responses": (
        lambda: make()([[5], [6]], [[7]]),
        "2 prompts, 1 responses",
    ),
    "strings without a tokenizer": (lambda: make()(["ab"]), "`tokenizer`"),
    "strings among token ids": (
        lambda: make(tokenizer=tokenizer())(["ab", [1]]),
        "all be strings",
    ),
    "no stop token": (lambda: make(stop_token_id=None), "`stop_token_id`"),
    "buckets that do not increase": (
        lambda: make(buckets=[5, 2]),
        "increasing prompt lengths",
    ),
    "buckets that end early": (
        lambda: make(buckets=[2, 4]),
        "`max_prompt_length`, 5",
    ),
    "another treatment": (
        lambda: make(long_prompts="drop"),
        "must be one of ['refuse', 'cut']".replace("[", r"\[").replace(
            "]", r"\]"
        ),
    ),
    "no room": (lambda: make(max_completion_length=0), "at least 1"),
    "a tokenizer that pads": (
        lambda: make(tokenizer=tokenizer(sequence_length=8)),
        "without `sequence_length`",
    ),
    "a batch of nothing": (
        lambda: make().batches([[5]], batch_size=0),
        "`batch_size` must be an integer of at least 1",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name):
    build, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        build()
