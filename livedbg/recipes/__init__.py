"""Recipes: launch presets, environment variables and wrappers for a debugging question (`livedbg recipes`)."""

from livedbg.recipes.effects import Ended, without_effect
from livedbg.recipes.model import Effect, Preload, Reason, Recipe, chosen, own_folder, recipes
from livedbg.recipes.plan import Part, Plan, plan
from livedbg.recipes.watching import RecipeWatch

__all__ = [
    "Effect",
    "Ended",
    "Part",
    "Plan",
    "Preload",
    "Reason",
    "Recipe",
    "RecipeWatch",
    "chosen",
    "own_folder",
    "plan",
    "recipes",
    "without_effect",
]
