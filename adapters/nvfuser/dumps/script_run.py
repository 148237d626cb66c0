"""Run a reproduction script in a process of its own, and compare its failure with the original one.

Scripts can also be checked without running them: by parsing, and by their inputs.
"""

from __future__ import annotations

import ast
import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from livedbg.adapters.nvfuser.dumps.failures import Failure, parts_of
from livedbg.adapters.nvfuser.dumps.ir import Number
from livedbg.adapters.nvfuser.dumps.statement_reader import read_statements
from livedbg.adapters.nvfuser.dumps.statements import Failed
from livedbg.model.errors import ToolMissing
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_bytes, clean_line

_TAIL: Final = 64 * 1024
_MOST: Final = 1 << 30  # bytes of output that are kept
_NAME: Final = lazy_re(r"\b(?:__tmp_)?nvfuser_\w+?_f\d+_c\d+_r\d+_g\d+(?:\.cu)?")
_DIGITS: Final = lazy_re(r"0x[0-9a-f]+|\d+")
_FRAME: Final = lazy_re(r"^(?:frame #|<omitting|\s|Exception raised from)")


@dataclass(frozen=True, slots=True)
class Rerun:
    """The result of running a script.

    Attributes:
        status: exit status; negative: the signal that ended it; None: the time limit did.
        failures: nvFuser's errors in its output.
        last: the last meaningful line of its output.
    """

    status: int | None
    failures: tuple[Failure, ...]
    last: str


def run_script(script: Path, python: str, timeout_s: float) -> Rerun:
    """Run a script, its kernels' dumps in a folder that is removed; raise ToolMissing if Python can't be started."""
    with tempfile.TemporaryDirectory(prefix="livedbg-repro-") as folder:
        output = Path(folder, "output.log")
        with output.open("wb") as file:
            try:
                child = subprocess.Popen(
                    [python, str(script.absolute())],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise ToolMissing(
                    f"{python} can't be started: {error.strerror}.",
                    "name the Python that has nvFuser with --python EXE",
                ) from None
            status: int | None
            with contextlib.suppress(OSError):  # it has ended already
                resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (_MOST, _MOST))
            try:
                status = child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                with contextlib.suppress(OSError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        failures = [said.statement.failure for said in read_statements(output) if isinstance(said.statement, Failed)]
        return Rerun(status, tuple(failures), _last(output))


def _last(output: Path) -> str:
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _TAIL))
        lines = clean_bytes(file.read()).split("\n")
    said = [line for line in lines if line.strip() and not _FRAME.match(line)]
    return clean_line(said[-1], 500) if said else ""


def alike(one: Failure, other: Failure) -> bool:
    """Return whether two errors are the same except for addresses, numbers and the names of kernels."""
    return _plain(one.summary) == _plain(other.summary) and (one.function, one.file) == (other.function, other.file)


def _plain(text: str) -> str:
    return " ".join(_DIGITS.sub("#", _NAME.sub("KERNEL", text)).split())


def compare(before: list[Failure], rerun: Rerun, limit_s: float) -> tuple[str, str]:
    """Return how a run compares with the expected errors: `same`, `different`, `passed` or `limit`, and a sentence."""
    now = [part for failure in rerun.failures for part in parts_of(failure)]
    if any(alike(old, new) for old in before for new in now):
        new = next(new for new in now if any(alike(old, new) for old in before))
        return "same", f"It fails the same way: {new.summary} (at {new.place})"
    if now:
        was = f" Before: {before[0].summary}" if before else ""
        lead = "It fails, but differently" if before else "It fails"
        return "different", f"{lead}: {now[0].summary} (at {now[0].place}).{was}"
    if rerun.status is None:
        return "limit", f"It had not ended after {limit_s:g} s, and was ended."
    if rerun.status == 0:
        return "passed", "It does not fail: it ended with status 0."
    how = f"by signal {-rerun.status}" if rerun.status < 0 else f"with status {rerun.status}"
    said = f" Its last word: {rerun.last}" if rerun.last else ""
    return "different", f"It ended {how}, without an error of nvFuser's.{said}"


@dataclass(frozen=True, slots=True)
class ScriptInput:
    """One input of a script.

    Attributes:
        source: its expression.
        size: of a tensor.
        value: of a number.
    """

    source: str
    size: tuple[int, ...] | None = None
    value: Number | None = None


def check(text: str) -> str:
    """Return why a script is no valid Python, or ""; it is parsed, never run."""
    try:
        _parsed(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""


def inputs_of(text: str) -> list[ScriptInput]:
    """Return the inputs in a script's list `inputs = […]`; [] if there is none."""
    try:
        tree = _parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="inputs")], value=ast.List(elts=items)):
                return [_input(item, text) for item in items]
    return []


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the target's text, not of ours
        return ast.parse(text)


def _input(node: ast.expr, text: str) -> ScriptInput:
    source = ast.get_source_segment(text, node) or ast.unparse(node)
    match node:
        case ast.Call(
            func=ast.Attribute(attr="as_strided" | "make_tensor" | "empty" | "ones" | "zeros"), args=[size, *_]
        ):
            return ScriptInput(source, _numbers(size))
        case ast.Call(func=ast.Attribute(attr="randn"), args=args):
            return ScriptInput(source, _numbers(args[0] if len(args) == 1 else ast.Tuple(args)))
        case ast.Call(func=ast.Attribute(attr="randint"), args=[_, _, size, *_]):
            return ScriptInput(source, _numbers(size))
        case ast.Constant(value=bool() | int() | float() as value):
            return ScriptInput(source, value=value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return ScriptInput(source, value=-value)
    return ScriptInput(source)


def _numbers(node: ast.expr) -> tuple[int, ...] | None:
    match node:
        case ast.Tuple(elts=items) | ast.List(elts=items):
            found = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, int)]
            return tuple(found) if len(found) == len(items) else None
        case ast.Constant(value=int() as value):
            return (value,)
    return None
