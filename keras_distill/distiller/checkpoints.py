"""What a Distiller keeps in files, and what it does not."""

import h5py
import numpy as np
from keras import ops

from keras_distill import _files
from keras_distill._backend import nested_layers
from keras_distill._backend import seed_states
from keras_distill._backend.adapters import as_they_are
from keras_distill._backend.adapters import frozen_weights
from keras_distill._backend.adapters import has_adapters

FROZEN = "frozen"


class Checkpoints:
    """Saves and loads what is trained, and how far the draws have come.

    Attributes:
        student: `keras.Model`.
        prepared: Boolean, whether all layers that are saved exist.
    """

    _trained = frozenset()
    _frozen_hash = None, None

    def note_what_is_trained(self):
        """Remembers what is trained now, which later may be frozen."""
        self._trained |= frozenset(map(id, self.trainable_variables))

    def _left_out(self):
        """With adapters: the student's weights that never were trained."""
        self.note_what_is_trained()
        if not any(map(has_adapters, nested_layers(self.student))):
            return []
        return [
            variable
            for variable in frozen_weights(self.student)
            if id(variable) not in self._trained
        ]

    def save_weights(self, *args, **kwargs):
        """Saves a checkpoint; arguments as in `keras.Model.save_weights`.

        Of a student with LoRA weights it holds these and all that was ever
        trained. What has been frozen from the start is left out: a student
        that loads the checkpoint must have it.
        """
        with as_they_are(self.student, self._left_out()):
            super().save_weights(*args, **kwargs)

    def load_weights(self, filepath, *args, **kwargs):
        """Loads a checkpoint; arguments as in `keras.Model.load_weights`.

        Raises:
            ValueError: The projections are not built yet, or the checkpoint
                was written beside other frozen weights.
        """
        if not self.prepared:
            raise ValueError(
                "The projections of the matches are not built yet. Call "
                "`distiller.prepare(inputs)` with one batch of inputs first"
            )
        if self.compiled:
            self.build_optimizer()  # Keras would skip its slots.
        left_out = self._left_out()
        self._frozen_hash = None, None  # They may have been loaded since.
        self._check_frozen(filepath, left_out)
        with as_they_are(self.student, left_out):
            super().load_weights(filepath, *args, **kwargs)

    def _check_frozen(self, path, left_out):
        if not h5py.is_hdf5(path):  # Keras says what is wrong with it.
            return
        with h5py.File(path) as file:
            held = file.get(f"vars/{FROZEN}")
            held = None if held is None else held[()]
        own = self._hash(left_out) if left_out else None
        if not np.array_equal(held, own):
            raise ValueError(
                "A checkpoint of a student with LoRA weights holds what is "
                "trained, not what is frozen, and this one belongs to other "
                "frozen weights. Give the student those that it had, and call "
                "`enable_lora` as before. Received: "
                f"filepath={str(path)!r}"
            )

    def save_own_variables(self, store):
        """Saves how far the draws of dropout and its like have come.

        Keras counts them among a model's variables but not among its weights,
        so that no file holds them, and a training that goes on from a file
        would draw from the start again.
        """
        for index, state in enumerate(seed_states(self)):
            store[f"seed_{index}"] = np.asarray(state)
        if left_out := self._left_out():
            store[FROZEN] = self._hash(left_out)

    def load_own_variables(self, store):
        """Loads what `save_own_variables` saved, if the draws are as many."""
        states = seed_states(self)
        # `store` is no dict, and has no other way to tell its keys.
        keys = [key for key in store.keys() if key != FROZEN]  # noqa: SIM118
        if len(states) == len(keys):
            for index, state in enumerate(states):
                state.assign(np.asarray(store[f"seed_{index}"]))

    def _hash(self, variables):
        """A hash of frozen weights, computed once, as numbers."""
        which = tuple(map(id, variables))
        if self._frozen_hash[0] != which:
            arrays = (ops.convert_to_numpy(v) for v in variables)
            digest = bytes.fromhex(_files.content_hash(arrays))
            self._frozen_hash = which, np.frombuffer(digest, "uint8")
        return self._frozen_hash[1]

    def get_config(self):
        """Refuses: the teacher would have to be a part of it."""
        raise NotImplementedError(
            "A Distiller is not saved as a whole, because its teacher is no "
            "part of it. Use `distiller.save_weights` to go on training, and "
            "`distiller.student.save` or `kd.export` to keep the student"
        )

    def save(self, *_args, **_kwargs):
        """Refuses, as `get_config`, before a file is made."""
        self.get_config()

    def export(self, *_args, **_kwargs):
        """Refuses, as `get_config`, before a file is made."""
        self.get_config()
