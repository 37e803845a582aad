"""Which axes of a model's weights go to different devices."""

import re

import keras

from keras_distill import pruning
from keras_distill._backend import nested_layers


def layout_map(mesh, *models, axis="model"):
    """Layouts that divide models' weights among devices, for JAX.

    For `keras.distribution.ModelParallel`. What one unit inside a model
    computes stays on one device: an attention head, a unit of a feed-forward
    layer or of another group of `kd.pruning.structure`. Of the layer that makes
    the units the outputs are divided, of the one that reads them the inputs,
    so that devices talk once for both ("Megatron-LM", arXiv:1909.08053,
    section 3). Other tables of tokens are divided by tokens. All else is on
    every device, as are units that the devices cannot share evenly.

    A layout never changes results, only where they are computed. KerasHub's
    own maps are for few of its models, and divide their attention by other axes
    than its heads (keras-hub issue 2807).

    Weights are known by their paths. Layers that are numbered have one entry
    if they are alike, so a model of one layer tells the layouts of one with
    any number of layers, before that one is made:

    Args:
        mesh: `keras.distribution.DeviceMesh`.
        *models: Built `keras.Model`s: the students and teachers to divide. A
            model that is not given is on every device.
        axis: String, the axis of `mesh` to divide among.

    Returns:
        `keras.distribution.LayoutMap`.

    Raises:
        ValueError: if `mesh` has no such axis, or models have different weights
            of one path.

    Example:

    >>> mesh = keras.distribution.DeviceMesh(
    ...     (1, 1), ("batch", "model"), devices=["cpu:0"])
    >>> model = keras.Sequential(
    ...     [keras.Input((8,)), keras.layers.Dense(4, name="hidden"),
    ...      keras.layers.Dense(2, name="logits")])
    >>> layouts = layout_map(mesh, model)
    >>> [layouts[layer.kernel.path].axes for layer in model.layers]
    [(None, 'model'), ('model', None)]
    """
    if axis not in mesh.axis_names:
        raise ValueError(
            "`axis` must be one of the mesh's axes. "
            f"Received: axis={axis!r}, mesh axes {list(mesh.axis_names)}"
        )
    count = mesh.shape[mesh.axis_names.index(axis)]
    axes = {}
    for model in models:
        for path, found in _divided(model, count).items():
            if axes.setdefault(path, found) != found:
                raise ValueError(
                    "Models with weights of one path must divide them alike. "
                    f"Received: {path} with {axes[path]} and {found}. Give "
                    "the layers of one of them other names"
                )
    layouts = keras.distribution.LayoutMap(mesh)
    for key, (position, rank) in _merged(axes).items():
        divided = [axis if i == position else None for i in range(rank)]
        layouts[key] = keras.distribution.TensorLayout(divided, mesh)
    return layouts


def _divided(model, count):
    """Dict from paths to pairs: the axis to divide (or None), and the rank."""
    groups, understood = _groups(model)
    others = [
        [pair]
        for layer in nested_layers(model)
        for pair in _by_kind(layer)
        if id(pair[0]) not in understood
    ]
    chosen = {}
    for pairs in groups + others:
        new = {id(v): position for v, position in pairs}
        even = all(v.shape[position] % count == 0 for v, position in pairs)
        if even and not new.keys() & chosen.keys():
            chosen |= new
    return {v.path: (chosen.get(id(v)), len(v.shape)) for v in model.variables}


def _groups(model):
    """For each group of units its variables and their axes, the smallest first.

    A group of few is inside a layer, one of many what the layers
    hand on to each other. Of a chain of layers every other group is divided.

    Returns:
        Pair: a list for each group, and the `id`s of all variables whose units
        are known.
    """
    try:
        found = pruning.structure(model)
    except ValueError:  # A subclassed model has no graph to walk.
        return [], set()
    roots, groups, understood = found.units.roots, [], set()
    for group in found.groups.values():
        units = roots(group.units).tolist()
        groups.append([])
        for weight in found.weights:
            for position, held in enumerate(weight.axes):
                if held is None:
                    continue
                understood.add(id(weight.variable))
                if roots(held).tolist() == units:
                    groups[-1].append((weight.variable, position))
    return sorted(groups, key=len), understood


def _by_kind(layer):
    """What is divided of a layer by its own kind: variables and their axes."""
    if isinstance(layer, keras.layers.Embedding):
        yield layer.embeddings, 0
        reverse = getattr(layer, "reverse_embeddings", None)
        if reverse is not None and reverse is not layer.embeddings:
            yield reverse, 1
    if isinstance(layer, keras.layers.EinsumDense | keras.layers.Dense):
        position, makes = _of_dense(layer)
        if position is not None:
            yield layer.kernel, position
        if makes and layer.bias is not None:
            yield layer.bias, 0


def _of_dense(layer):
    """The axis of a kernel to divide, or None, and whether it makes the units.

    The units inside a layer are what more is made of than was read, or what
    more is read of than is made: letters of heads, or a larger width.
    """
    shape = layer.kernel.shape
    if len(shape) == 3 and isinstance(layer, keras.layers.EinsumDense):
        read, kernel, made = re.split(",|->", layer.equation)
        for known, inside, makes in ((read, made, True), (made, read, False)):
            heads = [x for x in inside if x in kernel and x not in known]
            if len(heads) == 2:
                return kernel.index(heads[0]), makes
        return None, False
    if len(shape) != 2:
        return None, False
    makes = shape[1] > shape[0]
    if shape[0] == shape[1]:
        makes = "output" not in layer.name
    return int(makes), makes


def _merged(axes):
    """One entry for all weights whose paths differ in numbers, if alike.

    Args:
        axes: Dict from paths to pairs: the axis to divide, or None; the rank.

    Returns:
        Dict from regular expressions to the pairs that divide something.
    """
    alike = {}
    for path, found in axes.items():
        *layers, name = re.escape(path).split("/")
        # Keras gives the first layer of a name no number.
        layers = [
            re.sub("(_[0-9]+)?$", "(_[0-9]+)?", x, count=1) for x in layers
        ]
        alike.setdefault("/".join([*layers, name]), {})[path] = found
    merged = {}
    for pattern, paths in alike.items():
        same = len(set(paths.values())) == 1
        single = {re.escape(path): held for path, held in paths.items()}
        merged |= {pattern: next(iter(paths.values()))} if same else single
    return {key: found for key, found in merged.items() if found[0] is not None}
