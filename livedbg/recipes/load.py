"""Loads recipes: built-in ones, those of systems, and a user's own, which replace others of the same name.

Invariants:
    load.E2. A user's file that can't be parsed is reported with its error; all other recipes still load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec
from msgspec import structs

from livedbg.model.errors import UsageError
from livedbg.recipes.model import Recipe
from livedbg.session.systems import note_problem, systems
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.text.typed import ready

_NAME = lazy_re(r"[a-z0-9][a-z0-9-]*")


def own_folder() -> Path:
    """Return the folder of a user's own recipes (XDG Base Directory Specification)."""
    from platformdirs import user_config_path

    return user_config_path("livedbg") / "recipes"


def recipes() -> tuple[dict[str, Recipe], list[str]]:
    """Return all recipes by name, and a sentence for each file that can't be used."""
    found = _shared({recipe.name: recipe for recipe in _built_in()})
    wrong: list[str] = []
    folder = own_folder()
    for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
        try:
            recipe = parse(path.stem, path.read_bytes())
        except (OSError, UsageError) as error:
            wrong.append(clean_line(f"{path}: {error}"))
        else:
            found[recipe.name] = recipe
    return dict(sorted(found.items())), wrong


def parse(name: str, text: bytes) -> Recipe:
    """Parse the text of a recipe file.

    Raises:
        UsageError: the text is no valid recipe.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid recipe name.", "use a-z, 0-9 and -")
    try:
        recipe = structs.replace(msgspec.toml.decode(text, type=ready(Recipe)), name=name)
        for expression in recipe.expressions:
            re.compile(expression)
    except (re.error, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise UsageError(clean_line(f"{error}."), "livedbg recipes --help") from None
    return recipe


def each_option(wanted: str, known: Mapping[str, Recipe]) -> Iterator[str]:
    """Yield `NAME=A` and `NAME=B` for `NAME=A,B` if these are options of the recipe; else `wanted` itself."""
    name, _, given = wanted.partition("=")
    recipe = known.get(name)
    listed = recipe is not None and recipe.options and given not in recipe.options and "," in given
    yield from (f"{name}={option}" for option in given.split(",")) if listed else (wanted,)


def chosen(wanted: str, known: Mapping[str, Recipe]) -> tuple[Recipe, str]:
    """Find the recipe and option of `NAME` or `NAME=OPTION`.

    Raises:
        UsageError: there is no such recipe or option.
    """
    name, given, option = wanted.partition("=")
    recipe = known.get(name)
    if recipe is None:
        raise UsageError(f"There is no recipe {name!r}.", "livedbg recipes")
    if recipe.value:
        option = option or recipe.default
        if not option:
            raise UsageError(
                f"Recipe {name} needs an option: {name}{recipe.asks}.", f"livedbg recipes {shell_word(name)}"
            )
        if recipe.value == "DIR":
            option = str(Path(option).expanduser().absolute())
            if not Path(option).is_dir():
                raise UsageError(f"Recipe {name}: {clean_line(option)} is not a directory.", f"ls {shell_word(option)}")
        return recipe, option
    if recipe.options and option not in recipe.options:
        wrong = f"has no option {option!r}" if given else "needs an option"
        raise UsageError(f"Recipe {name} {wrong}.", f"livedbg recipes {shell_word(name)}")
    if given and not recipe.options:
        raise UsageError(f"Recipe {name} takes no option.", f"livedbg recipes {shell_word(name)}")
    return recipe, option


def _built_in() -> Iterator[Recipe]:
    yield from _of(files("livedbg.recipes").joinpath("data"))
    for system in systems():
        if system.recipes:
            try:
                yield from list(_of(files(system.recipes)))
            except Exception as error:  # a system that fails is a problem of its own (systems.Y2)
                note_problem(system.name, f"its recipes in {system.recipes} can't be read", error)


def _shared(found: dict[str, Recipe]) -> dict[str, Recipe]:
    """Return the recipes with the systems that share them, the narrower ones first, and the notes of these systems."""
    for name, recipe in list(found.items()):
        sharing = [
            system for system in systems() if name in system.shared_recipes and system.name not in recipe.systems
        ]
        notes = [note for system in sharing if (note := system.shared_recipes[name])]
        found[name] = structs.replace(
            recipe,
            systems=(*(system.name for system in sharing), *recipe.systems),
            note=" ".join(filter(None, (*notes, recipe.note))),
        )
    for system in systems():
        for name in system.shared_recipes.keys() - found.keys():
            note_problem(system.name, f"it shares recipe {name}, which is none", None)
    return found


def _of(folder: Traversable) -> Iterator[Recipe]:
    for entry in folder.iterdir():
        if entry.name.endswith(".toml"):
            yield parse(entry.name.removesuffix(".toml"), entry.read_bytes())
