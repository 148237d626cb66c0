"""Wakers of a pipe, socket or eventfd wait other than the threads that have the other end.

A signal handler can write to a pipe of its own process (the self-pipe trick), and so can a timer. A named FIFO can be
opened by any process with permission. A FIFO end opened for reading and writing is a way to sleep until a signal. None
of these shows in the wait graph.

Sources: proc_pid_status(5) (SigCgt), proc_pid_timers(5). Interval timers (setitimer(2)) are listed nowhere; they
send a handled signal.

Invariants:
    wakers.W1. A waker is never overlooked for lack of permission: what can't be read counts as one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from livedbg.linux.descriptors import Descriptor, Holder, fd_links
from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import handled_signals, living_task, read_file, signal_name
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_PYTHON: Final = "python"

_PLAIN_DEVICES: Final = lazy_re(r"/dev/(?:null|zero|full|u?random|tty\w*|pts/\d+|ptmx|console|shm/.*)")
_PLAIN_KINDS: Final = lazy_re(r"anon_inode:(?:\[(?:eventpoll|eventfd|timerfd|signalfd|pidfd)\]|inotify)")
"""What signals nobody's eventfd."""


def wakers(pid: int) -> str:
    """Return what in a process could end a wait of its threads: `handles SIGTERM and SIGCHLD`; "" for nothing."""
    try:
        caught = _caught(pid)
        timers = read_file(f"/proc/{living_task(pid)}/timers").count(b"ID:")
    except FileNotFoundError:
        return "" if not Path(f"/proc/{pid}").exists() else "may have timers"
    except (OSError, KeyError, ValueError):
        return "may handle signals"
    found = []
    if caught:
        shown = [signal_name(number) for number in caught[:3]]
        found.append(f"handles {', '.join(shown)}{', …' if len(caught) > len(shown) else ''}")
    if timers:
        found.append("has a timer")
    return " and ".join(found)


def driven(pid: int) -> str:
    """Return what in the kernel could act for a process; "" for nothing.

    io_uring requests may wake futexes too. An eventfd may be signalled by asynchronous I/O or the driver of an open
    device.
    """
    try:
        links = set(fd_links(pid).values())
        if "anon_inode:[io_uring]" in links:
            return "has an io_uring"
        if "anon_inode:[eventfd]" not in links:
            return ""
        if any(mapping.path == "/[aio]" for mapping in parse_maps(pid)):
            return "does asynchronous I/O, which may signal its eventfd"
    except OSError:
        return "may have descriptors that can't be seen"
    for link in sorted(links):
        device = link.startswith("/dev/") and not _PLAIN_DEVICES.fullmatch(link)
        if device or (link.startswith("anon_inode:") and not _PLAIN_KINDS.fullmatch(link)):
            return f"has {clean_line(link, 100)} open, whose driver may signal its eventfd"
    return ""


def outside(found: Descriptor, holders: Iterable[Holder], pids: Iterable[int]) -> str:
    """Return why a descriptor wait may be ended by something other than a visible thread; "" if it can't.

    Args:
        found: the descriptor that is waited for.
        holders: all holders of the same pipe; empty for other kinds.
        pids: the processes that have the other end.
    """
    if reason := _opened(found, holders):
        return reason
    for pid in sorted(pids):
        if reason := wakers(pid) or (driven(pid) if found.kind == "eventfd" else ""):
            return f"process {pid} {reason}"
    return ""


def unseen_end(pipe: Descriptor, holders: Iterable[Holder], pids: Iterable[int]) -> str:
    """Return what could end a pipe wait besides the visible processes (`pids`) at the other end; "" for nothing.

    If there are none, an invisible process has it: otherwise the pipe would be at its end.
    """
    if not any(pids):
        return f"no process that can be seen has the other end of {pipe.kind} {pipe.fd}"
    return _opened(pipe, holders)


def _opened(found: Descriptor, holders: Iterable[Holder]) -> str:
    if found.kind == "pipe" and not found.link.startswith("pipe:"):
        return f"any process that may open {clean_line(found.link, 200)} can serve it"
    both = next((holder for holder in holders if holder.access == "rw"), None)
    return "" if both is None else f"process {both.pid} has it open for reading and writing"


def _caught(pid: int) -> list[int]:
    found = handled_signals(pid)
    return [] if found == [signal.SIGINT] and _is_python(pid) else found


def _is_python(pid: int) -> bool:
    """Return whether CPython runs the process: its own SIGINT handler only raises KeyboardInterrupt."""
    try:
        return Path(os.readlink(f"/proc/{living_task(pid)}/exe")).name.startswith(_PYTHON)  # noqa: PTH115
    except OSError:
        return False
