"""Names of code that no symbol names: in deleted files, and in memory that no file backs. Programs that load generated
code leave such.

What a file or a function is, only the system knows that made it; the session passes the functions that systems declare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias


class NamedCode(NamedTuple):
    """A function in memory that no file backs.

    Attributes:
        function: its name.
        file: of its source; "" where that isn't known.
        line: in it.
    """

    function: str
    file: str = ""
    line: int | None = None


Labeller: TypeAlias = Callable[[int, str], str | None]
"""Takes a process and the base name of a deleted file; gives what stacks show instead, or None."""

CodeNamer: TypeAlias = Callable[[int, int], NamedCode | None]
"""Takes a process and an address in memory that no file backs; gives the function there, or None."""

_labellers: list[Labeller] = []
_namers: list[CodeNamer] = []


def use_labellers(labellers: Iterable[Labeller]) -> None:
    """Label deleted files by these functions from now on."""
    _labellers[:] = labellers


def label_of(pid: int, file: str) -> str | None:
    """The label of a deleted file that a process has mapped; None if nobody knows it."""
    return next((label for labeller in _labellers if (label := labeller(pid, file)) is not None), None)


def use_namers(namers: Iterable[CodeNamer]) -> None:
    """Name code that no file backs by these functions from now on."""
    _namers[:] = namers


def code_name(pid: int, address: int) -> NamedCode | None:
    """The function at an address in memory that no file backs; None if nobody knows it."""
    return next((name for namer in _namers if (name := namer(pid, address)) is not None), None)
