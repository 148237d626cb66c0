"""Recipes: ways of launching a command that answer a question (`livedbg recipes`, `launch --recipe`)."""

from livedbg.recipes.effects import without_effect
from livedbg.recipes.load import chosen, own_folder, recipes
from livedbg.recipes.model import Effect, Preload, Recipe
from livedbg.recipes.plan import Plan, plan

__all__ = ["Effect", "Plan", "Preload", "Recipe", "chosen", "own_folder", "plan", "recipes", "without_effect"]
