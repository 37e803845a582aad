"""Which tensors of a file are farthest from those of its float32 form."""

import warnings

import numpy as np

from keras_distill.export.latency import LiteRTModel

ROWS, COUNT = 8, 3


def worst_tensors(reference, path, arrays):
    """The tensors that err most, in words.

    Args:
        reference: Path of the float32 file.
        path: Path of the other one.
        arrays: Inputs by name; the first rows are read.

    Returns:
        String: names, and the length of the error over that of the tensor.
        Empty where no name is in both files.
    """
    errors, held = {}, {}
    expected, found = _Opened(reference), _Opened(path)
    rows = min(ROWS, len(next(iter(arrays.values()))))
    for i in range(rows):
        row = {name: x[i : i + 1] for name, x in arrays.items()}
        old, new = expected.tensors(row), found.tensors(row)
        for name in old.keys() & new.keys():
            if old[name].shape == new[name].shape:
                # What an operation has left in memory may be of any size.
                one, other = np.float64(old[name]), np.float64(new[name])
                length = np.linalg.norm(one) + 1e-12
                error = np.linalg.norm(one - other) / length
                errors.setdefault(name, []).append(error)
                held.setdefault(name, []).append(old[name])
    means = {
        name: float(np.mean(values))
        for name, values in errors.items()
        # Constants of one name are not always one.
        if rows == 1 or any(np.any(x != held[name][0]) for x in held[name])
    }
    worst = sorted(means, key=lambda name: (-means[name], name))[:COUNT]
    return ", ".join(f"{name[-80:]} ({means[name]:.0%})" for name in worst)


class _Opened:
    """A file of which every tensor can be read."""

    def __init__(self, path):
        with warnings.catch_warnings():
            # That it holds all tensors in memory is the point.
            warnings.filterwarnings("ignore", message=".*preserve_all_tensors")
            self._model = LiteRTModel(path, every_tensor=True)

    def tensors(self, row):
        self._model(row)
        return {
            detail["name"]: value
            for detail, value in self._model.computed()
            if value.size and np.isfinite(value).all()
        }
