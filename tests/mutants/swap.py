"""Puts a mutant into a process that has already imported the original.

Modules import functions by name, so a changed module would not reach them. The code of the function objects is
replaced instead: all that refer to a function then call the mutant. That does not reach code outside of functions,
nor what a function did while modules were imported.
"""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType

_Path = tuple[int, ...]
"""Where a block of code is nested: of each block around it, the how manieth in its own."""


def swap(functions: Iterable[FunctionType], original: CodeType, mutant: CodeType) -> bool:
    """Replace the code of the functions of this process that differ between a module and its mutant.

    Args:
        functions: those of the module (`functions_of`).
        original: the module, compiled.
        mutant: its mutant, compiled.

    Returns:
        False if that is not possible: code outside of functions differs, or what a function takes from around it. The
        process is unchanged then.
    """
    before, after = dict(_blocks(original, ())), dict(_blocks(mutant, ()))
    if before.keys() != after.keys():
        return False
    changed: dict[CodeType, CodeType] = {}
    for place, code in before.items():
        if _own(code) == _own(after[place]):
            continue
        if not code.co_flags & inspect.CO_OPTIMIZED:  # a module or a class
            return False
        for around in (place[:depth] for depth in range(len(place), -1, -1)):  # they make it anew at each call
            old, new = before[around], after[around]
            if not old.co_flags & inspect.CO_OPTIMIZED:
                break
            if _closure(old) != _closure(new):
                return False
            changed[old] = new
    found = [function for function in functions if function.__code__ in changed]
    for function in found:
        function.__code__ = changed[function.__code__]
    return bool(found)


def functions_of(paths: Iterable[str]) -> dict[str, list[FunctionType]]:
    """The functions of this process by file; those that gc.freeze() hides are not found."""
    found: dict[str, list[FunctionType]] = {path: [] for path in paths}
    files: dict[str, str] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType:
            name = thing.__code__.co_filename
            if name not in files:
                files[name] = os.path.realpath(name)
            if files[name] in found:
                found[files[name]].append(thing)
    return found


def _blocks(code: CodeType, place: _Path) -> Iterator[tuple[_Path, CodeType]]:
    yield place, code
    for number, inner in enumerate(c for c in code.co_consts if isinstance(c, CodeType)):
        yield from _blocks(inner, (*place, number))


def _closure(code: CodeType) -> tuple[object, ...]:
    return code.co_freevars, code.co_cellvars


def _own(code: CodeType) -> tuple[object, ...]:
    """What a block does, but for the blocks in it."""
    consts = tuple((type(c), repr(c)) for c in code.co_consts if not isinstance(c, CodeType))
    return code.co_code, consts, code.co_names, code.co_varnames, code.co_exceptiontable
