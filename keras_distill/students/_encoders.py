"""Finds the KerasHub encoder inside a model."""


def find_backbone(model):
    """The KerasHub backbone that `model` is, or is built around.

    Args:
        model: A KerasHub backbone, a KerasHub task, or a Keras model with one
            backbone among its layers, at any depth.

    Returns:
        The backbone, or `None` where there is none.
    """
    if getattr(model, "token_embedding", None) is not None:
        return model
    if getattr(model, "backbone", None) is not None:
        return find_backbone(model.backbone)
    for layer in getattr(model, "layers", []):
        backbone = find_backbone(layer)
        if backbone is not None:
            return backbone
    return None
