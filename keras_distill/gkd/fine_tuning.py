"""Next tokens from texts: how a language model starts before GKD."""

import keras
import numpy as np

from keras_distill._checks import check_integer


def fine_tune(model, batches, steps_per_epoch, epochs, optimizer, callbacks=()):
    """Trains a language model on the completions of a data set.

    A student must write something that can be corrected before it learns from
    its own text: the paper starts from a student that was fine-tuned so.

    Args:
        model: `keras_hub.models.CausalLM`, changed in place.
        batches: Endless `tf.data.Dataset` of batches of `GKDPreprocessor`.
        steps_per_epoch: Integer.
        epochs: Integer.
        optimizer: `keras.optimizers.Optimizer`, or its name.
        callbacks: List of Keras callbacks.

    Returns:
        `keras.callbacks.History`: `loss` is the cross-entropy in nats per
        token of a completion.

    Example:

    >>> import keras_hub, keras_distill as kd
    >>> backbone = keras_hub.models.GPT2Backbone(9, 1, 1, 4, 8, 0.0, 8)
    >>> model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    >>> preprocessor = kd.gkd.GKDPreprocessor(
    ...     None, max_completion_length=3, max_prompt_length=3, stop_token_id=2)
    >>> batches = preprocessor.batches([[4, 5]], [[6, 7]], batch_size=1)
    >>> history = fine_tune(model, batches.repeat(), 2, 1, "adam")
    >>> history.history["loss"][0] > 0
    True

    Reference:
        Agarwal et al., 2023, https://arxiv.org/abs/2306.13649, section 4.
    """
    check_integer("steps_per_epoch", steps_per_epoch, minimum=1)
    check_integer("epochs", epochs, minimum=1)
    # Without the preprocessor, which would expect strings.
    trained = keras.Model(model.input, model.output)
    trained.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[],
    )
    # TensorFlow traces twice a step that makes variables.
    trained.optimizer.build(trained.trainable_variables)
    return trained.fit(
        batches.map(next_tokens),
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        callbacks=list(callbacks),
        shuffle=False,
        verbose=0,
    )


def next_tokens(batch):
    """A batch of `GKDPreprocessor` as `(x, y, sample_weight)`.

    Only tokens of completions count.
    """
    import tensorflow as tf

    token_ids, prompt = batch["token_ids"], batch["prompt_mask"]
    completion = batch["completion_mask"]
    inputs = {
        "token_ids": token_ids[:, :-1],
        "padding_mask": tf.cast((prompt | completion)[:, :-1], "int32"),
    }
    # Keras divides by the number of weights; this makes it the tokens'.
    weights = tf.cast(completion[:, 1:], "float32")
    weights /= tf.maximum(tf.reduce_mean(weights), np.float32(1e-9))
    return inputs, token_ids[:, 1:], weights
