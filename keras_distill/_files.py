"""Files that are complete or not there."""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile


def read_json(path):
    """The contents of a JSON file."""
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def write_json(path, contents):
    """Writes a JSON file that is complete or not there."""
    with complete_file(path) as draft:
        text = json.dumps(contents, indent=2, ensure_ascii=False)
        draft.write_text(text + "\n", encoding="utf-8")


@contextlib.contextmanager
def complete_file(path):
    """Gives a path to write to, which becomes `path` when all went well."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=".draft-", dir=path.parent))
    try:
        yield folder / path.name
        os.replace(folder / path.name, path)
    finally:
        shutil.rmtree(folder)
