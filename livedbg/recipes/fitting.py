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
    """A recipe that fits a process.

    Attributes:
        recipe: which.
        because: the systems for which it fits.
        command: the complete command that reruns the process with it.
    """

    recipe: Recipe
    because: tuple[str, ...]
    command: str

    @property
    def name(self) -> str:
        """The recipe's name and its option, as on a command line."""
        return f"{self.recipe.name}{self.recipe.asks}"


def chosen_process(snapshot: Snapshot, selection: str | None) -> Process | None:
    """The process that a user means: that of the selected entity, else the first of the targets."""
    thread = snapshot.threads.get(selection or "")
    process = snapshot.processes.get(thread.process if thread is not None else selection or "")
    if process is not None and process.command:
        return process
    targets = [one for one in snapshot.processes.values() if one.target and one.command]
    return min(targets, key=lambda one: (one.exited, one.pid), default=None)


def fitting(
    known: Mapping[str, Recipe], systems: Collection[str], command: Sequence[str], cwd: str | None
) -> Iterator[Again]:
    """The recipes that fit, the closest first.

    Args:
        known: all recipes by name.
        systems: that were found in the process.
        command: its words.
        cwd: its working folder.
    """
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
