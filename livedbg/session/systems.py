"""The known systems, and the problems with them.

A system is one frozen `System` (livedbg.session.system), found by the entry point group `livedbg.systems`. The built-in
ones are found in the same way and use nothing that others can't (docs/writing-a-system.md).

Invariants:
    systems.Y1. A `System` holds values and names of values; the latter are imported on use, not before.
    systems.Y2. A system that can't be imported, or one of whose parts can't, is a `Problem` with its name, whatever it
        raises. It ends nothing: the other systems, and its other parts, go on.
    systems.Y3. Two systems with one name are a problem, and the first one found stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final, TypeVar

from msgspec import Struct

from livedbg.analysis.user_code import Framework
from livedbg.model.entry_points import EntryPoint, entry_points
from livedbg.model.foreign_code import foreign, in_words, is_foreign
from livedbg.session.system import (
    Command,
    Demo,
    DeviceVariable,
    Guide,
    Lazy,
    LogPlaces,
    MarkerPair,
    Signs,
    System,
    TensorFiles,
)
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

__all__ = [
    "ENTRY_POINT_GROUP",
    "Command",
    "Demo",
    "DeviceVariable",
    "Framework",
    "Guide",
    "Lazy",
    "LogPlaces",
    "MarkerPair",
    "Problem",
    "Signs",
    "System",
    "TensorFiles",
    "declared",
    "functions",
    "problems",
    "system_named",
    "systems",
]

ENTRY_POINT_GROUP: Final = "livedbg.systems"
"""A package registers `name = "package.module:SYSTEM"` here."""

T = TypeVar("T")


class Problem(Struct, frozen=True):
    """A system, or a part of one, that can't be used."""

    system: str
    package: str
    sentence: str

    @property
    def remedy(self) -> str:
        return f"pip install --upgrade {self.package}" if self.package else "reinstall livedbg"


_problems: dict[tuple[str, str], Problem] = {}
_NAME: Final = lazy_re(r"[a-z][a-z0-9-]*")


@cache
def systems() -> tuple[System, ...]:
    """Return all systems that can be imported, the narrower ones first, then by name."""
    found: dict[str, System] = {}
    for entry in sorted(entry_points(ENTRY_POINT_GROUP), key=_built_in_first):
        try:
            system = _checked(_loaded(entry), foreign=is_foreign(entry.module))
        except Exception as error:  # a package that fails must not end the diagnosis of another one's job (Y2)
            _report(entry.name, entry, f"its module {entry.module} can't be imported", error)
            continue
        if system.name in found:
            _report(system.name, entry, "there is already a system of this name", None)
        else:
            found[system.name] = system
            _package_of[system.name] = entry.package
    return tuple(sorted(found.values(), key=lambda system: (system.rank, system.name)))


_package_of: dict[str, str] = {}


def system_named(name: str) -> System | None:
    """Return the system of that name, or None."""
    return next((system for system in systems() if system.name == name), None)


def declared(part: Callable[[System], Lazy[T] | None]) -> Iterator[tuple[System, T]]:
    """Yield one part of every system that declares it, imported. A part that can't be imported is a problem (Y2)."""
    for system in systems():
        lazy = part(system)
        if lazy is None:
            continue
        if (value := _value(system.name, lazy)) is not None:
            yield system, value


def merged(own: Mapping[str, T], part: Callable[[System], Lazy[Mapping[str, T]] | None], what: str) -> dict[str, T]:
    """Return `own` with what all systems declare by name; a name that is taken is a problem (`another {what} NAME`)."""
    found = dict(own)
    for system, theirs in declared(part):
        for name, one in theirs.items():
            if name in found:
                note_problem(system.name, f"there is another {what} {name}", None)
            else:
                found[name] = one
    return found


def functions(
    part: Callable[[System], Lazy[Callable[..., Any]] | None], otherwise: object = None
) -> Iterator[tuple[System, Callable[..., Any]]]:
    """Yield a function of every system that declares it, imported on its first call; `otherwise` if that fails."""

    def call(system: str, lazy: Lazy[Callable[..., Any]], *words: object) -> Any:
        function = _value(system, lazy)
        return otherwise if function is None else function(*words)

    for system in systems():
        if (lazy := part(system)) is not None:
            yield system, partial(call, system.name, lazy)


def _value(system: str, lazy: Lazy[T]) -> T | None:
    try:
        return lazy.value
    except Exception as error:  # see `systems`
        note_problem(system, f"{lazy.where} can't be imported", error)
        return None


def note_problem(system: str, what: str, error: Exception | None) -> None:
    """Record a problem of a system, once."""
    text = f"{what}: {in_words(error)}" if error is not None else what
    sentence = clean_line(f"System {system} can't be used completely: {text}.")
    _problems.setdefault((system, what), Problem(system, _package_of.get(system, ""), sentence))


def problems(*, thorough: bool = False) -> tuple[Problem, ...]:
    """Return the problems so far; with `thorough`, import every part of every system first."""
    for system in systems() if thorough else ():
        for lazy in _parts(system):
            try:
                _ = lazy.value
            except Exception as error:  # see `systems`
                note_problem(system.name, f"{lazy.where} can't be imported", error)
    systems()
    return tuple(_problems.values())


def _parts(system: System) -> Iterator[Lazy[Any]]:
    for part in system.__struct_fields__:
        value = getattr(system, part)
        values = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else (value,)
        for one in values:
            if isinstance(one, Lazy):
                yield one
            elif isinstance(one, Struct):
                yield from (inner for name in one.__struct_fields__ if isinstance(inner := getattr(one, name), Lazy))


def _report(name: str, entry: EntryPoint, what: str, error: Exception | None) -> None:
    text = f"{what}: {in_words(error)}" if error is not None else what
    package = entry.package
    by = f" of package {package}" if package else ""
    sentence = clean_line(f"System {name}{by} is left out: {text}.")
    _problems.setdefault((name, what), Problem(clean_line(name), clean_line(package), sentence))


def _loaded(entry: EntryPoint) -> object:
    if not is_foreign(entry.module):
        return entry.load()
    with foreign(imports=True):
        return entry.load()


def _checked(candidate: object, *, foreign: bool) -> System:
    if not isinstance(candidate, System):
        raise TypeError(f"{candidate!r} is not a livedbg.session.systems.System")
    if not _NAME.fullmatch(candidate.name):
        raise ValueError(f"{candidate.name!r} is not a valid system name: use a-z, 0-9 and -")
    if not foreign:
        return candidate  # tests check the rest
    for expression in (*candidate.signs.expressions, *candidate.judges_diagnostics):
        re.compile(expression)
    for pair in candidate.markers:
        for expression in (pair.begin, pair.end):
            if "what" not in re.compile(expression).groupindex:
                raise ValueError(f"{expression!r} of the markers {pair.name!r} has no group `what`")
    return candidate


def _built_in_first(entry: EntryPoint) -> tuple[bool, str]:
    return entry.package != "livedbg", entry.name
