"""The contract of a system: what one runtime declares about itself, and who declared it.

A system is one frozen `System`, found by the entry point group `livedbg.systems`. The built-in ones are found in the
same way and use nothing that others can't (docs/writing-a-system.md).

Invariants:
    systems.Y1. A `System` holds values and names of values; what it names is imported when it is used, not before.
    systems.Y2. A system that can't be imported, or one of whose parts can't, is a `Problem` with its name. It ends
        nothing: the other systems, and its other parts, go on.
    systems.Y3. Two systems with one name are a problem, and the first one found stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:
    from livedbg.analysis.diagnosis import Diagnosis
    from livedbg.analysis.rules.base import Rule
    from livedbg.graphs.readers import GraphReader
    from livedbg.linux.capabilities import Capability
    from livedbg.logs.shapes import Shape
    from livedbg.model import ExceptionHit
    from livedbg.model.catchpoints import Preset
    from livedbg.model.snapshot import Snapshot
    from livedbg.probes.call_text import Describe
    from livedbg.probes.launch_calls import LaunchFunctions
    from livedbg.session.adapter import Adapter
    from livedbg.unwind.labels import Labeller
    from livedbg.values.readers import DumpReader

__all__ = [
    "ENTRY_POINT_GROUP",
    "Command",
    "Demo",
    "DeviceVariable",
    "Lazy",
    "LogPlaces",
    "Problem",
    "Signs",
    "System",
    "declared",
    "problems",
    "system_named",
    "systems",
]

ENTRY_POINT_GROUP: Final = "livedbg.systems"
"""A package registers `name = "package.module:SYSTEM"` here."""

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is imported when it is first used.

    Args:
        where: `package.module:attribute`.
    """

    def __init__(self, where: str) -> None:
        self.where = where

    @cached_property
    def value(self) -> T:
        """The value.

        Raises:
            Exception: whatever its module raises as it is imported.
        """
        module, _, attribute = self.where.partition(":")
        found: T = getattr(import_module(module), attribute)
        return found

    def __repr__(self) -> str:
        return f"Lazy({self.where!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """How a process, a log or a state shows that it uses a system. All are regular expressions, searched for.

    Attributes:
        files: in the path of a file that the process has mapped (libraries, kernels).
        devices: at the beginning of the path of a device that it has open.
        arguments: in one word of its command line.
        variables: the whole name of an environment variable that it has.
        formats: at the beginning of the name of a log shape (`LogSource.format`).
        modules: at the beginning of the module of a stack frame (`Frame.module`).
        tasks: the whole `Task.system` of its tasks, cores and runs, where that is not the system's name.
    """

    files: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()

    @property
    def expressions(self) -> Iterator[str]:
        """All of them."""
        for name in self.__slots__:
            yield from getattr(self, name)


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the command line.

    Attributes:
        where: its click command.
        summary: one line for the list of commands.
        example: what its help shows as an example: command first, then what it does.
        exits: the exit codes that it can end with.
        exits_note: what else there is to say about them.
        after: the command that it follows in the list; the list ends with it where there is none of that name.
    """

    name: str
    where: Lazy[Any]
    summary: str
    example: tuple[tuple[str, str], ...]
    exits: tuple[int, ...] = (0, 2, 3)
    exits_note: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Demo:
    """One workload of `livedbg demo`.

    Attributes:
        summary: what it is, one line.
        stuck_s: seconds until it is stuck.
        module: of a system's demo: `python -m MODULE FOLDER` runs it, and its logs are read in FOLDER.
    """

    name: str
    summary: str
    stuck_s: float
    module: str = ""


@dataclass(frozen=True, slots=True)
class DeviceVariable:
    """An environment variable that says which devices a process may use.

    Attributes:
        always: `launch --gpus` sets it in any case; else only where the user has set it.
    """

    name: str
    always: bool = True


@dataclass(frozen=True, slots=True)
class LogPlaces:
    """Where a process writes the logs of a system.

    Attributes:
        variables: names of the environment variables that `paths` wants to know.
        paths: takes these variables, the process's pids (here, and in its own namespace) and the host's names; gives
            globs as the process names them: absolute, or relative to its working folder. What is meant literally is
            escaped (`glob.escape`).
    """

    variables: tuple[str, ...]
    paths: Lazy[Callable[[Mapping[str, str], Sequence[int], Sequence[str]], Iterable[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One runtime, and everything that livedbg knows of it.

    Attributes:
        name: as it stands in identifiers and in `Task.system`: small letters, digits, `-`.
        title: as people write it.
        about: one line: what livedbg shows of it.
        rank: the narrower of two systems that a process uses has the smaller rank, and is named first.
        signs: how it is recognised.
        adapters: its sources by name.
        rules: the rules of its diagnosis; they stand under its title in docs/rules.md.
        judges_tasks: its own rules judge its running and failed tasks, so that the generic rules leave them alone.
        judges_diagnostics: codes of the diagnostics (`Diagnostic.code`) that its own rules judge, so that the generic
            rule `error-reported` leaves them alone; regular expressions for the whole code.
        explains: takes an exception that a log shows, and the state; true if its rules report the cause of the
            exception, so that the generic rules don't report it again.
        shapes: shapes of its logs.
        continuations: how a log's line begins that goes on with the error above it: regular expressions that begin with
            a literal character.
        log_places: where a process writes its logs.
        recipes: the package that holds its launch presets as `*.toml`.
        device_variables: what `launch --gpus` sets.
        presets: catch presets by name.
        known_calls: what calls of its functions mean, by the function's name: `catch` shows that instead of registers.
        text_exceptions: C++ exception classes whose first member is a `std::string` with the message.
        launch_functions: the functions that launch its kernels, for `livedbg launches`.
        environment: how the names of its environment variables begin; they are shown with a process.
        watchdogs: adapters that learn from the logs of a process which watchdogs it has: a stop must not outlast one.
        stacks_wanted: takes a state and its diagnosis; gives processes, each with threads of it (all where none is
            named), whose stacks would explain what was found.
        label_code: takes a process and the name of a deleted file whose code it runs; gives what stacks show instead,
            or None.
        dump_readers: readers of the tensors that its runs dump.
        graph_readers: readers of the task graphs that its runs write.
        checks: facts for `livedbg doctor`.
        tools: takes the name of a program; gives the path of it where this system's tools are installed, else None.
        debuggers: programs that can stand in for a gdb, where there is none.
        commands: its commands.
        demos: its demos.
        page: its page in docs, relative to `docs/`.
    """

    name: str
    title: str
    about: str = ""
    rank: int = 50
    signs: Signs = field(default_factory=Signs)
    adapters: Mapping[str, Lazy[type[Adapter]]] = field(default_factory=dict)
    rules: Lazy[Callable[[], Sequence[Rule]]] | None = None
    judges_tasks: bool = False
    judges_diagnostics: tuple[str, ...] = ()
    explains: Lazy[Callable[[ExceptionHit, Snapshot], bool]] | None = None
    shapes: Lazy[Sequence[Shape]] | None = None
    continuations: tuple[str, ...] = ()
    log_places: LogPlaces | None = None
    recipes: str = ""
    device_variables: tuple[DeviceVariable, ...] = ()
    presets: Lazy[Mapping[str, Preset]] | None = None
    known_calls: Lazy[Mapping[str, Describe]] | None = None
    text_exceptions: tuple[str, ...] = ()
    launch_functions: Lazy[LaunchFunctions] | None = None
    environment: tuple[str, ...] = ()
    watchdogs: tuple[str, ...] = ()
    stacks_wanted: Lazy[Callable[[Snapshot, Diagnosis], Iterable[tuple[str, tuple[str, ...]]]]] | None = None
    label_code: Lazy[Labeller] | None = None
    dump_readers: Lazy[Sequence[DumpReader]] | None = None
    graph_readers: Lazy[Sequence[GraphReader]] | None = None
    checks: Lazy[Callable[[], Sequence[Capability]]] | None = None
    tools: Lazy[Callable[[str], str | None]] | None = None
    debuggers: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    demos: tuple[Demo, ...] = ()
    page: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A system, or a part of one, that can't be used.

    Attributes:
        system: its name.
        package: the distribution that brings it, or "".
        sentence: what is wrong.
    """

    system: str
    package: str
    sentence: str

    @property
    def remedy(self) -> str:
        """What to do."""
        return f"pip install --upgrade {self.package}" if self.package else "reinstall livedbg"


_problems: dict[tuple[str, str], Problem] = {}
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")


@cache
def systems() -> tuple[System, ...]:
    """All systems that can be imported, the narrower ones first, then by name."""
    found: dict[str, System] = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=_built_in_first):
        try:
            system = _checked(entry.load())
        except Exception as error:  # a package that fails must not end a look at another one's job (Y2)
            _report(entry.name, entry, f"its module {entry.module} can't be imported", error)
            continue
        if system.name in found:
            _report(system.name, entry, "there is already a system of this name", None)
        else:
            found[system.name] = system
            _package_of[system.name] = _package(entry)
    return tuple(sorted(found.values(), key=lambda system: (system.rank, system.name)))


_package_of: dict[str, str] = {}


def system_named(name: str) -> System | None:
    """The system of a name."""
    return next((system for system in systems() if system.name == name), None)


def declared(part: Callable[[System], Lazy[T] | None]) -> Iterator[tuple[System, T]]:
    """One part of every system that declares it, imported. A part that can't be imported is a problem (Y2).

    Args:
        part: takes the part out of a system, such as `lambda system: system.rules`.
    """
    for system in systems():
        lazy = part(system)
        if lazy is None:
            continue
        try:
            value = lazy.value
        except Exception as error:  # see `systems`
            note_problem(system.name, f"{lazy.where} can't be imported", error)
        else:
            yield system, value


def note_problem(system: str, what: str, error: Exception | None) -> None:
    """Keep a problem of a system; the same one is kept once."""
    text = f"{what}: {type(error).__name__}: {error}" if error is not None else what
    sentence = clean_line(f"System {system} can't be used completely: {text}.")
    _problems.setdefault((system, what), Problem(system, _package_of.get(system, ""), sentence))


def problems(*, thorough: bool = False) -> tuple[Problem, ...]:
    """What could not be used so far.

    Args:
        thorough: import every part of every system first.
    """
    for system in systems() if thorough else ():
        for lazy in _parts(system):
            try:
                _ = lazy.value
            except Exception as error:  # see `systems`
                note_problem(system.name, f"{lazy.where} can't be imported", error)
    systems()
    return tuple(_problems.values())


def _parts(system: System) -> Iterator[Lazy[Any]]:
    for part in fields(system):
        value = getattr(system, part.name)
        values = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else (value,)
        for one in values:
            if isinstance(one, Lazy):
                yield one
            elif is_dataclass(one) and not isinstance(one, type):
                yield from (inner for name in fields(one) if isinstance(inner := getattr(one, name.name), Lazy))


def _report(name: str, entry: EntryPoint, what: str, error: Exception | None) -> None:
    text = f"{what}: {type(error).__name__}: {error}" if error is not None else what
    package = _package(entry)
    by = f" of package {package}" if package else ""
    sentence = clean_line(f"System {name}{by} is left out: {text}.")
    _problems.setdefault((name, what), Problem(clean_line(name), clean_line(package), sentence))


def _checked(candidate: object) -> System:
    if not isinstance(candidate, System):
        raise TypeError(f"{candidate!r} is not a livedbg.session.systems.System")
    if not _NAME.fullmatch(candidate.name):
        raise ValueError(f"{candidate.name!r} is not a valid system name: use a-z, 0-9 and -")
    for expression in (*candidate.signs.expressions, *candidate.judges_diagnostics):
        re.compile(expression)
    return candidate


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else ""


def _built_in_first(entry: EntryPoint) -> tuple[bool, str]:
    return _package(entry) != "livedbg", entry.name
