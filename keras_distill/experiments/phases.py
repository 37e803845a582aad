"""Phases of a run: what each is made with, and what tells two of them apart."""

import dataclasses
from collections.abc import Callable

from keras_distill import _files


@dataclasses.dataclass(frozen=True)
class Phase:
    """One step of a run, that is done as a whole or not at all.

    Args:
        name: String, also of its record.
        title: String, what it does, for people.
        options: Dict that JSON can hold: all that its result depends on,
            beside the phases it needs.
        run: Callable without arguments. Writes its files and returns its
            result, a dict that JSON can hold.
        summary: Callable from the result to a short string.
        needs: Names of earlier phases.
        files: Paths of what it writes, files or folders, relative to the run's
            folder; or a callable from the result to them.
        cheap: Boolean. It may be made again without asking.
        label: String, what people call it. Defaults to the name.
    """

    name: str
    title: str
    options: dict
    run: Callable
    summary: Callable
    needs: tuple = ()
    files: tuple | Callable = ()
    cheap: bool = False
    label: str | None = None

    def __str__(self):
        return self.label or self.name


def fingerprints(phases):
    """Dict from each phase's name to a hash of all that it depends on."""
    prints = {}
    for phase in phases:
        needs = [prints.get(name, name) for name in phase.needs]
        prints[phase.name] = _files.json_hash(
            [phase.name, phase.options, needs]
        )
    return prints


def difference(changed, phases, records):
    """In words, what tells the recorded phases from the asked ones.

    Args:
        changed: List of `Phase` whose records are of other options.
        phases: List of all `Phase` that are asked for.
        records: Dict from names to the records of finished phases.
    """
    needed = {name for phase in changed for name in phase.needs}
    new = [p for p in phases if p.name in needed and p.name not in records]
    there, here = {}, {}
    for phase in [*changed, *new]:
        if phase.name in records:
            there |= _flat(records[phase.name]["options"])
        here |= _flat(phase.options)
    if there == here:
        # Then they needed a phase that is not asked for any more.
        planned = {phase.name for phase in phases}
        for name, record in records.items():
            if name not in planned:
                there = _flat(record["options"]) | there
    return ", ".join(
        f"{key}: {_short(there.get(key))} there, {_short(here.get(key))} now"
        for key in sorted({*there, *here})
        if there.get(key) != here.get(key)
    )


def _flat(options, prefix=""):
    """Nested options by dotted names, so that a difference names its place."""
    found = {}
    for key, value in options.items():
        if isinstance(value, dict) and value:
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _short(value):
    text = str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."
