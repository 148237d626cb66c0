"""Keep the file that a test run writes to out of sight of the programs under test.

livedbg reads the logs of a process that holds the other end of a target's pipe. The test runner is such a process.
During `make test > out.txt` it has out.txt open, so livedbg takes that file for a log of the job. Therefore a `cat`
writes the file, and the test run writes to a pipe.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["write_through_pipe"]

_LAST_LINES_S: Final = 30.0
"""How long the end of the run waits until `cat` has written everything."""


def write_through_pipe() -> None:
    """Replace each file that this process writes its output to by a pipe to a `cat` that writes the file.

    Call it once, early. pytest may already capture output: then its copies of the descriptors are replaced.
    """
    files: dict[tuple[int, int], list[int]] = {}
    for entry in Path("/proc/self/fd").iterdir():
        fd = int(entry.name)
        with contextlib.suppress(OSError):  # the descriptor of this very listing
            if _is_output_file(fd):
                found = os.fstat(fd)
                files.setdefault((found.st_dev, found.st_ino), []).append(fd)
    for descriptors in files.values():
        _insert_cat(descriptors)


def _is_output_file(fd: int) -> bool:
    """True for a named file that is open for writing only, as the shell opens it for `>`.

    pytest's capture files have no name, and a coverage database is open for reading too.
    """
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or not found.st_nlink:
        return False
    info = Path(f"/proc/self/fdinfo/{fd}").read_text()
    flags = next(line.split()[1] for line in info.splitlines() if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE == os.O_WRONLY


def _insert_cat(descriptors: list[int]) -> None:
    """Let a `cat` write the file behind some descriptors, and make them its input."""
    cat = subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, stdout=descriptors[0], stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert cat.stdin is not None
    for fd in descriptors:
        os.dup2(cat.stdin.fileno(), fd, inheritable=os.get_inheritable(fd))
    cat.stdin.close()
    pipe = os.fstat(descriptors[0])
    runner = os.getpid()

    def finish() -> None:
        """Wait for the last lines, so that the file is whole when the run has ended."""
        if os.getpid() != runner:  # a fork of it
            return
        sys.stdout.flush()
        sys.stderr.flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for entry in Path("/proc/self/fd").iterdir():  # pytest's copies come and go, and 1 and 2 are theirs again
            with contextlib.suppress(OSError):  # the descriptor of this very listing
                if os.path.samestat(os.fstat(int(entry.name)), pipe):
                    os.dup2(nowhere, int(entry.name))
        with contextlib.suppress(subprocess.TimeoutExpired):  # something that was left running still holds the pipe
            cat.wait(_LAST_LINES_S)

    atexit.register(finish)
