"""Input of the guide's steps: the program, and its module's source, function and inputs, from the command line.

CMD is one of IREE's own programs, or a Python program.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from livedbg.adapters.iree.differences.toolchain import (
    Side,
    absolute,
    compile_module,
    find_compiler,
    find_python,
    functions_of,
    hardware_of,
    target_flags,
    zeros,
)
from livedbg.adapters.iree.differences.trace import Trace, run_module
from livedbg.adapters.iree.flow.steps import Notebook
from livedbg.model.errors import LivedbgError, ToolMissing
from livedbg.recipes import Ended, plan, recipes, without_effect
from livedbg.session.guide import StepAsk
from livedbg.session.tools import find_tool
from livedbg.text.patterns import lazy_re

Kind = Literal["run", "benchmark", "check", "compile", "python", "other"]

_KINDS: Final[dict[str, Kind]] = {
    "iree-run-module": "run",
    "iree-benchmark-module": "benchmark",
    "iree-check-module": "check",
    "iree-compile": "compile",
}
_RUNTIME: Final = lazy_re(r"--(?:task|local|vulkan|cuda|hip|amdgpu|hal|device)_\w+(?:=|$)")
"""Flags that say how the runtime and its drivers work, which a run with tracing has to have too."""
_NOT_CARRIED: Final = lazy_re(r"--(?:device_replay|device_profiling|device_statistics|device_lead|hal_replay)")
_COMPILER_VALUES: Final = ("-o", "--output-format-bytecode-file")
_ENDS: Final = (".mlir", ".mlirbc", ".onnx", ".stablehlo")
_OUTPUT: Final = lazy_re(
    r"-o$|-o=|--?(?:compile-to|compile-from|output-format|mlir-print|mlir-pass|mlir-timing|save-temp)|--?[\w-]*dump-"
)
"""Flags that say what is written, and where: a step's compilation does not write over what the user has."""
_DEVICES: Final = {
    "local": "local-task",
    "llvm-cpu": "local-task",
    "vmvx": "local-task",
    "vulkan-spirv": "vulkan",
    "rocm": "hip",
}
_TRACE: Final = b"hal.buffer_view.trace"
"""The runtime's function that a module with traced dispatches imports."""


class Program(Struct, frozen=True, kw_only=True):
    """The program of CMD.

    Attributes:
        python: with the `iree.runtime` of the program.
        known: it is the program's own Python.
        source: that it compiles.
        flags: of the compiler, without output flags.
        device: `local-task` if it names none, as for diff-run.
        devices: number of named ones; a run of a step has one.
        function: "" if it names none.
        parameters: parameter files, `SCOPE=FILE` or `FILE`.
        inputs: as for `iree-run-module`.
    """

    kind: Kind = "other"
    python: str = sys.executable
    known: bool = True
    modules: tuple[str, ...] = ()
    source: str = ""
    flags: tuple[str, ...] = ()
    runtime_flags: tuple[str, ...] = ()
    device: str = "local-task"
    devices: int = 0
    function: str = ""
    parameters: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


def program_of(argv: Sequence[str]) -> Program:
    """Return the program of a command line."""
    name = Path(argv[0]).name
    kind = _KINDS.get(name, "other")
    if re.fullmatch(r"python[\d.]*", name):
        return Program(kind="python", python=argv[0])
    own = _interpreter(argv[0])
    python, known = own or sys.executable, bool(own)
    if kind == "compile":
        source, flags = of_compiler(list(_flags_of(argv[1:])))
        return Program(kind=kind, python=python, known=known, source=source, flags=flags, device=device_of(flags))
    if kind == "other":
        return Program(kind="python" if argv[0].endswith(".py") else "other", python=python, known=known)
    words = list(_flags_of(argv[1:]))
    given = [(name, value) for word in words for name, _, value in [word.partition("=")]]
    last = dict(given)
    return Program(
        kind=kind,
        python=python,
        known=known,
        modules=tuple(value for name, value in given if name == "--module"),
        runtime_flags=tuple(word for word in words if _RUNTIME.match(word) and not _NOT_CARRIED.match(word)),
        device=last.get("--device", "local-task"),
        function=last.get("--function", ""),
        devices=sum(name == "--device" for name, _ in given),
        parameters=tuple(_parameter(value) for name, value in given if name == "--parameters"),
        inputs=tuple(zeros(absolute(value)) for name, value in given if name == "--input"),
    )


def of_compiler(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the source and flags of a compiler's command line; "" for standard input."""
    bare = [at for at, word in enumerate(words) if not word.startswith("-") and words[at - 1] not in _COMPILER_VALUES]
    likely = [at for at in bare if words[at].endswith(_ENDS) or Path(words[at]).is_file()]
    source = (likely or bare)[-1] if bare else -1
    flags: list[str] = []
    dropped = False
    for at, word in enumerate(words):
        value = not word.startswith("-")  # of the flag before it
        if at != source and not (value and dropped):
            dropped = word == "-" or _OUTPUT.match(word) is not None
            flags += [] if dropped else [word]
    return words[source] if source >= 0 else "", tuple(flags)


def is_traced(module: Path) -> bool:
    """Return whether a module was compiled with `--iree-flow-trace-dispatch-tensors`."""
    try:
        return _TRACE in module.read_bytes()
    except OSError:
        return False


def _flags_of(argv: Sequence[str]) -> Iterator[str]:
    """Yield flags, including those of flag files; `-x=` equals `--x=`."""
    for word in argv:
        if word.startswith("--flagfile="):
            try:
                yield from Path(word.partition("=")[2]).read_text().split("\n")
            except (OSError, UnicodeDecodeError):
                continue
        else:
            yield word


def _parameter(word: str) -> str:
    """Return `SCOPE=FILE` or `FILE` with an absolute path."""
    scope, equals, path = word.rpartition("=")
    return f"{scope}{equals}{Path(path).resolve()}"


def _interpreter(program: str) -> str:
    """Return the Python of a script."""
    path = shutil.which(program)
    try:
        with Path(path or program).open("rb") as file:
            first = file.readline(300)
    except OSError:
        return ""
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    found = words[-1] if words and words[0].endswith("/env") else words[0] if words else ""
    return (shutil.which(found) or "") if "python" in Path(found).name else ""


def device_of(flags: Sequence[str]) -> str:
    """Return the device that a compiled module is for."""
    for flag in flags:
        name, _, value = flag.partition("=")
        if name in ("--iree-hal-target-device", "--iree-hal-target-backends"):
            target = value.partition("[")[0]
            return _DEVICES.get(target, target)
    return "local-task"


COMPILE_S: Final = 1800.0
_WATCHED_S: Final = 30.0
"""How long a run of the module may stay without a sign while somebody watches."""


class Ground:
    """Input of one step, and the book for its findings."""

    def __init__(self, ask: StepAsk, book: Notebook) -> None:
        self.ask = ask
        self.handed = dict(ask.handed)
        self.book = book
        self.folder = ask.folder
        self.program: Program = program_of(ask.argv)
        self.limit_s = ask.limit_s or _WATCHED_S

    @cached_property
    def python(self) -> str:
        """A Python with the runtime: that of the program, else ours; raises ToolMissing if neither has it."""
        try:
            return find_python(self.program.python)
        except ToolMissing:
            return find_python(None)

    @cached_property
    def compiler(self) -> str:
        """The compiler: CMD itself, or next to it, or ours; raises ToolMissing if there is none."""
        found = shutil.which(self.ask.argv[0])
        beside = Path(found).with_name("iree-compile") if found else None  # or CMD itself
        return find_compiler(str(beside) if beside is not None and beside.exists() else None)

    @property
    def source(self) -> Path | None:
        """Return the module's source: given, or on the command line."""
        named = self.handed.get("source") or self.program.source
        return Path(named) if named else None

    @property
    def module(self) -> Path | None:
        """Return the compiled module that the program runs: the last one; earlier ones are loaded with it."""
        return Path(self.program.modules[-1]) if self.program.modules else None

    @property
    def traced(self) -> Path | None:
        """Return that module, if it traces its dispatches already."""
        return self.module if self.module is not None and is_traced(self.module) else None

    @property
    def flags(self) -> tuple[str, ...]:
        given = self.handed.get("flags")
        return tuple(shlex.split(given)) if given is not None else self.program.flags

    @property
    def device(self) -> str:
        """Return the device that the program uses, or that its module is compiled for."""
        if self.handed.get("device"):
            return self.handed["device"]
        return device_of(self.flags) if "flags" in self.handed else self.program.device

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the inputs; () for random ones."""
        given = self.handed.get("input", "")
        return tuple(absolute(one.strip()) for one in given.split(";")) if given else self.program.inputs

    @property
    def random(self) -> bool:
        return not self.inputs

    def side(self, name: str = "A", device: str = "", flags: Sequence[str] | None = None) -> Side:
        """Return the program's compiler, runtime and flags, or changed ones; raise LivedbgError if one is missing."""
        device = device or self.device
        own = self.flags if flags is None else tuple(flags)
        compiler = self.compiler if self.source is not None else ""
        made = target_flags(device, hardware_of(self.python, device), own) if compiler else []
        program = self.program
        before = tuple(str(Path(one).resolve()) for one in program.modules[:-1])
        return Side(
            name, compiler, self.python, device, (*made, *own), program.runtime_flags, program.parameters, before
        )

    def build(self, side: Side, out: Path, recipe: str = "", option: str = "", *more: str) -> list[str]:
        """Compile the source with a recipe; return sentences if that had no effect; raise SourceError on failure."""
        folder = out.with_suffix(".files")
        folder.mkdir(exist_ok=True)
        known, _ = recipes() if recipe else ({}, [])
        picked = [(known[recipe], option)] if recipe else []
        made = plan(picked, folder, os.environ, (side.compiler,), find_tool)
        began_s = time.time()
        command = [side.compiler, str(self.source), *side.flags, *made.arguments, *more, "-o", str(out)]
        compile_module(command, COMPILE_S)
        return list(without_effect(made.parts, Ended([], (), began_s, folder)))

    def function(self, module: Path | None = None) -> str:
        """Return the function to run, named or the only one of a module; raise LivedbgError if there are several."""
        named = self.handed.get("function") or self.program.function
        if named:
            return named
        module = module or self.traced
        if module is None:
            module = self.folder / "plain.vmfb"
            self.build(self.side(), module)
        there = functions_of(self.python, module)
        if len(there) == 1:
            return next(iter(there))
        raise LivedbgError(
            f"The module has {len(there)} functions: {', '.join(there)}.", "--function NAME", "which-function"
        )

    def run(
        self,
        side: Side,
        module: Path,
        name: str,
        function: str,
        inputs: Sequence[str] | None = None,
        *,
        show: bool = False,
    ) -> Trace:
        """Run a module; its tensors go into a folder below the step's.

        Args:
            name: of the folder.
            inputs: instead of the program's.
            show: print the dispatches, which become tasks on the screen.

        Raises:
            LivedbgError: the program uses several devices, or the function could not be called: such a failure is no
                fault of a dispatch.
        """
        if self.program.devices > 1 and not self.handed.get("device"):
            raise LivedbgError(
                f"CMD uses {self.program.devices} devices, and a step runs the module on one.",
                "--device DEVICE, with a module that is compiled for it alone", "devices",
            )  # fmt: skip
        given = self.inputs if inputs is None else tuple(inputs)
        trace = run_module(
            side, module, self.folder / name, function, given, runs=1, limit_s=COMPILE_S, still_s=self.limit_s,
            show=show,
        )  # fmt: skip
        if trace.refused and not any(label == "flags" for label, _ in self.book.note.lines):
            self.book.say("flags", f"Not taken over, since iree.runtime has them not: {' '.join(trace.refused)}.")
        if trace.failure and not trace.called:
            raise LivedbgError(f"{function} could not be called on {side.device}: {trace.failure}.", "", "not-called")
        return trace
