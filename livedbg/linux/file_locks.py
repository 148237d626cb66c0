"""Advisory file locks: /proc/locks (proc_locks(5)): flock(2) and fcntl(2) record locks."""

from __future__ import annotations

from typing import NamedTuple

from livedbg.linux.lines import rows
from livedbg.linux.procfs import read_file


class FileLock(NamedTuple):
    """One lock, or one wait for a lock.

    Attributes:
        number: groups a lock with those that wait for it.
        kind: `FLOCK`, `POSIX`, `OFDLCK`, `LEASE`, …
        mode: `READ` or `WRITE`.
        pid: the process that took it; -1 for open-file-description locks.
        file: `MAJOR:MINOR:INODE`, the first two in hex.
        range: `0 EOF`.
        waits: it is a wait.
    """

    number: int
    kind: str
    mode: str
    pid: int
    file: str
    range: str
    waits: bool


def read_locks() -> list[FileLock]:
    """All locks that the kernel shows us, each followed by the waits for it."""
    return parse_locks(read_file("/proc/locks"))


def parse_locks(text: bytes) -> list[FileLock]:
    """The lines of /proc/locks, e.g. `1: -> FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`."""
    return list(rows(text, _parse))


def _parse(line: str) -> FileLock:
    field = line.split()
    waits = field[1] == "->"
    if waits:
        del field[1]
    start, end = field[6:8]
    return FileLock(int(field[0].rstrip(":")), field[1], field[3], int(field[4]), field[5], f"{start} {end}", waits)


def blocking_locks(locks: list[FileLock], kind: str, pid: int, inode: int, span: str | None = None) -> list[FileLock]:
    """The locks on the file with that inode that a wait of that kind waits for.

    Args:
        kind: of the wait: `FLOCK`, `POSIX` or `OFDLCK`.
        pid: who waits; open-file-description locks (`OFDLCK`) show no pid, so it doesn't count there.
        span: the range that is waited for, as in `FileLock.range`; None where it isn't known.
    """
    suffix = f":{inode}"
    wanted = {
        lock.number
        for lock in locks
        if lock.waits and lock.kind == kind and lock.pid in (pid, -1) and lock.file.endswith(suffix)
        if span is None or lock.range == span
    }
    return [lock for lock in locks if lock.number in wanted and not lock.waits]
