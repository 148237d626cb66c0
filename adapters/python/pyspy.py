"""Run py-spy in its non-blocking JSON form, and interpret its answers and errors.

py-spy copies the interpreter's structures while the target runs. It may meet a list or a frame that is just changing
and give up: such errors are worth a retry. Error texts: py-spy 0.4 (src/main.rs, src/python_process_info.rs,
src/python_spy.rs).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from livedbg.linux import access
from livedbg.linux.ending import has_ended
from livedbg.linux.family import begun, let_go
from livedbg.linux.owner_rights import as_owner
from livedbg.model import Frame
from livedbg.model.errors import LivedbgError, TargetDenied, TargetGone, TargetUnsuitable, ToolMissing
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_TRIES: Final = 4
_PAUSE_S: Final = 0.05
_LIMIT_S: Final = 30.0
_MOST_LOCAL: Final = 200


class SpyLocal(Struct, frozen=True):
    """A local variable."""

    name: str
    repr: str | None = None


_MADE: Final = lazy_re(r"MainThread|(?:Thread|Dummy)-\d+(?: \(.*\))?|")
_MOST_NAME: Final = 60


class SpyFrame(Struct, frozen=True):
    """A frame in py-spy's output."""

    name: str
    filename: str = ""
    module: str | None = None
    line: int = 0
    locals: tuple[SpyLocal, ...] | None = None


class SpyThread(Struct, frozen=True):
    """A thread in py-spy's output.

    Attributes:
        thread_id: pthread identifier.
        os_thread_id: tid in the target's PID namespace; None before 3.11 if the target is not stopped.
        active: it ran, or may have run, when it was sampled.
    """

    pid: int
    thread_id: int
    frames: tuple[SpyFrame, ...]
    thread_name: str | None = None
    os_thread_id: int | None = None
    active: bool = False
    owns_gil: bool = False


_decoder: msgspec.json.Decoder[list[SpyThread]] = msgspec.json.Decoder(list[SpyThread])


def find_py_spy(wanted: str = "") -> str:
    """Return the path of py-spy: `wanted`, or next to this Python, or the first on PATH; else raise ToolMissing."""
    if wanted:
        found = shutil.which(wanted)
    else:
        beside = Path(sys.executable).parent / "py-spy"
        found = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if found is None:
        raise ToolMissing(
            f"{wanted or 'py-spy'} was not found, so there are no Python stacks.",
            f"{sys.executable} -m pip install py-spy",
            "py-spy-missing",
        )
    return found


def given_name(thread: SpyThread) -> str:
    """Return the user-given name of a thread, cleaned; "" for default names of `threading`."""
    name = clean_line(thread.thread_name or "", _MOST_NAME)
    return "" if _MADE.fullmatch(name) else name


def frames_of(thread: SpyThread) -> tuple[Frame, ...]:
    """Return the frames of a thread as model values, innermost first, cleaned."""
    return tuple(
        Frame(
            function=clean_line(frame.name),
            file=clean_line(frame.filename) or None,
            line=frame.line or None,
            module=clean_line(frame.module) if frame.module else None,
            language="python",
            local_variables=tuple(
                clean_line(f"{local.name}={local.repr}", _MOST_LOCAL) for local in frame.locals or ()
            ),
        )
        for frame in thread.frames
    )


class PySpy:
    """Takes dumps, one at a time.

    Args:
        program: path or name of py-spy; "" to find it.

    Attributes:
        cost_s: CPU time of the newest dump.
    """

    def __init__(self, program: str = "") -> None:
        self._wanted = program
        self._turn = asyncio.Lock()
        self.cost_s = 0.0

    async def dump(self, pid: int, *, local_variables: bool = False) -> list[SpyThread]:
        """Return the Python threads of a process with their stacks.

        Raises:
            ToolMissing: py-spy was not found.
            TargetGone: the process has ended.
            TargetDenied: no permission.
            TargetUnsuitable: no Python, or a version that py-spy doesn't know.
            LivedbgError: py-spy failed repeatedly.
        """
        program = find_py_spy(self._wanted)
        argv = [program, "dump", "--json", "--nonblocking", "--pid", str(pid)]
        if local_variables:
            argv.append("--locals")
        before = as_owner(pid)
        async with self._turn:
            before_s = _children_cpu_s()
            error = LivedbgError("py-spy was not run")
            for attempt in range(_TRIES):
                if attempt:
                    await asyncio.sleep(_PAUSE_S * attempt)
                code, out, err = await _run(before, argv)
                self.cost_s = max(0.0, _children_cpu_s() - before_s)
                if code == 0:
                    with contextlib.suppress(msgspec.DecodeError):
                        return _decoder.decode(out)
                error = _meaning(pid, program, code, err)
                if error.code != "py-spy-failed":
                    break
            raise error


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _run(before: Sequence[str], argv: Sequence[str]) -> tuple[int, bytes, str]:
    """Return exit status, standard output and standard error; kills the program when cancelled.

    With another user's rights it is started through a descriptor: that user may have no access to our folders.
    """
    environment = {**os.environ, "RUST_BACKTRACE": "0", "NO_COLOR": "1"}
    opened = [os.open(argv[0], os.O_PATH | os.O_CLOEXEC)] if before else []
    program = f"/proc/self/fd/{opened[0]}" if opened else argv[0]
    try:
        process = await begun(
            *(*before, program, *argv[1:]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=opened,
            env=environment,
        )
    finally:
        for number in opened:
            os.close(number)
    try:
        out, err = await asyncio.wait_for(process.communicate(), _LIMIT_S)
    except TimeoutError:
        return 124, b"", f"it did not exit within {_LIMIT_S:.0f} s"
    finally:
        try:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        finally:
            let_go(process)  # pipes too, also where this was cancelled
    return process.returncode or 0, out, err.decode("utf-8", "replace")


def _meaning(pid: int, program: str, code: int, text: str) -> LivedbgError:
    """Map a failed run of py-spy to an error."""
    lower = text.lower()
    if has_ended(pid):
        return TargetGone(f"Process {pid} has ended.", code="gone")
    if "permission denied" in lower or "operation not permitted" in lower:
        problem = access.access_problem(pid)
        sentence = problem.sentence if problem else f"py-spy has no permission to read process {pid}."
        remedy = problem.remedy if problem else f"sudo livedbg attach {pid}"
        return TargetDenied(sentence, remedy, "no-permission")
    if "unsupported version of python" in lower:
        return TargetUnsuitable(
            f"py-spy doesn't know the Python version of process {pid}: {_gist(text)}.",
            f"{sys.executable} -m pip install --upgrade py-spy",
            "unsupported-version",
        )
    if "failed to find python version" in lower:
        return TargetUnsuitable(f"Process {pid} runs no Python that py-spy can find.", "", "not-python")
    return LivedbgError(
        f"py-spy could not take the stacks of process {pid} (exit {code}): {_gist(text)}",
        f"run it by hand: {program} dump --nonblocking --pid {pid}",
        "py-spy-failed",
    )


def _gist(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((line.removeprefix("Error: ") for line in lines if line.startswith("Error")), "")
    return clean_line(first or (lines[0] if lines else "no message"), 200)
