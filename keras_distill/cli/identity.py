"""What files and packages hold, as text: a change shows in a fingerprint."""

import hashlib
import importlib.metadata
import pathlib
import platform

PACKAGES = (
    "numpy",
    "keras",
    "tensorflow",
    "keras-hub",
    "tensorflow-datasets",
)


def contents(path):
    """SHA-256 of a file, or of the files in a folder with their names.

    Args:
        path: Path.

    Returns:
        String.
    """
    path = pathlib.Path(path)
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    total = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        total.update(f"{file.relative_to(path)} {digest}\n".encode())
    return total.hexdigest()


def packages():
    """Versions of Python and of the packages whose docstrings are read."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **versions}
