"""Classification sets of texts out of tensorflow-datasets."""

import functools
import pathlib

import numpy as np

from keras_distill._pairs import from_sides
from keras_distill.data._network import any_answers
from keras_distill.data.text_splits import TextSplits
from keras_distill.data.tfds_words import tagged_words

TRAIN = ("train",)
DEV = ("validation", "dev", "valid")
TEST = ("test",)
# What GLUE's test parts hold, read as a class and as a score.
NO_LABEL = {None, -1.0}


def load_tfds(
    name,
    text_feature=None,
    label_features=("label",),
    pair_feature=None,
    kind=TextSplits,
    data_dir=None,
):
    """Loads the rows of a tensorflow-datasets set.

    Args:
        name: String, `"NAME"` or `"NAME/CONFIG"`.
        text_feature: String. Defaults to the one text feature of the set.
        label_features: Tuple of strings.
        pair_feature: String, the second text of a pair. Defaults to none.
        kind: `TextSplits` or a subclass, what the labels mean.
        data_dir: Path where prepared sets are kept. Defaults to TFDS' own,
            `~/tensorflow_datasets`.

    Returns:
        `(rows, label names or None, notes)`, with `rows` a dictionary from
        `"train"`, `"dev"`, `"test"` to lists of `(text, label)`, the text a
        pair of strings where there are two. A test part
        without labels (as GLUE's) is left out, and `notes` says so.

    Raises:
        ValueError: There is no such set, feature or split.
        ConnectionError: The set is not on this machine and cannot be
            downloaded.
    """
    builder = builder_of(name, data_dir)
    features = builder.info.features
    if kind.per_word:
        read = tagged_words(name, features, text_feature, label_features, kind)
        names = None
    else:
        texts = [_text_feature(name, features, text_feature, "text_column")]
        if pair_feature is not None:
            texts.append(
                _text_feature(name, features, pair_feature, "text_pair_column")
            )
        _check_labels(name, features, label_features, kind)
        names = _class_names(features, label_features)
        read = functools.partial(_row, texts, label_features, names, kind)
    rows, notes = {}, []
    for part, split in split_names(builder).items():
        found = _rows(builder, split, read)
        if part == "test" and {label for _, label in found} <= NO_LABEL:
            notes.append(f"The test part of {name} has no labels: not used")
        else:
            rows[part] = found
    return rows, names, notes


def split_names(builder):
    """Dict from the parts that a set has to the names of its splits.

    Raises:
        ValueError: It has no train part.
    """
    found = {}
    for part, candidates in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        known = [name for name in candidates if name in builder.info.splits]
        if known:
            found[part] = known[0]
    if "train" not in found:
        raise ValueError(
            f"tfds:{builder.info.name} must have a split 'train'. Received: "
            f"splits={sorted(builder.info.splits)}"
        )
    return found


def builder_of(name, data_dir=None, ready=True):
    """The builder of a tensorflow-datasets set.

    Args:
        name: String, `"NAME"` or `"NAME/CONFIG"`.
        data_dir: Path where prepared sets are kept, or None.
        ready: Boolean. Whether the set is downloaded and prepared.

    Raises:
        ValueError: There is no such set.
        ConnectionError: It is not here and cannot be downloaded.
    """
    import tensorflow_datasets as tfds

    # Registers the set made here.
    import keras_distill.data.tfds_docstrings  # noqa: F401

    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except ValueError as error:  # An unknown set or configuration.
        raise ValueError(
            "`source` must be 'tfds:NAME' or 'tfds:NAME/CONFIG' with a set "
            f"that tensorflow-datasets knows. Received: source='tfds:{name}'"
        ) from error
    if not ready:
        return builder
    if not _is_here(builder) and not any_answers(builder.url_infos):
        raise _no_download(name, "no connection can be made")
    try:
        builder.download_and_prepare()
    except OSError as error:  # Network errors of requests and urllib.
        raise _no_download(name, type(error).__name__) from error
    return builder


def _is_here(builder):
    """Whether a set is prepared, or needs no file that is not downloaded."""
    urls = list(builder.url_infos or ())  # A set made here has none.
    if builder.data_path.exists() or not urls:
        return True
    depth = builder.info.full_name.count("/")
    root = pathlib.Path(builder.data_path).parents[depth]
    return any(
        url in file.read_text()
        for file in (root / "downloads").rglob("*.INFO")
        for url in urls
    )


def _no_download(name, reason):
    return ConnectionError(
        f"tfds:{name} is not on this machine and could not be downloaded "
        f"({reason}). Where there is a network, run "
        f"`tfds build {name}` and copy ~/tensorflow_datasets from there, "
        "or use 'docstrings' or a .tsv file. "
        f"Received: source='tfds:{name}'"
    )


def _text_feature(name, features, chosen, option):
    import tensorflow_datasets as tfds

    texts = [
        key
        for key, feature in features.items()
        if isinstance(feature, tfds.features.Text)
    ]
    if chosen is None and len(texts) == 1:
        return texts[0]
    if chosen not in texts:
        raise ValueError(
            f"`{option}` must name one text feature of tfds:{name}: "
            f"{texts}. Received: {option}={chosen!r}"
        )
    return chosen


def _check_labels(name, features, chosen, kind):
    for label in chosen:
        if not _is_number(features, label, kind.tfds_kinds):
            raise ValueError(
                "`label_column` must name a scalar integer feature of "
                f"tfds:{name}, or of scores a float one; it has "
                f"{sorted(features)}. Received: label_column={label!r}"
            )


def _is_number(features, name, kinds):
    if name not in features:
        return False
    feature = features[name]
    return feature.shape == () and np.dtype(feature.np_dtype).kind in kinds


def _class_names(features, labels):
    """Those of a single feature; several are named by themselves."""
    if len(labels) > 1:
        return None
    return getattr(features[labels[0]], "names", None)


def _rows(builder, split, read):
    import tensorflow_datasets as tfds

    rows = []
    for example in tfds.as_numpy(builder.as_dataset(split=split)):
        try:
            rows.append(read(example))
        except ValueError as error:
            raise ValueError(
                f"{error}; in row {len(rows)} of the {split!r} split"
            ) from error
    return rows


def _row(text_features, label_features, names, kind, example):
    """The text, or the pair, and the label of an example."""
    texts = [
        example[feature].decode("utf-8").strip() for feature in text_features
    ]
    if not all(texts):
        raise ValueError(
            "Every row needs a text. Received: an empty "
            f"{text_features[texts.index('')]!r}"
        )
    # As the fields of a table, whose rules are then the rules here.
    fields = [_field(example[label], names) for label in label_features]
    return from_sides(texts), kind.read_label(fields, label_features)


def _field(value, names):
    if names is None:
        return str(value)
    return names[value] if value >= 0 else ""
