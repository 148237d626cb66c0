"""File descriptors of processes: what they are, and which processes have the other end.

Kinds by the link texts that the kernel makes up (`pipe:[N]`, `socket:[N]`, `anon_inode:[eventfd]`,
fs/anon_inodes.c) and by the type of the file otherwise; details from fdinfo (proc_pid_fdinfo(5)).
"""

from __future__ import annotations

import os
import stat
import time
from collections import defaultdict
from typing import Final, NamedTuple

from livedbg.linux.lines import lines
from livedbg.linux.procfs import living_task, process_ids, read_file

_ANONYMOUS: Final = {
    "anon_inode:[eventpoll]": "epoll",
    "anon_inode:[eventfd]": "eventfd",
    "anon_inode:[timerfd]": "timerfd",
    "anon_inode:[signalfd]": "signalfd",
    "anon_inode:[pidfd]": "pidfd",
    "anon_inode:inotify": "inotify",
    "anon_inode:[io_uring]": "io_uring",
    "anon_inode:[userfaultfd]": "userfaultfd",
    "anon_inode:[perf_event]": "perf_event",
}


class Descriptor(NamedTuple):
    """One open file of a process.

    Attributes:
        kind: `pipe` (FIFOs too), `socket`, `epoll`, `eventfd`, `timerfd`, `signalfd`, `pidfd`,
            `inotify`, `tty`, `file`, `other`.
        link: what /proc/PID/fd/N points to.
        key: the same for every process that has this object open; "" where that is unknown.
        number: inode, or eventfd id.
    """

    fd: int
    kind: str
    link: str
    key: str
    number: int


class Holder(NamedTuple):
    """A process that has an object open.

    Attributes:
        access: `r`, `w`, or `rw`.
    """

    pid: int
    fd: int
    access: str


def fd_links(pid: int) -> dict[int, str]:
    """fd -> link text, of all open files of a process.

    Raises:
        OSError: gone or denied.
    """
    found = {}
    names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    if not names:
        pid = living_task(pid)
        names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    for name in names:
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115 (thousands of them)
        except OSError:
            continue  # closed in between
    return found


def fdinfo(pid: int, fd: int) -> list[tuple[str, str]]:
    """The `name: value` lines of /proc/PID/fdinfo/FD; names may come several times (`tfd`, `lock`).

    Raises:
        OSError: gone or denied.
    """
    try:
        data = read_file(f"/proc/{pid}/fdinfo/{fd}")
    except OSError:
        data = read_file(f"/proc/{living_task(pid)}/fdinfo/{fd}")
    return [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines(data))]


def describe(pid: int, fd: int) -> Descriptor | None:
    """What descriptor `fd` of process `pid` is; None when it isn't open or can't be seen."""
    task = pid
    try:
        link = os.readlink(f"/proc/{pid}/fd/{fd}")  # noqa: PTH115
    except OSError:
        try:
            task = living_task(pid)
            link = os.readlink(f"/proc/{task}/fd/{fd}")  # noqa: PTH115
        except OSError:
            return None
    path = f"/proc/{task}/fd/{fd}"
    if link.startswith(("pipe:[", "socket:[")):
        kind, _, rest = link.partition(":[")
        return Descriptor(fd, kind, link, link, int(rest[:-1]))
    kind = _ANONYMOUS.get(link, "")
    if kind == "eventfd":
        number = _eventfd_id(pid, fd)
        return Descriptor(fd, kind, link, f"eventfd:{number}" if number else "", number)
    if kind:
        return Descriptor(fd, kind, link, "", 0)
    try:
        status = os.stat(path)  # noqa: PTH116 (follows the magic link, which Path would too, but costs more)
    except OSError:
        return Descriptor(fd, "other", link, "", 0)
    if stat.S_ISFIFO(status.st_mode):
        return Descriptor(fd, "pipe", link, link, status.st_ino)
    if stat.S_ISCHR(status.st_mode):
        tty = link.startswith(("/dev/pts/", "/dev/tty", "/dev/console"))
        return Descriptor(fd, "tty" if tty else "other", link, "", status.st_ino)
    return Descriptor(fd, "file" if stat.S_ISREG(status.st_mode) else "other", link, "", status.st_ino)


def _eventfd_id(pid: int, fd: int) -> int:
    """`eventfd-id` (Linux 5.2 and later); 0 where the kernel doesn't give it."""
    try:
        return next((int(value) for name, value in fdinfo(pid, fd) if name == "eventfd-id"), 0)
    except OSError:
        return 0


def _access(pid: int, fd: int) -> str:
    """How a descriptor was opened: the low bits of `flags:`, which is octal."""
    try:
        flags = next((int(value, 8) for name, value in fdinfo(pid, fd) if name == "flags"), 2)
    except OSError:
        return ""
    return ("r", "w", "rw", "rw")[flags & 3]


class DescriptorIndex:
    """Which visible process has which pipe, socket, FIFO or eventfd open, at one moment.

    Attributes:
        taken_s: when it was made (CLOCK_MONOTONIC).
        cost_s: how long that took.
        denied: processes whose descriptors may not be seen (those of other users, kernel threads).
    """

    def __init__(self) -> None:
        self.taken_s = time.monotonic()
        self._open: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._eventfds: list[tuple[int, int]] = []
        self._epolls: defaultdict[int, list[int]] = defaultdict(list)
        self._eventfd_ids: dict[str, list[tuple[int, int]]] | None = None
        denied = []
        for pid in process_ids():
            try:
                links = fd_links(pid)
            except PermissionError:
                denied.append(pid)
                continue
            except OSError:
                continue  # gone
            for fd, link in links.items():
                if link == "anon_inode:[eventfd]":
                    self._eventfds.append((pid, fd))
                elif link == "anon_inode:[eventpoll]":
                    self._epolls[fd].append(pid)
                elif not link.startswith(("anon_inode:", "/dev/")):
                    self._open[link].append((pid, fd))
        self.denied = tuple(denied)
        self.cost_s = time.monotonic() - self.taken_s

    def holders(self, descriptor: Descriptor) -> list[Holder]:
        """All visible processes that have the same object open, with how they opened it."""
        if descriptor.kind == "eventfd":
            places = self._eventfd_table().get(descriptor.key, [])
        else:
            places = self._open.get(descriptor.key, []) if descriptor.key else []
        return [Holder(pid, fd, _access(pid, fd)) for pid, fd in places]

    def sockets(self, inode: int) -> list[int]:
        """The processes that have the socket of that inode open."""
        return sorted({pid for pid, _ in self._open.get(f"socket:[{inode}]", [])})

    def epolls(self, fd: int) -> list[int]:
        """The processes that have an epoll set open under that number."""
        return self._epolls.get(fd, [])

    def opened(self, link: str) -> list[tuple[int, int]]:
        """(pid, fd) of everybody who has the file that shows as `link` open."""
        return self._open.get(link, [])

    def _eventfd_table(self) -> dict[str, list[tuple[int, int]]]:
        if self._eventfd_ids is None:
            self._eventfd_ids = {}
            for pid, fd in self._eventfds:
                self._eventfd_ids.setdefault(f"eventfd:{_eventfd_id(pid, fd)}", []).append((pid, fd))
        return self._eventfd_ids
