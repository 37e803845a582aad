"""What a task asks of models that others have made."""

import numpy as np

from keras_distill._logits import are_probabilities
from keras_distill._logits import logits_of
from keras_distill._text_files import some


class InModels:
    """How a model becomes one of a task, and what is refused."""

    def adapted(self, model, preprocessor=None):
        """A model of the user's as one of this task's inputs, and of logits.

        Args:
            model: `keras.Model`.
            preprocessor: The preprocessor of KerasHub that was in it, or None.
        """
        del preprocessor
        return logits_of(model, self._logits_over(), self.num_outputs)

    def check_teacher(self, model, who="teacher"):
        """Raises `ValueError` unless a model's outputs are those of the task.

        Args:
            model: `keras.Model`.
            who: String, what the model is.
        """
        # Several: the logits of one may well sum to 1, as probabilities do.
        rows = self.encoded["dev"].take(slice(8)).inputs
        # Some layers of Keras, such as `Resizing`, take a call that does not
        # say so for one of a training, and so do all that come after them.
        logits = model(rows, training=False)
        shape = tuple(np.shape(logits))
        if shape[1:] != self.logits_shape:
            raise ValueError(
                f"The {who} must give {self.num_outputs} logits, "
                f"{self.logits_in_words()}. Received: a {who} with the output "
                f"shape {shape}"
            )
        self.check_logits(logits, who)

    def check_logits(self, logits, who="teacher"):
        """Raises `ValueError` where outputs are probabilities of classes.

        Args:
            logits: Array `[rows, ..., outputs]`.
            who: String, whose they are.
        """
        if are_probabilities(logits, self._logits_over()):
            raise ValueError(
                f"The {who} must give logits, from which a temperature makes "
                "probabilities. Received: outputs from 0 to 1 whose sum is 1 "
                "in each row, as after a softmax. Build the model without its "
                "last activation, or give the logarithm of its outputs"
            )

    def logits_in_words(self):
        """What each logit is for."""
        return f"one for each of {some(self.splits.label_names)}"

    def _logits_over(self):
        # Losses on labels, a task's soft loss too, do not say.
        return getattr(self.soft_loss(1.0), "over", None)
