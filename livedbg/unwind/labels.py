"""Labels for code in deleted files, whose names say nothing to a reader: programs that load generated code leave such.

What a file is, only the system knows that made it; the session passes the functions that systems declare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

__all__ = ["Labeller", "label_of", "use_labellers"]

Labeller: TypeAlias = Callable[[int, str], str | None]
"""Takes a process and the base name of a deleted file; gives what stacks show instead, or None."""

_labellers: list[Labeller] = []


def use_labellers(labellers: Iterable[Labeller]) -> None:
    """Label deleted files by these functions from now on."""
    _labellers[:] = labellers


def label_of(pid: int, file: str) -> str | None:
    """The label of a deleted file that a process has mapped; None if nobody knows it."""
    return next((label for labeller in _labellers if (label := labeller(pid, file)) is not None), None)
