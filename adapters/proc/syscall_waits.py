"""Describe what a thread in a system call waits for, by the call's name and arguments.

Argument meanings: section 2 of the Linux manual; structures in memory: poll(2), select(2), fcntl_locking(2),
clock_nanosleep(2), all of LP64.

Message queues and System V semaphores: a POSIX queue is a file without a path (mq_overview(7)); once unlinked, only
processes that have it open can use it. A System V object can be used by any process that knows its number and has
permission (sysvipc(7)). For a System V queue, the kernel keeps the last sender and receiver (/proc/sysvipc/msg,
proc_sysvipc_msg(5)).
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import structs
from msgspec.structs import replace

from livedbg.adapters.proc.fd_waits import FdWaits, FileLockWaits, c_int
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import Wait, Waited, Wakers
from livedbg.linux import memory
from livedbg.linux.descriptors import describe
from livedbg.linux.lines import rows
from livedbg.linux.procfs import BlockedSyscall, child_pids, process_exists, read_file, read_stat
from livedbg.model import Resource, WaitKind, ids
from livedbg.text.quantities import duration
from livedbg.text.sanitize import clean_bytes, clean_line

_DELETED = " (deleted)"


class MessageWaits:
    """Describes the waits of one process for message queues and System V semaphores."""

    def __init__(self, view: ProcessView) -> None:
        self._view = view
        self._pid = view.pid

    def posix(self, verb: str, fd: int, timed: bool) -> Wait:
        """Return the wait of a mq_receive(3) (verb `receive from`) or mq_send(3) (`send to`) call."""
        found = describe(self._pid, fd)
        if found is None:
            return Wait(f"{verb} a message queue", timed, kind=WaitKind.MESSAGE_QUEUE)
        queue = f"message queue {clean_line(found.link, 200).removesuffix(_DELETED)}"
        named = not found.link.endswith(_DELETED)
        pids = {pid for pid, other in self._view.scene.index().opened(found.link) if self._same(fd, pid, other)}
        wakers = Wakers(frozenset(pids | {self._pid}), outside=f"any process that may open {queue}" if named else "")
        target = ids.fd_object("file", self._view.scene.host, f"mqueue.{found.number}")
        resource = Resource(id=target, kind="file", name=queue, attributes={"what": "mqueue"})
        waited = (Waited(target, f"fd {fd} -> {queue}", resource, wakers=wakers),)
        return Wait(f"{verb} {queue}", timed, waited, kind=WaitKind.MESSAGE_QUEUE)

    def _same(self, fd: int, pid: int, other: int) -> bool:
        """Return whether another process's descriptor is the same queue; True if that can't be checked."""
        try:
            paths = (f"/proc/{self._pid}/fd/{fd}", f"/proc/{pid}/fd/{other}")
            one, two = (os.stat(path) for path in paths)  # noqa: PTH116 (follows the magic link)
        except OSError:
            return True
        return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)

    def system_v(self, words: str, number: int, timed: bool, *, queue: bool) -> Wait:
        """Return the wait of a msgrcv(2), msgsnd(2) or semop(2) call for the queue or semaphore set with an id."""
        what = f"message queue {number}" if queue else f"semaphore set {number}"
        anybody = f"any process that may use {what}{self._last(number) if queue else ''}"
        return Wait(words, timed, outside=anybody, kind=WaitKind.SYSTEM_V)

    def _last(self, number: int) -> str:
        """Return `; process 812, which has ended, was the last to send`; "" if not known."""
        try:
            if os.stat(f"/proc/{self._pid}/ns/ipc").st_ino != os.stat("/proc/self/ns/ipc").st_ino:  # noqa: PTH116
                return ""
            senders = dict(rows(read_file("/proc/sysvipc/msg"), _sender))
        except OSError:
            return ""
        sender = senders.get(number)
        if not sender:
            return "; nobody has sent to it yet" if sender == 0 else ""
        return f"; process {sender}{'' if process_exists(sender) else ', which has ended,'} was the last to send"


def _sender(row: str) -> tuple[int, int]:
    """Return a queue's id and its last sender's pid (0 for none)."""
    words = row.split()
    return int(words[1]), int(words[5])


_READS: Final = {
    "read": "read of", "pread64": "read of", "readv": "read of", "preadv": "read of", "preadv2": "read of",
    "recvfrom": "recv on", "recvmsg": "recv on", "recvmmsg": "recv on", "accept": "accept on",
    "accept4": "accept on", "splice": "splice from", "tee": "tee from", "vmsplice": "vmsplice of",
}  # fmt: skip
_WRITES: Final = {
    "write": "write to", "pwrite64": "write to", "writev": "write to", "pwritev": "write to", "pwritev2": "write to",
    "sendto": "send on", "sendmsg": "send on", "sendmmsg": "send on", "sendfile": "sendfile to",
    "connect": "connect of",
}  # fmt: skip
_PLAIN: Final = {
    "pause": "pause (waits for a signal)",
    "rt_sigsuspend": "sigsuspend (waits for a signal)",
    "restart_syscall": "restarted system call",
    "io_uring_enter": "io_uring wait",
    "io_getevents": "wait for asynchronous I/O",
    "futex_waitv": "futex wait",
    "vfork": "vfork (until the child runs another program)",
}
_ACCEPTS: Final = {"accept": WaitKind.ACCEPT, "accept4": WaitKind.ACCEPT, "connect": WaitKind.CONNECT}
_KINDS: Final = {
    "io_getevents": WaitKind.DISK,
    "io_uring_enter": WaitKind.COMPLETION,
    "futex_waitv": WaitKind.FUTEX,
    "vfork": WaitKind.CHILD,
}
_FILE_CALLS: Final = frozenset({"fsync", "fdatasync", "ioctl", "getdents64", "fallocate", "ftruncate", "close"})
SLEEPS: Final = frozenset({"nanosleep", "clock_nanosleep"})
_CLOCKS: Final = {0: time.CLOCK_REALTIME, 1: time.CLOCK_MONOTONIC, 7: time.CLOCK_BOOTTIME}
"""Clocks of `clock_nanosleep`, by their numbers in the kernel."""
_OWN_TIME: Final = Path("/proc/self/ns/time")
_SIGNAL: Final = "a signal"
_RECEIVES: Final = "a time-out of the socket, SO_RCVTIMEO or SO_SNDTIMEO, can't be read"
_OPENS: Final = "any process that opens the other end"
_UNREAD: Final = "the descriptors that it waits for can't be read"
_MOST: Final = 256
_LONGEST_S: Final = 1 << 40  # nobody sleeps for so long
"""How many descriptors of one poll are followed."""


class SyscallWaits:
    """Describes the waits of one process other than futex calls."""

    def __init__(self, view: ProcessView) -> None:
        self._view = view
        self._pid = view.pid
        self._fds = FdWaits(view)
        self._locks = FileLockWaits(view)
        self._queues = MessageWaits(view)
        self._by_name: dict[str, Callable[[BlockedSyscall], Wait]] = {
            "poll": lambda call: self._poll(call, c_int(call.args[2]) >= 0),
            "ppoll": lambda call: self._poll(call, call.args[2] != 0),
            "select": self._select,
            "pselect6": self._select,
            "epoll_wait": lambda call: self._epoll(call, c_int(call.args[3]) >= 0),
            "epoll_pwait": lambda call: self._epoll(call, c_int(call.args[3]) >= 0),
            "epoll_pwait2": lambda call: self._epoll(call, call.args[3] != 0),
            "nanosleep": lambda call: self._sleep(call.args[0]),
            "clock_nanosleep": lambda call: self._sleep(
                call.args[2], until=_CLOCKS.get(call.args[0], -1) if call.args[1] & 1 else None
            ),
            "wait4": lambda call: self._wait_for_child(c_int(call.args[0]), "waitpid"),
            "waitid": self._waitid,
            "flock": self._locks.flock,
            "fcntl": self._locks.fcntl,
            "rt_sigtimedwait": lambda call: _for_signal("sigwait (waits for a signal)", call.args[2] != 0),
            "semop": lambda call: self._semaphores(call, False),
            "semtimedop": lambda call: self._semaphores(call, call.args[3] != 0),
            "msgrcv": lambda call: self._messages("msgrcv", call),
            "msgsnd": lambda call: self._messages("msgsnd", call),
            "mq_timedreceive": lambda call: self._queues.posix("receive from", c_int(call.args[0]), call.args[4] != 0),
            "mq_timedsend": lambda call: self._queues.posix("send to", c_int(call.args[0]), call.args[4] != 0),
            "openat": lambda call: self._open(call.args[1], call.args[2]),
            "open": lambda call: self._open(call.args[0], call.args[1]),
        }

    def describe(self, name: str, call: BlockedSyscall) -> Wait:
        """Return the wait of a thread in the system call `name`."""
        if name in _READS:
            return self._stream(call, _READS[name], "r", _ACCEPTS.get(name, WaitKind.READ))
        if name in _WRITES:
            return self._stream(call, _WRITES[name], "w", _ACCEPTS.get(name, WaitKind.WRITE))
        special = self._by_name.get(name)
        if special is not None:
            return special(call)
        if name in _FILE_CALLS:
            return Wait(f"{name} of {self._fds.name(c_int(call.args[0]))}", kind=WaitKind.DISK)
        if name in ("pause", "rt_sigsuspend"):
            return _for_signal(_PLAIN[name], False)
        return Wait(_PLAIN.get(name, name), kind=_KINDS.get(name, WaitKind.UNKNOWN))

    def _open(self, path: int, flags: int) -> Wait:
        return Wait(f"open of {self._path(path)}{_mode(flags)}", outside=_OPENS, kind=WaitKind.OPEN)

    def _stream(self, call: BlockedSyscall, verb: str, direction: str, kind: WaitKind) -> Wait:
        fd = c_int(call.args[0])
        subject = self._fds.socket_address(fd) if verb == "accept on" else None
        self._fds.gap, self._fds.armed_timer = "", False
        waited = tuple(self._fds.waited(fd, direction, polled=False))
        name = f"{verb} {subject or self._fds.name(fd)}"
        resources = [one.resource for one in waited if one.resource is not None]
        if any(resource.kind == "socket" for resource in resources):
            return replace(self._socket_call(fd, direction, name, waited), kind=kind)
        if (found := describe(self._pid, fd)) is not None and found.kind == "signalfd":
            kind = WaitKind.SIGNAL
        timed = True if self._fds.armed_timer else False if resources else None
        return Wait(name, timed, waited, self._fds.gap, kind=kind)

    def _socket_call(self, fd: int, direction: str, name: str, waited: tuple[Waited, ...]) -> Wait:
        """Return the wait of a socket call, with its time limit if the peers could prove something."""
        here = not any(one.wakers.outside for one in waited)
        limit_s = self._fds.time_limit(fd, direction) if here else None
        if limit_s is None:
            return Wait(name, None, tuple(map(_unproved, waited)), self._fds.gap or _RECEIVES)
        within = f" (time limit {duration(limit_s * 1e9)})" if limit_s else ""
        return Wait(f"{name}{within}", limit_s > 0, waited, self._fds.gap)

    def _semaphores(self, call: BlockedSyscall, timed: bool) -> Wait:
        return self._queues.system_v("semop (System V semaphore)", c_int(call.args[0]), timed, queue=False)

    def _messages(self, verb: str, call: BlockedSyscall) -> Wait:
        return self._queues.system_v(f"{verb} (System V message queue)", c_int(call.args[0]), False, queue=True)

    def _poll(self, call: BlockedSyscall, timed: bool) -> Wait:
        count = min(call.args[1], 65536)
        self._fds.gap = ""
        try:
            data = memory.read(self._pid, call.args[0], 8 * min(count, _MOST)) if count else b""
        except OSError:
            data, self._fds.gap = b"", _UNREAD
        members = [
            (fd, "w" if events & 0x4 and not events & 0x1 else "r")
            for fd, events, _ in struct.iter_unpack("<iHH", data)
            if fd >= 0
        ]
        return self._any("poll", members, count, timed)

    def _select(self, call: BlockedSyscall) -> Wait:
        count = min(c_int(call.args[0]), 65536)
        size = (count + 63) // 64 * 8
        members: list[tuple[int, str]] = []
        self._fds.gap = ""
        for address, way in ((call.args[1], "r"), (call.args[2], "w"), (call.args[3], "exceptions")):
            try:
                bits = int.from_bytes(memory.read(self._pid, address, size), "little") if address and size else 0
            except OSError:
                bits, self._fds.gap = 0, _UNREAD
            if way != "exceptions":
                members += [(fd, way) for fd in range(count) if bits >> fd & 1]
            elif bits:
                self._fds.gap = "it waits for exceptional conditions"
        return self._any("select", members, len(members), call.args[4] != 0)

    def _epoll(self, call: BlockedSyscall, timed: bool) -> Wait:
        fd = c_int(call.args[0])
        self._fds.gap = ""
        members = self._fds.epoll_set(fd)
        found = self._any("epoll_wait", members, len(members), timed)
        return replace(found, sharers=self._fds.sharers(fd))

    def _any(self, verb: str, members: list[tuple[int, str]], count: int, timed: bool) -> Wait:
        self._fds.armed_timer = False
        waited = [w for fd, way in members[:_MOST] for w in self._fds.waited(fd, way, polled=True)]
        plural = "" if count == 1 else "s"
        gap = self._fds.gap if len(members) <= _MOST and count <= _MOST else "it waits for too many descriptors"
        timed = timed or self._fds.armed_timer
        return Wait(f"{verb} of {count} descriptor{plural}", timed, tuple(waited), gap, kind=WaitKind.POLL)

    def _sleep(self, address: int, *, until: int | None = None) -> Wait:
        """Return a sleep for, or `until` a time of a clock: then, what is left of it was asked for at least."""
        try:
            seconds, nanoseconds = struct.unpack("<qq", memory.read(self._pid, address, 16))
        except OSError:
            return Wait("sleep", True, kind=WaitKind.SLEEP)
        if not (0 <= nanoseconds < 10**9 and 0 <= seconds < _LONGEST_S):  # it has gone on, and its stack is reused
            return Wait("sleep", True, kind=WaitKind.SLEEP)
        asked_s = seconds + nanoseconds / 1e9
        if until is None:
            return Wait(f"sleep {asked_s:.6g} s", True, kind=WaitKind.SLEEP, sleeps_s=asked_s)
        left_s = asked_s - time.clock_gettime(until) if until >= 0 and self._shares_clocks() else 0.0
        return Wait("sleep", True, kind=WaitKind.SLEEP, sleeps_s=left_s if left_s > 0 else None)

    def _shares_clocks(self) -> bool:
        """Return whether its clocks are ours: those of another time namespace (time_namespaces(7)) have an offset."""
        try:
            return Path(f"/proc/{self._pid}/ns/time").readlink() == _OWN_TIME.readlink()
        except OSError:
            return not _OWN_TIME.exists()  # before Linux 5.6 there are none

    def _wait_for_child(self, who: int, verb: str) -> Wait:
        if who > 0:
            found = self._view.numbers.child(who)
            return Wait(f"{verb} of {who}", False, (self._process(found, f"{verb}({who})"),), kind=WaitKind.CHILD)
        children = child_pids(self._pid)
        text = f"{verb} of any child" if who == -1 else f"{verb} of a process group"
        if len(children) == 1:
            text = f"{verb} of its child {children[0]}{_program(children[0])}"
        waited = tuple(self._process(pid, f"{verb}({who}), child {pid}") for pid in children)
        return Wait(text, False, waited, kind=WaitKind.CHILD)

    def _process(self, pid: int, evidence: str) -> Waited:
        return Waited(ids.process(self._view.scene.host, pid), evidence, wakers=Wakers(frozenset({pid})))

    def _waitid(self, call: BlockedSyscall) -> Wait:
        sort, number = c_int(call.args[0]), c_int(call.args[1])  # P_ALL, P_PID, P_PGID, P_PIDFD
        if sort == 3:
            waited = self._fds.waited(number, "r", polled=False)
            return Wait("waitid of a pidfd", False, tuple(waited), kind=WaitKind.CHILD)
        return self._wait_for_child(number if sort == 1 else -1 if sort == 0 else 0, "waitid")

    def _path(self, address: int) -> str:
        try:
            return clean_bytes(memory.read_text(self._pid, address, 200)).replace("\n", " ")
        except OSError:
            return "a file"


def _for_signal(call: str, timed: bool) -> Wait:
    return Wait(call, timed, outside=_SIGNAL, kind=WaitKind.SIGNAL)


def _mode(flags: int) -> str:
    """Return the access mode of open(2): opening a FIFO waits for the other end to be opened."""
    return {os.O_RDONLY: " for reading", os.O_WRONLY: " for writing"}.get(flags & os.O_ACCMODE, "")


def _unproved(waited: Waited) -> Waited:
    """Mark a wait as unproved, since a time limit may end it."""
    known = waited.resource
    if known is None or known.outside:
        return waited
    return replace(waited, resource=structs.replace(known, outside=_RECEIVES))


def _program(pid: int) -> str:
    """Return ` (sleep)`: the name of a process, if it exists."""
    try:
        return f" ({clean_line(read_stat(pid).name)})"
    except OSError:
        return ""
