"""JSON files that say whether they hold what was written."""

import json

from keras_distill import _files

SEAL = "hash"


def write_sealed(path, contents):
    """Writes a dict with a hash of it, complete or not at all."""
    # As it will be read: keys that are numbers are strings then, and have
    # another order.
    contents = json.loads(json.dumps(contents))
    _files.write_json(path, contents | {SEAL: _files.json_hash(contents)})


def read_sealed(path):
    """What `write_sealed` wrote, or None where that is not what is there."""
    try:
        found = _files.read_json(path)
    except (OSError, _files.DamagedFileError):
        return None
    if not isinstance(found, dict):
        return None
    # The hash covers the keys, too: a file of another version has none.
    seal = found.pop(SEAL, None)
    return found if seal == _files.json_hash(found) else None
