"""A WordPiece vocabulary of one's own, and the KerasHub layers that use it."""

import collections
import unicodedata

import keras_hub

from keras_distill._checks import check_integer
from keras_distill._files import write_text
from keras_distill._scripts import is_ideograph

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
COVERED = 0.9995
FEW_TEXTS_COUNT, MANY_TEXTS_COUNT, MANY = 2, 10, 20_000
# The most of a text that is a name; longer ones may be sentences of a script
# that puts no blanks between its words.
NAME_WORDS, NAME_LETTERS = 1.5, 20
# They change how the character before them looks, and the tokenizer drops them.
VARIATION_SELECTORS = range(0xFE00, 0xFE10)


def train_vocabulary(texts, vocabulary_size=8000, min_count=None):
    """Trains a lower-cased WordPiece vocabulary.

    TensorFlow Text's trainer, which is KerasHub's, takes pieces that occur
    often enough, of the thousand most frequent characters. To them are added,
    as far as there is room, the characters that make up 99.95 % of the texts:
    as `c` where a word begins with them, as `##c` where they are within one.

    Args:
        texts: Sequence of strings, the train part only.
        vocabulary_size: Integer, the most entries it may have. Defaults to
            `8000`.
        min_count: Integer, how often a piece must occur; the most frequent
            ones count where there are more than room. Defaults to 2, as few
            texts would spell most of their words letter by letter, and to 10
            for 20,000 texts or more. By default texts of hardly more than one
            word, most of which occur once, such as names, are spelt letter by
            letter: pieces of the ones tell little of the others.

    Returns:
        List of strings; the special tokens are first and `[PAD]` is 0.

    Raises:
        ValueError: There are no words, the size leaves no room for them, or
            `min_count` is no positive integer.

    Example:

    >>> train_vocabulary(["low lower lowest"] * 9, 14)[:6]
    ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'e']

    Reference:
        Schuster and Nakajima, 2012, "Japanese and Korean voice search".
    """
    if vocabulary_size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"`vocabulary_size` must exceed the {len(SPECIAL_TOKENS)} special "
            f"tokens. Received: vocabulary_size={vocabulary_size}"
        )
    texts = list(texts)
    words = count_words(texts)
    if not words:
        raise ValueError(
            "A vocabulary needs texts with words to learn from. Received: "
            f"len(texts)={len(texts)}"
        )
    pieces = character_pieces(words)
    if min_count is None:
        if _are_names(words, len(texts)):
            return _with_characters(SPECIAL_TOKENS, pieces, vocabulary_size)
        few = len(texts) < MANY
        min_count = FEW_TEXTS_COUNT if few else MANY_TEXTS_COUNT
    check_integer("min_count", min_count, 1)
    learnt = _learnt(words, vocabulary_size, min_count)
    return _with_characters(learnt, pieces, vocabulary_size)


def _are_names(words, texts):
    """Whether most texts are one short word that no other text has."""
    once = sum(count == 1 for count in words.values())
    total = words.total()
    letters = sum(len(word) * count for word, count in words.items())
    are_short = total < NAME_WORDS * texts and letters < NAME_LETTERS * texts
    return are_short and 2 * once > total


def _learnt(words, size, min_count):
    """What TensorFlow Text's trainer learns, frequent entries first."""
    from tensorflow_text.tools.wordpiece_vocab import (
        wordpiece_tokenizer_learner_lib as learner,
    )

    # KerasHub calls it without bounds: then it learns 14 to 17 vocabularies in
    # search of a count by which all pieces fit, nearly always to end at the
    # least one. Bounds are clipped to counts of words, reserved ones included,
    # which are left out afterwards.
    bounds = dict.fromkeys(SPECIAL_TOKENS, min_count)
    learnt = learner.learn(
        words | bounds,
        size,
        list(SPECIAL_TOKENS),
        lower_thresh=min_count,
        upper_thresh=min_count,
    )
    return [piece for piece in learnt if not _is_never_met(piece)]


def _is_never_met(piece):
    """An ideograph is a word of its own, so that none stands within one."""
    return len(piece) == 3 and piece[:2] == "##" and is_ideograph(piece[2])


def _with_characters(learnt, pieces, size):
    """The entries learnt, the last ones left out where pieces need room."""
    required = [*SPECIAL_TOKENS, *pieces][:size]
    spare = size - len(required)
    required = set(required)
    kept = []
    for piece in learnt:
        if piece in required:
            kept.append(piece)
        elif spare:
            kept.append(piece)
            spare -= 1
    return kept + sorted(required.difference(kept))


def character_pieces(words, covered=COVERED):
    """The pieces of one character that cover nearly all of the texts.

    Args:
        words: Dict, how often each word occurs.
        covered: Float, which share of the characters, as the tokenizer
            normalises them, without blanks.

    Returns:
        List of strings, the most frequent characters first: `c` for those that
        begin a word, `##c` for those that stand within one.

    Example:

    >>> character_pieces({"ab": 1, "b": 1, "很": 1, "好": 1})
    ['b', '##b', 'a', '好', '很']
    """
    first, within = collections.Counter(), collections.Counter()
    for word, count in words.items():
        first[word[0]] += count
        for character in word[1:]:
            within[character] += count
    counts = first + within
    left = covered * counts.total()
    found = []
    for character in sorted(counts, key=lambda c: (-counts[c], c)):
        if left <= 0:
            break
        left -= counts[character]
        found += [character] * (character in first)
        found += [f"##{character}"] * (character in within)
    return found


def count_words(texts):
    """Counts of the words that BERT's tokenizers make, in lower case."""
    table, found = _Separated(), collections.Counter()
    for text in texts:
        found.update(text.translate(table).split())
    words = collections.Counter()
    for word, count in found.items():
        folded = unicodedata.normalize("NFKC", word).casefold()
        # Without the blanks that NFKC makes of some accents.
        for part in unicodedata.normalize("NFKC", folded).split():
            words[part] += count
    return words


class _Separated(dict):
    """What `str.translate` makes of each character, to split at blanks."""

    def __missing__(self, code):
        character = chr(code)
        kind = unicodedata.category(character)
        if code in VARIATION_SELECTORS:
            text = ""
        elif kind in ("Cc", "Cf"):
            text = " "
        elif kind[0] == "P" or _is_symbol(code) or is_ideograph(character):
            text = f" {character} "
        else:
            text = character
        self[code] = text
        return text


def _is_symbol(code):
    """Whether it is no letter in ASCII: `$` and `+` are punctuation, too."""
    return 33 <= code < 127 and not chr(code).isalnum()


def write_vocabulary(vocabulary, path):
    """Writes one token per line, as BERT's `vocab.txt`.

    Args:
        vocabulary: List of strings.
        path: Path of the file.
    """
    text = "".join(f"{token}\n" for token in vocabulary)
    write_text(path, text)


def bert_preprocessor(vocabulary, sequence_length=64):
    """A preprocessor from strings to BERT's three inputs.

    Args:
        vocabulary: List of strings, or the path of a `vocab.txt`.
        sequence_length: Integer, tokens with `[CLS]` and `[SEP]`.

    Returns:
        `keras_hub.models.BertTextClassifierPreprocessor`, lower-casing.

    Example:

    >>> layer = bert_preprocessor(train_vocabulary(["a b c"]), 6)
    >>> layer("a c")["token_ids"].numpy().tolist()
    [2, 5, 7, 3, 0, 0]
    """
    if not isinstance(vocabulary, list):
        vocabulary = str(vocabulary)
    tokenizer = keras_hub.models.BertTokenizer(
        vocabulary=vocabulary, lowercase=True
    )
    return keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=sequence_length
    )


def ids_of_tokens(tokenizer):
    """Dict from each token of a KerasHub tokenizer, a string, to its id."""
    if isinstance(tokenizer, keras_hub.tokenizers.BytePairTokenizer):
        return tokenizer.vocabulary  # Whose ids may have gaps.
    tokens = tokenizer.get_vocabulary()
    return {token: index for index, token in enumerate(tokens)}
