"""File descriptors of processes: kinds, other ends, limits, and file locks.

Functions that read a process raise OSError if it is gone, or access is denied.

Kinds by the link texts that the kernel makes up (`pipe:[N]`, `socket:[N]`, `anon_inode:[eventfd]`, fs/anon_inodes.c)
and by the type of the file otherwise; details from fdinfo (proc_pid_fdinfo(5)).

Sharing of an open file or of all memory between two processes, by kcmp(2): works for processes that the caller may
inspect (PTRACE_MODE_READ_REALCREDS), if the kernel is built with CONFIG_KCMP and no seccomp profile forbids it
(docker's default does without CAP_SYS_PTRACE).

Use of all file descriptors of a process (RLIMIT_NOFILE, getrlimit(2)): a new descriptor gets the lowest free number,
and that has to be below the soft limit; else the call fails with EMFILE. Descriptors above the limit, opened before it
was lowered, don't count.

Our own open files: whether many more are possible; the soft limit is raised if we may.

Advisory file locks: /proc/locks (proc_locks(5)): flock(2) and fcntl(2) record locks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import stat
import time
from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux.abi import syscall_number
from livedbg.linux.lines import lines, rows
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
    """An open file of a process.

    Attributes:
        kind: `pipe` (FIFOs too), `socket`, `epoll`, `eventfd`, `timerfd`, `signalfd`, `pidfd`, `inotify`, `tty`,
            `file`, `other`.
        key: the same for every process that has this object open; "" if unknown.
        number: inode, or eventfd id.
    """

    fd: int
    kind: str
    link: str
    key: str
    number: int


class Holder(NamedTuple):
    """A process that has an object open; `access` is `r`, `w`, or `rw`."""

    pid: int
    fd: int
    access: str


def fd_links(pid: int) -> dict[int, str]:
    """Return fd -> link text, of all open files of a process."""
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
    """Return the `name: value` lines of /proc/PID/fdinfo/FD; names may be repeated (`tfd`, `lock`)."""
    try:
        data = read_file(f"/proc/{pid}/fdinfo/{fd}")
    except OSError:
        data = read_file(f"/proc/{living_task(pid)}/fdinfo/{fd}")
    return [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines(data))]


def describe(pid: int, fd: int) -> Descriptor | None:
    """Describe descriptor `fd` of process `pid`; None if it isn't open or visible."""
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
    try:
        return next((int(value) for name, value in fdinfo(pid, fd) if name == "eventfd-id"), 0)
    except OSError:
        return 0


def _access(pid: int, fd: int) -> str:
    """Return how a descriptor was opened: the low bits of `flags:`, which is octal."""
    try:
        flags = next((int(value, 8) for name, value in fdinfo(pid, fd) if name == "flags"), 2)
    except OSError:
        return ""
    return ("r", "w", "rw", "rw")[flags & 3]


class DescriptorIndex:
    """Pipes, sockets, FIFOs and eventfds of all visible processes, at one moment; `denied` are the other processes."""

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
        """Return all visible processes that have the same object open, with their access."""
        if descriptor.kind == "eventfd":
            places = self._eventfd_table().get(descriptor.key, [])
        else:
            places = self._open.get(descriptor.key, []) if descriptor.key else []
        return [Holder(pid, fd, _access(pid, fd)) for pid, fd in places]

    def sockets(self, inode: int) -> list[int]:
        """Return the processes that have the socket of that inode open."""
        return sorted({pid for pid, _ in self._open.get(f"socket:[{inode}]", [])})

    def epolls(self, fd: int) -> list[int]:
        """Return the processes that have an epoll set open under that number."""
        return self._epolls.get(fd, [])

    def opened(self, link: str) -> list[tuple[int, int]]:
        """Return (pid, fd) of all that have the file that shows as `link` open."""
        return self._open.get(link, [])

    def _eventfd_table(self) -> dict[str, list[tuple[int, int]]]:
        if self._eventfd_ids is None:
            self._eventfd_ids = {}
            for pid, fd in self._eventfds:
                self._eventfd_ids.setdefault(f"eventfd:{_eventfd_id(pid, fd)}", []).append((pid, fd))
        return self._eventfd_ids


_FILE, _VM = 0, 1  # linux/kcmp.h

_libc = ctypes.CDLL(None, use_errno=True)


def same_file(one: tuple[int, int], other: tuple[int, int]) -> bool | None:
    """Return whether two descriptors, each (pid, fd), are one open file; None if the kernel doesn't tell.

    One that has been closed is none, and so is one of a process that has ended.
    """
    return _same(one[0], other[0], _FILE, one[1], other[1])


def same_memory(one: int, other: int) -> bool | None:
    """Return whether two processes share all of their memory (CLONE_VM, vfork(2)); None if the kernel doesn't tell."""
    return _same(one, other, _VM, 0, 0)


def _same(one: int, other: int, kind: int, first: int, second: int) -> bool | None:
    number = syscall_number("kcmp")
    if number is None:
        return None
    words = [ctypes.c_long(word) for word in (number, one, other, kind, first, second)]
    result = int(_libc.syscall(*words))
    if result < 0:
        return False if ctypes.get_errno() in (errno.ESRCH, errno.EBADF) else None
    return result == 0


_LIMIT: Final = "Max open files"


def used_up(pid: int) -> int | None:
    """Return the soft limit of a process that has a file open under each number below it; None for others."""
    limit = _soft_limit(read_file(f"/proc/{pid}/limits"))
    if limit is None:
        return None
    folder = f"/proc/{pid}/fd"
    count = os.stat(folder).st_size  # noqa: PTH116 - how many there are, since Linux 6.2
    if 0 < count < limit:
        return None
    names = os.listdir(folder) or os.listdir(f"/proc/{living_task(pid)}/fd")  # noqa: PTH208
    return limit if len(names) >= limit and sum(int(name) < limit for name in names) == limit else None


def _soft_limit(data: bytes) -> int | None:
    line = next((one for one in lines(data) if one.startswith(_LIMIT)), "")
    words = line[len(_LIMIT) :].split()
    return int(words[0]) if words and words[0].isdecimal() else None


_SPARE: Final = 256


def room_for_files(more: int) -> bool:
    """Return whether `more` files can be opened; raises the soft limit (getrlimit(2), RLIMIT_NOFILE) if needed."""
    wanted = sum(1 for _ in Path("/proc/self/fd").iterdir()) + more + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if wanted > soft and (hard == resource.RLIM_INFINITY or wanted <= hard):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return True
    return wanted <= soft


class FileLock(NamedTuple):
    """A lock, or a wait for a lock.

    Attributes:
        number: groups a lock with its waiters.
        kind: `FLOCK`, `POSIX`, `OFDLCK`, `LEASE`, …
        pid: the process that took it; -1 for open-file-description locks.
        file: `MAJOR:MINOR:INODE`, the first two in hex.
        range: `0 EOF`.
    """

    number: int
    kind: str
    mode: str
    pid: int
    file: str
    range: str
    waits: bool


def read_locks() -> list[FileLock]:
    """Return all locks that the kernel shows us, each followed by the waits for it."""
    return parse_locks(read_file("/proc/locks"))


def parse_locks(text: bytes) -> list[FileLock]:
    """Parse /proc/locks, e.g. `1: -> FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`."""
    return list(rows(text, _parse))


def _parse(line: str) -> FileLock:
    field = line.split()
    waits = field[1] == "->"
    if waits:
        del field[1]
    start, end = field[6:8]
    return FileLock(int(field[0].rstrip(":")), field[1], field[3], int(field[4]), field[5], f"{start} {end}", waits)


def blocking_locks(locks: list[FileLock], kind: str, pid: int, inode: int, span: str | None = None) -> list[FileLock]:
    """Return the locks on the file with that inode that block a wait of that kind.

    Args:
        kind: of the wait: `FLOCK`, `POSIX` or `OFDLCK`.
        pid: the waiter; open-file-description locks (`OFDLCK`) show no pid, so it doesn't count there.
        span: the range that is waited for, as in `FileLock.range`; None if not known.
    """
    suffix = f":{inode}"
    wanted = {
        lock.number
        for lock in locks
        if lock.waits and lock.kind == kind and lock.pid in (pid, -1) and lock.file.endswith(suffix)
        if span is None or lock.range == span
    }
    return [lock for lock in locks if lock.number in wanted and not lock.waits]
