"""Pipelines of tf.data without its tuner."""


def untuned(dataset):
    """The data set without the thread that tunes how it is read.

    `tf.data` wakes a thread to tune buffers and parallel calls after 10 ms, 20,
    40 and so on to a minute, and an iterator that goes waits for that thread.
    It is to be woken then, and is not always (seen with TensorFlow 2.21): the
    end of a `fit` takes as long again as all of it, up to a minute. A pipeline
    of gathers has nothing to tune.

    Args:
        dataset: `tf.data.Dataset`.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
