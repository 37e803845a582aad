"""The padding mask, where KerasHub's models look for it."""


def padding_mask(inputs):
    """The `padding_mask` among inputs, `[..., length]`, or None."""
    return inputs.get("padding_mask") if isinstance(inputs, dict) else None
