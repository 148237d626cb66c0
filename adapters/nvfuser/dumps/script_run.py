"""Runs a reproduction script in a process of its own, and compares its failure with the original one."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from livedbg.adapters.nvfuser.dumps.failures import Failure, parts_of
from livedbg.adapters.nvfuser.dumps.statement_reader import read_statements
from livedbg.adapters.nvfuser.dumps.statements import Failed
from livedbg.model.errors import ToolMissing
from livedbg.text.sanitize import clean_bytes, clean_line

_TAIL: Final = 64 * 1024
_MOST: Final = 1 << 30  # bytes of output that are kept
_NAME: Final = re.compile(r"\b(?:__tmp_)?nvfuser_\w+?_f\d+_c\d+_r\d+_g\d+(?:\.cu)?")
_DIGITS: Final = re.compile(r"0x[0-9a-f]+|\d+")
_FRAME: Final = re.compile(r"^(?:frame #|<omitting|\s|Exception raised from)")


@dataclass(frozen=True, slots=True)
class Rerun:
    """How a script ended.

    Attributes:
        status: exit status; below 0: the signal that ended it; None: the time limit did.
        failures: nvFuser's errors in its output.
        last: the last line of its output that says something.
    """

    status: int | None
    failures: tuple[Failure, ...]
    last: str


def run_script(script: Path, python: str, timeout_s: float) -> Rerun:
    """Run a script; its kernels' dumps go to a folder that is removed afterwards.

    Args:
        script: the script.
        python: the interpreter.
        timeout_s: after which it is ended.

    Raises:
        ToolMissing: the interpreter can't be started.
    """
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
    """Whether two errors are the same but for addresses, numbers and the names of kernels."""
    return _plain(one.summary) == _plain(other.summary) and (one.function, one.file) == (other.function, other.file)


def _plain(text: str) -> str:
    return " ".join(_DIGITS.sub("#", _NAME.sub("KERNEL", text)).split())


def compare(before: list[Failure], rerun: Rerun, limit_s: float) -> tuple[str, str]:
    """Whether it still fails.

    Args:
        before: the errors that it is to show again.
        rerun: how it ended now.
        limit_s: the time limit.

    Returns:
        `same`, `different`, `passed` or `limit`; and a sentence.
    """
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
