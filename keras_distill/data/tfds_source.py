"""Text classification sets out of tensorflow-datasets."""

TRAIN = ("train",)
DEV = ("validation", "dev", "valid")
TEST = ("test",)


def load_tfds(name, text_feature=None, label_feature=None):
    """Loads the rows of a tensorflow-datasets set.

    Args:
        name: String, `"NAME"` or `"NAME/CONFIG"`.
        text_feature: String. Defaults to the one text feature of the set.
        label_feature: String. Defaults to `"label"`.

    Returns:
        `(rows, label names or None, notes)`, with `rows` a dictionary from
        `"train"`, `"dev"`, `"test"` to lists of `(text, label)`. A test part
        without labels (as GLUE's) is left out, and `notes` says so.

    Raises:
        ValueError: There is no such set, feature or split.
        ConnectionError: The set is not on this machine and cannot be
            downloaded.
    """
    builder = _builder(name)
    text_feature, label_feature = _features(
        name, builder.info.features, text_feature, label_feature
    )
    rows, notes = {}, []
    for part, candidates in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        split = next((c for c in candidates if c in builder.info.splits), None)
        if split is None:
            continue
        found = _rows(builder, split, (text_feature, label_feature))
        if part == "test" and all(label is None for _, label in found):
            notes.append(f"The test part of {name} has no labels: not used")
        else:
            rows[part] = found
    if "train" not in rows:
        raise ValueError(
            f"tfds:{name} must have a split 'train'. Received: "
            f"splits={sorted(builder.info.splits)}"
        )
    names = getattr(builder.info.features[label_feature], "names", None)
    return rows, names, notes


def _builder(name):
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name)
        builder.download_and_prepare()
    except tfds.core.registered.DatasetNotFoundError as error:
        raise ValueError(
            "`source` must be 'tfds:NAME' or 'tfds:NAME/CONFIG' with a set "
            f"that tensorflow-datasets knows. Received: source='tfds:{name}'"
        ) from error
    except OSError as error:  # Network errors of requests and urllib.
        raise ConnectionError(
            f"tfds:{name} is not on this machine and could not be downloaded "
            f'({type(error).__name__}). Run `python -c "import '
            f"tensorflow_datasets as tfds; tfds.load('{name}')\"` where there "
            "is a network and copy ~/tensorflow_datasets, or use "
            "'docstrings' or a .tsv file"
        ) from error
    return builder


def _features(name, features, text_feature, label_feature):
    import tensorflow_datasets as tfds

    texts = [
        key
        for key, feature in features.items()
        if isinstance(feature, tfds.features.Text)
    ]
    if text_feature is None and len(texts) == 1:
        text_feature = texts[0]
    if text_feature not in texts:
        raise ValueError(
            f"`text_column` must name one text feature of tfds:{name}: "
            f"{texts}. Received: text_column={text_feature!r}"
        )
    label_feature = label_feature or "label"
    feature = features.get(label_feature)
    if feature is None or feature.shape or feature.np_dtype.kind not in "iu":
        raise ValueError(
            f"`label_column` must name a scalar integer feature of tfds:{name}"
            f", which has {sorted(features)}. "
            f"Received: label_column={label_feature!r}"
        )
    return text_feature, label_feature


def _rows(builder, split, columns):
    import tensorflow_datasets as tfds

    text_feature, label_feature = columns
    names = getattr(builder.info.features[label_feature], "names", None)
    rows = []
    for example in tfds.as_numpy(builder.as_dataset(split=split)):
        text = example[text_feature].decode("utf-8").strip()
        label = int(example[label_feature])
        if not text:
            raise ValueError(
                f"Every row needs a text. Received: an empty {text_feature!r} "
                f"in row {len(rows)} of the {split!r} split"
            )
        if label < 0:
            rows.append((text, None))
        else:
            rows.append((text, names[label] if names else str(label)))
    return rows
