"""An output folder: its records, and who may write them."""

import contextlib
import pathlib
import tempfile

from keras_distill import _files
from keras_distill._errors import UsageError
from keras_distill.experiments.records import Records

MARKER = "run.json"


class RunFolder(Records):
    """The records of a run, and the folder that they are in.

    It is held by one process at a time, until `close` or the end of the
    process, however it ends.

    Args:
        path: Path of the folder, made where it is missing.
        command: String, what makes the run; others are refused.
        inputs: Paths of files and folders that the run reads. The folder must
            not lie in one of them, whose hash would then change as it fills.

    Raises:
        UsageError: The folder cannot be written, holds other things, lies
            among the inputs, or another process uses it.
    """

    def __init__(self, path, command, inputs=()):
        super().__init__(path)
        self._command = command
        try:
            self._check_place(inputs)
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except UsageError:
            raise
        # RuntimeError: links that lead to each other.
        except (OSError, ValueError, RuntimeError) as error:
            raise self._unwritable(error) from error
        self._check_owner()
        with contextlib.ExitStack() as held:
            self._hold(held)
            if not (self.path / MARKER).exists():
                _files.write_json(self.path / MARKER, {"command": command})
            _files.remove_drafts(self.path)
            # Not before: a folder that cannot be used is not held.
            self._held = held.pop_all()

    def _hold(self, held):
        try:
            held.enter_context(_files.lock(self.path))
        except _files.FolderInUseError as error:
            raise UsageError(
                "Another run is writing to the output folder. Wait until it "
                "has ended, or choose another `output`. "
                f"Received: output={str(self.path)!r}"
            ) from error
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error):
        reason = getattr(error, "strerror", None) or error
        return UsageError(
            f"The output folder cannot be written ({reason}). Choose another "
            f"`output`. Received: output={str(self.path)!r}"
        )

    def close(self):
        """Lets other processes use the folder."""
        self._held.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _check_place(self, inputs):
        output = self.path.resolve()
        for given in inputs:
            if output.is_relative_to(pathlib.Path(given).resolve()):
                raise UsageError(
                    "The output folder must not lie within what the run reads, "
                    "which would change as the folder fills. Choose another "
                    f"`output`. Received: output={str(self.path)!r} in "
                    f"{str(given)!r}"
                )

    def _check_owner(self):
        marker = self.path / MARKER
        if not marker.exists():
            held = sorted(
                item.name
                for item in self.path.iterdir()
                if item.name != _files.LOCK
                and not item.name.startswith(_files.DRAFT)
            )
            if held:
                raise UsageError(
                    "The output folder must be new, empty, or of an earlier "
                    "run. Choose another `output`. Received: "
                    f"output={str(self.path)!r}, which holds {held[:4]}"
                )
            return
        command = self._marked(marker)
        if command != self._command:
            raise UsageError(
                f"The output folder belongs to `keras-distill {command}`. "
                "Choose another `output`. "
                f"Received: output={str(self.path)!r}"
            )

    def _marked(self, marker):
        """The command that owns the folder.

        A damaged marker says nothing of the phases, which have hashes of their
        own: the folder is this command's, and the marker is written anew.
        """
        with contextlib.suppress(
            _files.DamagedFileError, AttributeError, OSError
        ):
            found = _files.read_json(marker).get("command")
            if isinstance(found, str):
                return found
        _files.remove(marker)
        return self._command
