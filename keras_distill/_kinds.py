"""What a command can be asked for by name: one line for each member.

Names and places alone, so that `keras-distill --help` lists them without
importing TensorFlow.
"""

import importlib

TASKS = {
    "text": "tasks.text:TextClassification",
    "pairs": "tasks.pairs:PairClassification",
    "regression": "tasks.regression:TextRegression",
    "images": "tasks.images:ImageClassification",
    "tags": "tasks.tags:TokenClassification",
    "multi_label": "tasks.multi_label:MultiLabelClassification",
    "vectors": "tasks.vectors:TextVectors",
}
STUDENTS = {
    "text_cnn": "students.text_cnn:TextCNN",
    "bilstm": "students.bilstm:BiLSTM",
    "ngram": "students.ngram:NGram",
    "static": "students.static:Static",
    "conv_net": "students.conv_net:ConvNet",
    "saved": "students.saved:Saved",
    "shrink": "students.shrink:Shrink",
}
# What may be done to train images in each step.
AUGMENTATIONS = ("none", "shift", "flip+shift")
RECIPES = {
    "hard": "recipes.labels:hard",
    "mse": "recipes.logits:mse",
    "kd": "recipes.logits:kd",
    "untrained": "recipes.vectors:untrained",
    "neighbours": "recipes.vectors:neighbours",
    "hidden": "recipes.hidden_states:hidden",
    "pooled": "recipes.pooled_states:pooled",
    "attention": "recipes.feature_maps:attention",
    "annealing": "recipes.annealed:annealing",
    "two_stage": "recipes.annealed:two_stage",
    "continuation": "recipes.continued:continuation",
}
# The controls, which learn from no teacher; the others are methods.
HARD, UNTRAINED = CONTROLS = ("hard", "untrained")
METHODS = tuple(name for name in RECIPES if name not in CONTROLS)
# Recipes whose temperature is none of probabilities.
OWN_TEMPERATURE = ("mse", "neighbours")


def load(place):
    """The object at `"module:name"` of this package.

    Example:

    >>> load(RECIPES["kd"]).__name__
    'kd'
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"keras_distill.{module}"), name)


def lazy(package, places):
    """`__getattr__` and `__dir__` of a package, for use on first use (PEP 562).

    Args:
        package: String, the package's `__name__`.
        places: Dict from each name to its place, as `load` takes it.

    Returns:
        Pair of functions.

    Example:

    >>> get, _ = lazy("keras_distill.recipes", RECIPES)
    >>> get("nothing")
    Traceback (most recent call last):
    AttributeError: module 'keras_distill.recipes' has no attribute 'nothing'
    """

    def get(name):
        if name not in places:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        return load(places[name])

    return get, lambda: sorted(places)
