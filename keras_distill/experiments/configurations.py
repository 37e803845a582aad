"""What an object was made with, as JSON holds it: objects, not their names.

A cell that is finished is taken over by a later run, so two ways to train must
never look the same. A class and its name say too little: dropout, the weight
of a match and what a function closes over all change the result.
"""

import dataclasses
import dis
import functools
import math
import pathlib
import re
import types

import keras
import numpy as np

from keras_distill import _files
from keras_distill import taps
from keras_distill._backend import nested_layers

PLAIN = str | bool | int | float
_ADDRESS = re.compile(" at 0x[0-9a-f]+")
# What is being described, from the outside in. A callback may hold a function
# that reads the callback, and a function may call itself.
_within = []


def configuration(value):
    """`value` as JSON holds it; objects by class and configuration.

    Args:
        value: Anything that an experiment is made of: numbers, dataclasses,
            Keras objects, functions, partials, containers of these.

    Returns:
        What JSON can hold. Equal for equal objects in every process.

    Example:

    >>> import functools, keras_distill as kd
    >>> configuration(kd.losses.LogitsMSE(2.0))["config"]["temperature"]
    2.0
    >>> make = functools.partial(min, 3)
    >>> configuration(make) == configuration(functools.partial(min, 4))
    False
    """
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)  # JSON has no word for numbers that are none.
    if value is None or isinstance(value, PLAIN):
        return value
    if id(value) in _within:
        return {"within": len(_within) - _within.index(id(value))}
    _within.append(id(value))
    try:
        return _described(value)
    finally:
        _within.pop()


def _described(value):
    for kind, describe in _KINDS.items():
        if isinstance(value, kind):
            return describe(value)
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {
            "class": _name(type(value)),
            **{f.name: configuration(getattr(value, f.name)) for f in fields},
        }
    if keras.ops.is_tensor(value):
        return _array(value)
    # What is left is known by its attributes: a schedule, a callable object.
    attributes = getattr(value, "__dict__", None)
    if attributes is None:
        return [_name(type(value)), _ADDRESS.sub("", repr(value))]
    return {"class": _name(type(value)), **configuration(attributes)}


def of_model(model):
    """Two hashes: of the model's configuration, and of its weights.

    Args:
        model: Built `keras.Model`.

    Returns:
        Dict of strings.
    """
    # A subclass may hold layers that its own configuration does not name.
    configs = [_keras_object(layer) for layer in nested_layers(model)]
    return {
        "model": _files.json_hash(configs),
        "initial weights": _files.content_hash(model.get_weights()),
    }


def of_match(match, teacher, student):
    """What a match reads, its loss, its weight and its projection.

    Args:
        match: `Match`.
        teacher: `keras.Model`.
        student: `keras.Model`.

    Returns:
        Dict.
    """
    return {
        "teacher": _places(match.teacher, teacher),
        "student": _places(match.student, student),
        **{
            name: configuration(getattr(match, name))
            for name in (
                "loss",
                "weight",
                "projection",
                "learning_rate_multiplier",
            )
        },
    }


def _places(references, model):
    """Where a match reads."""
    if not isinstance(references, list | tuple):
        references = [references]
    found = [taps.resolve(model, reference) for reference in references]
    return [taps.position([model], tap) for tap in found]


def _keras_object(value):
    """Class and configuration, without the names that Keras counts up.

    `dense_3` depends on how many layers the process has made before.
    """
    try:
        config = keras.saving.serialize_keras_object(value)
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        # Written without `get_config`, or with one that fails: that of
        # KerasHub's RoFormer asks for an attribute that is not there.
        paths = [weight.path for weight in value.weights]
        config = {"weights": [path.rsplit("/", 1)[-1] for path in paths]}
    if type(value).get_config is keras.losses.Loss.get_config:
        # Keras' own, which holds no argument of a subclass.
        held = {k: v for k, v in vars(value).items() if k != "name"}
        config["attributes"] = configuration(held)
    names = {}
    _collect_names(config, names)
    return {"class": _name(type(value)), **_renamed(config, names)}


def _collect_names(config, names):
    if isinstance(config, dict):
        name = config.get("name")
        if isinstance(name, str):
            names.setdefault(name, f"#{len(names)}")
        for value in config.values():
            _collect_names(value, names)
    elif isinstance(config, list | tuple):
        for value in config:
            _collect_names(value, names)


def _renamed(config, names):
    if isinstance(config, dict):
        return {
            str(names.get(key, key)): _renamed(value, names)
            for key, value in config.items()
        }
    if isinstance(config, list | tuple):
        return [_renamed(value, names) for value in config]
    if isinstance(config, str):
        return names.get(config, config)
    return configuration(config)


def _function(function):
    """A function by its code and by all that it reads from outside."""
    code = function.__code__
    outside = function.__globals__
    read = {
        name: _outside(outside[name], function.__module__)
        for name in sorted(_names(code))
        if name in outside
    }
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    return {
        "function": function.__qualname__,
        "code": _files.content_hash([code.co_code, repr(_constants(code))]),
        "reads": configuration(
            [closure, function.__defaults__, function.__kwdefaults__, read]
        ),
    }


def _outside(value, module):
    """What a function reads from its module, None where that says nothing.

    What another module defines is known by its name, and an object that is
    not here, such as a logger, may hold the whole process.
    """
    if isinstance(value, types.FunctionType) and value.__module__ != module:
        return _name(value)
    known = isinstance(value, (PLAIN, *_KINDS)) or dataclasses.is_dataclass(
        value
    )
    return value if known else None


def _constants(code):
    """The constants of a code object, those of inner functions included."""
    inner = {types.CodeType: _constants, frozenset: _set}
    return [
        inner.get(type(constant), repr)(constant)
        for constant in (*code.co_consts, *code.co_names)
    ]


def _names(code):
    """The globals that a code object reads, inner functions included."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    own = (i for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL")
    return {
        *(instruction.argval for instruction in own),
        *(name for c in inner for name in _names(c)),
    }


def _partial(partial):
    return {
        "partial": configuration(partial.func),
        "arguments": configuration([partial.args, partial.keywords]),
    }


def _method(method):
    return {
        "method": method.__name__,
        "of": configuration(method.__self__),
    }


def _dict(value):
    return {str(key): configuration(item) for key, item in value.items()}


def _list(value):
    return [configuration(item) for item in value]


def _set(value):
    # The order of its strings is another one in each process.
    return sorted(map(repr, value))


def _array(value):
    return {"array": _files.content_hash([np.asarray(value)])}


def _name(kind):
    return f"{kind.__module__}.{kind.__qualname__}"


_KINDS = {
    dict: _dict,
    list: _list,
    tuple: _list,
    functools.partial: _partial,
    types.FunctionType: _function,
    types.MethodType: _method,
    types.BuiltinFunctionType: lambda value: value.__qualname__,
    np.ndarray: _array,
    np.generic: lambda value: value.item(),
    pathlib.Path: str,
    set: _set,
    frozenset: _set,
    keras.Variable: _array,
    type: _name,
    # A model, which is a layer, is known by more than its configuration.
    keras.Model: of_model,
    keras.Layer | keras.losses.Loss | keras.Optimizer: _keras_object,
}
