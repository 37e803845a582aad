"""The exported files of a report, and which of them a row is told with."""

import pathlib

from keras_distill.experiments.exports import main_file
from keras_distill.experiments.exports import size

COLUMNS = ("File", "Size", "Latency ms", "Test %", "As in Keras %")


def shipped(found, student):
    """What is exported of a student.

    Args:
        found: Dict, from `report.build`.
        student: String.

    Returns:
        Pair of its row and the place of its seed in the lists of the row.
    """
    entry = found["exports"][student]
    row = next(
        row
        for row in found["rows"]
        if (row["student"], row["arm"]) == (student, entry["arm"])
    )
    return row, row["seeds"].index(entry["seed"])


def measured(found, row):
    """The file whose size and latency are told of a row, None without one.

    One file of a student is measured, and is told of all its arms that have
    as many weights: a linear part may stand beside some of them alone.

    Args:
        found: Dict, from `report.build`.
        row: One of its rows.

    Returns:
        Dict, as an export tells of a file, or None.
    """
    export = found["exports"].get(row["student"])
    if export is None:
        return None
    other, position = shipped(found, row["student"])
    weights = other["parameters_by_seed"][position]
    same = row is other or {*row["parameters_by_seed"]} == {weights}
    return main_file(export["files"]) if same else None


def by_folder(found):
    """Dict from the folder of each export to its files."""
    return {
        f"{pathlib.PurePosixPath('export', entry['folder'])}/": entry["files"]
        for entry in found["exports"].values()
    }


def rows(folders):
    """Rows on exported files.

    Args:
        folders: Dict from a prefix of the path to facts by form.

    Returns:
        List of lists of strings: path, size, latency, test accuracy,
        agreement with the Keras model.
    """
    found = []
    for prefix, held in folders.items():
        for file in held.values():
            path = f"{prefix}{file['path']}"
            if "refused" in file:
                found.append(
                    [path, f"not exported: {file['refused']}", "", "", ""]
                )
                continue
            test = file.get("test_score")
            found.append(
                [
                    path,
                    size(file["size_bytes"]),
                    f"{file['latency_ms']:.3g}",
                    "" if test is None else f"{100 * test:.1f}",
                    f"{100 * file['agreement']:.1f}",
                ]
            )
    return found
