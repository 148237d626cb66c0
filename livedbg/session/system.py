"""The contract of a system: a runtime's declarations, as values and names of values (systems.Y1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, field

from livedbg.analysis.user_code import Framework
from livedbg.model.foreign_code import foreign, is_foreign, only_exceptions

if TYPE_CHECKING:
    from pathlib import Path

    from livedbg.analysis.diagnosis import Diagnosis
    from livedbg.analysis.rules.base import Rule
    from livedbg.graphs.declared import GraphReader
    from livedbg.linux.access import Capability
    from livedbg.logs.shapes import Shape
    from livedbg.model import CauseClass, ExceptionHit, Frame
    from livedbg.model.catchpoints import Preset
    from livedbg.model.snapshot import Snapshot
    from livedbg.probes.launch_calls import Describe, LaunchFunctions
    from livedbg.session.adapter import Adapter
    from livedbg.session.guide import GuideOption, GuideStep, StepAsk, StepFound, StepRun
    from livedbg.unwind.modules import CodeNamer, Labeller
    from livedbg.values.readers import DumpReader
    from livedbg.values.tensor import Array, Tensor

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is imported on first use, from `package.module:attribute`."""

    def __init__(self, where: str) -> None:
        self.where = where

    @cached_property
    def value(self) -> T:
        """Return the value.

        Raises:
            Exception: whatever its module raises on import.
        """
        module, _, attribute = self.where.partition(":")
        if not is_foreign(module):
            found: T = getattr(import_module(module), attribute)
            return found
        with foreign(imports=True):
            found = getattr(import_module(module), attribute)
        return only_exceptions(found)

    def __repr__(self) -> str:
        return f"Lazy({self.where!r})"


class Signs(Struct, frozen=True, kw_only=True):
    """Signs by which a process, a log or a state shows that it uses a system. All are regular expressions, searched
    for.

    Attributes:
        files: in the path of a file that the process has mapped (libraries, kernels).
        devices: at the beginning of the path of a device that it has open.
        arguments: in one word of its command line.
        formats: at the beginning of the name of a log shape (`LogSource.format`).
        modules: at the beginning of the module of a stack frame (`Frame.module`).
        tasks: the whole `Task.system` of its tasks, cores and runs, if not the system's name.
    """

    files: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()

    @property
    def expressions(self) -> Iterator[str]:
        """Yield all expressions."""
        for name in self.__struct_fields__:
            yield from getattr(self, name)


class Command(Struct, frozen=True):
    """A command of the command line.

    Attributes:
        example: for its help: command first, then what it does.
        after: the command that it follows in the list; at the end if there is none of that name.
    """

    name: str
    where: Lazy[Any]
    summary: str
    example: tuple[tuple[str, str], ...]
    exits: tuple[int, ...] = (0, 2, 3)
    exits_note: str = ""
    after: str = ""


class Demo(Struct, frozen=True):
    """A workload of `livedbg demo`.

    `python -m MODULE FOLDER` runs that of a system; its logs are read in FOLDER.
    """

    name: str
    summary: str
    module: str = ""


class DeviceVariable(Struct, frozen=True):
    """An environment variable that selects the devices of a process.

    `launch --gpus` sets it if the user has set it, or `always`.
    """

    name: str
    always: bool = True


class Guide(Struct, frozen=True, kw_only=True):
    """A system's guide: recipes in steps, each of which passes its results to the next. It is a command.

    Attributes:
        read: takes the results of a step's run of CMD; returns its findings.
        example: for its help: command first, then what it does.
        keep: copies files that a process may remove; takes its pid, a file that it has just mapped or opened, and a
            folder to copy into. It is called on a thread of its own, and raises no OSError.
        plan: returns the command that a step runs, if not CMD itself. It keeps to the given limit.
        options: in addition to the common options of guides.
        limit_s: seconds that a run may take without a screen.
    """

    name: str
    summary: str
    about: str
    steps: Lazy[Sequence[GuideStep]]
    read: Lazy[Callable[[StepRun], StepFound]]
    example: tuple[tuple[str, str], ...]
    keep: Lazy[Callable[[int, str, Path], None]] | None = None
    plan: Lazy[Callable[[StepAsk], Sequence[str]]] | None = None
    options: Lazy[Sequence[GuideOption]] | None = None
    limit_s: float = 600.0


class LogPlaces(Struct, frozen=True):
    """The places where a process writes the logs of a system.

    Every process is checked, since these variables are a sign themselves: a process may write such a log before it
    shows another one, and after.

    Attributes:
        variables: names of the environment variables that `paths` needs.
        paths: takes these variables, the process's pids (here, and in its own namespace) and the host's names; returns
            globs as the process names them: absolute, or relative to its working folder. Literal parts are escaped
            (`glob.escape`).
    """

    variables: tuple[str, ...]
    paths: Lazy[Callable[[Mapping[str, str], Sequence[int], Sequence[str]], Iterable[str]]]


class MarkerPair(Struct, frozen=True):
    """Lines that mark the begin and the end of something (`launch --repeat` shows the last open one).

    Attributes:
        begin: regular expression, with a group `what` that names the thing, and perhaps `lane` for its thread.
        end: the same for the line that ends it.
    """

    name: str
    begin: str
    end: str


class TensorFiles(Struct, frozen=True):
    """A format of files that hold one tensor (`livedbg values --export`, golden data).

    Attributes:
        load: reads the elements of one. It raises ValueError for a file without a tensor.
        write: writes a tensor whose elements are all there.
        remedy: how to convert an unreadable file.
    """

    suffix: str
    load: Lazy[Callable[[Path], Array]]
    write: Lazy[Callable[[Tensor, Path], None]]
    remedy: str


class System(Struct, frozen=True, kw_only=True):
    """A runtime, and everything that livedbg knows of it.

    Attributes:
        name: as in identifiers and in `Task.system`: small letters, digits, `-`.
        about: summary of what livedbg shows of the system, one line.
        rank: the narrower of two systems that a process uses has the smaller rank, and is named first.
        framework: frames of a stack that are inside of it, and not the user's own code.
        on_signs: its adapters and its rules have nothing to do before a process or the state shows its signs, or a log
            is read: they are not imported until then.
        interactive: adapters that only serve requests while a session goes on: a session that samples once does not
            import them.
        rules: of its diagnosis; docs/rules.md lists them under its title.
        judges_tasks: its own rules judge its running and failed tasks, so that the generic rules leave them alone.
        judges_diagnostics: codes of the diagnostics (`Diagnostic.code`) that its own rules judge, so that the generic
            rule `error-reported` leaves them alone; regular expressions for the whole code.
        explains: takes an exception in a log, and the state; returns whether its rules report the cause of the
            exception, so that the generic rules don't report it again.
        causes: exceptions that only follow from another error, or are of a device or the hardware: regular expressions
            for `Type: message`, each with its class.
        continuations: beginnings of log lines that continue the error above: regular expressions that begin with a
            literal character.
        no_logs: suffixes of its files that are no logs, such as `.cubin`: not read in a folder that holds logs.
        recipes: the package that holds its launch presets as `*.toml`.
        signatures: the package that holds its failure texts as `*.toml` (docs/signatures.md). The rule `signature`
            judges them, unless `judges_diagnostics` says that its own rules do.
        shared_recipes: other recipes that are for it too, by name; each with a sentence for the recipe's note, or "".
        sanitizers: options of `--recipe` that find memory errors and races; advice for crashes that move.
        device_variables: set by `launch --gpus`.
        known_calls: by function name, descriptions of its calls, which `catch` shows instead of registers.
        text_exceptions: C++ exception classes whose first member is a `std::string` with the message.
        environment: prefixes of its environment variables; they are shown with a process.
        services: what `--ask` can query, by name, each with a phrase for its content; an adapter does it.
        watchdogs: adapters that learn from a process's logs which watchdogs it has: a stop must not outlast one.
        stacks_wanted: takes a state and its diagnosis; returns processes, each with its threads (empty: all), whose
            stacks would explain the findings.
        label_code: takes a process and the name of a deleted file whose code it runs; returns the name for stacks, or
            None.
        name_code: takes a process and an address in memory that no file backs; returns the function there, or None.
        tools: takes the name of a program; returns its path if this system's tools are installed, else None.
        debuggers: programs that can replace gdb if there is none.
        examples: further examples for the help of other commands, by the command's name.
        thrown_in: takes a pid and a tid on which something is thrown, and reads at once what it is in; returns a
            function that takes the stack and returns the rank (or None) and the operation (or ""); None if there is
            nothing to report. It may raise OSError.
        rank_in_memory: takes the pid of a process; returns its rank in its job, if the runtime in it knows that, else
            None. It may raise OSError. Used if the environment has no rank (`--all-ranks`).
        saves: takes a state and a folder; writes data that only the memory of its processes has, for `watch --save`.
        launchers: programs that start a job's processes: `NAME:PID` on a command line is the job of such a process.
        page: its page in docs, relative to `docs/`.
    """

    name: str
    title: str
    about: str = ""
    rank: int = 50
    signs: Signs = field(default_factory=Signs)
    framework: Framework = field(default_factory=Framework)
    adapters: Mapping[str, Lazy[type[Adapter]]] = field(default_factory=dict)
    on_signs: bool = False
    interactive: tuple[str, ...] = ()
    rules: Lazy[Callable[[], Sequence[Rule]]] | None = None
    judges_tasks: bool = False
    judges_diagnostics: tuple[str, ...] = ()
    explains: Lazy[Callable[[ExceptionHit, Snapshot], bool]] | None = None
    causes: tuple[tuple[str, CauseClass], ...] = ()
    shapes: Lazy[Sequence[Shape]] | None = None
    continuations: tuple[str, ...] = ()
    log_places: LogPlaces | None = None
    no_logs: tuple[str, ...] = ()
    recipes: str = ""
    signatures: str = ""
    shared_recipes: Mapping[str, str] = field(default_factory=dict)
    sanitizers: tuple[str, ...] = ()
    markers: tuple[MarkerPair, ...] = ()
    device_variables: tuple[DeviceVariable, ...] = ()
    presets: Lazy[Mapping[str, Preset]] | None = None
    known_calls: Lazy[Mapping[str, Describe]] | None = None
    text_exceptions: tuple[str, ...] = ()
    launch_functions: Lazy[LaunchFunctions] | None = None
    environment: tuple[str, ...] = ()
    services: Mapping[str, str] = field(default_factory=dict)
    watchdogs: tuple[str, ...] = ()
    stacks_wanted: Lazy[Callable[[Snapshot, Diagnosis], Iterable[tuple[str, tuple[str, ...]]]]] | None = None
    label_code: Lazy[Labeller] | None = None
    name_code: Lazy[CodeNamer] | None = None
    tensor_files: tuple[TensorFiles, ...] = ()
    dump_readers: Lazy[Sequence[DumpReader]] | None = None
    graph_readers: Lazy[Sequence[GraphReader]] | None = None
    checks: Lazy[Callable[[], Sequence[Capability]]] | None = None
    tools: Lazy[Callable[[str], str | None]] | None = None
    debuggers: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    guides: tuple[Guide, ...] = ()
    examples: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    rank_in_memory: Lazy[Callable[[int], int | None]] | None = None
    thrown_in: Lazy[Callable[[int, int], Callable[[Sequence[Frame]], tuple[int | None, str]] | None]] | None = None
    saves: Lazy[Callable[[Snapshot, Path], None]] | None = None
    launchers: tuple[str, ...] = ()
    demos: tuple[Demo, ...] = ()
    page: str = ""
