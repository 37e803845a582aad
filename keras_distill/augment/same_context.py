"""Replacement by words that stand between the same neighbours."""

import bisect
import collections
import itertools

from keras_distill._checks import check_between
from keras_distill._scripts import units
from keras_distill.augment.words import replace_each

EDGE = ""


class SameContextReplacement:
    """Replaces words by words that occur between the same two neighbours.

    Without a tagger, words that fill the same gap stand in for words of the
    same part of speech, which Tang et al. draw: one of the word's contexts
    (the word to its left and the one to its right) in `texts` is drawn by how
    often the word is in it, then another word of this context by how often it
    is there. A word that shares no context with another one stays.

    Args:
        texts: Iterable of strings to learn the contexts from: train text
            alone. Words are as in `kd.augment.transfer_set`; case is told
            apart.
        probability: Float, of each word. Defaults to `0.1`.

    Raises:
        ValueError: if `probability` is not between 0 and 1, or no two words
            share a context.

    Example:

    >>> import random
    >>> method = SameContextReplacement(["a good film", "a bad film"], 1.0)
    >>> method(["a", "good", "film"], random.Random(0))
    ['a', 'bad', 'film']

    Reference:
        Tang et al., 2019, https://arxiv.org/abs/1903.12136, section 3.3, with
        parts of speech.
    """

    def __init__(self, texts, probability=0.1):
        check_between("probability", probability, 0, 1)
        self.probability = probability
        counts = collections.defaultdict(collections.Counter)
        for text in texts:
            # Plain strings: what replaces must not bring its own blanks.
            words = [EDGE, *map(str, units(text)), EDGE]
            for left, word, right in zip(words, words[1:], words[2:]):
                counts[left, right][word] += 1
        self._words = {}
        of_word = collections.defaultdict(dict)
        for context, found in counts.items():
            if len(found) < 2:
                continue
            self._words[context] = _Urn(found)
            for word, count in found.items():
                of_word[word][context] = count
        if not self._words:
            raise ValueError(
                "No two words of `texts` stand between the same neighbours: "
                "pass more text, or use `Masking` and `NGramSampling` alone"
            )
        self._contexts = {word: _Urn(found) for word, found in of_word.items()}

    def replace(self, words, position, rng):
        """Another word for `words[position]`, or the same."""
        word = words[position]
        contexts = self._contexts.get(word)
        if contexts is None:
            return word
        return self._words[contexts.draw(rng)].draw(rng, without=word)

    def __call__(self, words, rng):
        return replace_each(
            words,
            rng,
            self.probability,
            lambda position: self.replace(words, position, rng),
        )


class _Urn:
    """Draws from counted things, in an order that does not vary."""

    def __init__(self, counts):
        self.things = sorted(counts)
        numbers = [counts[thing] for thing in self.things]
        self.ends = list(itertools.accumulate(numbers))

    def draw(self, rng, without=None):
        index = -1
        skipped, start = 0, self.ends[-1]
        if without is not None:
            index = bisect.bisect_left(self.things, without)
            start = self.ends[index - 1] if index else 0
            skipped = self.ends[index] - start
        ball = rng.randrange(self.ends[-1] - skipped)
        if ball >= start:
            ball += skipped
        return self.things[bisect.bisect_right(self.ends, ball)]
