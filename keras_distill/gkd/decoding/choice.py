"""Which `DecoderFamily` computes what a model computes.

Nothing is taken on trust: the layers that a family names may mean another thing
in another version of KerasHub, and a subclass may do anything. The logits after
one short prompt must be the model's own.
"""

import contextlib

import numpy as np
from keras import ops

from keras_distill._backend import nested_layers
from keras_distill._backend.adapters import adapters
from keras_distill.gkd.decoding.families import FAMILIES
from keras_distill.gkd.decoding.generate_step import next_logits
from keras_distill.gkd.decoding.loop import Loop

PROMPT = 5
# Of the largest logit. The order of the sums differs, no more.
TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}


def find_family(model):
    """A family that is right for `model`, or why there is none.

    Args:
        model: `keras_hub.models.CausalLM`.

    Returns:
        Pair of a `DecoderFamily` and None, or of None and a string.
    """
    for layer in nested_layers(model):
        # It changes its weights in its call, which the head here does not make.
        if layer.quantization_mode:
            return None, f"layer {layer.path!r} is quantised"
    for kind in FAMILIES:
        if isinstance(model.backbone, kind.backbones):
            family = kind(model)
            with _at_work(adapters(model)):
                reason = _difference(model, family)
            return (None, reason) if reason else (family, None)
    return None, f"{type(model.backbone).__name__} is not one that it knows"


@contextlib.contextmanager
def _at_work(adapters):
    """Adapters are 0 as long as nothing is learned, and would not be seen."""
    before = [ops.convert_to_numpy(v) for v in adapters]
    rng = np.random.default_rng(0)
    try:
        for variable in adapters:
            variable.assign(0.1 * rng.normal(size=variable.shape))
        yield
    finally:
        for variable, value in zip(adapters, before):
            variable.assign(value)


def _difference(model, family):
    """In what `family` differs from `model`, or None."""
    if set(model.input) != {"token_ids", "padding_mask"}:
        return f"it takes the inputs {sorted(model.input)}"
    length = min(PROMPT, max((family.longest or PROMPT + 1) - 1, 1))
    vocabulary = model.backbone.token_embedding.input_dim
    prompt = np.random.default_rng(0).integers(vocabulary, size=(1, length))
    prompt = prompt.astype("int32")
    wanted = next_logits(model, prompt)
    variables = model.variables
    loop = Loop(family, variables, 0.0, ())
    try:
        values = [ops.convert_to_tensor(v) for v in variables]
        found = loop.prompt_logits(values, np.array([length]), prompt)
    except (AttributeError, TypeError, ValueError) as error:
        return f"its layers are not the ones that are known: {error}"
    found = ops.convert_to_numpy(ops.cast(found, "float32"))
    largest = np.abs(wanted).max()
    error = np.abs(found - wanted).max()
    if not error <= TOLERANCE.get(model.compute_dtype, 1e-3) * largest:
        return f"its logits, up to {largest:.3g}, differ by {error:.3g}"
    return None
