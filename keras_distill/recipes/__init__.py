"""Recipes: what a student learns from.

`kd.recipes.kd(temperature=4)` is what `--method kd`, and an arm of
`keras-distill compare`, are made of.
"""

from keras_distill._kinds import RECIPES
from keras_distill._kinds import lazy

__getattr__, __dir__ = lazy(
    __name__, {**RECIPES, "Recipe": "recipes.base:Recipe"}
)
