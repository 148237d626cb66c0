"""Finds the recipes that fit a process, and makes the command that reruns it with one of them.

Invariants:
    fitting.E9. A command is complete: directory, recipe and the process's own words, quoted for a shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from livedbg.model import Process
from livedbg.model.snapshot import Snapshot
from livedbg.recipes.model import Recipe
from livedbg.session.recognition import in_order


@dataclass(frozen=True, slots=True)
class Again:
    """A recipe that fits a process, and the complete command that reruns the process with it."""

    recipe: Recipe
    because: tuple[str, ...]
    command: str

    @property
    def name(self) -> str:
        """The recipe's name and its option, as on a command line."""
        return f"{self.recipe.name}{self.recipe.asks}"


def chosen_process(snapshot: Snapshot, selection: str | None) -> Process | None:
    """Return the process that a user means: the selected entity's, else the first target."""
    thread = snapshot.threads.get(selection or "")
    process = snapshot.processes.get(thread.process if thread is not None else selection or "")
    if process is not None and process.command:
        return process
    targets = [one for one in snapshot.processes.values() if one.target and one.command]
    return min(targets, key=lambda one: (one.exited, one.pid), default=None)


def fitting(
    known: Mapping[str, Recipe], systems: Collection[str], command: Sequence[str], cwd: str | None
) -> Iterator[Again]:
    """Yield the recipes that fit, the closest first."""
    around = {*systems, "any"}
    order = {name: rank for rank, name in enumerate((*in_order(systems), "any"))}
    fits = [(recipe, tuple(name for name in recipe.systems if name in around)) for recipe in known.values()]

    def closeness(fit: tuple[Recipe, tuple[str, ...]]) -> tuple[int, int, str]:
        return min((order.get(name, 99) for name in fit[1]), default=99), len(fit[0].systems), fit[0].name

    fits.sort(key=closeness)
    for recipe, because in fits:
        if because:
            yield Again(recipe, because, _command(recipe, command, cwd))


def _command(recipe: Recipe, command: Sequence[str], cwd: str | None) -> str:
    asks = "" if recipe.default else recipe.asks  # an optional part is left out: the line is pasted into a shell
    words = ["livedbg", "launch", "--recipe", f"{recipe.name}{asks}", "--"]
    lead = f"cd {shlex.quote(cwd)} && " if cwd else ""
    return f"{lead}{' '.join(words)} {shlex.join(command)}"


_MOST_WAYS = 3
WHEN = {
    "compile": "at compile time: code that is already compiled is not affected",
    "load": "at load time: a process that is already running is not affected",
    "run": "at process start: a process that is already running is not affected",
}
"""When a recipe takes effect, and what that means for a process that is already running."""


def facts_of(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield facts about a recipe, as (label, text)."""
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
    for text in dict.fromkeys(" ".join(end.command) or end.opens for end in recipe.after):
        yield "at the end", text
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
    """Yield facts about a recipe that fits a process: first the command that reruns the process."""
    yield "rerun", again.command
    fits = ", ".join(name for name in again.because if name != "any")
    yield "fits", f"the process uses {fits}" if fits else "any process"
    yield from facts_of(again.recipe)
