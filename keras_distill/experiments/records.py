"""What is finished of a run: a record for each phase, written last.

There is one way to resume. A phase writes its files, then its record: what it
was made with, what came out, and the hashes of its files. The next run makes a
phase again when there is no record, when a file is gone or damaged, or when a
phase that it was made from has other files now. It refuses when the record is
of other options, unless told to redo it.
"""

import pathlib
import time

from keras_distill import _files
from keras_distill._errors import UsageError
from keras_distill._sealed import read_sealed
from keras_distill._sealed import write_sealed
from keras_distill._watcher import Watcher
from keras_distill.experiments.phases import difference
from keras_distill.experiments.phases import fingerprints

RECORDS = "phases"


class Records:
    """The results of phases, one JSON file each, in a folder that is there.

    Args:
        path: Path of the folder.

    Attributes:
        path: `pathlib.Path`.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self._verified = {}

    def _record_path(self, name):
        return self.path / RECORDS / f"{name}.json"

    def record(self, name):
        """What a finished phase left, or None if there is no such record."""
        return read_sealed(self._record_path(name))

    def result(self, name):
        """The result of a finished phase."""
        return self.record(name)["result"]

    def records(self):
        """Dict from the name of each finished phase to its record."""
        paths = sorted((self.path / RECORDS).glob("*.json"))
        found = {path.stem: self.record(path.stem) for path in paths}
        return {name: held for name, held in found.items() if held}

    def seconds(self):
        """Dict from the name of each finished phase to its seconds."""
        return {name: held["seconds"] for name, held in self.records().items()}

    def execute(self, phases, watcher=None, redo=False):
        """Runs the phases in their order, those that are not finished.

        Args:
            phases: List of `Phase`.
            watcher: `Watcher`. Defaults to a silent one.
            redo: Boolean. Makes phases of other options anew, instead of
                refusing them.

        Raises:
            UsageError: A finished phase was made with other options.
        """
        watcher = watcher or Watcher()
        prints = self.check(phases, redo)
        for number, phase in enumerate(phases, start=1):
            if self._is_finished(phase, prints[phase.name], watcher):
                summary = phase.summary(self.result(phase.name))
                watcher.line(f"already done: {phase} ({summary})")
                continue
            _files.remove(self._record_path(phase.name))
            told = f"[{number}/{len(phases)}] {phase.title}"
            watcher.start(told, str(phase))
            self._make(phase, prints[phase.name], watcher)
        watcher.start(None, None)

    def missing(self, phases):
        """Those of the phases that `execute` would run."""
        prints = fingerprints(phases)
        return [
            phase
            for phase in phases
            if not self._is_finished(phase, prints[phase.name], Watcher())
        ]

    def check(self, phases, redo=False):
        """Raises `UsageError` if a finished phase was made with other options.

        Args:
            phases: List of `Phase`.
            redo: Boolean. They may be made anew.

        Returns:
            Dict from each phase's name to its fingerprint.
        """
        prints = fingerprints(phases)
        changed = [
            p
            for p in phases
            if not p.cheap and self._is_other(p, prints[p.name])
        ]
        if changed and not redo:
            raise UsageError(self._refusal(changed, phases))
        return prints

    def _make(self, phase, fingerprint, watcher):
        begin = time.perf_counter()
        with _files.no_room_told(self.path):
            result = phase.run()
            record = {
                "title": phase.title,
                "fingerprint": fingerprint,
                "options": phase.options,
                "made_from": self._hashes_of(phase.needs),
                "files": self._file_hashes(phase.files, result),
                "seconds": round(time.perf_counter() - begin, 1),
                "result": result,
            }
            write_sealed(self._record_path(phase.name), record)
        self._verified[phase.name] = record["files"]
        watcher.line(f"      {phase.summary(result)}")

    def _file_hashes(self, files, result):
        if callable(files):
            files = files(result)
        return {
            file.as_posix(): _files.tree_hash(self.path / file)
            for file in map(pathlib.Path, files)
        }

    def _hashes_of(self, names):
        """Dict from each phase to the hashes of what it wrote."""
        return {name: self.record(name)["files"] for name in names}

    def _is_other(self, phase, fingerprint):
        record = self.record(phase.name)
        return record is not None and record["fingerprint"] != fingerprint

    def _is_finished(self, phase, fingerprint, watcher):
        record = self.record(phase.name)
        if record is None:
            if self._record_path(phase.name).exists():
                watcher.line(f"damaged: the record of {phase}")
            return False
        if record["fingerprint"] != fingerprint:
            return False
        if record["made_from"] != self._hashes_of(phase.needs):
            watcher.line(f"out of date: {phase}")
            return False
        return self._are_whole(phase, record, watcher)

    def _are_whole(self, phase, record, watcher):
        """Whether the phase's files are what it wrote.

        They are read once: from then on this process holds the folder.
        """
        if self._verified.get(phase.name) == record["files"]:
            return True
        for name, expected in record["files"].items():
            path = self.path / name
            if not path.exists():
                watcher.line(f"gone: {name} of {phase}")
                return False
            if _files.tree_hash(path) != expected:
                watcher.line(f"damaged: {name} of {phase}")
                return False
        self._verified[phase.name] = record["files"]
        return True

    def _refusal(self, changed, phases):
        """What tells the run that the folder holds from the asked one."""
        names = [str(phase) for phase in changed]
        further = f" and {len(names) - 8} more" if len(names) > 8 else ""
        told = difference(changed, phases, self.records())
        return (
            f"{str(self.path)!r} holds a run with other options ({told}). They "
            f"change the finished phases {names[:8]}{further}. Choose another "
            "`output`, or `redo` (`--redo`) to make these phases again and "
            "keep the others."
        )
