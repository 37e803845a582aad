"""Methods over the words of one text: `method(words, rng) -> words`.

`words` is a list of strings and `rng` a `random.Random`; a method changes
neither its argument nor itself, so the result follows from both.
"""

import dataclasses

from keras_distill._checks import check_between
from keras_distill._checks import check_integer

MASK = "[MASK]"


@dataclasses.dataclass(frozen=True)
class Masking:
    """Sets words to a mask, each on its own.

    Args:
        probability: Float, of each word. Defaults to `0.1`.
        mask: String, a word that the models' vocabularies hold. Defaults to
            `"[MASK]"`.

    Raises:
        ValueError: if `probability` is not between 0 and 1.

    Example:

    >>> import random
    >>> Masking(1.0)(["a", "film"], random.Random(0))
    ['[MASK]', '[MASK]']

    Reference:
        Tang et al., 2019, https://arxiv.org/abs/1903.12136, section 3.3.
    """

    probability: float = 0.1
    mask: str = MASK

    def __post_init__(self):
        check_between("probability", self.probability, 0, 1)

    def __call__(self, words, rng):
        return [
            self.mask if rng.random() < self.probability else word
            for word in words
        ]


@dataclasses.dataclass(frozen=True)
class Deletion:
    """Leaves words out, each on its own, but never all of them.

    Args:
        probability: Float, of each word. Defaults to `0.1`.

    Raises:
        ValueError: if `probability` is not between 0 and 1.

    Example:

    >>> import random
    >>> len(Deletion(1.0)(["a", "good", "film"], random.Random(0)))
    1

    Reference:
        Wei and Zou, 2019, https://arxiv.org/abs/1901.11196.
    """

    probability: float = 0.1

    def __post_init__(self):
        check_between("probability", self.probability, 0, 1)

    def __call__(self, words, rng):
        kept = [word for word in words if rng.random() >= self.probability]
        return kept if kept or not words else [rng.choice(words)]


@dataclasses.dataclass(frozen=True)
class NGramSampling:
    """Keeps only some words in a row.

    Args:
        probability: Float, of a text; else it stays whole. Defaults to
            `0.25`.
        min_words: Integer, at least 1, the fewest words. Defaults to `1`.
        max_words: Integer, the most words. Defaults to `5`.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> import random
    >>> NGramSampling(1.0, 2, 2)(["a", "good", "film"], random.Random(0))
    ['a', 'good']

    Reference:
        Tang et al., 2019, https://arxiv.org/abs/1903.12136, section 3.3.
    """

    probability: float = 0.25
    min_words: int = 1
    max_words: int = 5

    def __post_init__(self):
        check_between("probability", self.probability, 0, 1)
        check_integer("min_words", self.min_words, minimum=1)
        check_integer("max_words", self.max_words, minimum=self.min_words)

    def __call__(self, words, rng):
        if rng.random() >= self.probability:
            return list(words)
        size = min(rng.randint(self.min_words, self.max_words), len(words))
        start = rng.randint(0, len(words) - size)
        return list(words[start : start + size])


@dataclasses.dataclass(frozen=True)
class MaskOrReplace:
    """Masks a word, or replaces it, or leaves it, one draw for each.

    The first half of Tang et al.'s procedure; `NGramSampling` is the other.

    Args:
        replacement: Object with `replace(words, position, rng)`, which
            returns another word or the same, such as
            `SameContextReplacement`.
        mask_probability: Float, of each word. Defaults to `0.1`.
        replace_probability: Float, of each word. Defaults to `0.1`.
        mask: String. Defaults to `"[MASK]"`.

    Raises:
        ValueError: if the probabilities are not between 0 and 1 together.

    Example:

    >>> import random
    >>> method = MaskOrReplace(None, mask_probability=1.0,
    ...                        replace_probability=0.0)
    >>> method(["a", "film"], random.Random(0))
    ['[MASK]', '[MASK]']

    Reference:
        Tang et al., 2019, https://arxiv.org/abs/1903.12136, section 3.3.
    """

    replacement: object
    mask_probability: float = 0.1
    replace_probability: float = 0.1
    mask: str = MASK

    def __post_init__(self):
        check_between("mask_probability", self.mask_probability, 0, 1)
        rest = 1 - self.mask_probability
        check_between("replace_probability", self.replace_probability, 0, rest)

    def __call__(self, words, rng):
        result = []
        for position, word in enumerate(words):
            draw = rng.random() - self.mask_probability
            if draw < 0:
                word = self.mask
            elif draw < self.replace_probability:
                word = self.replacement.replace(words, position, rng)
            result.append(word)
        return result


@dataclasses.dataclass(frozen=True)
class Chain:
    """Applies methods one after the other.

    Args:
        *methods: Callables `method(words, rng) -> words`.

    Example:

    >>> import random
    >>> method = Chain(NGramSampling(1.0, 1, 1), Masking(1.0))
    >>> method(["a", "good", "film"], random.Random(0))
    ['[MASK]']
    """

    methods: tuple

    def __init__(self, *methods):
        object.__setattr__(self, "methods", methods)

    def __call__(self, words, rng):
        for method in self.methods:
            words = method(words, rng)
        return words


def masks_of(methods):
    """The strings that methods write in the place of words.

    Args:
        methods: Callables; of a `Chain`, what it is made of.

    Returns:
        Set of strings, `"[MASK]"` among them.
    """
    found = {MASK}
    for method in methods:
        if isinstance(method, Chain):
            found |= masks_of(method.methods)
        elif isinstance(method, (Masking, MaskOrReplace)):
            found.add(method.mask)
    return found


def replace_each(words, rng, probability, replace):
    """Replaces each word with `probability` by `replace(position)`."""
    return [
        replace(position) if rng.random() < probability else word
        for position, word in enumerate(words)
    ]
