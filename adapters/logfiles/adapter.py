"""The adapter that reads logs, and feeds the decoders of all adapters.

It searches for new logs, checks each log's size, then reads slices of logs that have more, in turn, each in a worker
thread; records and events go on the stream before the next slice is read. Reading waits while the stream is full.
Searches get rarer while nothing happens, and never take more than a fiftieth of a core, nor a fifth of the time.
"""

from __future__ import annotations

import asyncio
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import Struct, field, structs

from livedbg.adapters.logfiles.catalogue import Candidate, Catalogue
from livedbg.linux import target_files
from livedbg.model import NO_LOG, OUT_OF_TIME, LogRecord, LogSource, SourceHealth, SourceStatus
from livedbg.model.errors import SourceError
from livedbg.model.events import Event, LogSourceSeen, LogsSeen, Stamp, StatusSeen
from livedbg.session.adapter import Adapter, Context, Request, logs_ended
from livedbg.session.pacing import Backoff, Cost, Limit, timed
from livedbg.text.quantities import byte_size
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many

if TYPE_CHECKING:
    from livedbg.adapters.logfiles.decoding import Decoding
    from livedbg.adapters.logfiles.feed import SourceFeed
    from livedbg.logs.decoder import LogDecoder
    from livedbg.logs.formats import LogFormats

_STATUSES_MANY: Final = 1_000  # entries of a folder that are looked at for a file
_NAMED: Final = 5


def damaged(source: LogSource, problem: str, size: int, stamp: Stamp) -> Event:
    """Return the status of a packed log that is truncated or corrupt after `size` unpacked bytes."""
    much = f"it was read up to there ({byte_size(size)})" if size else "nothing of it can be read"
    sentence = f"{source.name} {problem}: {much}."
    return status_event(source, SourceHealth.DEGRADED, stamp, sentence, code="damaged")


def empty_logs(names: Sequence[str], paths: Sequence[str], stamp: Stamp) -> Event:
    """Return the status of logs that are empty while others are not."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    status = SourceStatus(
        source="logs",
        target=clean_line(", ".join(paths)),
        health=SourceHealth.DEGRADED,
        code="empty",
        sentence=clean_line(f"{many(len(names), 'log')} without a line: {', '.join(names[:_NAMED])}{more}."),
    )
    return StatusSeen(status=status, **stamp)


def holds_no_file(paths: Sequence[str]) -> bool:
    """Return whether folders contain no file of any kind: other adapters read files that are no logs."""
    return not any(found.is_file() for path in paths for found in islice(Path(path).rglob("*"), _STATUSES_MANY))


def no_logs(paths: Sequence[str], stamp: Stamp) -> Event:
    """Return the status for named places that contain no log."""
    where = clean_line(", ".join(paths))
    status = SourceStatus(
        source="logs",
        target=where,
        health=SourceHealth.DEGRADED,
        code=NO_LOG,
        sentence=f"No log was found in {where}.",
        remedy="name the log files themselves: --logs FILE",
    )
    return StatusSeen(status=status, **stamp)


def not_read(source: LogSource, end_known: bool, stamp: Stamp) -> Event:
    """Return the status of a log not read to its end before a time limit; `end_known` if its last lines were read."""
    much = byte_size(source.pending) if source.pending > 1 else "a part"
    whole = f" of {byte_size(source.size)}" if source.size and source.pending > 1 else ""
    end = ", but for its last lines" if end_known else ""
    sentence = f"{source.name} was not read to its end in time: {much}{whole} is missing{end}."
    return status_event(source, SourceHealth.DEGRADED, stamp, sentence, "--timeout SECONDS", code=OUT_OF_TIME)


def not_opened(names: Sequence[str], stamp: Stamp) -> Event:
    """Return the status of logs that were not opened before a time limit."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    status = SourceStatus(
        source="logs",
        target="",
        health=SourceHealth.DEGRADED,
        code=OUT_OF_TIME,
        sentence=clean_line(f"{many(len(names), 'log')} not opened in time: {', '.join(names[:_NAMED])}{more}."),
        remedy="--timeout SECONDS",
    )
    return StatusSeen(status=status, **stamp)


def status_event(
    source: LogSource,
    health: SourceHealth,
    stamp: Stamp,
    sentence: str = "",
    remedy: str = "",
    *,
    code: str = "unreadable",
) -> Event:
    status = SourceStatus(
        source="logs",
        target=source.path or source.id,
        health=health,
        code=code,
        sentence=clean_line(sentence),
        remedy=clean_line(remedy),
    )
    return StatusSeen(status=status, **stamp)


_WHOLE_LIMIT: Final = 4 << 20  # a log that is bigger at the beginning is skimmed
_WHOLE_BUDGET: Final = 16 << 20  # and all logs beyond so many bytes in all
_SLICES_S: Final = 0.05  # of slices before what came out goes on the stream
_MANY: Final = 1_000  # entries of a folder that are looked at for a file
_LIMIT: Final = Limit(cpu=0.02, wall=0.2)  # a file system may be slow, and so may a busy machine
_SETTLE_S: Final = 0.7  # a live session does not wait longer for big logs
_ENDINGS: Final = 16 << 20  # bytes of the ends of logs that are kept while their beginnings are read
_BATCH: Final = 1000  # records in one event
_OPEN_AT_ONCE: Final = 200  # logs that are kept open between checks


class _Round(Struct):
    """The result of some slices."""

    records: list[LogRecord] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    busy: bool = False


def _is_empty(path: Path) -> bool:
    with suppress(OSError):
        status = target_files.status(path)
        return stat.S_ISREG(status.st_mode) and not status.st_size
    return False


class LogAdapter(Adapter):
    name: ClassVar[str] = "logs"
    sees: ClassVar[str] = (
        "log files, directories and globs that you name, the output of launched programs, and the logs that a "
        "target has open or names in its environment; the failure texts in them (`livedbg signatures`)"
    )
    cost: ClassVar[str] = "reads the files; no effect on the target"

    def __init__(self) -> None:
        self._feeds: list[SourceFeed] = []
        self._empty: list[Candidate] = []  # of a session that looks once
        self._decoding: Decoding | None = None  # made once a log was found, as the formats are
        self._formats: LogFormats | None = None
        self._turn = 0
        self._problems: dict[str, str] = {}
        self._binary: set[str] = set()
        self._damages: set[str] = set()
        self._troubled = False  # something that was named can't be read
        self._unopened: list[str] = []  # names of logs that were found
        self._endings = _ENDINGS  # bytes of ends that may be kept
        self._over = False  # out of time: what is still read does not count

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Return whether logs are named, or there are processes that may write some."""
        return bool(request.logs or request.processes)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        from livedbg.session.signatures import book
        from livedbg.signatures.crashes import CrashDecoder
        from livedbg.signatures.decoder import SignatureDecoder
        from livedbg.signatures.hung_tasks import HungTasks

        return (CrashDecoder(), SignatureDecoder(lambda: book(request.signatures)[0], [HungTasks()]))

    async def run(self, context: Context) -> None:
        try:
            await self._watch(context)
        finally:
            for feed in self._feeds:
                feed.close()
            context.logs_over()

    def out_of_time(self, context: Context) -> Sequence[Event]:
        """Return events from the ends of unread logs, and statuses of how much of each log is missing."""
        from livedbg.adapters.logfiles.decoding import Decoding

        self._over = True
        stamp = context.stamp()
        said: list[Event] = []
        for feed in self._feeds:
            source = feed.described(force=True) or feed.source
            if not source.pending:
                continue
            decoding = Decoding(self.decoders(context.request))
            decoding.opened(source, stamp)
            records = decoding.feed(feed.ending(), stamp)
            decoding.flush(stamp)
            said += [LogSourceSeen(source=source, **stamp), *decoding.take()]
            said += [LogsSeen(records=tuple(records), **stamp)] if records else []
            said.append(not_read(source, bool(records), stamp))
        return [*said, *([not_opened(self._unopened, stamp)] if self._unopened else [])]

    async def _watch(self, context: Context) -> None:
        self._once = context.request.once
        self._catalogue = Catalogue(context.request)
        self._budget = _WHOLE_BUDGET
        started = time.monotonic()
        settled, search_at = False, 0.0
        reads, searches = Backoff(0.1, 1.0, 1.3), Backoff(1.0, 5.0, 1.5)
        while True:
            if time.monotonic() >= search_at:
                found, cost = await self._search(context)
                search_gap_s = searches.reset() if found else searches.grow()
                search_at = time.monotonic() + max(search_gap_s, _LIMIT.rest_s(cost))
            ended = logs_ended(context)  # asked before reading: what was written until then is there
            round_, cost = await asyncio.to_thread(timed, self._slices, context.stamp())
            self._emit(context, round_)
            await context.drain()
            caught_up = not round_.busy
            rest_s = _LIMIT.rest_s(cost) if settled else 0.0  # decoders are made as the first log is read, and once
            if not settled and (caught_up or (not context.request.once and self._only_skims(started))):
                await self._settle(context)
                settled = True
                if context.request.once:
                    return
            if caught_up:
                if self._decoding is not None and self._decoding.fed:
                    self._flush(context)
                if ended and not round_.records:
                    self._end_buffered(context, self._feeds)
                    return
                await context.sleep(reads.reset() if round_.records else max(reads.grow(), rest_s))

    # finding logs

    async def _search(self, context: Context) -> tuple[bool, Cost]:
        """Find logs; return whether there were new ones, and the cost."""
        host = context.request.host
        pids = [
            process.pid
            for process in context.snapshot().processes.values()
            if context.request.tree and process.host == host and not process.exited
        ]
        found, cost = await asyncio.to_thread(timed, self._catalogue.search, pids)
        stamp = context.stamp()
        self._troubled = self._troubled or bool(found.statuses)
        for status in found.statuses:
            context.emit(StatusSeen(status=status, **stamp))
        for feed in self._feeds:
            if feed.source.id in found.owners:
                feed.source = structs.replace(feed.source, process=found.owners[feed.source.id])
                context.emit(LogSourceSeen(source=feed.source, **stamp))
        empty = [candidate for candidate in found.new if self._once and _is_empty(candidate.path)]
        nothing = [structs.replace(candidate.source, size=0) for candidate in empty]
        self._emit(context, _Round(events=[LogSourceSeen(source=source, **stamp) for source in nothing]))
        self._empty += empty
        await self._begin([candidate for candidate in found.new if candidate not in empty], context)
        return bool(found.new), cost

    async def _begin(self, candidates: Sequence[Candidate], context: Context) -> None:
        """Open logs. Readers and decoders are imported for the first one: most processes have no log with a line."""
        if candidates and self._formats is None:
            from livedbg.adapters.logfiles.decoding import Decoding
            from livedbg.session.filereaders import known_log_formats

            self._decoding, self._formats = Decoding(context.decoders), known_log_formats()
        self._unopened = [candidate.source.name for candidate in candidates]
        for candidate in candidates:
            shown = await asyncio.to_thread(self._open, candidate, context.stamp())
            self._emit(context, shown)
            await context.drain()
            self._unopened = self._unopened[1:]

    def _open(self, candidate: Candidate, stamp: Stamp) -> _Round:
        from livedbg.adapters.logfiles.feed import SourceFeed

        assert self._formats is not None and self._decoding is not None
        try:
            feed = SourceFeed(candidate.source, candidate.path, self._decoding, self._formats)
            feed.poll()
            if self._once and self._endings > 0:
                self._endings -= feed.keep_ending()
            shown = feed.begin(min(_WHOLE_LIMIT, self._budget), stamp)
        except (SourceError, OSError) as error:
            return _Round(events=self._trouble(candidate.source, str(error), stamp, error))
        if not feed.skimming:
            self._budget = max(0, self._budget - feed.tail.size)
        feed.rest(at_once=len(self._feeds) > _OPEN_AT_ONCE)
        self._feeds.append(feed)
        source = feed.described(force=True) or feed.source
        return _Round(records=shown, events=[LogSourceSeen(source=source, **stamp), *self._decoding.take()])

    # reading

    def _slices(self, stamp: Stamp) -> _Round:
        """Read slices of the logs that have more, in turn, for a bounded time."""
        result = _Round()
        deadline = time.monotonic() + _SLICES_S
        feeds = self._feeds[self._turn :] + self._feeds[: self._turn]
        for number, feed in enumerate(feeds):
            try:
                self._slice(feed, result, stamp)
            except (SourceError, OSError) as error:
                result.events += self._trouble(feed.source, str(error), stamp, error)
                continue
            if time.monotonic() > deadline:
                result.busy = result.busy or number + 1 < len(feeds)
                self._turn = (self._turn + number + 1) % len(self._feeds)
                break
        if self._decoding is not None:
            result.events += self._decoding.take()
        return result

    def _slice(self, feed: SourceFeed, result: _Round, stamp: Stamp) -> None:
        if feed.poll():
            result.records += feed.step(stamp)
            self._catalogue.read(feed.tail.identity, feed.tail.head)
            if b"\0" in feed.tail.head and feed.source.id not in self._binary:
                self._binary.add(feed.source.id)
                sentence = f"{feed.source.name} holds binary data: it is no log, or damaged."
                result.events.append(status_event(feed.source, SourceHealth.DEGRADED, stamp, sentence, code=NO_LOG))
            result.busy = result.busy or feed.tail.backlog > 0
            self._damaged(feed, result, stamp)
        else:
            result.records += feed.settle(stamp)
            feed.rest(at_once=len(self._feeds) > _OPEN_AT_ONCE)
        if feed.source.id in self._problems:
            del self._problems[feed.source.id]
            result.events.append(status_event(feed.source, SourceHealth.OK, stamp))
        source = feed.described()
        if source is not None:
            result.events.append(LogSourceSeen(source=source, **stamp))

    def _damaged(self, feed: SourceFeed, result: _Round, stamp: Stamp) -> None:
        problem = feed.tail.problem
        if problem and feed.source.id not in self._damages:
            self._damages.add(feed.source.id)
            result.events.append(damaged(feed.source, problem, feed.tail.size, stamp))

    def _only_skims(self, started: float) -> bool:
        """Return whether only large logs are still being read for the first time, and that takes long."""
        if time.monotonic() - started < _SETTLE_S:
            return False
        return all(feed.skimming or feed.tail.backlog == 0 for feed in self._feeds)

    async def _settle(self, context: Context) -> None:
        """End the first full pass: flush held-back records of logs that nobody writes to now."""
        request = context.request
        found = self._feeds or self._empty or request.processes or self._troubled
        if request.once and request.logs and not found and await asyncio.to_thread(holds_no_file, request.logs):
            context.emit(no_logs(context.request.logs, context.stamp()))
        empty = [one.source.name for one in self._feeds if not one.tail.size and one.source.id not in self._damages]
        empty += [one.source.name for one in self._empty]
        if request.once and 0 < len(empty) < len(self._feeds) + len(self._empty):
            context.emit(empty_logs(empty, request.logs, context.stamp()))
        self._end_buffered(context, [feed for feed in self._feeds if context.request.once or feed.old])
        context.settled()

    def _end_buffered(self, context: Context, feeds: Sequence[SourceFeed]) -> None:
        """Flush the last records of logs that nobody writes to any more."""
        stamp = context.stamp()
        ended = _Round()
        for feed in feeds:
            if not feed.skimming:
                ended.records += feed.settle(stamp, final=True)
                source = feed.described(force=True)
                if source is not None:
                    ended.events.append(LogSourceSeen(source=source, **stamp))
        self._emit(context, ended)
        self._flush(context)

    def _flush(self, context: Context) -> None:
        if self._decoding is not None:
            self._decoding.flush(context.stamp())
            context.emit(*self._decoding.take())

    def _emit(self, context: Context, round_: _Round) -> None:
        if self._over:
            return
        stamp = context.stamp()
        for begin in range(0, len(round_.records), _BATCH):
            context.emit(LogsSeen(records=tuple(round_.records[begin : begin + _BATCH]), **stamp))
        if round_.events:
            context.emit(*round_.events)

    def _trouble(self, source: LogSource, sentence: str, stamp: Stamp, error: Exception) -> list[Event]:
        """Report once that a log can't be read (C2)."""
        remedy = error.remedy if isinstance(error, SourceError) else ""
        text = error.message if isinstance(error, SourceError) else sentence
        if self._problems.get(source.id) == text:
            return []
        self._problems[source.id] = text
        return [status_event(source, SourceHealth.FAILED, stamp, text, remedy)]
