"""The variables that change during training without a retrace."""

import keras

LOSS, HARD, SOFT = "loss", "hard", "soft"


class ScheduleState(keras.layers.Layer):
    """Holds temperatures, weights and the stage, so that checkpoints do too.

    Args:
        outputs: List of strings, the outputs that have a soft loss.
        weights: Dict, term name to its base weight.

    Attributes:
        temperatures: Dict, output name to a float32 scalar variable.
        weights_by_term: Dict, term name to its base weight, a float32 scalar
            variable.
        factors: Dict, term name to what a schedule multiplies it with, a
            float32 scalar variable.
        stage: int32 scalar variable, -1 without stages.
        stage_epoch: int32 scalar variable, epochs finished in this stage.
        stage_start: int32 scalar variable, the optimizer's step count when
            this stage began.
    """

    def __init__(self, outputs, weights, name="schedules"):
        super().__init__(name=name, trainable=False, dtype="float32")
        self.temperatures = {
            output: self._scalar(f"{output}_temperature", 1.0)
            for output in outputs
        }
        self.weights_by_term = {
            term: self._scalar(f"{term}_weight", weight)
            for term, weight in weights.items()
        }
        self.factors = {
            term: self._scalar(f"{term}_factor", 1.0) for term in weights
        }
        self.stage = self._scalar("stage", -1, "int32")
        self.stage_epoch = self._scalar("stage_epoch", 0, "int32")
        self.stage_start = self._scalar("stage_start", 0, "int32")
        self.built = True

    def _scalar(self, name, value, dtype="float32"):
        return self.add_weight(
            shape=(),
            dtype=dtype,
            trainable=False,
            name=name,
            initializer=keras.initializers.Constant(value),
        )
