"""Functions called in a forked process, with limits."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None)
_at_work: set[int] = set()
"""The forked processes of this process whose output is being read."""


def output(
    function: Callable[[Callable[[bytes], object]], None],
    cpu_s: float,
    wall_s: float,
    octets: int = resource.RLIM_INFINITY,
) -> Iterator[bytes]:
    """Call `function` in a forked process; give the lines that it says, as it says them.

    Args:
        function: is given what to say lines with; each ends with a line feed.
        cpu_s: the process is killed when it has used so much CPU time.
        wall_s: and when it has said nothing for so long.
        octets: it gets no more memory than this (`MemoryError`).

    Raises:
        TimeoutError: it was killed for its limits.
        RuntimeError: it ended otherwise than by a return of `function`; its traceback is on stderr.
    """
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _at_work.clear()
            os.close(source)
            os.setpgid(0, 0)
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 1, int(cpu_s) + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (octets, octets))
            function(lambda line: os.write(sink, line))
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(status)
    os.close(sink)
    _at_work.add(pid)
    rest, late = b"", False
    with open(source, "rb", buffering=0) as pipe:  # noqa: PTH123 (a descriptor)
        deadline = time.monotonic() + wall_s
        while not late:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            late = not ready
            data = pipe.read(1 << 16) if ready else b""
            if not data:
                break
            deadline = time.monotonic() + wall_s
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
    if late:
        os.killpg(pid, signal.SIGKILL)
    _, ended = os.waitpid(pid, 0)
    _at_work.discard(pid)
    _end_left_over()
    if late or (os.WIFSIGNALED(ended) and os.WTERMSIG(ended) in (signal.SIGKILL, signal.SIGXCPU)):
        raise TimeoutError
    if ended:
        raise RuntimeError(f"a forked process ended with wait status {ended}")


def adopt() -> None:
    """Become the parent of the programs that children of this process leave behind."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def side_by_side(
    function: Callable[[int, Callable[[bytes], object]], None], count: int, say: Callable[[bytes], object]
) -> None:
    """Call `function` in several forked processes, which say lines as this process does.

    Args:
        function: is given its number, from 0 on, and what to say whole lines with.
        count: how many processes.
        say: how this process says lines.

    Raises:
        RuntimeError: one ended otherwise than by a return of `function`.
    """
    pids = []
    with tempfile.NamedTemporaryFile() as lock:
        for number in range(count):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    _at_work.clear()
                    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                    adopt()
                    function(number, lambda line: _in_turn(lock.fileno(), say, line))
                    status = 0
                except BaseException:
                    traceback.print_exc(file=sys.__stderr__)
                finally:
                    os._exit(status)
            pids.append(pid)
        ends = [os.waitpid(pid, 0)[1] for pid in pids]
    if any(ends):
        raise RuntimeError(f"forked processes ended with wait statuses {ends}")


def _in_turn(lock: int, say: Callable[[bytes], object], line: bytes) -> None:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    say(line)
    fcntl.lockf(lock, fcntl.LOCK_UN)


def _end_left_over() -> None:
    """Kill and reap the programs that a forked process has left behind (`adopt`)."""
    while True:
        children = {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
        if not children - _at_work:
            return
        for pid in children - _at_work:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
