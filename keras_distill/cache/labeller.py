"""The teacher's passes: batches of similar length, in the order of the data."""

import keras
import numpy as np

from keras_distill import taps
from keras_distill._backend import output_spec
from keras_distill._compiled import compile_reading
from keras_distill._masks import padding_mask
from keras_distill.cache import records
from keras_distill.cache.forms import FULL
from keras_distill.cache.forms import Sampled
from keras_distill.cache.forms import TopK
from keras_distill.recording import record

LOGITS = "logits"


def find_taps(teacher, states):
    """Dict, the name of a signal to its list of taps, and if it is a pair.

    Raises:
        ValueError: if a layer is not there or a name is taken.
    """
    found = {}
    for name, reference in (states or {}).items():
        if name == LOGITS:
            raise ValueError(
                "`states` cannot be named 'logits'. Name each after the match "
                f"that it is for. Received: {sorted(states)}"
            )
        pair = isinstance(reference, (list, tuple))
        references = reference if pair else [reference]
        found[name] = pair, [_resolve(teacher, one) for one in references]
    return found


def _resolve(teacher, reference):
    errors = []
    for model in teacher.models:
        try:
            return taps.resolve(model, reference)
        except ValueError as error:
            errors.append(str(error))
    raise ValueError("; ".join(errors))


class SignalModel(keras.Model):
    """One pass of the teacher, as a dict of its signals.

    Args:
        teacher: `Teacher`.
        logits: Form of the logits, or None for none.
        states: What `find_taps` gave.
    """

    def __init__(self, teacher, logits, states):
        super().__init__(dtype="float32", autocast=False)
        self.models = teacher.models
        self.teacher = teacher
        self.form = logits
        self.states = states
        self.classes = 1
        self.built = True

    def call(self, inputs):
        wanted = [tap for _, found in self.states.values() for tap in found]
        with record(wanted) as recording:
            outputs = self.teacher.outputs(inputs)
        signal = {}
        if self.form is not None:
            signal[LOGITS] = keras.tree.map_structure(self._formed, outputs)
        for name, (pair, found) in self.states.items():
            values = tuple(recording.value(tap) for tap in found)
            signal[name] = values if pair else values[0]
        return signal

    def _formed(self, logits):
        if self.form == FULL:
            return logits
        self.classes = max(self.classes, logits.shape[-1])
        return self.form(logits)


def token_counts(inputs):
    """Tokens of each row up to the last real one, or None without a mask."""
    mask = padding_mask(inputs)
    if mask is None:
        return None
    real = np.asarray(mask, bool)
    return np.where(
        real.any(axis=1), real.shape[1] - real[:, ::-1].argmax(axis=1), 0
    )


def _fitted(inputs, width):
    """Inputs whose rows are cut, or filled with zeros, to `width` tokens."""
    mask = padding_mask(inputs)
    before = mask.shape[1]

    def fit(array):
        if array.ndim < 2 or array.shape[1] != before:
            return array
        room = [(0, 0), (0, max(width - before, 0))]
        room += [(0, 0)] * (array.ndim - 2)
        return np.pad(array[:, :width], room)

    return keras.tree.map_structure(fit, inputs)


class Labeller:
    """Runs the teacher over shards and encodes its signals.

    Args:
        teacher: `Teacher`.
        logits: `"full"`, `TopK`, `Sampled` or None.
        states: Dict, name to tap references, or None.
        dtype: String, of what is stored.
        layout: `Layout`.

    Attributes:
        structure: Nested names of the features, as the signal is nested.
        features: Dict, name to feature. Known once `describe` has run.
        places: Dict, the names of states to where the teacher has them.
    """

    def __init__(self, teacher, logits, states, dtype, layout):
        found = find_taps(teacher, states)
        self.places = {
            name: [taps.position(teacher.models, tap) for tap in held]
            for name, (_, held) in found.items()
        }
        self.model = SignalModel(teacher, logits, found)
        # One trace for each shape, so that no row depends on those before it.
        self.run = compile_reading(self.model, self.model.variables)
        self.form = logits
        self.dtype = dtype
        self.layout = layout
        self.structure = None
        self.features = {}

    def describe(self, inputs):
        """Finds the features, from the shapes of one shard's inputs."""
        outputs = self._specs(inputs)
        counts = token_counts(inputs)
        narrower = None if counts is None else self._narrower(inputs)
        if self.layout.lengths and narrower is None:
            raise ValueError(
                "`lengths` need a 'padding_mask' among the teacher's inputs "
                "and a teacher that takes rows of any length. Received: "
                f"lengths={self.layout.lengths}. Leave them out"
            )
        self.structure = _names(outputs)
        others = outputs if narrower is None else narrower
        for name, spec, other in zip(
            keras.tree.flatten(self.structure),
            keras.tree.flatten(outputs),
            keras.tree.flatten(others),
        ):
            shape = tuple(
                size if size == size_of_other else None
                for size, size_of_other in zip(spec.shape[1:], other.shape[1:])
            )
            self.features[name] = self._feature(name, spec, shape)

    def _specs(self, inputs):
        specs = keras.tree.map_structure(
            lambda array: keras.KerasTensor(
                (None, *array.shape[1:]), str(array.dtype)
            ),
            inputs,
        )
        return output_spec(self.model.call, specs)

    def _narrower(self, inputs):
        # What changes its size with the inputs' width has one for the tokens.
        width = padding_mask(inputs).shape[1]
        other = width - 1 if width > 1 else width + 1
        try:
            return self._specs(_fitted(inputs, other))
        except ValueError:  # Built for rows of this width alone.
            return None

    def _feature(self, name, spec, shape):
        of_logits = name.split("/")[0] == LOGITS
        if of_logits and isinstance(self.form, Sampled):
            return records.SampledFeature(name, self.form, shape)
        if of_logits and isinstance(self.form, TopK) and "int" in spec.dtype:
            dtype = records.smallest_integer(self.model.classes - 1)
            return records.Feature(name, dtype, shape)
        return records.Feature(name, self.dtype, shape)

    def rows(self, inputs, first):
        """Encoded signals of one shard, in the order of the data.

        Args:
            inputs: Nested arrays, what the teacher reads of one shard.
            first: Integer, the place of its first example in the data.

        Returns:
            List of tuples: tokens or None, and a dict from name to bytes.
        """
        counts = token_counts(inputs)
        size = len(keras.tree.flatten(inputs)[0])
        order = np.arange(size)
        if self.layout.lengths:
            order = np.argsort(counts, kind="stable")
        encoded = [None] * size
        for start in range(0, size, self.layout.batch_size):
            chosen = order[start : start + self.layout.batch_size]
            answers = self.run(self._batch(inputs, counts, chosen))
            outputs = [
                keras.ops.convert_to_numpy(answer)
                for answer in keras.tree.flatten(answers)
            ]
            for place, row in enumerate(chosen):
                length = None if counts is None else int(counts[row])
                encoded[row] = (
                    length,
                    self._parts(
                        [output[place] for output in outputs],
                        length,
                        first + row,
                    ),
                )
        return encoded

    def _batch(self, inputs, counts, chosen):
        # Always full: the sums of a matrix product, and so the stored bytes,
        # may depend on the number of rows.
        room = self.layout.batch_size - len(chosen)
        rows = np.concatenate([chosen, np.repeat(chosen[-1:], room)])
        batch = keras.tree.map_structure(lambda array: array[rows], inputs)
        if not self.layout.lengths:
            return batch
        return _fitted(batch, self.layout.bucket(int(counts[chosen].max())))

    def _parts(self, arrays, length, example):
        parts = {}
        for feature, array in zip(self.features.values(), arrays):
            try:
                if isinstance(feature, records.SampledFeature):
                    parts |= feature.encode(array, length, example)
                else:
                    parts |= feature.encode(array, length)
            except ValueError as error:
                raise ValueError(f"Example {example}: {error}") from error
        return parts


def _names(structure):
    """The same structure, of names: the path of each leaf."""
    paths = keras.tree.flatten_with_path(structure)
    names = ["/".join(map(str, path)) for path, _ in paths]
    return keras.tree.pack_sequence_as(structure, names)
