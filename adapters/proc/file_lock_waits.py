"""Waits for file locks: from flock(2) and fcntl(2) calls to the locks in /proc/locks and the processes that hold them.

A wait stands in /proc/locks behind the lock that it waits for, with the range that it asks for. That tells the waits of
two threads apart, and those of open file descriptions, which show no pid (proc_locks(5), fcntl_locking(2)).
"""

from __future__ import annotations

import os
import struct
from typing import Final

from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import Holding, Wait, Waited, Wakers
from livedbg.linux import memory
from livedbg.linux.descriptors import Descriptor, FileLock, blocking_locks, describe, fdinfo, parse_locks
from livedbg.linux.procfs import BlockedSyscall, living_task
from livedbg.model import Resource, WaitKind, ids
from livedbg.text.sanitize import clean_line

_SETLKW: Final = {7: ("fcntl lock", "POSIX"), 38: ("open file description lock", "OFDLCK")}  # F_SETLKW, F_OFD_SETLKW
_FLOCK: Final = struct.Struct("<hh4xqq")
"""struct flock of LP64, as far as `l_len`."""


class FileLockWaits:
    """Describes the waits of one process for file locks."""

    def __init__(self, view: ProcessView) -> None:
        self._view = view
        self._pid = view.pid

    def flock(self, call: BlockedSyscall) -> Wait:
        """A wait in flock(2)."""
        return self._wait(_int(call.args[0]), "flock", "FLOCK", "0 EOF")

    def fcntl(self, call: BlockedSyscall) -> Wait:
        """A wait in fcntl(2): F_SETLKW or F_OFD_SETLKW."""
        words = _SETLKW.get(_int(call.args[1]))
        if words is None:
            return Wait("fcntl", kind=WaitKind.FILE_LOCK)
        fd = _int(call.args[0])
        return self._wait(fd, *words, self._range(fd, call.args[2]))

    def _range(self, fd: int, address: int) -> str | None:
        """The bytes that a call asks for, as /proc/locks shows them: `10 19`, `0 EOF`."""
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
        """The processes in whose open files the kernel shows that lock (fdinfo `lock:`): the one that took it may have
        ended, and its children have it."""
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


def _int(word: int) -> int:
    """The C int in a machine word."""
    return (word & 0xFFFFFFFF) - (word << 1 & 0x100000000)
