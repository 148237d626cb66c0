"""Waits for descriptors and file locks: from (process, fd, direction) to resources and the processes at the other end.

Sources: proc_pid_stat(5) (tty_nr), proc_pid_fdinfo(5) (`inotify` lines), inotify(7).

File locks: flock(2) and fcntl(2) calls are matched with /proc/locks. A waiter is listed there behind the lock that it
waits for, with the range that it asks for. This tells apart the waits of two threads, and those for open file
description locks, which show no pid (proc_locks(5), fcntl_locking(2)).
"""

from __future__ import annotations

import os
import re
import stat
import struct
from typing import Any, Final

from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import Holding, Wait, Waited, Wakers
from livedbg.adapters.proc.wakers import outside, unseen_end
from livedbg.linux import memory
from livedbg.linux.descriptors import (
    Descriptor,
    FileLock,
    blocking_locks,
    describe,
    fd_links,
    fdinfo,
    parse_locks,
    same_file,
)
from livedbg.linux.procfs import BlockedSyscall, living_task, read_stat
from livedbg.linux.sockets import Socket, same_network, time_limit_s, unix_peer, unix_unread
from livedbg.model import Resource, WaitKind, ids
from livedbg.model.facts import SocketFacts
from livedbg.text.sanitize import clean_line


def awaited_idly(pid: int, found: Descriptor, direction: str) -> str:
    """Return what an idle program waits for on such a file: `a key`, `changes of FILE`; "" if it isn't an idle wait."""
    if direction != "r":
        return ""
    if found.kind == "tty" and (found.link.startswith("/dev/pts/") or _controls(pid, found)):
        return "a key"
    if found.kind == "inotify":
        watched = _watched(pid, found.fd)
        return f"changes of {watched}" if watched else "changes of files"
    return ""


def _controls(pid: int, found: Descriptor) -> bool:
    """Return whether a terminal is the controlling one; another serial line may be an instrument that never answers."""
    if found.link == "/dev/tty":
        return True
    try:
        device = os.stat(f"/proc/{pid}/fd/{found.fd}")  # noqa: PTH116 (follows the magic link)
        return stat.S_ISCHR(device.st_mode) and device.st_rdev == read_stat(pid).terminal != 0
    except OSError:
        return False


def _watched(pid: int, fd: int) -> str:
    """Return the path that inotify watches, if it is one file that the process also has open, as `tail -f` does."""
    try:
        words = [value.split() for name, value in fdinfo(pid, fd) if name.startswith("inotify")]
        marks = {word.partition(":")[2] for line in words for word in line if word.startswith("ino:")}
        if len(marks) != 1:
            return ""
        inode = int(marks.pop(), 16)
        for other, link in fd_links(pid).items():
            if link.startswith("/") and os.stat(f"/proc/{pid}/fd/{other}").st_ino == inode:  # noqa: PTH116
                return clean_line(link, 200)
    except (OSError, ValueError):
        pass
    return ""


_NESTED = 2
"""How deep epoll sets inside epoll sets are followed."""

_SHOWN = 200
"""Characters of a path or an address that are shown."""


class FdWaits:
    """Describes the descriptor waits of one process.

    Attributes:
        armed_timer: an armed timerfd was among the descriptors asked for since the last reset.
        gap: why some descriptor asked for since the last reset could not be followed; "" if all could.
    """

    def __init__(self, view: ProcessView) -> None:
        self._view = view
        self._pid = view.pid
        self.armed_timer = False
        self.gap = ""

    def name(self, fd: int) -> str:
        """Return the user's name of a descriptor: `pipe 3`, `socket 5`, `/dev/pts/0`."""
        found = describe(self._pid, fd)
        if found is None:
            return f"descriptor {fd}"
        if found.kind in ("pipe", "socket", "eventfd", "epoll", "timerfd", "signalfd", "pidfd", "inotify"):
            return f"{found.kind} {fd}"
        return _shown(found.link)

    def socket_address(self, fd: int) -> str | None:
        """Return the local address of a socket, for `accept on …`."""
        found = describe(self._pid, fd)
        socket = self._view.scene.sockets(self._pid).get(found.number) if found and found.kind == "socket" else None
        return _shown(socket.local) if socket is not None and socket.local else None

    def time_limit(self, fd: int, direction: str) -> float | None:
        """Return the timeout of a blocked call on a socket in seconds; 0 for none, None if not known."""
        found = describe(self._pid, fd)
        return time_limit_s(self._pid, fd, found.number, direction) if found is not None else None

    def waited(self, fd: int, direction: str, *, polled: bool, depth: int = 0) -> list[Waited]:
        """Return what a wait for a descriptor waits for.

        Args:
            direction: `r` (until there is something to read) or `w` (until there is room).
            polled: the call is poll, select or epoll. If the process itself has the other end, that is a wake-up
                channel and has no holder.
            depth: how many nested epoll sets were opened so far.
        """
        found = describe(self._pid, fd)
        if found is None:
            self.gap = f"descriptor {fd} can't be seen"
            return []
        match found.kind:
            case "pipe":
                return [self._pipe(found, direction, polled)]
            case "socket":
                return [self._socket(found, direction, polled)]
            case "eventfd":
                return [self._eventfd(found, polled)]
            case "epoll":
                self.gap = "an epoll set lies in another one"
                return self.epoll_members(fd, depth + 1) if depth < _NESTED else []
            case "pidfd":
                ended = self._pidfd(fd)
                self.gap = self.gap if ended else f"pidfd {fd} names no process that can be seen"
                return ended
            case "timerfd":
                self.armed_timer = self.armed_timer or self._armed(fd)
                return []
            case _:
                return [self._file(found, direction)]

    def epoll_set(self, fd: int) -> list[tuple[int, str]]:
        """Return (descriptor, direction) of the members of an epoll set (fdinfo `tfd:` lines)."""
        members = []
        for name, value in self._fdinfo(fd):
            field = value.split()
            if name == "tfd" and len(field) >= 3 and field[1] == "events:":
                events = int(field[2], 16)
                members.append((int(field[0]), "w" if events & 0x4 and not events & 0x1 else "r"))
                self._check_member(int(field[0]), value)
        return members

    def _check_member(self, fd: int, value: str) -> None:
        """Set `gap` if an epoll member was closed but lives on in another descriptor.

        Then `fd` is something else or nothing, which shows in the inode (`ino:`, Linux 4.14 and later).
        """
        found = describe(self._pid, fd)
        inode = re.search(r"\bino:\s*([0-9a-f]+)", value)
        known = found is not None and found.kind in ("pipe", "socket", "file")
        if found is None or (known and inode is not None and int(inode[1], 16) != found.number):
            self.gap = f"its epoll set has a file that was closed as descriptor {fd}"

    def sharers(self, fd: int) -> frozenset[int]:
        """Return the other processes that inherited an epoll set, under the same number, and may add to it."""
        others = (pid for pid in self._view.scene.index().epolls(fd) if pid != self._pid)
        return frozenset(pid for pid in others if same_file((self._pid, fd), (pid, fd)) is not False)

    def epoll_members(self, fd: int, depth: int = 0) -> list[Waited]:
        """Return what the members of an epoll set wait for."""
        return [w for member, way in self.epoll_set(fd) for w in self.waited(member, way, polled=True, depth=depth)]

    def _fdinfo(self, fd: int) -> list[tuple[str, str]]:
        try:
            return fdinfo(self._pid, fd)
        except OSError:
            return []

    def _holdings(self, pids: set[int], evidence: str, polled: bool) -> tuple[Holding, ...] | None:
        """Return the holders by process; None if only the process itself has the polled end (a way to wake itself)."""
        if polled and pids == {self._pid}:
            return None
        host = self._view.scene.host
        return tuple(Holding(ids.process(host, pid), f"{evidence} (pid {pid})") for pid in sorted(pids))

    def _resource(self, kind: str, number: int | str, name: str, state: str, **more: Any) -> Resource:
        target = ids.fd_object(kind, self._view.scene.host, number)
        return Resource(id=target, kind=kind, name=name, state=state or None, **more)

    def _pipe(self, found: Descriptor, direction: str, polled: bool) -> Waited:
        wanted, state = ("w", "empty") if direction == "r" else ("r", "full")
        everybody = self._view.scene.index().holders(found)
        pids = {holder.pid for holder in everybody if wanted in holder.access}
        end = "write" if wanted == "w" else "read"
        holders = self._holdings(pids, f"has the {end} end of {found.key} open", polled)
        readers = sorted({h.pid for h in everybody if "r" in h.access})
        writers = sorted({h.pid for h in everybody if "w" in h.access})
        attributes = {"readers": " ".join(map(str, readers)), "writers": " ".join(map(str, writers))}
        ends = outside(found, everybody, pids) if holders else ""
        name = f"pipe {found.fd} of {self._pid}" if found.link.startswith("pipe:") else _shown(found.link)
        resource = self._resource(
            "pipe", found.number, name, state, outside=ends, wakes_itself=holders is None, attributes=attributes
        )
        evidence = f"fd {found.fd} -> {_shown(found.link)}, waits until it is not {state}"
        wakers = Wakers(frozenset(pids), outside=unseen_end(found, everybody, pids))
        return Waited(resource.id, evidence, resource, holders or (), wakers=wakers)

    def _socket(self, found: Descriptor, direction: str, polled: bool) -> Waited:
        socket = self._view.scene.sockets(self._pid).get(found.number)
        if socket is None:
            resource = self._resource("socket", found.number, f"socket {found.fd} of {self._pid}", "")
            from_outside = Wakers(outside=f"socket {found.fd} has an end outside (netlink, or another network)")
            return Waited(resource.id, f"fd {found.fd} -> {found.link}", resource, wakers=from_outside)
        index = self._view.scene.index()
        ends_at, has = self._other_end(socket)
        pids = {pid for inode in ends_at for pid in index.sockets(inode)}
        holders = self._holdings(pids, has, polled)
        peer = " ".join(f"process {pid}" for pid in sorted(pids)) or socket.remote
        known = {"protocol": socket.protocol, "local": _shown(socket.local), "peer": peer}
        ends = outside(found, (), pids) if holders else ""
        name = f"{socket.protocol} socket {found.fd} of {self._pid}"
        resource = self._resource(
            "socket",
            found.number,
            name,
            socket.state,
            outside=ends,
            listening=socket.listening,
            idle="datagrams" if socket.serves and direction == "r" else "",
            wakes_itself=holders is None,
            facts=self._socket_facts(socket, ends_at),
            attributes={name: text for name, text in known.items() if text},
        )
        wants = "a connection" if socket.listening else "data" if direction == "r" else "room"
        words = (f"fd {found.fd} -> {found.link}", _ends(socket), socket.state)
        evidence = f"{' '.join(word for word in words if word)}, waits for {wants}"
        wakers = self._socket_wakers(found, socket, pids)
        return Waited(resource.id, clean_line(evidence), resource, holders or (), wakers=wakers)

    def _socket_facts(self, socket: Socket, ends_at: list[int]) -> SocketFacts | None:
        if socket.listening:
            index = self._view.scene.index()
            connections = self._view.scene.sockets(self._pid).accepted(socket)
            accepted = sorted(one.inode for one in connections if self._pid in index.sockets(one.inode))
            return SocketFacts(servers=tuple(sorted(index.sockets(socket.inode))), accepted=tuple(accepted))
        if len(ends_at) != 1:
            return None
        other = self._view.scene.sockets(self._pid).get(ends_at[0])
        if other is None or other.listening:  # nobody has accepted it yet
            return None
        unread = unix_unread(other.inode) if other.protocol == "unix" else other.unread
        return SocketFacts(other_end=other.inode, unread=unread)

    def _socket_wakers(self, found: Descriptor, socket: Socket, pids: set[int]) -> Wakers:
        """Return the processes with the other end, and those with the same end, which could shut it down."""
        if socket.listening:
            return Wakers(outside=f"a connection to socket {found.fd}")
        if socket.datagram:
            return Wakers(outside=f"a datagram that anyone sends to socket {found.fd}")
        if not pids:
            return Wakers(outside=f"no process that can be seen has the other end of socket {found.fd}")
        return Wakers(frozenset(pids) | frozenset(self._view.scene.index().sockets(found.number)) | {self._pid})

    def _other_end(self, socket: Socket) -> tuple[list[int], str]:
        """Return the sockets at the other end, and what their owner has, as evidence."""
        if socket.listening:
            return [], ""
        if socket.protocol == "unix":
            peer = unix_peer(socket.inode) if same_network(self._pid) else None
        else:
            table = self._view.scene.sockets(self._pid)
            if queues := table.accepting(socket):
                return queues, f"has not accepted the connection, in the queue of socket:[{queues[0]}]"
            peer = table.peer(socket)
        return [peer] if peer else [], f"has the other end open, socket:[{peer}]"

    def _eventfd(self, found: Descriptor, polled: bool) -> Waited:
        pids = {holder.pid for holder in self._view.scene.index().holders(found)} | {self._pid}
        holders = self._holdings(pids, f"has {found.key} open", polled)
        ends = outside(found, (), pids) if holders else ""
        number = found.number or f"{self._pid}.{found.fd}"
        unknown = "" if found.number else f"this kernel does not say who has eventfd {found.fd} open"
        name = f"eventfd {found.fd} of {self._pid}"
        resource = self._resource("eventfd", number, name, "0", outside=ends, wakes_itself=holders is None)
        wakers = Wakers(frozenset(pids), outside=unknown)
        return Waited(resource.id, f"fd {found.fd} -> {found.link} id {number}", resource, holders or (), wakers=wakers)

    def _pidfd(self, fd: int) -> list[Waited]:
        for name, value in self._fdinfo(fd):
            if name == "Pid" and value.isdigit() and int(value) > 0:
                target = ids.process(self._view.scene.host, int(value))
                return [Waited(target, f"fd {fd} is a pidfd of {value}", wakers=Wakers(frozenset({int(value)})))]
        return []

    def _armed(self, fd: int) -> bool:
        """Return whether a timerfd will fire: `it_value: (0, 0)` means that it won't."""
        return any(name == "it_value" and value != "(0, 0)" for name, value in self._fdinfo(fd))

    def _file(self, found: Descriptor, direction: str) -> Waited:
        """Return a wait whose other end is no process of this machine: a terminal, a device, signals."""
        link = _shown(found.link)
        attributes, idle = {"what": found.kind, "path": link}, awaited_idly(self._pid, found, direction)
        resource = self._resource("file", f"{self._pid}.{found.fd}", link, "", idle=idle, attributes=attributes)
        return Waited(resource.id, f"fd {found.fd} -> {link}", resource, wakers=Wakers(outside=_source(found, link)))


def _shown(text: str) -> str:
    return clean_line(text, _SHOWN)


def _source(found: Descriptor, link: str) -> str:
    """Return what ends a wait without a process at the other end: `a key of /dev/pts/3`, `a signal`."""
    if found.kind == "tty":
        return f"a key of {link}"
    if found.kind == "signalfd":
        return "a signal"
    return f"{found.kind} {found.fd}" if link.startswith("anon_inode:") else link


def _ends(socket: Socket) -> str:
    return f"{socket.local} - {socket.remote}" if socket.remote else socket.local


_SETLKW: Final = {7: ("fcntl lock", "POSIX"), 38: ("open file description lock", "OFDLCK")}  # F_SETLKW, F_OFD_SETLKW
_FLOCK: Final = struct.Struct("<hh4xqq")
"""struct flock of LP64, as far as `l_len`."""


class FileLockWaits:
    """Describes the waits of one process for file locks."""

    def __init__(self, view: ProcessView) -> None:
        self._view = view
        self._pid = view.pid

    def flock(self, call: BlockedSyscall) -> Wait:
        return self._wait(c_int(call.args[0]), "flock", "FLOCK", "0 EOF")

    def fcntl(self, call: BlockedSyscall) -> Wait:
        """Return the wait of a fcntl(2) call with F_SETLKW or F_OFD_SETLKW."""
        words = _SETLKW.get(c_int(call.args[1]))
        if words is None:
            return Wait("fcntl", kind=WaitKind.FILE_LOCK)
        fd = c_int(call.args[0])
        return self._wait(fd, *words, self._range(fd, call.args[2]))

    def _range(self, fd: int, address: int) -> str | None:
        """Return the bytes that a call asks for, in the format of /proc/locks: `10 19`, `0 EOF`."""
        try:
            _, whence, start, length = _FLOCK.unpack(memory.read(self._pid, address, _FLOCK.size))
            if whence == os.SEEK_CUR:
                start += next(int(value) for name, value in fdinfo(self._pid, fd) if name == "pos")
            elif whence == os.SEEK_END:
                start += os.stat(f"/proc/{living_task(self._pid)}/fd/{fd}").st_size  # noqa: PTH116 (a magic link)
        except (OSError, StopIteration, ValueError):
            return None
        if length < 0:
            return f"{start + length} {start - 1}"
        return f"{start} {start + length - 1 if length else 'EOF'}"

    def _wait(self, fd: int, verb: str, kind: str, span: str | None) -> Wait:
        found = describe(self._pid, fd)
        if found is None or not found.number:
            return Wait(f"{verb} of descriptor {fd}", kind=WaitKind.FILE_LOCK)
        host = self._view.scene.host
        name = clean_line(found.link, 200)
        waited = []
        for lock in blocking_locks(self._view.scene.locks(), kind, self._pid, found.number, span):
            pids = [lock.pid] if kind == "POSIX" and lock.pid > 0 else self._holders(found, lock)
            first, _, last = lock.range.partition(" ")
            part = "" if lock.range == "0 EOF" else f"bytes {first} to {last} of "
            target = ids.fd_object("flock", host, f"{lock.file}:{first}-{last}" if part else lock.file)
            attributes = {"kind": lock.kind, "mode": lock.mode, "range": lock.range, "path": name}
            resource = Resource(id=target, kind="flock", name=f"{part}{name}", state="locked", attributes=attributes)
            text = f"/proc/locks {lock.number}: {lock.kind} {lock.mode} {lock.pid} {lock.file} {lock.range}"
            holders = tuple(Holding(ids.process(host, pid), text) for pid in pids)
            unseen = "" if pids else f"who holds the lock of {name} can't be seen"
            waited.append(Waited(target, text, resource, holders, wakers=Wakers(frozenset(pids), outside=unseen)))
        return Wait(f"{verb} of {name}", False, tuple(waited), kind=WaitKind.FILE_LOCK)

    def _holders(self, found: Descriptor, lock: FileLock) -> list[int]:
        """Return the processes whose fdinfo shows the lock (`lock:`).

        The process that took it may have ended while its children still hold it.
        """
        pids = set()
        for pid, fd in self._view.scene.index().opened(found.link):
            try:
                lines = [value for name, value in fdinfo(pid, fd) if name == "lock"]
            except OSError:
                continue
            for held in parse_locks("\n".join(lines).encode()):
                same = (held.kind, held.mode, held.file, held.range) == (lock.kind, lock.mode, lock.file, lock.range)
                if same and not held.waits:
                    pids.add(pid)
        return sorted(pids) or ([lock.pid] if lock.pid > 0 else [])


def c_int(word: int) -> int:
    """Return the C int in a machine word."""
    return (word & 0xFFFFFFFF) - (word << 1 & 0x100000000)
