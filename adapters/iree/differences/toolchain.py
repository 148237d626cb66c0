"""IREE's compiler and runtime as programs: found, run with a time limit, and their errors told.

One side of a comparison: which compiler, which flags, which device.

The dispatches that a compiled module calls, in order: operations, source lines, what they compute.

The inputs of a function as words on a command line, as `iree-run-module --input=` takes them.

A number (`3.14`), `4x8xf32=0.5`, `4x8xf32=@FILE.bin` or `=+FILE.bin` (raw values), `@FILE.npy`, `+FILE.npy` (the next
array of the file before), `*FILE.npy` (all arrays of a file). worker_inputs.py reads them.

Invariants:
    iree_calls.K1. Two dispatches are the same only if their code is, or if types, arithmetic and source places all are.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from livedbg.model.errors import SourceError, ToolMissing
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean, clean_line
from livedbg.text.typed import ready

RUN_WORKER: Final = Path(__file__).with_name("worker.py")
IR_WORKER: Final = Path(__file__).with_name("ir_worker.py")
_INSTALL: Final = "pip install iree-base-compiler iree-base-runtime"
_CHECK_S: Final = 60.0
_ERROR_LINES: Final = 12


def find_compiler(named: str | None) -> str:
    """The program `iree-compile`: the one that is named, beside this Python, or in PATH.

    Raises:
        ToolMissing: there is none.
    """
    beside = Path(sys.executable).with_name("iree-compile")
    found = shutil.which(named or (str(beside) if beside.exists() else "iree-compile"))
    if found is None:
        raise ToolMissing(f"{named or 'iree-compile'} is not there.", _INSTALL, "no-iree-compile")
    return found


@cache
def find_python(named: str | None) -> str:
    """A Python that has `iree.runtime`: the one that is named, or this one.

    Raises:
        ToolMissing: it has not.
    """
    python = named or sys.executable
    try:
        done = subprocess.run([python, "-c", "import iree.runtime"], capture_output=True, check=False, timeout=_CHECK_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolMissing(f"{python} can't be run: {error}.", "--python EXE", "no-python") from None
    if done.returncode:
        raise ToolMissing(f"{python} has no iree.runtime.", f"{_INSTALL}, or --python EXE", "no-iree-runtime")
    return python


@cache
def hardware_of(python: str, device: str) -> str:
    """The name that a driver has for its devices; "" where it has none.

    Raises:
        SourceError: the driver has no device here.
    """
    driver = device.partition("://")[0]
    command = [python, str(RUN_WORKER), "devices", driver]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=_CHECK_S)
    except subprocess.TimeoutExpired:
        said = f"The driver {driver} did not list its devices within {_CHECK_S:g} s."
        raise SourceError(said, "livedbg doctor", "no-device") from None
    if done.returncode:
        raise SourceError(f"No device for {device}: {_last(done.stderr)}", "livedbg doctor", "no-device")
    names = [json.loads(line).get("name", "") for line in done.stdout.splitlines() if line.startswith("{")]
    if not names:
        raise SourceError(f"The driver {driver} has no device on this host.", "livedbg doctor", "no-device")
    return clean_line(" ".join(names))


@cache
def functions_of(python: str, module: Path) -> dict[str, str]:
    """What each exported function of a compiled module declares, by name.

    Raises:
        SourceError: the runtime refuses the module, with its words.
    """
    command = [python, str(RUN_WORKER), "functions", str(module)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=_CHECK_S)
    if done.returncode:
        raise SourceError(f"{module.name} can't be loaded: {_last(done.stderr)}", "", "no-module")
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {str(one.get("name", "")): str(one.get("declaration", "")) for one in told}


def compile_module(command: Sequence[str], limit_s: float) -> None:
    """Run the compiler.

    Raises:
        SourceError: it failed, with its diagnostics, or took longer than `limit_s` seconds.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise SourceError(
            f"The compiler took longer than {limit_s:g} s.", "--timeout SECONDS", "compile-time"
        ) from None
    except OSError as error:
        raise SourceError(f"{command[0]} can't be run: {error.strerror}.", _INSTALL, "no-compiler") from None
    if done.returncode:
        lines = [line for line in clean(done.stderr).splitlines() if line.strip()]
        first = next((at for at, line in enumerate(lines) if "error:" in line), 0)
        told = "\n".join(lines[first : first + _ERROR_LINES])
        raise SourceError(f"The module does not compile (exit code {done.returncode}):\n{told}", "", "compile-error")


def read_flow(python: str, flow: Path, alone: tuple[str, Path] | None = None) -> list[str]:
    """The calls of dispatches in a module of the flow phase, as lines of JSON; none where IREE's parser is not there.

    Args:
        python: with `iree.compiler`.
        flow: the module's text.
        alone: a call, and where to write a module that makes it alone.
    """
    command = [python, str(IR_WORKER), str(flow), *((alone[0], str(alone[1])) if alone else ())]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=_CHECK_S)
    return [line for line in done.stdout.splitlines() if line.startswith("{")]


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return clean_line(lines[-1] if lines else "it said nothing")


TRACE: Final = "--iree-flow-trace-dispatch-tensors"
"""Makes a module hand the tensors of every dispatch to the runtime's debug sink (iree/compiler/Dialect/Flow)."""

_LOCAL: Final = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)
_DRIVERS: Final = {"local-sync": _LOCAL, "local-task": _LOCAL}
_SOFTWARE_VULKAN: Final = "llvmpipe"
"""Mesa's Vulkan on the CPU: shaders compiled for another target compute wrong values on it, without an error."""


class Side(Struct, frozen=True):
    """How one side is compiled and run.

    Attributes:
        name: `A` or `B`.
        compiler: the program `iree-compile`.
        python: a Python that has `iree.runtime`.
        device: of the runtime, such as `local-task`, `vulkan`, `cuda://0`.
        flags: of the compiler, besides those that the device asks for.
        runtime_flags: of the runtime, such as `--task_topology_group_count=1`.
        parameters: files of parameters, `SCOPE=FILE` or `FILE`.
        before: compiled modules that are loaded before the one that is run.
    """

    name: str
    compiler: str
    python: str
    device: str
    flags: tuple[str, ...] = ()
    runtime_flags: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


def target_flags(device: str, hardware: str, flags: Sequence[str]) -> list[str]:
    """The flags that compile for a device; none where the user's own flags name a target.

    Args:
        device: of the runtime.
        hardware: the name that the runtime has for it, or "".
        flags: the user's.
    """
    if any(flag.startswith(("--iree-hal-target-device", "--iree-hal-target-backends")) for flag in flags):
        return []
    driver = device.partition("://")[0]
    made = list(_DRIVERS.get(driver, (f"--iree-hal-target-device={driver}",)))
    if driver == "vulkan" and _SOFTWARE_VULKAN in hardware and not _has(flags, "--iree-vulkan-target"):
        made.append(f"--iree-vulkan-target={_SOFTWARE_VULKAN}")
    return [flag for flag in made if not _has(flags, flag.partition("=")[0])]


def _has(flags: Sequence[str], name: str) -> bool:
    return any(flag == name or flag.startswith(f"{name}=") for flag in flags)


def label(side: Side, other: Side) -> str:
    """The side in words, by what it does not share with the other: `A (local-task)`, `B (--iree-opt-level=O3)`."""
    parts = [] if side.device == other.device else [side.device]
    parts += [flag for flag in side.flags if flag not in other.flags]
    if side.compiler != other.compiler:
        parts.append(side.compiler)
    return f"{side.name} ({' '.join(parts)})" if parts else side.name


_LINES: Final = 4


class Operation(Struct, frozen=True):
    """An operation of a dispatch, and where it is in the user's source."""

    name: str = ""
    file: str = ""
    line: int = 0
    column: int = 0


class DispatchCall(Struct, frozen=True):
    """One call of a dispatch in the program.

    Attributes:
        call: `EXECUTABLE::FUNCTION`.
        function: that makes the call; "" for an initializer.
        operations: that the dispatch is made of.
        reason: why it can't stand alone, or "".
        body: a digest of its code without names.
        made_of: its types, arithmetic and source places as text; "" where no place is known.
    """

    call: str = ""
    function: str = ""
    operations: tuple[Operation, ...] = ()
    reason: str = ""
    body: str = ""
    made_of: str = ""

    def same(self, other: DispatchCall) -> bool:
        """Whether both compute the same (K1)."""
        return bool(self.body) and (self.body == other.body or ("" != self.made_of == other.made_of))


def calls_in(python: str, flow: Path) -> list[DispatchCall]:
    """The calls of a module in the flow phase; none where IREE's parser is not there.

    Args:
        python: with `iree.compiler`.
        flow: the module's text.
    """
    decoder = msgspec.json.Decoder(ready(DispatchCall))
    return [decoder.decode(line) for line in read_flow(python, flow)]


def place_of(operations: Sequence[Operation], *, full: bool = False) -> str:
    """`linalg.generic at m.mlir:14, :20`: the first operation, and the lines of all that were fused; "" if unknown.

    Args:
        operations: of a dispatch.
        full: with the file's whole path.
    """
    placed = [one for one in operations if one.file]
    if not placed:
        return ""
    first = placed[0]
    lines = dict.fromkeys(one.line for one in placed[1:] if one.file == first.file and one.line != first.line)
    more = "".join(f", :{line}" for line in [*lines][:_LINES])
    return f"{first.name} at {first.file if full else Path(first.file).name}:{first.line}{more}"


class Both(Struct, frozen=True):
    """The calls of two sides.

    Attributes:
        sides: the calls of each.
        mates: see counterparts; None if a side's could not be read, or the sides are of one module: then equal names
            are all that is known.
    """

    sides: tuple[tuple[DispatchCall, ...], tuple[DispatchCall, ...]] = ((), ())
    mates: Mapping[str, str] | None = None

    @property
    def known(self) -> bool:
        """Whether both sides could be read."""
        return all(self.sides)

    def operations(self, name: str, side: int = 0) -> tuple[Operation, ...]:
        """What a dispatch of a side is made of."""
        return next((one.operations for one in self.sides[side] if one.call == name), ())


def calls_of_both(pythons: tuple[str, str], flows: tuple[Path, Path]) -> Both:
    """Read the modules of two sides in the flow phase; only one where they are equal.

    Args:
        pythons: with `iree.compiler`, of each side.
        flows: the modules' texts.
    """
    one = tuple(calls_in(pythons[0], flows[0]))
    same = flows[0].read_bytes() == flows[1].read_bytes()
    other = one if same else tuple(calls_in(pythons[1], flows[1]))
    return Both((one, other), counterparts(one, other) if one and other else None)


def counterparts(one: Sequence[DispatchCall], other: Sequence[DispatchCall]) -> Mapping[str, str]:
    """For each dispatch of a side the one of the other that computes the same, by name; none is there twice."""
    here, there = {call.call: call for call in one}, {call.call: call for call in other}
    found = {name: name for name, call in here.items() if name in there and call.same(there[name])}
    left = [call for name, call in there.items() if name not in found]
    for name, call in here.items():
        mate = None if name in found else next((each for each in left if call.same(each)), None)
        if mate is not None:
            found[name] = mate.call
            left.remove(mate)
    return found


_FILE: Final = lazy_re(r"(?P<before>(?:(?:\d++x)*+[a-z]++\d\w*+=)?[@+]|\*)(?P<path>.+)", re.DOTALL)
_NO_VALUE: Final = lazy_re(r"(?:\d+x)*[a-z]+\d\w*")


def absolute(spec: str) -> str:
    """The same input for a process that runs elsewhere."""
    match = _FILE.fullmatch(spec)
    return spec if match is None else f"{match['before']}{Path(match['path']).resolve()}"


def zeros(spec: str) -> str:
    """An input without values is zeros for `iree-run-module`; here it would be random."""
    return f"{spec}=0" if _NO_VALUE.fullmatch(spec) else spec
