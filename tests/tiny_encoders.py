"""KerasHub encoders of a few units, whose weights are all random."""

import numpy as np
from keras_hub import models

RNG = np.random.default_rng(0)
VOCABULARY, WIDTH = 50, 16
SIZES = {
    "num_heads": 2,
    "hidden_dim": WIDTH,
    "intermediate_dim": 32,
    "max_sequence_length": 16,
}


def randomized(model):
    """No weight stays at an initial value that a copy would share anyway."""
    for weight in model.weights:
        weight.assign(RNG.normal(size=weight.shape, scale=0.3))
    return model


def fresh_backbone(family, num_layers=4):
    cls = getattr(models, f"{family}Backbone")
    kwargs = {"num_layers": num_layers, **SIZES}
    kwargs["vocab_size" if family == "Electra" else "vocabulary_size"] = (
        VOCABULARY
    )
    if family in ("Albert", "Electra"):
        kwargs["embedding_dim"] = 8
    if family == "RoformerV2":
        kwargs["head_size"] = 8
    if family == "Albert":
        kwargs.update(num_groups=2, num_inner_repetitions=2)
    return randomized(cls(**kwargs))
