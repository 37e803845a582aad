"""Classification sets of texts out of tensorflow-datasets."""

import pathlib

import numpy as np

from keras_distill._pairs import from_sides
from keras_distill.data._network import any_answers

TRAIN = ("train",)
DEV = ("validation", "dev", "valid")
TEST = ("test",)


def load_tfds(
    name,
    text_feature=None,
    label_feature=None,
    pair_feature=None,
    data_dir=None,
):
    """Loads the rows of a tensorflow-datasets set.

    Args:
        name: String, `"NAME"` or `"NAME/CONFIG"`.
        text_feature: String. Defaults to the one text feature of the set.
        label_feature: String. Defaults to `"label"`.
        pair_feature: String, the second text of a pair. Defaults to none.
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
    builder = _builder(name, data_dir)
    features = builder.info.features
    texts = [_text_feature(name, features, text_feature, "text_column")]
    if pair_feature is not None:
        pair = _text_feature(name, features, pair_feature, "text_pair_column")
        texts.append(pair)
    label_feature = _label_feature(name, features, label_feature)
    rows, notes = {}, []
    for part, candidates in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        split = next((c for c in candidates if c in builder.info.splits), None)
        if split is None:
            continue
        found = _rows(builder, split, texts, label_feature)
        if part == "test" and all(label is None for _, label in found):
            notes.append(f"The test part of {name} has no labels: not used")
        else:
            rows[part] = found
    if "train" not in rows:
        raise ValueError(
            f"tfds:{name} must have a split 'train'. Received: "
            f"splits={sorted(builder.info.splits)}"
        )
    return rows, getattr(features[label_feature], "names", None), notes


def _builder(name, data_dir):
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


def _label_feature(name, features, label_feature):
    label_feature = label_feature or "label"
    if not _is_integer(features, label_feature):
        raise ValueError(
            f"`label_column` must name a scalar integer feature of tfds:{name}"
            f", which has {sorted(features)}. "
            f"Received: label_column={label_feature!r}"
        )
    return label_feature


def _is_integer(features, name):
    if name not in features:
        return False
    feature = features[name]
    return feature.shape == () and np.dtype(feature.np_dtype).kind in "iu"


def _rows(builder, split, text_features, label_feature):
    import tensorflow_datasets as tfds

    names = getattr(builder.info.features[label_feature], "names", None)
    rows = []
    for example in tfds.as_numpy(builder.as_dataset(split=split)):
        texts = [
            example[feature].decode("utf-8").strip()
            for feature in text_features
        ]
        label = int(example[label_feature])
        if not all(texts):
            empty = text_features[texts.index("")]
            raise ValueError(
                f"Every row needs a text. Received: an empty {empty!r} "
                f"in row {len(rows)} of the {split!r} split"
            )
        text = from_sides(texts)
        if label < 0:
            rows.append((text, None))
        else:
            rows.append((text, names[label] if names else str(label)))
    return rows
