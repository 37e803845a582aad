"""An output folder: phases, what they were made with, what is finished."""

import dataclasses
import hashlib
import json
import pathlib
import tempfile
import time
from collections.abc import Callable

from keras_distill._files import complete_file as complete_file
from keras_distill._files import read_json
from keras_distill._files import write_json
from keras_distill.cli.problems import UsageProblem

MARKER = "run.json"


@dataclasses.dataclass(frozen=True)
class Phase:
    """One step of a run, that is done as a whole or not at all.

    Args:
        name: String, also of its result file.
        title: String, what it does, for the screen.
        options: Dict that JSON can hold: all that its result depends on,
            beside the phases it needs.
        needs: Names of earlier phases.
        run: Callable without arguments. Writes its files and returns its
            result, a dict that JSON can hold.
        summary: Callable from the result to a short string.
        files: Paths that exist if it is finished, relative to the folder.
        cheap: Boolean. It may be made again without asking.
    """

    name: str
    title: str
    options: dict
    needs: tuple
    run: Callable
    summary: Callable
    files: tuple = ()
    cheap: bool = False


class RunFolder:
    """The results of phases, one JSON file each, written last.

    Args:
        path: Path of the folder, made where it is missing.
        command: String, the subcommand that owns the folder.

    Raises:
        UsageProblem: The folder cannot be written, or holds other things.
    """

    def __init__(self, path, command):
        self.path = pathlib.Path(path)
        self._command = command
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise UsageProblem(
                "The output folder cannot be written "
                f"({error.strerror or error}). Choose another one with "
                f"`--output`. Received: output={str(path)!r}"
            ) from error
        self._check_owner()

    def _check_owner(self):
        marker = self.path / MARKER
        if not marker.exists():
            held = sorted(item.name for item in self.path.iterdir())
            if held:
                raise UsageProblem(
                    "The output folder must be new, empty, or of an earlier "
                    "run. Choose another one with `--output`. Received: "
                    f"output={str(self.path)!r}, which holds {held[:4]}"
                )
            write_json(marker, {"command": self._command})
            return
        command = read_json(marker).get("command")
        if command != self._command:
            raise UsageProblem(
                f"The output folder belongs to `keras-distill {command}`. "
                "Choose another one with `--output`. "
                f"Received: output={str(self.path)!r}"
            )

    def _record_path(self, name):
        return self.path / "phases" / f"{name}.json"

    def record(self, name):
        """What a finished phase left, or None."""
        path = self._record_path(name)
        return read_json(path) if path.exists() else None

    def result(self, name):
        """The result of a finished phase."""
        return self.record(name)["result"]

    def execute(self, phases, screen, redo=False):
        """Runs the phases in their order, those that are not finished.

        Args:
            phases: List of `Phase`.
            screen: `Screen`.
            redo: Boolean. Makes phases of other options anew, instead of
                refusing them.

        Raises:
            UsageProblem: A finished phase was made with other options.
        """
        prints = fingerprints(phases)
        changed = [
            p
            for p in phases
            if not p.cheap and self._is_other(p, prints[p.name])
        ]
        if changed and not redo:
            raise UsageProblem(self._difference(changed, phases))
        for number, phase in enumerate(phases, start=1):
            if self._is_finished(phase, prints[phase.name]):
                summary = phase.summary(self.result(phase.name))
                screen.line(f"already done: {phase.name} ({summary})")
                continue
            self._record_path(phase.name).unlink(missing_ok=True)
            screen.start(f"[{number}/{len(phases)}] {phase.title}", phase.name)
            begin = time.perf_counter()
            result = phase.run()
            record = {
                "fingerprint": prints[phase.name],
                "options": phase.options,
                "seconds": round(time.perf_counter() - begin, 1),
                "result": result,
            }
            write_json(self._record_path(phase.name), record)
            screen.line(f"      {phase.summary(result)}")

    def _is_other(self, phase, fingerprint):
        record = self.record(phase.name)
        return record is not None and record["fingerprint"] != fingerprint

    def _is_finished(self, phase, fingerprint):
        record = self.record(phase.name)
        if record is None or record["fingerprint"] != fingerprint:
            return False
        return all((self.path / file).exists() for file in phase.files)

    def _difference(self, changed, phases):
        """What tells the run that the folder holds from the asked one."""
        needed = {name for phase in changed for name in phase.needs}
        new = [
            p for p in phases if p.name in needed and not self.record(p.name)
        ]
        there, here = {}, {}
        for phase in [*changed, *new]:
            there |= (self.record(phase.name) or {"options": {}})["options"]
            here |= phase.options
        if there == here:
            # Then they needed a phase that is not asked for any more.
            planned = {phase.name for phase in phases}
            for path in (self.path / "phases").glob("*.json"):
                if path.stem not in planned:
                    there = read_json(path)["options"] | there
        differences = {
            key: (there.get(key), here.get(key))
            for key in sorted({*there, *here})
            if there.get(key) != here.get(key)
        }
        told = ", ".join(
            f"{key}: {_short(old)} there, {_short(new)} now"
            for key, (old, new) in differences.items()
        )
        return (
            f"{str(self.path)!r} holds a run with other options ({told}). They "
            f"change the finished phases {[p.name for p in changed]}. Choose "
            "another `--output`, or add `--redo` to make these phases again "
            "and keep the others."
        )


def fingerprints(phases):
    """Dict from each phase's name to a hash of all that it depends on."""
    prints = {}
    for phase in phases:
        parts = [phase.name, phase.options, [prints[n] for n in phase.needs]]
        text = json.dumps(parts, sort_keys=True)
        prints[phase.name] = hashlib.sha256(text.encode()).hexdigest()
    return prints


def _short(value):
    text = str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."
