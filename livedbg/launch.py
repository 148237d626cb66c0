"""Starting a command that is to be watched: its output in files, its end known.

Invariants:
    C1. The command runs in our environment unchanged, in a session of its own (a Ctrl-C meant for
        livedbg doesn't reach it), with /dev/null as its input.
    C2. `end` leaves no process of its session behind, unless it was told to let it run.
    C3. It is waited for only once it has ended (pidfd_open(2)): while a thread of ours traces it, wait(2) would
        take a stop for its end.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from livedbg.adapter import TargetProcess
from livedbg.errors import SourceError, UsageError
from livedbg.linux.procfs import read_stat

__all__ = ["Launched", "launch", "launch_folder"]


def launch_folder() -> Path:
    """A new folder for the output of one launched command, in the user's state directory.

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
        target: for the session's request.
        folder: where `stdout.log` and `stderr.log` grow.
    """

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self.folder = folder
        self.stdout = folder / "stdout.log"
        self.stderr = folder / "stderr.log"
        start: int | None = None
        with contextlib.suppress(OSError):
            start = read_stat(process.pid).start_ticks
        self.target = TargetProcess(process.pid, start, self.stdout, self.stderr)
        self._pidfd = os.pidfd_open(process.pid)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code as a shell gives it (128 + signal); None while it runs."""
        code = self._process.poll() if self._has_ended(0) else None
        return None if code is None else code if code >= 0 else 128 - code

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for its end; its exit code, or None when it still runs after `timeout_s`."""
        self._has_ended(timeout_s)
        return self.exit_code

    def _has_ended(self, timeout_s: float | None) -> bool:
        """Wait for its end."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))

    def end(self, grace_s: float = 5.0) -> None:
        """End its whole session: SIGTERM, and SIGKILL to what is left after `grace_s`."""
        limit = time.monotonic() + grace_s
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM)
            os.killpg(self.pid, signal.SIGCONT)  # one that is stopped can't end
            while time.monotonic() < limit:
                _ = self.exit_code  # so that it is no zombie
                os.killpg(self.pid, 0)  # raises when nobody is left
                time.sleep(0.02)
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()


def launch(argv: Sequence[str], folder: Path) -> Launched:
    """Start a command.

    Args:
        argv: the program and its arguments; no shell is involved.
        folder: for its output (`launch_folder`); removed again when the command can't be run.

    Raises:
        UsageError: there is no such program, or it can't be run.
        SourceError: its output can't be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            out, err = (stack.enter_context((folder / name).open("wb")) for name in ("stdout.log", "stderr.log"))
        except OSError as error:
            raise _no_room(folder, error) from None
        try:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise UsageError(
                f"{argv[0]} can't be run: {error.strerror}.", "check the command behind --", "launch"
            ) from None
    return Launched(process, folder)


def _no_room(folder: Path, error: OSError) -> SourceError:
    return SourceError(
        f"The output can't be kept in {folder}: {error.strerror}.",
        "export XDG_STATE_HOME=DIR with a folder that you can write to",
        "state-folder",
    )
