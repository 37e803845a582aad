"""Tagged words out of tensorflow-datasets."""

from keras_distill.data.tags import TAG


def tagged_words(name, features, words, labels, kind):
    """What reads an example of a set of tagged words.

    Args:
        name: String, of the set.
        features: Its `tfds.features.FeaturesDict`.
        words: String, the sequence of texts. None: the only one.
        labels: Tuple with the name of the sequence of classes; where it is not
            there, the first of `kind.label_columns` that is.
        kind: `TagSplits`.

    Returns:
        Callable from an example to a sentence and a tuple of tags.

    Raises:
        ValueError: There are no such features, or its classes are no tags.
    """
    import tensorflow_datasets as tfds

    sequences = {
        key: feature.feature
        for key, feature in features.items()
        if isinstance(feature, tfds.features.Sequence)
    }
    texts, classes = (
        [key for key, held in sequences.items() if isinstance(held, wanted)]
        for wanted in (tfds.features.Text, tfds.features.ClassLabel)
    )
    if words is None and len(texts) == 1:
        words = texts[0]
    chosen = [key for key in (*labels, *kind.label_columns) if key in classes]
    if words not in texts or not chosen:
        raise ValueError(
            f"tfds:{name} must have a sequence of words and one of classes, "
            "named by `text_column` and `label_column`. Received: "
            f"text_column={words!r}, label_column={labels[0]!r}, for the words "
            f"{texts} and the classes {classes}"
        )
    names = sequences[chosen[0]].names
    wrong = [tag for tag in names if not TAG.fullmatch(tag)]
    if wrong:
        raise ValueError(
            "The classes of tags must be O, B-TYPE and I-TYPE. Received: "
            f"{wrong[:5]} in {chosen[0]!r} of tfds:{name}"
        )

    def read(example):
        held = [word.decode("utf-8") for word in example[words]]
        if not held or any(len(word.split()) != 1 for word in held):
            raise ValueError(
                f"A sentence must have words, without blanks. Received: {held}"
            )
        tags = tuple(names[label] for label in example[chosen[0]])
        kind.check_tags(tags)
        return " ".join(held), tags

    return read
