"""Request a GPU core dump from the CUDA driver in a process, wait for the file, enter it in the ledger, read it.

The kernels on the device are stopped from the request to the end of the dump; host threads run on until they wait for
the device. The time is measured from the first byte of the request until the driver has closed the file.

Invariants:
    dump_request.U1. No pipe and no file is created. Only the request is written, and only to a pipe that the process
        reads.
    dump_request.U2. The request is one byte. More are written only if nothing happens for a while, because the driver
        reads by blocks; never more than a megabyte, and never so that the write would block.
    dump_request.U3. A file counts as the dump if it is new or has changed since the request, nobody has it open, its
        size no longer changes, and its section table says that it is complete.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.cuda.cudagdb.core_dump import is_whole, open_core, sort_cores
from livedbg.adapters.cuda.cudagdb.dump_files import DumpPipe, is_open
from livedbg.linux.procfs import all_ended, process_exists
from livedbg.model import Intrusion
from livedbg.model.devices import DeviceState
from livedbg.model.errors import TargetError, TargetGone, TargetUnsuitable, TouchRefused
from livedbg.session.pacing import Limit, timed
from livedbg.text.quantities import duration
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.touch.config import refuse_touch

_LIMIT: Final = Limit(wall=0.2, least_s=0.05)  # of scans of a folder with many files
_PATIENCE_S: Final = 2.0  # after which more than a byte is written
_MOST_BYTES: Final = 1 << 20
_STEADY: Final = 2  # scans in a row with the same size


@dataclass(frozen=True, slots=True)
class WrittenDump:
    """A written dump.

    Attributes:
        path: as we can open it.
        took_ns: from the request to the complete file: an upper limit of the kernels' stop.
    """

    path: Path
    took_ns: int


class NoDump(TargetError):
    """The dump was requested, and no complete dump appeared in time."""


async def send_request(place: DumpPipe, limit_s: float = 60.0) -> WrittenDump:
    """Request a dump and wait for it.

    Raises:
        TouchRefused: intrusive actions are forbidden on this host.
        TargetGone, TargetUnsuitable: nobody reads the pipe any more; nothing was written.
        NoDump: it was requested and did not appear in time.
    """
    refuse_touch(None, "A GPU core dump would be asked for: the kernels are stopped while it is written")
    before = await asyncio.to_thread(place.files.dumps)
    pipe = _open(place)
    since_ns = time.monotonic_ns()
    try:
        _write_request(place, pipe)
        return await _wait(place, pipe, before, since_ns, limit_s)
    finally:
        os.close(pipe)


def _open(place: DumpPipe) -> int:
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


def _write_request(place: DumpPipe, pipe: int) -> None:
    """Write the first byte of the request; raise TargetUnsuitable if no process reads it, or the pipe is full."""
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


def _unread(place: DumpPipe) -> TargetUnsuitable:
    return TargetUnsuitable(f"Process {place.pid} no longer reads {place.pipe}.", "try again", "dump-pipe")


async def _wait(
    place: DumpPipe, pipe: int, before: dict[Path, tuple[int, int]], since_ns: int, limit_s: float
) -> WrittenDump:
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
                return WrittenDump(path, waited_ns)
        ended = all_ended(place.pid)
        if waited_ns > limit_s * 1e9 or (ended and (not new or steady > _STEADY)):
            raise _none(place, last if new else None, waited_ns)
        await asyncio.sleep(_LIMIT.rest_s(cost))


def _write_more(pipe: int, most: int) -> int:
    """Return how many more bytes were written; all if the request was accepted and the pipe closed."""
    try:
        return os.write(pipe, bytes(most))
    except BlockingIOError:
        return 0  # it is full: the driver reads it when it comes to it
    except BrokenPipeError:
        return most


def _none(place: DumpPipe, last: tuple[Path, int] | None, waited_ns: int) -> NoDump:
    waited = duration(waited_ns)
    if all_ended(place.pid):
        return NoDump(f"Process {place.pid} ended after the dump was asked for.", "", "ended-dumping")
    if last is not None:
        path = clean_line(str(last[0]))
        return NoDump(
            f"The driver is still writing {path}: {last[1]:,} bytes after {waited}.",
            f"wait until it is whole, then: livedbg device {shell_word(path)}; or give more time with --timeout",
            "still-dumping",
        )
    return NoDump(
        f"The driver wrote no dump within {waited}; it may still come.",
        f"look for {place.files.words} in the folder of process {place.pid}; --timeout waits longer",
        "no-dump",
    )


def refuse_abort(place: DumpPipe) -> None:
    """Raise TouchRefused if a dump may end the process: its environment doesn't say that it goes on."""
    if not place.survives:
        raise TouchRefused(
            f"The driver may abort process {place.pid} after the dump: skip_abort is not among its "
            "CUDA_COREDUMP_GENERATION_FLAGS.",
            f"livedbg device {place.pid} --dump --may-abort takes the risk",
            "may-abort",
        )


async def request_dump(
    place: DumpPipe, target: str, touched: Callable[[Intrusion], None], limit_s: float
) -> WrittenDump:
    """Request a dump, and enter it in the ledger.

    Args:
        place: the pipe for the request.
        target: id of the process.
        touched: receives the ledger entry, also if no dump appeared.

    Raises:
        TouchRefused, TargetGone, TargetUnsuitable: refused; nothing was done to the target.
        NoDump: no complete dump appeared in time.
    """
    at_wall_ns = time.time_ns()

    def entry(took_ns: int, *, measured: bool) -> Intrusion:
        why = "requested: GPU state; its kernels were stopped at most this long"
        return Intrusion(
            target=target,
            what="gpu dump",
            why=why if measured else "requested: GPU state; no complete dump appeared in this time",
            paused_ns=took_ns,
            stops=1,
            measured=measured,
            at_wall_ns=at_wall_ns,
        )

    try:
        dumped = await send_request(place, limit_s)
    except (TouchRefused, TargetGone, TargetUnsuitable):
        raise
    except BaseException:
        touched(entry(time.time_ns() - at_wall_ns, measured=False))
        raise
    touched(entry(dumped.took_ns, measured=True))
    return dumped


async def read_dump(gdb: str, dumped: WrittenDump, place: DumpPipe, target: str, limit_s: float) -> DeviceState:
    """Return the state in a dump; raise SourceError, GdbGone, GdbTimeout or ToolMissing if it can't be read."""
    core, _host = sort_cores([dumped.path])
    state = await open_core(gdb, core, None, target, source="dump on request", limit_s=limit_s, pid=place.pid)
    if all_ended(place.pid):
        return replace(state, notes=(*state.notes, f"Process {place.pid} has ended after the dump."))
    return state
