"""IREE's compiler and runtime as programs: found, run with a time limit, and their errors told."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from livedbg.model.errors import SourceError, ToolMissing
from livedbg.text.sanitize import clean, clean_line

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
