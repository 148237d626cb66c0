"""The guard: a process of its own that leaves the target running however gdb and livedbg end.

It starts before the first touch (`python -I -S guard.py TARGET START_TICKS GDB LIVEDBG SINCE_TICKS`), says `ready`
when it watches, and ends with the touch. Its input is a pipe that only livedbg holds: a byte on it is a clean end, its
end is livedbg's death. Nothing of livedbg is imported: what it needs is in this file and in the standard library.

Why a target is left stopped: gdb attaches and interrupts by SIGSTOP (gdb/linux-nat.c), and a tracer that dies before
it took that signal back leaves it to the target (kernel/ptrace.c, __ptrace_unlink). SIGCONT removes the signals that
are still pending as well (kernel/signal.c, prepare_signal).

Invariants:
    W1. It sends SIGCONT only when gdb is gone or has let the target go, and only to what is stopped or about to be:
        the target, and children that it started since (gdb sees them first, stopped).
    W2. A target that is gone, or whose number another process has by now, gets nothing.
    W3. When livedbg dies, gdb is asked to end (SIGTERM: it detaches), and made to end if it doesn't.
    W4. When gdb or livedbg are themselves stopped while the target stands, gdb is ended in the same way.
    W5. No terminal, hang-up or Ctrl-C ends it; it ends by itself with gdb or the target.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_LOOK_S = 0.25
_GDB_ENDS_S = 3.0
_WATCH_S = 1.5  # a thread that sleeps in the kernel takes a pending SIGSTOP late
_STOP_PENDING = 1 << (signal.SIGSTOP - 1)


def main(target: int, start_ticks: int, gdb: int, livedbg: int, since_ticks: int) -> str:
    """Watch until gdb or the target is gone.

    Args:
        target: the process that is touched.
        start_ticks: when it started, in clock ticks since boot.
        gdb: its tracer to be.
        livedbg: who started us.
        since_ticks: when the touch began, for a guard that replaces another one; 0 for the first.

    Returns:
        What was done: `gone`, `fine`, or `woken`.
    """
    target_fd, gdb_fd = _pidfd(target), _pidfd(gdb)
    if target_fd is None or _start_ticks(target) != start_ticks:
        return "gone"
    os.write(1, b"ready\n")
    clean = _watch(target, target_fd, gdb, gdb_fd, livedbg) if gdb_fd is not None else False
    if _readable(target_fd, 0):
        return "gone"
    since_ticks = since_ticks or _start_ticks(os.getpid())
    return "woken" if _wake(target, target_fd, since_ticks, 0.0 if clean else _WATCH_S) else "fine"


def _watch(target: int, target_fd: int, gdb: int, gdb_fd: int, livedbg: int) -> bool:
    """Until gdb or the target is gone; whether livedbg said that all is well."""
    poll = select.poll()
    for fd in (0, target_fd, gdb_fd):
        poll.register(fd, select.POLLIN)
    stood = 0
    while True:
        ready = {fd for fd, _ in poll.poll(_LOOK_S * 1000)}
        if target_fd in ready or gdb_fd in ready:
            return False
        if 0 in ready:
            if os.read(0, 1):
                return True
            _end(gdb, gdb_fd)
            return False
        stuck = "T" in (_state(gdb), _state(livedbg)) and _stands(target)
        stood = stood + 1 if stuck else 0
        if stood > 1:
            _end(gdb, gdb_fd)
            return False


def _end(gdb: int, gdb_fd: int) -> None:
    """End gdb: it detaches at SIGTERM, also where it was stopped; it is killed if that takes too long."""
    for number in (signal.SIGTERM, signal.SIGCONT):
        _send(gdb_fd, number)
    if not _readable(gdb_fd, _GDB_ENDS_S):
        _send(gdb_fd, signal.SIGKILL)
        _readable(gdb_fd, _GDB_ENDS_S)


def _wake(target: int, target_fd: int, since_ticks: int, watch_s: float) -> bool:
    """Let the target go on where gdb left it stopped; look again for a while."""
    end = time.monotonic() + watch_s
    woken = False
    while not _readable(target_fd, 0):
        if _left_stopped(target):
            woken = True
            _send(target_fd, signal.SIGCONT)
        for child in _children_since(target, since_ticks):
            child_fd = _pidfd(child)
            if child_fd is not None and _field(f"/proc/{child}/stat", 1) == str(target) and _left_stopped(child):
                woken = True
                _send(child_fd, signal.SIGCONT)
            if child_fd is not None:
                os.close(child_fd)
        if time.monotonic() >= end:
            break
        time.sleep(0.01)
    return woken


def _children_since(target: int, since_ticks: int) -> list[int]:
    """Children that started no earlier; [] where the kernel doesn't list them (CONFIG_PROC_CHILDREN)."""
    found = {int(word) for task in _tasks(target) for word in _read(task + "/children").split()}
    return [child for child in found if _start_ticks(child) >= since_ticks]


def _left_stopped(pid: int) -> bool:
    """Whether a thread without a tracer is stopped, or has a SIGSTOP to come."""
    for task in _tasks(pid):
        fields = dict(line.split(":\t", 1) for line in _read(task + "/status").splitlines() if ":\t" in line)
        pending = int(fields.get("SigPnd", "0"), 16) | int(fields.get("ShdPnd", "0"), 16)
        if fields.get("TracerPid", "0") == "0" and (fields.get("State", "")[:1] == "T" or pending & _STOP_PENDING):
            return True
    return False


def _stands(target: int) -> bool:
    return any(_field(task + "/stat", 0) in ("t", "T") for task in _tasks(target))


def _state(pid: int) -> str:
    return _field(f"/proc/{pid}/stat", 0)


def _start_ticks(pid: int) -> int:
    return int(_field(f"/proc/{pid}/stat", 19) or -1)


def _field(path: str, number: int) -> str:
    """A field behind the name in a `stat` file (proc_pid_stat(5)); "" when it is gone."""
    fields = _read(path).rpartition(")")[2].split()
    return fields[number] if fields else ""


def _tasks(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/task/{tid}" for tid in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - no imports
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - no imports
            return file.read()
    except OSError:
        return ""


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _readable(fd: int, limit_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(limit_s * 1000))


def _send(fd: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(fd, number)
    except OSError:
        pass  # it is gone, or not ours to signal


if __name__ == "__main__":
    for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    said = main(*map(int, sys.argv[1:6]))
    try:
        os.write(1, said.encode() + b"\n")
    except OSError:
        pass  # nobody is left to hear it
