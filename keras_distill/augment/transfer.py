"""`transfer_set`: new texts from labelled ones, for the teacher to label."""

import hashlib
import os
import random
import unicodedata

from keras_distill._checks import check_integer
from keras_distill._pairs import flat
from keras_distill._pairs import from_sides
from keras_distill._pairs import sides
from keras_distill._scripts import join
from keras_distill._scripts import units
from keras_distill.augment.same_context import SameContextReplacement
from keras_distill.augment.texts import deduplicate
from keras_distill.augment.texts import keys_of
from keras_distill.augment.texts import listed
from keras_distill.augment.texts import read_texts
from keras_distill.augment.texts import text_key
from keras_distill.augment.words import Chain
from keras_distill.augment.words import MaskOrReplace
from keras_distill.augment.words import NGramSampling
from keras_distill.augment.words import masks_of

MOST_TRIES = 10**8


def transfer_set(
    texts, times=20, seed=0, exclude=(), methods=None, unlabelled=None
):
    """Makes new texts, without labels, for a teacher to label.

    Each text is changed `times` times by a method drawn for each copy. What
    comes out is new: no two are the same, none is one of `texts`, none is in
    `exclude`, whose test and dev texts a random n-gram could hit, and none is
    masks and punctuation alone. The
    result follows from the arguments alone, in every process and on every
    machine, and what becomes of a text does not depend on the other texts,
    but through `methods` and duplicates.

    Of a pair, each copy has the first text changed, or the second one, or the
    second text of another pair.

    Args:
        texts: Sequence of strings, or of pairs of strings, the train texts, or
            an object with `texts`. Words are what spaces separate; in scripts
            that are written without spaces (Chinese, Japanese, Thai, Lao,
            Khmer, Burmese) each character is one, and texts are put together
            again as they were, with spaces around a mask.
        times: Integer, at least 0, tries for each text; duplicates are left
            out. At most 100 million tries in all. Defaults to `20`.
        seed: Integer. Defaults to `0`.
        exclude: Sequence of collections of texts, such as `(dev, test)`.
        methods: Callables `method(words, rng) -> words`, such as
            `kd.augment.Masking()`. Defaults to the procedure of Tang et al.:
            each word is masked (0.1) or replaced (0.1), by
            `kd.augment.SameContextReplacement(texts)`, then the text is cut
            to 1 to 5 words (0.25).
        unlabelled: Strings (or pairs), or the path of a file with one text a
            line, added as they are, at the end.

    Returns:
        List of strings, or of pairs of strings.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> train = ["a good film", "a bad film", "a good story"]
    >>> new = transfer_set(train, times=3, exclude=(["a bad story"],))
    >>> new == transfer_set(train, times=3, exclude=(["a bad story"],))
    True
    >>> pairs = [("a film", "a story"), ("good", "bad")]
    >>> transfer_set(pairs, times=10)
    [('[MASK] film', 'a story'), ('a film', 'bad'), ('good', 'a story')]

    Reference:
        Tang et al., 2019, https://arxiv.org/abs/1903.12136, section 3.3.
    """
    texts = listed(texts)
    check_integer("times", times, minimum=0)
    if times * len(texts) > MOST_TRIES:
        raise ValueError(
            "`times` makes more texts than can be made in a day and held in "
            f"memory. Expected at most {MOST_TRIES:,} tries, "
            f"{MOST_TRIES // len(texts):,} for each of {len(texts):,} texts. "
            f"Received: times={times:,}"
        )
    check_integer("seed", seed)
    if methods is None:
        methods = [tang_method(flat(texts))] if times else []
    methods = _check_methods(methods, times)
    seen = keys_of((texts, *_collections(exclude)))
    made = []
    for new in _variations(texts, times, seed, methods):
        key = text_key(new)
        if key not in seen:
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


def _variations(texts, times, seed, methods):
    """Yields changed texts, but none of masks and punctuation alone."""
    masks = masks_of(methods)
    for text in texts:
        both = sides(text)
        words = [units(side) for side in both]
        for copy in range(times):
            rng = random.Random(_digest(seed, copy, *both))
            # Which side of a pair is changed; one more: the pairs are mixed.
            changed = rng.randrange(len(both) + 1) if len(both) > 1 else 0
            if changed == len(both):
                yield both[0], texts[rng.randrange(len(texts))][1]
                continue
            method = methods[rng.randrange(len(methods))]
            found = method(list(words[changed]), rng)
            if any(unit not in masks and _is_said(unit) for unit in found):
                new = (*both[:changed], join(found), *both[changed + 1 :])
                yield from_sides(new)


def _is_said(unit):
    """Whether there is more in a unit than punctuation."""
    return any(unicodedata.category(c)[0] not in "PZ" for c in unit)


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
