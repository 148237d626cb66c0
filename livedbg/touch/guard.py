"""The guard: a process of its own that leaves the target running however gdb and livedbg end.

It starts before the first touch (`python -I -S guard.py TARGET START_TICKS GDB LIVEDBG SINCE_TICKS`), writes `ready`
when it watches, and ends with the touch. Its input is a pipe that only livedbg holds: a byte on it is a clean end, its
end is livedbg's death. Nothing of livedbg is imported: what it needs is in this file and in the standard library.
`guard.py glance TARGET LIVEDBG` watches over a glance in the same way, as long as its input is open.

A second guard is forked before `ready`: a child of init, in a session and under a name of its own (`touch-guard`), so
that what kills livedbg's children, its session, or everything named like it does not hit both. The second one gives way
to the first, and does the same when that is killed or stopped. A target that is process 1 itself has the first one
only: it would become the parent of the second.

Why a target is left stopped: gdb attaches and interrupts by SIGSTOP (gdb/linux-nat.c), and a tracer that dies before it
took that signal back leaves it to the target (kernel/ptrace.c, __ptrace_unlink). SIGCONT removes the signals that are
still pending as well (kernel/signal.c, prepare_signal).

Invariants:
    guard.W1. It sends SIGCONT only when gdb is gone or has detached from the target, and only to what is stopped or
        about to be: the target, and children that it started since (gdb sees them first, stopped).
    guard.W2. A target that is gone, or whose number another process has by now, gets nothing.
    guard.W3. When livedbg dies, gdb is asked to end (SIGTERM: it detaches), and made to end if it doesn't.
    guard.W4. When gdb or livedbg are themselves stopped while the target is stopped, gdb is ended in the same way.
    guard.W5. No terminal, hang-up or Ctrl-C ends it; it ends by itself with gdb or the target.
    guard.W6. The second one ends with the first; where that was killed and livedbg lives, once gdb has detached.
    guard.W7. While livedbg traces threads itself and is stopped, it is resumed until it has detached, and is stopped
        again.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_CHECK_S = 0.25
_CHECK_GLANCE_S = 0.05
_GDB_ENDS_S = 3.0
_STUCK_ENDS_S = 1.0  # one that waits for a livedbg that is stopped to read its output handles no SIGTERM
_WATCH_S = 1.5  # a thread that sleeps in the kernel takes a pending SIGSTOP late
_CHECKS = 1  # how many checks in a row must see a target that is stuck
_CHECKS_SECOND = 14  # the first one's turn, with all that `_end` takes
_CHECKS_FREE = 6  # for how many checks nobody may trace the target until the second one, alone, has nothing to do
_STOP_PENDING = 1 << (signal.SIGSTOP - 1)


class _Touch:
    """The watched processes; the descriptor of one that is gone already is None."""

    def __init__(self, target: int, target_fd: int, gdb: int, livedbg: int) -> None:
        self.target, self.target_fd = target, target_fd
        self.gdb, self.gdb_fd = gdb, _pidfd(gdb)
        self.gdb_leads = self.gdb_fd is not None and _field(f"/proc/{gdb}/stat", 2) == str(gdb)
        self.livedbg, self.livedbg_fd = livedbg, _pidfd(livedbg)

    def stuck(self) -> bool:
        """Return whether the target is stopped because gdb or livedbg, which should resume it, is stopped itself."""
        if "T" not in (_state(self.gdb), _state(self.livedbg)):
            return False
        children = _children_since(self.target, 0)
        return _is_stopped(self.target) or any(_is_stopped(child) and _traced(child, self.gdb) for child in children)

    def end_rest(self) -> None:
        """Once gdb is gone, kill the child on which it tries ptrace (gdb/nat/linux-ptrace.c,
        linux_check_ptrace_features): it would be left behind, stopped.
        """
        if self.gdb_leads and self.gdb_fd is not None and _readable(self.gdb_fd, 0):
            try:
                os.killpg(self.gdb, signal.SIGKILL)
            except OSError:
                pass  # nobody is left

    def end_gdb(self, patience_s: float = _GDB_ENDS_S) -> None:
        """End gdb: it detaches at SIGTERM, also where it was stopped; it is killed if that takes too long."""
        assert self.gdb_fd is not None
        for number in (signal.SIGTERM, signal.SIGCONT):
            _send(self.gdb_fd, number)
        if not _readable(self.gdb_fd, patience_s):
            _send(self.gdb_fd, signal.SIGKILL)
            _readable(self.gdb_fd, _GDB_ENDS_S)


def main(target: int, start_ticks: int, gdb: int, livedbg: int, since_ticks: int) -> str:
    """Watch until gdb or the target is gone.

    Args:
        start_ticks: when it started, in clock ticks since boot.
        gdb: the pid of the future tracer.
        since_ticks: when the touch began, for a guard that replaces another one; 0 for the first.

    Returns:
        The action taken: `gone`, `fine`, or `woken`.
    """
    target_fd = _pidfd(target)
    if target_fd is None or _start_ticks(target) != start_ticks:
        return "gone"
    touch = _Touch(target, target_fd, gdb, livedbg)
    since_ticks = since_ticks or _start_ticks(os.getpid())
    clean, second, first, link = False, False, 0, -1
    if touch.gdb_fd is not None and target != 1:
        theirs, ours = os.pipe()  # on which the first one reports that all is well
        first, second = os.getpid(), _doubled()
        link, other = (theirs, ours) if second else (ours, theirs)
        os.close(other)
    if second:
        nothing = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1):  # livedbg's pipes are the first one's
            os.dup2(nothing, fd)
    else:
        os.write(1, b"ready\n")
    if touch.gdb_fd is not None:
        clean = _watch_second(touch, link, first) if second else _watch(touch)
        touch.end_rest()
    if _readable(target_fd, 0):
        return "gone"
    woken = _wake(target, target_fd, since_ticks, 0.0 if clean else _WATCH_S)
    if link >= 0 and not second:
        _tell(link)
    return "woken" if woken else "fine"


def main_glance(target: int, livedbg: int) -> None:
    """Watch over a glance until its end. A thread that livedbg traces is released when livedbg dies, but not while
    livedbg is stopped: then livedbg is resumed until it has detached, and stopped again. Our input is open as long as
    it glances.
    """
    livedbg_fd = _pidfd(livedbg)
    if livedbg_fd is None:
        return
    if target == 1 or not _doubled():
        os.write(1, b"ready\n")
    poll = select.poll()
    for fd in (0, livedbg_fd):
        poll.register(fd, select.POLLIN)
    while not poll.poll(_CHECK_GLANCE_S * 1000):
        if _state(livedbg) == "T" and _traced(target, livedbg):
            _send(livedbg_fd, signal.SIGCONT)
            end = time.monotonic() + _WATCH_S
            while _traced(target, livedbg) and time.monotonic() < end:
                time.sleep(0.001)
            _send(livedbg_fd, signal.SIGSTOP)


def _doubled() -> bool:
    """Fork the second guard; return True in it."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return False
    os.setsid()
    with open("/proc/self/comm", "w", encoding="ascii") as name:  # noqa: PTH123 - no imports
        name.write("touch-guard")
    if os.fork():
        os._exit(0)
    return True


def _watch(touch: _Touch) -> bool:
    """Wait until gdb or the target is gone; return whether livedbg reported that all is well."""
    poll, stuck = _poll_of(0, touch), 0
    while True:
        ready = {fd for fd, _ in poll.poll(_CHECK_S * 1000)}
        if touch.target_fd in ready or touch.gdb_fd in ready:
            return False
        if 0 in ready and os.read(0, 1):
            return True
        stuck = stuck + 1 if touch.stuck() else 0
        if 0 in ready or stuck > _CHECKS:
            touch.end_gdb(_STUCK_ENDS_S if touch.stuck() else _GDB_ENDS_S)
            return False


def _watch_second(touch: _Touch, link: int, first: int) -> bool:
    """Watch as the second guard; return whether the first reported that all is well, or nothing is left to guard."""
    poll, alone, stuck, free = _poll_of(link, touch), False, 0, 0
    while True:
        ready = {fd for fd, _ in poll.poll(_CHECK_S * 1000)}
        if touch.target_fd in ready or touch.gdb_fd in ready:
            return False
        if link in ready:
            if os.read(link, 1):
                return True
            alone = True
            poll.unregister(link)
        orphan = touch.livedbg_fd is None or _readable(touch.livedbg_fd, 0)
        stuck = stuck + 1 if orphan or touch.stuck() else 0
        if stuck > (_CHECKS if alone or _state(first) == "T" else _CHECKS_SECOND):
            touch.end_gdb(_STUCK_ENDS_S if touch.stuck() else _GDB_ENDS_S)
            return False
        free = free + 1 if alone and not orphan and not _traced(touch.target, touch.gdb) else 0
        if free > _CHECKS_FREE:
            return True


def _poll_of(notice: int, touch: _Touch) -> select.poll:
    poll = select.poll()
    for fd in (notice, touch.target_fd, touch.gdb_fd):
        if fd is not None:
            poll.register(fd, select.POLLIN)
    return poll


def _wake(target: int, target_fd: int, since_ticks: int, watch_s: float) -> bool:
    """Resume the target where gdb left it stopped; check again for a while."""
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
    """Return the children started since; [] if the kernel doesn't list them (CONFIG_PROC_CHILDREN)."""
    found = {int(word) for task in _tasks(target) for word in _read(task + "/children").split()}
    return [child for child in found if _start_ticks(child) >= since_ticks]


def _left_stopped(pid: int) -> bool:
    for task in _tasks(pid):
        # at newlines alone: the name is the thread's own (livedbg.linux.lines)
        fields = dict(line.split(":\t", 1) for line in _read(task + "/status").split("\n") if ":\t" in line)
        pending = int(fields.get("SigPnd", "0"), 16) | int(fields.get("ShdPnd", "0"), 16)
        if fields.get("TracerPid", "0") == "0" and (fields.get("State", "")[:1] == "T" or pending & _STOP_PENDING):
            return True
    return False


def _traced(target: int, tracer: int) -> bool:
    tracers = {task.rpartition("/")[2] for task in _tasks(tracer)}
    return any(
        line.rpartition("\t")[2] in tracers
        for task in _tasks(target)
        for line in _read(task + "/status").split("\n")
        if line.startswith("TracerPid")
    )


def _is_stopped(target: int) -> bool:
    return any(_field(task + "/stat", 0) in ("t", "T") for task in _tasks(target))


def _state(pid: int) -> str:
    return _field(f"/proc/{pid}/stat", 0)


def _start_ticks(pid: int) -> int:
    return int(_field(f"/proc/{pid}/stat", 19) or -1)


def _field(path: str, number: int) -> str:
    """Return a field behind the name in a `stat` file (proc_pid_stat(5)), or ""."""
    fields = _read(path).rpartition(")")[2].split()
    return fields[number] if fields else ""


def _tasks(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/task/{tid}" for tid in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - no imports
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:  # noqa: PTH123 - no imports
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


def _tell(fd: int) -> None:
    try:
        os.write(fd, b"q")
    except OSError:
        pass  # the second one is gone


if __name__ == "__main__":
    os.chdir("/")
    for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    if sys.argv[1] == "glance":
        main_glance(*map(int, sys.argv[2:4]))
        sys.exit()
    result = main(*map(int, sys.argv[1:6]))
    try:
        os.write(1, result.encode() + b"\n")
    except OSError:
        pass  # nobody is left to read it
