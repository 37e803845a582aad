"""Weights of `.tflite` files in few bits, by ai-edge-quantizer."""

import contextlib
import io
import warnings

from keras_distill.export.report import ExportError

# The bits of the weights of each form.
FORMS = {"int8_weights": 8, "int4": 4}
FEWEST = {"FULLY_CONNECTED", "CONV_2D"}  # Those that have int4 kernels.
EVERYTHING = ".*"


def quantize(model, recipe, calibration=None):
    """A `.tflite` file with its weights stored as a recipe says.

    Args:
        model: Bytes of a float32 file.
        recipe: One of `FORMS`, or a recipe of ai-edge-quantizer, a list of
            dicts.
        calibration: Arrays by input name, for recipes of activations.

    Returns:
        Bytes.

    Raises:
        ExportError: If the library refuses the file or the recipe.
    """
    from ai_edge_quantizer import quantizer

    if isinstance(recipe, str):
        recipe = _recipe(recipe)
    try:
        with _quiet():
            made = quantizer.Quantizer(model, recipe)
            ranges = None
            if made.need_calibration:
                # Of several threads each would see an order of its own.
                ranges = made.calibrate(_rows(calibration), num_threads=1)
            return bytes(
                made.quantize(
                    ranges,
                    enable_progress_bar=False,
                    enable_progress_report=False,
                ).quantized_model
            )
    except (ValueError, RuntimeError, KeyError, TypeError) as error:
        raise ExportError(
            "ai-edge-quantizer cannot store the student like this; nothing "
            f"was written. It says: {str(error)[:500]}"
        ) from error


def needs_calibration(recipe):
    """Whether a recipe rounds activations, whose ranges come from data.

    Raises:
        ValueError: It is none.
    """
    from ai_edge_quantizer.recipe_manager import RecipeManager

    manager = RecipeManager()
    try:
        manager.load_quantization_recipe(recipe)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            "`quantization` must be the name of a form, or a recipe of "
            "ai_edge_quantizer.recipe, a list of dicts. Received: "
            f"{str(recipe)[:200]}"
        ) from error
    return manager.need_calibration()


def _recipe(form):
    from ai_edge_quantizer.recipe_manager import RecipeManager

    recipe = RecipeManager()
    if form == "int8_weights":
        recipe.add_weight_only_config(EVERYTHING, "*", 8)
        return recipe.get_quantization_recipe()
    recipe.add_dynamic_config(EVERYTHING, "*", 8)
    # Its kernel takes integers on the right alone.
    recipe.add_weight_only_config(EVERYTHING, "BATCH_MATMUL", 8)
    for operation in sorted(FEWEST):
        recipe.add_dynamic_config(EVERYTHING, operation, FORMS[form])
    return recipe.get_quantization_recipe()


def _rows(calibration):
    rows = len(next(iter(calibration.values())))
    return {
        "serving_default": [
            {name: x[i : i + 1] for name, x in calibration.items()}
            for i in range(rows)
        ]
    }


@contextlib.contextmanager
def _quiet():
    """Without the library's bars, and its word on tensors held in memory."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.filterwarnings("ignore", message=".*preserve_all_tensors")
        yield
