"""Describes a recipe, and how to rerun a process with it: for the command line and for a panel."""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.recipes.fitting import Again
from livedbg.recipes.model import Recipe

_MOST_WAYS = 3
WHEN = {
    "compile": "at compile time: code that is already compiled is not affected",
    "load": "at load time: a process that is already running is not affected",
    "run": "at process start: a process that is already running is not affected",
}
"""When a recipe takes effect, and what that means for a process that is already running."""


def facts_of(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Facts about a recipe, as (label, text)."""
    yield "for", ", ".join(recipe.systems)
    yield "takes effect", WHEN[recipe.acts]
    yield "cost", recipe.cost
    for name, value in recipe.environment.items():
        yield "sets", f"{name}={value}"
    for library in recipe.preload:
        yield "loads", " or ".join(library.names)
    yield from _runs(recipe)
    for pattern in recipe.catch:
        yield "catches", pattern
    for files in recipe.grows:
        yield "reports", f"{files.file} while the command runs"
    for end in recipe.after:
        yield "at the end", " ".join(end.command) or end.opens
    for way in recipe.effect[:_MOST_WAYS]:
        if way.says:
            yield "verified by", f"output that matches /{way.says}/"
        elif way.file:
            yield "verified by", f"file {way.file}"
        else:
            yield "verified by", f"a process that loads a file that matches /{way.loaded}/"
    for built in recipe.cached:
        yield "too late", built.means
    if recipe.note:
        yield "note", recipe.note
    yield "source", recipe.source
    for name, meaning in recipe.options.items():
        yield f"={name}", meaning


def _runs(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """What is run, made and read."""
    if recipe.wrapper or recipe.arguments:
        yield "runs", " ".join([*recipe.wrapper, "CMD", *recipe.arguments])
    for source in recipe.sources:
        if source.arguments:
            yield "runs", f"CMD {' '.join(source.arguments)}   (where its source has /{source.says}/)"
    for made in recipe.folders:
        yield "makes", made
    for log in recipe.logs:
        yield "reads", log


def facts_of_rerun(again: Again) -> Iterator[tuple[str, str]]:
    """Facts about a recipe that fits a process: first the command that reruns the process."""
    yield "rerun", again.command
    fits = ", ".join(name for name in again.because if name != "any")
    yield "fits", f"the process uses {fits}" if fits else "any process"
    yield from facts_of(again.recipe)
