"""How a process is run again by a recipe, in sentences: for the command line and for a sheet."""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.recipes.fitting import Again
from livedbg.recipes.model import Recipe

__all__ = ["WHEN", "facts_of", "told"]

_MOST_WAYS = 3
WHEN = {
    "compile": "as something is compiled: what was compiled before has it not",
    "load": "as it is loaded: a process that runs already does not take it",
    "run": "as it runs, from its start on: a process that runs already does not take it",
}
"""When a recipe's flags are read, and what that means for a process that runs."""


def facts_of(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """What there is to know of a recipe, as (word, text)."""
    yield "for", ", ".join(recipe.systems)
    yield "read", WHEN[recipe.acts]
    yield "costs", recipe.cost
    for name, value in recipe.environment.items():
        yield "sets", f"{name}={value}"
    for library in recipe.preload:
        yield "loads", " or ".join(library.names)
    if recipe.wrapper or recipe.arguments:
        yield "runs", " ".join([*recipe.wrapper, "CMD", *recipe.arguments])
    for log in recipe.logs:
        yield "reads", log
    for pattern in recipe.catch:
        yield "catches", pattern
    for files in recipe.grows:
        yield "tells of", f"{files.file} as they come"
    for end in recipe.after:
        yield "at the end", " ".join(end.command) or end.opens
    for way in recipe.effect[:_MOST_WAYS]:
        if way.says:
            yield "is seen by", f"output like /{way.says}/"
        elif way.file:
            yield "is seen by", f"the file {way.file}"
        else:
            yield "is seen by", f"a process that has loaded something like /{way.loaded}/"
    for made in recipe.cached:
        yield "too late", made.means
    if recipe.note:
        yield "note", recipe.note
    yield "source", recipe.source
    for name, meaning in recipe.options.items():
        yield f"={name}", meaning


def told(again: Again) -> Iterator[tuple[str, str]]:
    """The same for a process that is to be run again: the command first."""
    yield "run again", again.command
    fits = ", ".join(name for name in again.because if name != "any")
    yield "fits", f"{fits} was found in the process" if fits else "any process"
    yield from facts_of(again.recipe)
