"""IREE's compiler and runtime as programs: find them, run them with a time limit, and report their errors.

Also a side of a comparison (compiler, flags, device), the dispatches of a compiled module, and inputs as words of
`iree-run-module --input=`: a number (`3.14`), `4x8xf32=0.5`, `4x8xf32=@FILE.bin` or `=+FILE.bin` (raw values),
`@FILE.npy`, `+FILE.npy` (the next array of the previous file), `*FILE.npy` (all arrays of a file). worker_inputs.py
reads them.

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
    """Return the path of `iree-compile`: the named one, or next to this Python, or in PATH; else raise ToolMissing."""
    beside = Path(sys.executable).with_name("iree-compile")
    found = shutil.which(named or (str(beside) if beside.exists() else "iree-compile"))
    if found is None:
        raise ToolMissing(f"{named or 'iree-compile'} is not there.", _INSTALL, "no-iree-compile")
    return found


@cache
def find_python(named: str | None) -> str:
    """Return a Python that has `iree.runtime`: the named one, or this one; else raise ToolMissing."""
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
    """Return a driver's name for its devices, "" if it has none; raise SourceError if the driver has no device here."""
    driver = device.partition("://")[0]
    try:
        done = _run([python, str(RUN_WORKER), "devices", driver])
    except subprocess.TimeoutExpired:
        said = f"The driver {driver} did not list its devices within {_CHECK_S:g} s."
        raise SourceError(said, "livedbg doctor", "no-device") from None
    if done.returncode:
        raise SourceError(f"No device for {device}: {_last(done.stderr)}", "livedbg doctor", "no-device")
    names = [json.loads(line).get("name", "") for line in _objects(done)]
    if not names:
        raise SourceError(f"The driver {driver} has no device on this host.", "livedbg doctor", "no-device")
    return clean_line(" ".join(names))


@cache
def functions_of(python: str, module: Path) -> dict[str, str]:
    """Return a compiled module's exported declarations by name; raise SourceError if the runtime refuses the module."""
    done = _run([python, str(RUN_WORKER), "functions", str(module)])
    if done.returncode:
        raise SourceError(f"{module.name} can't be loaded: {_last(done.stderr)}", "", "no-module")
    told = map(json.loads, _objects(done))
    return {str(one.get("name", "")): str(one.get("declaration", "")) for one in told}


def compile_module(command: Sequence[str], limit_s: float) -> None:
    """Run the compiler; raise SourceError with its diagnostics, or if it takes longer than `limit_s` seconds."""
    try:
        done = _run(command, limit_s)
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
    """Return the dispatch calls in a module of the flow phase, as lines of JSON; [] without IREE's parser.

    Args:
        python: with `iree.compiler`.
        flow: the module's text.
        alone: a call, and where to write a module with only that call.
    """
    return _objects(_run([python, str(IR_WORKER), str(flow), *((alone[0], str(alone[1])) if alone else ())]))


def _run(command: Sequence[str], limit_s: float = _CHECK_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=limit_s)


def _objects(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines of JSON objects that a worker printed."""
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
    """The compiler, runtime and flags of one side.

    Attributes:
        name: `A` or `B`.
        compiler: the program `iree-compile`.
        python: a Python that has `iree.runtime`.
        device: of the runtime, such as `local-task`, `vulkan`, `cuda://0`.
        flags: of the compiler, in addition to the device's.
        runtime_flags: such as `--task_topology_group_count=1`.
        parameters: parameter files, `SCOPE=FILE` or `FILE`.
        before: compiled modules to load before the main one.
    """

    name: str
    compiler: str
    python: str
    device: str
    flags: tuple[str, ...] = ()
    runtime_flags: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    def same(self, other: Side) -> bool:
        """Return whether both compile and run alike: then only what is not deterministic differs."""
        return (self.device, self.flags, self.compiler) == (other.device, other.flags, other.compiler)


def target_flags(device: str, hardware: str, flags: Sequence[str]) -> list[str]:
    """Return the flags that compile for a device or its hardware; [] if the user's flags name a target."""
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
    """Return the side's name with its differences: `A (local-task)`, `B (--iree-opt-level=O3)`."""
    parts = [] if side.device == other.device else [side.device]
    parts += [flag for flag in side.flags if flag not in other.flags]
    if side.compiler != other.compiler:
        parts.append(side.compiler)
    return f"{side.name} ({' '.join(parts)})" if parts else side.name


_LINES: Final = 4


class Operation(Struct, frozen=True):
    """An operation of a dispatch, with its place in the user's source."""

    name: str = ""
    file: str = ""
    line: int = 0


class DispatchCall(Struct, frozen=True):
    """One call of a dispatch in the program.

    Attributes:
        call: `EXECUTABLE::FUNCTION`.
        function: the calling function; "" for an initializer.
        operations: of the dispatch.
        reason: why it can't stand alone, or "".
        body: a digest of its code without names.
        made_of: its types, arithmetic and source places as text; "" if no place is known.
    """

    call: str = ""
    function: str = ""
    operations: tuple[Operation, ...] = ()
    reason: str = ""
    body: str = ""
    made_of: str = ""

    def same(self, other: DispatchCall) -> bool:
        """Return whether both compute the same (K1)."""
        return bool(self.body) and (self.body == other.body or ("" != self.made_of == other.made_of))


def calls_in(python: str, flow: Path) -> list[DispatchCall]:
    """Return the calls of a module in the flow phase; [] if `python` lacks IREE's parser."""
    decoder = msgspec.json.Decoder(ready(DispatchCall))
    return [decoder.decode(line) for line in read_flow(python, flow)]


def place_of(operations: Sequence[Operation], *, full: bool = False) -> str:
    """Return the first operation with the lines of all fused ones: `linalg.generic at m.mlir:14, :20`, or ""."""
    placed = [one for one in operations if one.file]
    if not placed:
        return ""
    first = placed[0]
    lines = dict.fromkeys(one.line for one in placed[1:] if one.file == first.file and one.line != first.line)
    more = "".join(f", :{line}" for line in [*lines][:_LINES])
    return f"{first.name} at {first.file if full else Path(first.file).name}:{first.line}{more}"


class Both(Struct, frozen=True):
    """The calls of two sides, and their mates (`counterparts`).

    `mates` is None if a side could not be read, or both are of one module: then only equal names are known.
    """

    sides: tuple[tuple[DispatchCall, ...], tuple[DispatchCall, ...]] = ((), ())
    mates: Mapping[str, str] | None = None

    @property
    def known(self) -> bool:
        return all(self.sides)

    def operations(self, name: str, side: int = 0) -> tuple[Operation, ...]:
        """Return the operations of a side's dispatch."""
        return next((one.operations for one in self.sides[side] if one.call == name), ())


def calls_of_both(pythons: tuple[str, str], flows: tuple[Path, Path]) -> Both:
    """Read two sides' modules in the flow phase by Pythons with `iree.compiler`; only once if they are equal."""
    one = tuple(calls_in(pythons[0], flows[0]))
    same = flows[0].read_bytes() == flows[1].read_bytes()
    other = one if same else tuple(calls_in(pythons[1], flows[1]))
    return Both((one, other), counterparts(one, other) if one and other else None)


def counterparts(one: Sequence[DispatchCall], other: Sequence[DispatchCall]) -> Mapping[str, str]:
    """Map each dispatch of a side to one of the other that computes the same; each occurs once."""
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
    """Return an input with an absolute path."""
    match = _FILE.fullmatch(spec)
    return spec if match is None else f"{match['before']}{Path(match['path']).resolve()}"


def zeros(spec: str) -> str:
    """Return an input without values as zeros, as for `iree-run-module`; here it would be random."""
    return f"{spec}=0" if _NO_VALUE.fullmatch(spec) else spec
