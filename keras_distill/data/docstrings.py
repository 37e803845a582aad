"""A text classification set from the docstrings of installed packages.

One row per sentence, the label is the library that the sentence documents.
The sources are read with `ast`, never imported, so nothing is downloaded or
run, and the same package versions give the same set.
"""

import ast
import importlib.util
import inspect
import pathlib
import re
import sysconfig
import warnings

from keras_distill._checks import check_positive
from keras_distill.data.labelled import TextDataset
from keras_distill.data.splits import unit_hash
from keras_distill.data.text_splits import TextSplits

LIBRARIES = (
    "python",
    "numpy",
    "keras",
    "tensorflow",
    "keras_hub",
    "tensorflow_datasets",
)
MASK = "library"
SKIPPED_FOLDERS = {
    "test",
    "tests",
    "testing",
    "idle_test",
    "site-packages",
    "__pycache__",
    "lib2to3",
    "idlelib",
    "encodings",
    # Generated re-exports.
    "_api",
    "_tf_keras",
}
DOCUMENTED = (
    ast.Module,
    ast.ClassDef,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
)
LIBRARY_NAME = re.compile(
    r"tensorflow([ _-]?datasets)?|keras([ _-]?(hub|nlp|cv|core))?|numpy"
    r"|c?python[23]?"
    r"|(?<![a-z0-9])(tfds|tf[12]?|np)(?![a-z0-9])|(?-i:\bTF(?=[A-Z]))",
    re.IGNORECASE,
)


def build(libraries=LIBRARIES, max_per_class=5000, min_words=4):
    """Builds the set.

    Of each module, class and function docstring the first sentence is kept,
    with library names replaced by `"library"`. A sentence that two libraries
    share says nothing about either, so it is dropped; a repeated sentence of
    one library is kept once. Every module file belongs to one split as a
    whole (80 / 10 / 10 by the hash of its path), so that neighbours do not
    cross. Capped classes keep the sentences with the lowest hash.

    Args:
        libraries: Sequence of names out of `LIBRARIES`, at least two.
        max_per_class: Integer. Upper bound of sentences for each library.
        min_words: Integer. Shorter sentences are dropped.

    Returns:
        `TextSplits`, its rows in a fixed order that mixes the classes.

    Raises:
        ValueError: A library is unknown, or there are fewer than two.
        ModuleNotFoundError: A library is not installed.

    Reference:
        Made here; the sentences belong to the packages they document.
    """
    _check(libraries, max_per_class, min_words)
    owners = {}
    for label, library in enumerate(libraries):
        for module, sentence in _sentences(library):
            if len(sentence.split()) >= min_words:
                row = (label, module, sentence)
                owners.setdefault(TextSplits.identity(sentence), []).append(row)
    rows = [
        (unit_hash(key), *found[0])
        for key, found in owners.items()
        if len({label for label, _, _ in found}) == 1
    ]
    parts = {"train": ([], []), "dev": ([], []), "test": ([], [])}
    left = dict.fromkeys(range(len(libraries)), max_per_class)
    for _, label, module, sentence in sorted(rows):
        if left[label]:
            left[label] -= 1
            texts, labels = parts[_split(module)]
            texts.append(sentence)
            labels.append(label)
    return TextSplits(
        **{name: TextDataset(*part) for name, part in parts.items()},
        label_names=list(libraries),
        notes=("Sentences of one module are all in one split",),
    )


def first_sentence(docstring):
    """The first sentence of a docstring, library names masked.

    Args:
        docstring: String.

    Returns:
        String on one line; empty if the docstring opens with no sentence.

    Example:

    >>> first_sentence("Returns a `tf.Tensor`.  Or a NumPy array.")
    'Returns a library.Tensor.'
    """
    paragraph = inspect.cleandoc(docstring).split("\n\n")[0]
    if re.match(r"(>>>|[\w.]+\([^)]*\)$)|[^\n]*:(\n|$)", paragraph):
        return ""
    line = " ".join(re.sub(r"[`*]+", "", paragraph).split())
    sentence = re.split(r"(?<=[a-z0-9)\"'][.!?])\s+(?=[A-Z])", line)[0]
    return " ".join(LIBRARY_NAME.sub(_mask, sentence).split())


def _mask(match):
    before = match.string[: match.start()][-1:]
    after = match.string[match.end() :][:1]
    return " " * before.isalnum() + MASK + " " * after.isalnum()


def _check(libraries, max_per_class, min_words):
    check_positive("max_per_class", max_per_class)
    check_positive("min_words", min_words)
    unknown = [name for name in libraries if name not in LIBRARIES]
    if unknown or len(set(libraries)) < 2:
        raise ValueError(
            f"`libraries` must be two or more out of {list(LIBRARIES)}. "
            f"Received: libraries={list(libraries)}"
        )


def _split(module):
    place = unit_hash(module)
    return "test" if place < 0.1 else "dev" if place < 0.2 else "train"


def _sentences(library):
    """Yields (module path, sentence) in the order of the sorted paths."""
    root = _folder(library)
    paths = {
        f"{library}/{path.relative_to(root).as_posix()}": path
        for path in root.rglob("*.py")
    }
    for module, path in sorted(paths.items()):
        if _is_documentation(module):
            for docstring in _docstrings(path):
                yield module, first_sentence(docstring)


def _folder(library):
    if library == "python":
        return pathlib.Path(sysconfig.get_paths()["stdlib"])
    spec = importlib.util.find_spec(library)
    if spec is None:
        raise ModuleNotFoundError(
            f"The docstring set reads the sources of `{library}`, which is "
            f"not installed. Run `pip install {library.replace('_', '-')}`"
        )
    return pathlib.Path(spec.submodule_search_locations[0])


def _is_documentation(module):
    *folders, file = module.split("/")
    return not (
        SKIPPED_FOLDERS.intersection(folders)
        or module.startswith("tensorflow/python/keras/")
        or file.startswith("test_")
        or file.endswith(("_test.py", "_tests.py"))
    )


def _docstrings(path):
    """The triple-quoted docstrings of a source file, in their order."""
    source = path.read_bytes()
    if b'"""' not in source and b"'''" not in source:
        return
    try:
        with warnings.catch_warnings():
            # Invalid escapes in somebody else's source are not ours to report.
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # A template, or not UTF-8: no module.
        return
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, DOCUMENTED):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield docstring
        # Statements only: expressions hold no definitions with docstrings.
        for block in ("finalbody", "orelse", "handlers", "body"):
            nodes.extend(reversed(getattr(node, block, ())))
