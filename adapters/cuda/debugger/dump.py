"""Asks the CUDA driver in a process for a GPU core dump, and waits until the file is whole.

The kernels on the device stand from the order to the end of the dump; host threads go on until they wait for the
device. How long that is, is measured from the first byte of the order until the driver has closed the file.

Invariants:
    dump.U1. Nothing is made: no pipe, no file. What is written is the order, and only to a pipe that the process reads.
    dump.U2. The order is one byte. Only where nothing happens for a while are more written, as the driver reads by
        blocks; never beyond a megabyte, and never so that it would block.
    dump.U3. A file counts as the dump when it is new or has changed since the order, nobody has it open, its size
        stands still, and its section table says that it is whole.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from livedbg.adapters.cuda.debugger.corefile import read_core
from livedbg.adapters.cuda.debugger.dumpfiles import is_open
from livedbg.adapters.cuda.debugger.pipes import DumpPlace
from livedbg.linux.procfs import process_exists, read_stat
from livedbg.model import ThreadState
from livedbg.model.errors import SourceError, TargetError, TargetGone, TargetUnsuitable
from livedbg.session.pacing import Limit, timed
from livedbg.text.sanitize import clean_line
from livedbg.touch.config import refuse_touch

__all__ = ["Dumped", "NoDump", "ask_for_dump", "has_ended", "is_whole"]

_LIMIT: Final = Limit(wall=0.2, least_s=0.05)  # of looks at a folder of many files
_PATIENCE_S: Final = 2.0  # after which more than a byte is written
_MOST_BYTES: Final = 1 << 20
_STEADY: Final = 2  # looks in a row that see the same size


@dataclass(frozen=True, slots=True)
class Dumped:
    """A dump that was written.

    Attributes:
        path: as we can open it.
        took_ns: from the order until it was whole: the kernels stood no longer.
    """

    path: Path
    took_ns: int


class NoDump(TargetError):
    """The order was given, and no whole dump came in time."""


async def ask_for_dump(place: DumpPlace, limit_s: float = 60.0) -> Dumped:
    """Order a dump and wait for it.

    Raises:
        TouchRefused: touches are forbidden on this box.
        TargetGone, TargetUnsuitable: nobody reads the pipe any more; nothing was written.
        NoDump: it was ordered and did not come in time.
    """
    refuse_touch(None, "A GPU core dump would be asked for: the kernels stand while it is written")
    before = await asyncio.to_thread(place.files.dumps)
    pipe = _open(place)
    since_ns = time.monotonic_ns()
    try:
        _order(place, pipe)
        return await _wait(place, pipe, before, since_ns, limit_s)
    finally:
        os.close(pipe)


def _open(place: DumpPlace) -> int:
    try:
        pipe = os.open(place.opened_by, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if not process_exists(place.pid):
            raise TargetGone(f"Process {place.pid} has ended.", "", "gone") from None
        if error.errno == errno.ENXIO:
            raise _unread(place) from None
        raise TargetUnsuitable(f"{place.pipe} can't be written to: {error.strerror}.", "", "dump-pipe") from None
    status = os.fstat(pipe)
    if not stat.S_ISFIFO(status.st_mode) or (status.st_dev, status.st_ino) != place.identity:
        os.close(pipe)
        raise _unread(place)
    return pipe


def _order(place: DumpPlace, pipe: int) -> None:
    """Write the order's first byte.

    Raises:
        TargetUnsuitable: nobody reads it any more, or earlier orders fill the pipe; nothing was written.
    """
    try:
        os.write(pipe, b"1")
    except BrokenPipeError:
        raise _unread(place) from None
    except BlockingIOError:
        raise TargetUnsuitable(
            f"Process {place.pid} has not read earlier orders: {place.pipe} is full. Its driver may hang.",
            "nvidia-smi; dmesg | grep 'NVRM: Xid'",
            "dump-pipe-full",
        ) from None


def _unread(place: DumpPlace) -> TargetUnsuitable:
    return TargetUnsuitable(f"Process {place.pid} no longer reads {place.pipe}.", "try again", "dump-pipe")


async def _wait(
    place: DumpPlace, pipe: int, before: dict[Path, tuple[int, int]], since_ns: int, limit_s: float
) -> Dumped:
    written, steady, last = 1, 0, (Path(), 0)
    while True:
        dumps, cost = await asyncio.to_thread(timed, place.files.dumps)
        waited_ns = time.monotonic_ns() - since_ns
        new = {path: seen for path, seen in dumps.items() if before.get(path) != seen}
        if not new and waited_ns > _PATIENCE_S * 1e9 and written < _MOST_BYTES:
            written += _write_more(pipe, _MOST_BYTES - written)
        if new:
            path = max(new, key=lambda candidate: new[candidate])
            steady = steady + 1 if (path, new[path][1]) == last else 0
            last = (path, new[path][1])
            if steady >= _STEADY and not is_open(place.pid, path) and await asyncio.to_thread(is_whole, path):
                return Dumped(path, waited_ns)
        ended = has_ended(place.pid)
        if waited_ns > limit_s * 1e9 or (ended and (not new or steady > _STEADY)):
            raise _none(place, last if new else None, waited_ns)
        await asyncio.sleep(_LIMIT.rest_s(cost))


def _write_more(pipe: int, most: int) -> int:
    """How much more was written of the order; all of it where the order has been taken and the pipe closed."""
    try:
        return os.write(pipe, bytes(most))
    except BlockingIOError:
        return 0  # it is full: the driver reads it when it comes to it
    except BrokenPipeError:
        return most


def has_ended(pid: int) -> bool:
    """Whether a process runs no more: it is gone, or a zombie."""
    try:
        return read_stat(pid).state in (ThreadState.ZOMBIE, ThreadState.DEAD)
    except OSError:
        return True


def is_whole(path: Path) -> bool:
    """Whether all is there that a core dump's headers speak of; a compressed one is taken for whole."""
    try:
        return read_core(path).missing == 0
    except SourceError as error:
        return error.code == "compressed"


def _none(place: DumpPlace, last: tuple[Path, int] | None, waited_ns: int) -> NoDump:
    waited = f"{waited_ns / 1e9:.0f} s"
    if has_ended(place.pid):
        return NoDump(f"Process {place.pid} ended after the dump was asked for.", "", "ended-dumping")
    if last is not None:
        path = clean_line(str(last[0]))
        return NoDump(
            f"The driver is still writing {path}: {last[1]:,} bytes after {waited}.",
            f"wait until it is whole, then: livedbg device {path}; or give more time with --timeout",
            "still-dumping",
        )
    return NoDump(
        f"The driver wrote no dump within {waited}; it may still come.",
        f"look for {place.files.words} in the folder of process {place.pid}; --timeout waits longer",
        "no-dump",
    )
