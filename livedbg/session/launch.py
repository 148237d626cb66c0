"""Launched commands: started with their output in files, and waited for.

Invariants:
    launch.C1. The command runs in our environment, with what the launch adds (a recipe, Python's fault handler) and
        nothing else (behind a gate, where the shell may add PWD), in a session of its own (a Ctrl-C meant for livedbg
        doesn't reach it), with no input.
    launch.C2. `end` leaves no process of its session or below it behind, unless told to let it run
        (livedbg.linux.family).
    launch.C3. It is waited for only once it has ended (pidfd_open(2)): while a thread of ours traces it, wait(2) would
        take a stop for its end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from livedbg.linux.ending import note_end
from livedbg.linux.family import Family
from livedbg.linux.procfs import read_stat
from livedbg.model.errors import SourceError, UsageError
from livedbg.model.request import GATE
from livedbg.session.adapter import TargetProcess
from livedbg.session.core_files import ask_for, want_none_of

_CHECK_S: Final = 0.5
_KILLED_S: Final = 10.0  # how long what was killed, and what was born meanwhile, may take to end


def launch_folder() -> Path:
    """Make a folder for the output of one launched command, in the user's state directory.

    Raises:
        SourceError: it can't be made.
    """
    from platformdirs import user_state_path

    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = user_state_path("livedbg") / "launches" / f"{stamp}-{os.getpid()}"
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise _no_room(folder, error) from None
    return folder


class Launched:
    """A command that livedbg started.

    Attributes:
        folder: with `stdout.log` and `stderr.log`.
        leaves_cores: a fatal fault leaves a core, which is to be removed.
    """

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, gate: int | None = None) -> None:
        self._process = process
        self._gate = gate
        self.leaves_cores = False
        self.folder = folder
        self.stdout = folder / "stdout.log"
        self.stderr = folder / "stderr.log"
        start: int | None = None
        cwd: Path | None = None
        with contextlib.suppress(OSError):
            start = read_stat(process.pid).start_ticks
        with contextlib.suppress(OSError):  # ours may have been removed
            cwd = Path.cwd()
        self.target = TargetProcess(process.pid, start, self.stdout, self.stderr, cwd)
        self._pidfd = os.pidfd_open(process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask_for_cores(self) -> None:
        """Make it leave a core after a fault (livedbg.session.core_files), if possible. Call it before `go`."""
        self.leaves_cores = self.target.cwd is not None and ask_for(self.pid, self.target.cwd)

    def leave(self) -> None:
        """Detach and let the process run on; nobody will read its cores (core_files.C3)."""
        self.go()
        if self.leaves_cores:
            family = Family(self.pid, self.target.start_ticks)
            family.scan()
            for pid in family.pids:
                want_none_of(pid)
            family.close()

    def go(self) -> None:
        """Let a command that was started behind a gate begin; the second call does nothing."""
        gate, self._gate = self._gate, None
        if gate is not None:
            with contextlib.suppress(BrokenPipeError):  # it was ended meanwhile
                os.write(gate, b"go\n")
            os.close(gate)

    @property
    def exit_code(self) -> int | None:
        """The exit code as in a shell (128 + signal); None while the process runs."""
        code = self._collected() if self._has_ended(0) else None
        return None if code is None else code if code >= 0 else 128 - code

    def _collected(self) -> int | None:
        """Collect the exit status and keep it for later queries (livedbg.linux.ending.noted_end)."""
        with contextlib.suppress(ChildProcessError):  # it was collected already
            end = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if end is not None:
                status = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
                note_end(self.pid, self.target.start_ticks, status)
        return self._process.poll()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the process; return its exit code, or None on timeout."""
        self._has_ended(timeout_s)
        return self.exit_code

    def _has_ended(self, timeout_s: float | None) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))

    def end(self, grace_s: float = 5.0) -> None:
        """End the process and all its descendants: SIGTERM, and SIGKILL to the rest after `grace_s`."""
        if self._gate is not None:
            os.close(self._gate)  # nobody goes through any more
            self._gate = None
        family = Family(self.pid, self.target.start_ticks)
        try:
            family.scan()
            family.send(signal.SIGTERM)
            family.send(signal.SIGCONT)  # one that is stopped can't end
            limit = time.monotonic() + grace_s
            while not family.wait(_CHECK_S) and time.monotonic() < limit:
                pass
            limit = time.monotonic() + _KILLED_S
            while (family.scan() or not family.wait(0)) and time.monotonic() < limit:
                family.send(signal.SIGKILL)  # also to what was born meanwhile
                family.wait(_CHECK_S)
        finally:
            family.close()
        self.wait()


def launch(
    argv: Sequence[str], folder: Path, *, gated: bool = False, environment: Mapping[str, str] | None = None
) -> Launched:
    """Start a command.

    Args:
        argv: the program and its arguments; no shell parses them.
        folder: for its output (`launch_folder`); removed again if the command can't be run.
        gated: wait, before the program is executed, until `Launched.go` is called.

    Raises:
        UsageError: there is no such program, or it can't be run.
        SourceError: its output can't be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            out, err = (stack.enter_context((folder / name).open("wb")) for name in ("stdout.log", "stderr.log"))
        except OSError as error:
            raise _no_room(folder, error) from None
        way_in, gate = os.pipe2(os.O_CLOEXEC) if gated else (None, None)
        try:
            if gated and shutil.which(argv[0]) is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            process = subprocess.Popen(
                [*GATE, *argv] if gated else list(argv),
                stdin=subprocess.DEVNULL if way_in is None else way_in,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        except OSError as error:
            if gate is not None:
                os.close(gate)
            shutil.rmtree(folder, ignore_errors=True)
            raise UsageError(
                f"{argv[0]} can't be run: {error.strerror}.", "check the command after --", "launch"
            ) from None
        finally:
            if way_in is not None:
                os.close(way_in)
    return Launched(process, folder, gate)


def _no_room(folder: Path, error: OSError) -> SourceError:
    return SourceError(
        f"The output can't be written to {folder}: {error.strerror}.",
        "export XDG_STATE_HOME=DIR with a writable directory",
        "state-folder",
    )
