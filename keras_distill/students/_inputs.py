"""What the small students share: inputs, embedding table, masked pooling."""

import keras
import numpy as np
from keras import ops

from keras_distill._checks import check_integer
from keras_distill._layers import backbones


def token_inputs():
    """Inputs `token_ids` and `padding_mask`, `[batch, length]`, int32.

    They go to `keras.Model` as a list: Keras then picks them by name from a
    dict, which may hold more (a BERT teacher's `segment_ids`).
    """
    return [
        keras.Input((None,), dtype="int32", name=name)
        for name in ("token_ids", "padding_mask")
    ]


def embed(token_ids, padding_mask, embeddings, rank, dtype):
    """Looks tokens up in a table; padded positions are zero.

    Args:
        token_ids: Keras tensor of shape `[batch, length]`.
        padding_mask: Keras tensor of shape `[batch, length]`.
        embeddings: `(vocabulary, dim)`, a table of that shape, or a model
            around a KerasHub backbone, whose table is copied.
        rank: Integer below `dim`, or `None`. Width of the table; a linear map
            to `dim` follows.
        dtype: The layers' dtype policy.

    Returns:
        Keras tensors of shapes `[batch, length, dim]` and (the mask, in the
        same dtype) `[batch, length, 1]`.
    """
    lookup, project = _layers_of(embeddings, rank, dtype)
    vectors, mask = _masked(lookup, token_ids, padding_mask)
    return vectors if project is None else project(vectors), mask


def embedded_sum(token_ids, padding_mask, embeddings, rank, dtype):
    """The sum of what `embed` gives, with one linear map for all tokens.

    Args:
        token_ids: As in `embed`, and so are the others.
        padding_mask: Keras tensor of shape `[batch, length]`.
        embeddings: Table, or model around one.
        rank: Integer, or `None`.
        dtype: The layers' dtype policy.

    Returns:
        Keras tensors of shapes `[batch, dim]` and (how many tokens, int32)
        `[batch, 1]`.
    """
    lookup, project = _layers_of(embeddings, rank, dtype)
    vectors, _ = _masked(lookup, token_ids, padding_mask)
    total = ops.sum(vectors, axis=1)
    count = ops.sum(padding_mask, axis=1, keepdims=True)
    return total if project is None else project(total), count


def divide_by_count(total, count):
    """`total / count`, and 0 where nothing was counted.

    No division: LiteRT's for int8 gives a dividend of minus one step for the
    smallest number there is. Its power is float32 there, so the count is exact,
    and half the exponent twice leaves the int8 factor steps enough for long
    texts.

    Args:
        total: Keras tensor of shape `[batch, dim]`.
        count: Keras tensor of shape `[batch, 1]`, int32.

    Returns:
        Keras tensor of shape `[batch, dim]`.
    """
    count = ops.cast(ops.maximum(count, 1), total.dtype)
    root = ops.power(count, -0.5)
    return total * root * root


def encoder_of(teacher):
    """The one backbone with a table of tokens in a model, or None.

    Args:
        teacher: `keras.Model`, or anything else, in which there is none.
    """
    found = backbones(teacher, "token_embedding")
    return found[0][1] if len(found) == 1 else None


def teacher_table(teacher):
    """A copy of the table of tokens of the one encoder in a model.

    Args:
        teacher: `keras.Model`, a KerasHub backbone or around one.

    Returns:
        Float32 array `[vocabulary, dim]`.

    Raises:
        ValueError: There is no such table, or more than one.
    """
    found = backbones(teacher, "token_embedding")
    if len(found) != 1:
        raise ValueError(
            "`embeddings` must be a KerasHub backbone or task, or a model "
            "around one, when it is a model. Pass the table itself, an array "
            "of shape `[vocabulary, dim]`, instead. Received: "
            f"embeddings={teacher.name} ({type(teacher).__name__}), with "
            f"{len(found)} layers that have a `token_embedding`"
        )
    table = found[0][1].token_embedding.embeddings
    return ops.convert_to_numpy(ops.cast(table, "float32"))


def main_axes(vectors, columns):
    """Principal components of what a teacher says of each token.

    Args:
        vectors: Float array `[vocabulary, dimensions]`; NaN where it was not
            asked, which counts nothing.
        columns: Integer, how many components are kept.

    Returns:
        Pair of arrays: `[vocabulary, columns]`, float32, 0 where it was not
        asked, and the map back, `[columns, dimensions]`.
    """
    vectors = centred(vectors)
    # Eigenvectors of a small matrix, not the singular ones of a long one.
    _, axes = np.linalg.eigh(vectors.T @ vectors)
    turn = axes[:, ::-1][:, :columns].T
    return (vectors @ turn.T).astype("float32"), turn.astype("float32")


def centred(vectors):
    """Vectors about their mean, and 0 in the place of NaN; float64."""
    vectors = np.asarray(vectors, "float64")
    asked = np.isfinite(vectors).all(axis=1)
    mean = vectors[asked].mean(axis=0)
    return np.where(asked[:, None], vectors - mean, 0.0)


def check_dropout(value):
    """Raises `ValueError` unless `0 <= value < 1`."""
    if not 0 <= value < 1:
        raise ValueError(
            "`dropout` must be at least 0 and below 1. "
            f"Received: dropout={value}"
        )


def head(x, num_outputs, dropout, dtype):
    """What ends every small model: dropout, and a linear layer to logits."""
    x = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")(x)
    return keras.layers.Dense(num_outputs, dtype=dtype, name="logits")(x)


def masked_mean(x, mask):
    """Mean over the valid positions; 0 for a row without any.

    Args:
        x: Keras tensor of shape `[batch, length, dim]`.
        mask: Keras tensor of shape `[batch, length, 1]`, in the dtype of `x`.

    Returns:
        Keras tensor of shape `[batch, dim]`.
    """
    count = ops.maximum(ops.sum(mask, axis=1), 1.0)
    return ops.sum(x * mask, axis=1) / count


def has_pooler(backbone):
    """Whether a KerasHub encoder gives the [CLS] state through a layer, too.

    It is `pooled_dense` then, and the output a dict.
    """
    return (
        isinstance(backbone.output, dict) and "pooled_output" in backbone.output
    )


def _masked(lookup, token_ids, padding_mask):
    """Vectors that are zero where there is padding, and the mask."""
    vectors = lookup(token_ids)
    mask = ops.expand_dims(ops.cast(padding_mask, vectors.dtype), axis=-1)
    return vectors * mask, mask


def _layers_of(embeddings, rank, dtype):
    """The table, and the linear map that follows it or `None`; both built."""
    table, vocabulary, dim = _resolve(embeddings)
    if rank is not None:
        _check_rank(rank, dim)
    lookup = keras.layers.Embedding(
        vocabulary, rank or dim, dtype=dtype, name="token_embedding"
    )
    lookup.build((None, None))
    if rank is None:
        if table is not None:
            lookup.set_weights([table])
        return lookup, None
    project = keras.layers.Dense(
        dim, use_bias=False, dtype=dtype, name="token_projection"
    )
    project.build((None, rank))
    if table is not None:
        for layer, factor in zip((lookup, project), factorize(table, rank)):
            layer.set_weights([factor])
    return lookup, project


def _resolve(embeddings):
    """The table (or `None`), its vocabulary size and its width."""
    if isinstance(embeddings, keras.Layer):
        table = teacher_table(embeddings)
    elif isinstance(embeddings, tuple):
        return None, *_check_table_shape(embeddings)
    else:
        table = np.asarray(embeddings)
    vocabulary, dim = _check_table_shape(table.shape)
    return table.astype("float32"), vocabulary, dim


def _check_table_shape(shape):
    if len(shape) != 2:
        raise ValueError(
            "`embeddings` must be a KerasHub model, an array of shape "
            "`[vocabulary, dim]`, or a tuple `(vocabulary, dim)` for a table "
            f"trained from scratch. Received: shape={tuple(shape)}"
        )
    check_integer("embeddings[0]", shape[0], minimum=1)
    check_integer("embeddings[1]", shape[1], minimum=1)
    return shape


def _check_rank(rank, dim):
    check_integer("embedding_rank", rank, minimum=1)
    if rank >= dim:
        raise ValueError(
            "`embedding_rank` must be below the width of the embeddings, "
            f"{dim}: it would save nothing. Pass `None` for the whole table. "
            f"Received: embedding_rank={rank}"
        )


def factorize(table, rank):
    """The best factors `[vocabulary, rank]`, `[rank, dim]` of a table.

    The truncated SVD by way of the small `[dim, dim]` Gram matrix, whose
    eigenvectors are the right singular vectors.
    """
    table = table.astype("float64")
    _, vectors = np.linalg.eigh(table.T @ table)
    basis = vectors[:, ::-1][:, :rank]
    return table @ basis, basis.T
