"""`transfer_set`: new texts from labelled ones, for the teacher to label."""

import hashlib
import os
import random

from keras_distill._checks import check_integer
from keras_distill.augment.same_context import SameContextReplacement
from keras_distill.augment.texts import deduplicate
from keras_distill.augment.texts import keys_of
from keras_distill.augment.texts import listed
from keras_distill.augment.texts import read_texts
from keras_distill.augment.texts import text_key
from keras_distill.augment.words import Chain
from keras_distill.augment.words import MaskOrReplace
from keras_distill.augment.words import NGramSampling


def transfer_set(
    texts, times=20, seed=0, exclude=(), methods=None, unlabelled=None
):
    """Makes new texts, without labels, for a teacher to label.

    Each text is changed `times` times by a method drawn for each copy. What
    comes out is new: no two are the same, none is one of `texts`, and none is
    in `exclude`, whose test and dev texts a random n-gram could hit. The
    result follows from the arguments alone, in every process and on every
    machine, and what becomes of a text does not depend on the other texts,
    but through `methods` and duplicates.

    Args:
        texts: Sequence of strings, the train texts, or an object with
            `texts`. Words are what spaces separate.
        times: Integer, at least 0, tries for each text; duplicates are left
            out. Defaults to `20`.
        seed: Integer. Defaults to `0`.
        exclude: Sequence of collections of texts, such as `(dev, test)`.
        methods: Callables `method(words, rng) -> words`, such as
            `kd.augment.Masking()`. Defaults to the procedure of Tang et al.:
            each word is masked (0.1) or replaced (0.1), by
            `kd.augment.SameContextReplacement(texts)`, then the text is cut
            to 1 to 5 words (0.25).
        unlabelled: Strings, or the path of a file with one text a line, added
            as they are, at the end.

    Returns:
        List of strings.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> train = ["a good film", "a bad film", "a good story"]
    >>> new = transfer_set(train, times=3, exclude=(["a bad story"],))
    >>> new == transfer_set(train, times=3, exclude=(["a bad story"],))
    True

    Reference:
        Tang et al., 2019, https://arxiv.org/abs/1903.12136, section 3.3.
    """
    texts = listed(texts)
    check_integer("times", times, minimum=0)
    check_integer("seed", seed)
    if methods is None:
        methods = [tang_method(texts)] if times else []
    methods = _check_methods(methods, times)
    seen = keys_of((texts, *_collections(exclude)))
    made = []
    for text in texts:
        for copy in range(times):
            rng = random.Random(_digest(seed, copy, text))
            method = methods[rng.randrange(len(methods))]
            new = " ".join(method(text.split(), rng))
            key = text_key(new)
            if new and key not in seen:
                seen.add(key)
                made.append(new)
    if unlabelled is not None:
        if isinstance(unlabelled, (str, os.PathLike)):
            unlabelled = read_texts(unlabelled)
        made += [t for t in deduplicate(unlabelled) if text_key(t) not in seen]
    return made


def tang_method(texts):
    """The procedure of Tang et al. for words of `texts`."""
    return Chain(
        MaskOrReplace(SameContextReplacement(texts)),
        NGramSampling(),
    )


def _collections(exclude):
    keys_of(exclude)  # Refuses a single collection.
    return tuple(exclude)


def _check_methods(methods, times):
    listed = [methods] if isinstance(methods, str) else list(methods)
    if not all(map(callable, listed)):
        raise ValueError(
            "`methods` must be callables `method(words, rng) -> words`, such "
            f"as `kd.augment.Masking()`. Received: methods={methods!r}"
        )
    if times and not listed:
        raise ValueError(
            "`methods` must hold at least one method, or pass times=0. "
            f"Received: methods={methods!r}, times={times}"
        )
    return listed


def _digest(*values):
    """An integer that follows from the values, in every process."""
    text = "\0".join(map(str, values))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
