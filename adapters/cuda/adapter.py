"""The CUDA adapter: the decoder of CUDA errors in logs, and the kernel's log if readable.

The decoder knows the trigger words, and loads the full parser when one occurs.

The kernel's log, as far as it is about NVIDIA's GPUs, is read from /dev/kmsg if permitted. Source:
Documentation/ABI/testing/dev-kmsg of the Linux kernel: each read gives one record,
`PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;MESSAGE`, whose time is since boot; EAGAIN at the end, EPIPE if records were
overwritten before they were read. Nothing is ever written to it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from msgspec import structs

from livedbg.adapters.cuda.checks import uses_gpu
from livedbg.adapters.cuda.statement import RULE
from livedbg.linux.procfs import read_stat
from livedbg.logs.decoder import LogDecoder
from livedbg.model import LogRecord, LogSource, Severity
from livedbg.model.events import Event, LogSourceSeen, LogsSeen, Stamp
from livedbg.session.adapter import Context, Request
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Statuses
from livedbg.session.signatures import book
from livedbg.signatures.decoder import SignatureDecoder
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:
    from livedbg.adapters.cuda.log_reader import CudaReader

_RULE: Final = f"{RULE} ".encode()


class CudaDecoder(LogDecoder):
    """Converts CUDA errors in logs to diagnostics and exceptions."""

    name = "cuda"
    triggers: ClassVar[tuple[bytes, ...]] = (
        _RULE,
        b"] Assertion ",
        b"GPU assertion failure message",
        b"coredump: ",
        b"CUDA Exception: ",
        b"CUDA_EXCEPTION_",
        b"[Switching focus to CUDA kernel",
        b"[Current focus set to CUDA kernel",
        b"The exception was triggered at PC",
        b"<<<(",
        b"[CUDA][",
        b"CUDA_DEVICE_WAITS_ON_EXCEPTION is set",
    )
    exact: ClassVar[Mapping[bytes, re.Pattern[bytes]]] = {_RULE: lazy_re(rb"(?<!=)" + _RULE)}

    def __init__(self) -> None:
        self._sources: list[LogSource] = []
        self._reader: CudaReader | None = None

    def opened(self, source: LogSource) -> None:
        self._sources.append(source)
        if self._reader is not None:
            self._reader.opened(source)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        if self._reader is None:
            self._reader = self._load()
        return self._reader.feed(record, stamp)

    def knows(self, record: LogRecord) -> bool:
        """Return whether a record belongs to a compute-sanitizer report, which is understood at its end."""
        return self._reader is not None and record.text.startswith(RULE) and self._reader.is_report(record.text)

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        """End open reports, and return the counted errors."""
        return self._reader.flush(stamp) if self._reader is not None else ()

    def _load(self) -> CudaReader:
        from livedbg.adapters.cuda.log_reader import CudaReader  # patterns take some 20 ms; most sessions need none

        reader = CudaReader()
        for source in self._sources:
            reader.opened(source)
        return reader


_POLL_S: Final = 2.0
_DRIVER: Final = Path("/proc/driver/nvidia")
_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_BEFORE_NS: Final = 5_000_000_000  # messages from so long before a target began are still of interest


class CudaAdapter(PolledAdapter):
    """Errors of CUDA, from logs and from the kernel's log.

    Option of a request: `cuda.kernel-log`, a file to read instead of /dev/kmsg.
    """

    name = "cuda"
    sees = (
        "errors of CUDA in logs: the driver's own log, compute-sanitizer, device asserts, Xids, PyTorch's error blocks"
    )
    cost = "reads log lines that are read anyway, and /dev/kmsg where there is an NVIDIA driver; nothing is touched"

    def __init__(self) -> None:
        super().__init__()
        self._statuses = Statuses(self.name)

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        return (CudaDecoder(),)

    async def run(self, context: Context) -> None:
        """Read the kernel's log, if this host has an NVIDIA driver and permits it."""
        named = context.request.options.get("cuda.kernel-log")
        if not context.request.processes or not (named or _DRIVER.exists()):
            context.settled()
            return
        self._log = KernelLog(Path(named)) if named else KernelLog()
        try:
            await super().run(context)
        except OSError as error:  # it may be for root alone
            uses = await asyncio.to_thread(uses_gpu, [target.pid for target in context.request.processes])
            if named or uses:
                path = clean_line(str(self._log.path))
                sentence = f"{path} can't be read ({error.strerror}): Xids are known from named logs only."
                self._statuses.say(
                    context, _source(context).id, "kernel-log", sentence, "sudo dmesg | grep 'NVRM: Xid'"
                )
            context.settled()
        finally:
            self._log.close()

    async def begin(self, context: Context) -> bool:
        self._since_ns = await asyncio.to_thread(_since, context.request)
        self._decoder = SignatureDecoder(lambda: book(context.request.signatures)[0])
        self._decoder.opened(_source(context))
        return True

    async def look(self, context: Context) -> float:
        lines = await asyncio.to_thread(self._log.read)
        fresh = [line for line in lines if line.since_boot_ns >= self._since_ns]
        if fresh:
            self._report(context, fresh)
        return _POLL_S

    def _report(self, context: Context, lines: Sequence[KernelLine]) -> None:
        source, stamp = _source(context), context.stamp()
        booted_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        records: list[LogRecord] = []
        events: list[Event] = []
        for line in lines:
            at_ns = booted_ns + line.since_boot_ns
            record = LogRecord(source=source.id, text=line.text, severity=Severity.CRITICAL, wall_ns=at_ns)
            fresh, links = self._decoder.feed(record, stamp)
            events += fresh
            records.append(structs.replace(record, links=links))
        context.emit(LogSourceSeen(source=source, **stamp), LogsSeen(records=tuple(records), **stamp))
        context.emit(*events, *self._decoder.flush(stamp))


def _source(context: Context) -> LogSource:
    return LogSource(id=f"log:{context.request.host}/kernel", name="kernel")


def _since(request: Request) -> int:
    """Return the start of the first target in nanoseconds since boot; 0 if not known."""
    known = []
    for target in request.processes:
        try:
            known.append(target.start_ticks or read_stat(target.pid).start_ticks)
        except (OSError, ValueError, IndexError):
            return 0  # it has ended: what the kernel said of it came before
    return max(0, min(known, default=0) * _TICK_NS - _BEFORE_NS)


_RECORD: Final = lazy_re(rb"\d{1,10},\d{1,20},(?P<time>\d{1,18}),[^;\n]*;(?P<text>[^\n]*)")
_WANTED: Final = b"NVRM: Xid"
_PIECE: Final = 16 * 1024  # bytes; a record is 8 KiB at most
_MOST_READS: Final = 100_000  # in one call


class KernelLine(NamedTuple):
    """A kernel message."""

    since_boot_ns: int
    text: str


class KernelLog:
    """Reads new messages; never blocks."""

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        self.path = path
        self._fd: int | None = None
        self._rest = b""

    def read(self) -> list[KernelLine]:
        """Return the new messages about GPUs; raise OSError if the log can't be read."""
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        found: list[KernelLine] = []
        for _ in range(_MOST_READS):
            try:
                piece = os.read(self._fd, _PIECE)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    continue
                if error.errno == errno.EAGAIN:
                    break
                raise
            if not piece:
                break
            *lines, self._rest = (self._rest + piece).split(b"\n")
            self._rest = self._rest[-_PIECE:]
            found += [line for line in map(_line, lines) if line is not None]
        return found

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _line(data: bytes) -> KernelLine | None:
    match = _RECORD.match(data) if _WANTED in data else None
    if match is None:
        return None
    text = clean_line(match["text"].decode("utf-8", "replace"), 2_000)
    return KernelLine(int(match["time"]) * 1000, text)
