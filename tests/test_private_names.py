"""What is private to Keras, KerasHub and TensorFlow stays in one place."""

import ast
import importlib
import importlib.metadata
import inspect
import pathlib
import re
import tomllib

import keras
import pytest
from packaging.requirements import Requirement

PACKAGE = pathlib.Path(__file__).parents[1] / "keras_distill"
HOME = PACKAGE / "_backend"
FAMILIES = PACKAGE / "gkd" / "decoding" / "families.py"
FILES = sorted(set(PACKAGE.rglob("*.py")) - set(HOME.iterdir()))
PRIVATE_MODULES = re.compile(r"(keras|keras_hub)\.src|tensorflow\.python")
PRIVATE = re.compile(r"_(?!_)\w+")
# Of a named tuple these are public.
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}
KERAS = (
    keras.Layer,
    keras.losses.Loss,
    keras.callbacks.Callback,
    keras.optimizers.Optimizer,
    keras.metrics.Metric,
)


def nodes(path):
    return list(ast.walk(ast.parse(path.read_text())))


def private_modules(found):
    """Names of modules, imported or looked up, that are private."""
    for node in found:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        else:
            names = []
        yield from filter(PRIVATE_MODULES.match, names)


def own_names(found):
    """Private names that the code itself defines, as methods or attributes."""
    for node in found:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(
            node.ctx, ast.Store
        ):
            yield node.attr


def is_own(node):
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def keras_trainer_names():
    """What `keras.Model` keeps of its training, which is not ours to set."""
    trainer = next(k for k in keras.Model.__mro__ if k.__name__ == "Trainer")
    return set(own_names(ast.walk(ast.parse(inspect.getsource(trainer)))))


OWN = {name for path in FILES for name in own_names(nodes(path))}
OWN -= keras_trainer_names()


def private_names(found):
    """Private attributes of others, by dot or by string."""
    for node in found:
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            allowed = OWN if is_own(node) else NAMED_TUPLE
            if node.attr not in allowed:
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "getattr",
            "hasattr",
            "setattr",
            "object.__setattr__",
        ):
            name = node.args[1]
            if isinstance(name, ast.Constant) and PRIVATE.fullmatch(name.value):
                yield ast.unparse(node)


def test_the_check_sees_what_it_looks_for():
    found = list(
        ast.walk(
            ast.parse(
                "import keras.src.losses\n"
                "from tensorflow.python import eager\n"
                "keras_hub.src.models\n"
                "model._flatten_layers()\n"
                "self._compile_loss = None\n"
                "getattr(model, '_inputs_struct', None)\n"
                "state._replace(x=1)\n"
            )
        )
    )
    assert set(private_modules(found)) == {
        "keras.src.losses",
        "tensorflow.python.eager",
        "keras_hub.src.models",
        "keras_hub.src",
    }
    assert set(private_names(found)) == {
        "getattr(model, '_inputs_struct', None)",
        "model._flatten_layers",
        "self._compile_loss",
    }


@pytest.mark.parametrize(
    "path", FILES, ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_private_names_are_in_the_backend(path):
    found = nodes(path)
    assert not list(private_modules(found))
    names = list(private_names(found))
    if path == FAMILIES:
        # It rebuilds KerasHub's decoder layers from the layers inside them.
        names = [n for n in names if not n.startswith(("layer.", "attention."))]
    assert not names


def keras_classes():
    """The package's own subclasses of Keras' classes."""
    for path in FILES:
        if path.name in ("__init__.py", "__main__.py"):
            continue
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = importlib.import_module(".".join(parts))
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == module.__name__ and issubclass(kind, KERAS):
                yield kind


def test_no_private_method_of_keras_is_overridden():
    clashes = [
        f"{kind.__name__}.{name} is {base.__name__}'s"
        for kind in keras_classes()
        for name in vars(kind)
        for base in kind.__mro__
        if PRIVATE.fullmatch(name)
        and base.__module__.startswith(("keras.", "keras_hub."))
        and name in vars(base)
    ]
    assert not clashes


@pytest.mark.parametrize("name", ["keras", "keras-hub", "tensorflow"])
def test_what_we_know_the_inside_of_has_an_upper_bound(name):
    """And the installed version is below it: what is tested is allowed."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    found = map(Requirement, project["project"]["dependencies"])
    (specifier,) = [r.specifier for r in found if r.name == name]
    assert any(one.operator == "<" for one in specifier)
    assert specifier.contains(importlib.metadata.version(name))
