"""`manifest.json`: what a cache holds, and what it belongs to."""

import dataclasses
import json

import keras
import numpy as np

from keras_distill._files import DamagedFileError
from keras_distill._files import content_hash
from keras_distill._files import json_hash
from keras_distill._files import read_json
from keras_distill._files import versions
from keras_distill._files import write_json
from keras_distill.cache import records
from keras_distill.cache.folders import CacheError
from keras_distill.cache.forms import Sampled
from keras_distill.teachers import Ensemble

FILE = "manifest.json"
CHECKSUM = "checksum"
FORMAT = 2
PACKAGES = ("keras-distill", "keras", "tensorflow", "numpy")


def teacher_fingerprint(teacher):
    """SHA-256 of the weights of all models of a `Teacher`.

    Names and paths do not count: they depend on what was built before.
    """
    parts = []
    if isinstance(teacher.source, Ensemble):
        source = teacher.source
        parts.append(f"{source.average} {source.weights}")
    for model in teacher.models:
        parts.append(f"{len(model.weights)} weights")
        for weight in model.weights:
            parts.append(keras.ops.convert_to_numpy(weight))
    return content_hash(parts)


def data_fingerprint(keys):
    """SHA-256 of the keys of examples, in their order."""
    return content_hash([np.asarray(keys, "<i8").tobytes()])


def written_with():
    """Backend and versions that the bytes of the shards depend on."""
    return {"backend": keras.backend.backend(), **versions(PACKAGES)}


def as_json(settings):
    """`settings` as JSON holds them.

    Raises:
        ValueError: if it cannot.
    """
    try:
        return json.loads(json.dumps(settings, sort_keys=True, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(
            "`settings` must be what JSON can hold: dicts, lists, strings, "
            f"finite numbers. Received: settings={settings!r} ({error})"
        ) from error


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a cache holds, and what it belongs to.

    Args:
        identity: Dict: the fingerprint of the teacher's weights, the names,
            dtypes and ranks of its inputs, the form and dtype of what is
            stored, the layout, the versions and the caller's settings.
        structure: Nested names, as the signal of one example is nested.
        features: Dict from name to `{"dtype", "shape"}`.
        shards: List of dicts: file, examples, tokens, bytes, signal_bytes,
            sha256 of the file and fingerprint of its data. Empty until the
            cache is complete.
        format: Integer, the version of this file's format.
    """

    identity: dict
    structure: dict
    features: dict
    shards: list = dataclasses.field(default_factory=list)
    format: int = FORMAT

    @property
    def complete(self):
        """Whether the writer came to the end of the data."""
        return bool(self.shards)

    @property
    def examples(self):
        """How many examples the cache holds."""
        return sum(shard["examples"] for shard in self.shards)

    @property
    def tokens(self):
        """How many tokens they have, 0 if they have no padding mask."""
        return sum(shard["tokens"] for shard in self.shards)

    @property
    def data(self):
        """SHA-256 over the fingerprints of the shards' data."""
        return content_hash(shard["data"] for shard in self.shards)

    @property
    def bytes_per_example(self):
        """Bytes of all files for one example, on average."""
        return sum(s["bytes"] for s in self.shards) / max(self.examples, 1)

    @property
    def bytes_per_token(self):
        """Bytes of the signals for one token, or None without tokens."""
        if not self.tokens:
            return None
        return sum(s["signal_bytes"] for s in self.shards) / self.tokens

    def save(self, folder):
        """Writes `manifest.json`, which is there whole or not at all."""
        known = dataclasses.asdict(self) | {
            "complete": self.complete,
            "examples": self.examples,
            "tokens": self.tokens,
            "data": self.data,
            "bytes_per_example": self.bytes_per_example,
            "bytes_per_token": self.bytes_per_token,
        }
        write_json(folder / FILE, known | {CHECKSUM: json_hash(known)})

    @classmethod
    def load(cls, folder):
        """The manifest in `folder`, or None if there is none.

        Raises:
            CacheError: if it cannot be read.
        """
        try:
            known = read_json(folder / FILE)
        except FileNotFoundError:
            return None
        except (OSError, DamagedFileError) as error:
            raise _damaged(folder, error) from error
        if not isinstance(known, dict):
            raise _damaged(folder, f"it holds a {type(known).__name__}")
        fields = {field.name for field in dataclasses.fields(cls)}
        if known.get("format") != FORMAT or not fields <= set(known):
            raise CacheError(
                f"The cache {str(folder)!r} has format "
                f"{known.get('format')!r}, this version reads format {FORMAT}. "
                "Remove the folder and write the cache again"
            )
        checksum = known.pop(CHECKSUM, None)
        if checksum != json_hash(known):
            raise _damaged(folder, "its checksum differs")
        return cls(**{name: known[name] for name in fields})

    def described(self):
        """The features as objects, by name."""
        logits = self.identity["logits"]
        found = {}
        for name, known in self.features.items():
            shape = tuple(known["shape"])
            if known["dtype"] == "sampled":
                options = {k: v for k, v in logits.items() if k != "form"}
                sampled = Sampled(**options)
                found[name] = records.SampledFeature(name, sampled, shape)
            else:
                found[name] = records.Feature(name, known["dtype"], shape)
        return found


def _damaged(folder, reason):
    # Without it nobody knows whose signals the shards are.
    return CacheError(
        f"The manifest of the cache {str(folder)!r} is damaged: {reason}. "
        "Remove the folder and write the cache again"
    )


def feature_table(features):
    """Dict from name to `{"dtype", "shape"}`, for a `Manifest`."""
    return {
        name: {
            "dtype": getattr(feature, "dtype", "sampled"),
            "shape": list(feature.shape),
        }
        for name, feature in features.items()
    }
