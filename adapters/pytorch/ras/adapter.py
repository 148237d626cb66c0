"""Query NCCL's RAS service for the ranks' launched operations, if the user asks for it (`--ask nccl-ras`).

Two replies are compared: ranks missing, dead, or behind in both.

The NCCL version is a text in its library, or in torch if NCCL is linked statically. One query is made over TCP (NCCL
docs: RAS, wire-level protocol).

Invariants:
    ras_adapter.R1. Nothing is asked without the option, in a read-only session, or of an NCCL older than 2.27.3, whose
        RAS thread such a query can crash.
    ras_adapter.R2. Every query is in the ledger.
    ras_adapter.R3. A rank is called behind only if its count was the same in two queries, and others were ahead in
        both: the counts of a healthy job differ in most queries.
    ras_adapter.Q1. A query ends within its time limit, and reads no more than `_MOST_BYTES`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.adapters.pytorch.facts import RAS_BEHIND, RAS_DEAD, RAS_MISSING
from livedbg.adapters.pytorch.ras.reply import (
    Communicator,
    Launched,
    RasRank,
    RasReply,
    UnreadableReply,
    read_json,
    read_text,
)
from livedbg.linux.elf import ElfFile
from livedbg.linux.mapped_files import ReadOnce
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.model import Diagnostic, Evidence, Intrusion, Process, Severity
from livedbg.model.errors import SourceError, TargetUnsuitable
from livedbg.model.events import Touched
from livedbg.session.adapter import Context, Level, Request, processes_seen
from livedbg.session.pacing import Cost, Limit
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher, Statuses
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many
from livedbg.touch.config import refuse_touch

PORT: Final = 28028
_CLIENT_MOST_BYTES: Final = 16 << 20
_LEG_S: Final = 5  # how long RAS waits for other ranks
_LIMIT_S: Final = 30.0


class NoAnswer(Exception):
    """No usable reply; the text says why, for users."""


async def ask_ras(host: str, port: int, *, json: bool, limit_s: float = _LIMIT_S) -> RasReply:
    """Query the verbose status, as JSON from NCCL 2.28.7 on; raise NoAnswer without a usable reply."""
    where = clean_line(f"{host}:{port}")
    try:
        async with asyncio.timeout(limit_s):
            data = await _asked(host, port, json)
    except TimeoutError:
        raise NoAnswer(f"{where} has not answered within {limit_s:g} s") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NoAnswer(f"{where} can't be asked: {clean_line(reason, 200)}") from None
    text = data.decode("utf-8", "replace")
    if len(data) > _CLIENT_MOST_BYTES:
        raise NoAnswer(f"{where} answers with more than {_CLIENT_MOST_BYTES >> 20} MiB")
    refused = next((line for line in text.splitlines()[:4] if line.startswith("ERROR:")), "")
    if refused:
        raise NoAnswer(f"{where} refuses: {clean_line(refused, 200)}")
    try:
        return read_json(text) if json else read_text(text)
    except UnreadableReply as error:
        raise NoAnswer(f"the answer of {where} can't be read: {error}") from None


async def _asked(host: str, port: int, json: bool) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        lines = [f"timeout {_LEG_S}", *["set format json"][:json], "verbose status"]
        writer.write("".join(f"{line}\n" for line in lines).encode())
        await writer.drain()
        pieces: list[bytes] = []
        size = 0
        while size <= _CLIENT_MOST_BYTES and (piece := await reader.read(1 << 16)):
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


_LIBRARIES: Final = lazy_re(r"libnccl\.so[\d.]*|libtorch_cuda\.so")
_VERSION_TEXT: Final = lazy_re(rb"NCCL version (\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_MOST_BYTES: Final = 256 << 20

_read: ReadOnce[tuple[int, int, int] | None] = ReadOnce()


def nccl_version(pid: int) -> tuple[int, int, int] | None:
    """Return major, minor and patch of the loaded NCCL, or None; raise OSError if the process can't be read."""
    loaded: dict[str, list[Mapping]] = {}
    for mapping in parse_maps(pid):
        if _LIBRARIES.fullmatch(mapping.path.rpartition("/")[2]):
            loaded.setdefault(mapping.path, []).append(mapping)
    found = (_read.of(pid, mappings, _version_in) for mappings in loaded.values())
    return next((placed[1] for placed in found if placed is not None and placed[1] is not None), None)


def _version_in(elf: ElfFile) -> tuple[int, int, int] | None:
    found = _VERSION_TEXT.search(elf.section(".rodata", _MOST_BYTES))
    return (int(found[1]), int(found[2]), int(found[3])) if found is not None else None


NAME: Final = "nccl-ras"
_OLDEST: Final = (2, 27, 3)
_JSON_SINCE: Final = (2, 28, 7)
_APART_S: Final = 2.0
_NAMED: Final = 8
_LIMIT: Final = Limit(wall=0.05, least_s=30.0)
_TEXT: Final = "NCCL's RAS"
_SILENT: Final = f"--ask {NAME}=HOST:PORT where NCCL_RAS_ADDR says another; NCCL_RAS_ENABLE=0 switches it off"


class NcclRasAdapter(PolledAdapter):
    """Reports ranks that NCCL's RAS service says are behind or missing."""

    name = NAME
    title = _TEXT
    sees = "which ranks of an NCCL communicator are behind or missing, by NCCL's RAS service; only with --ask nccl-ras"
    cost = "each query wakes NCCL's RAS thread in every rank of the job; two queries, then one every 30 s"
    level = Level.TOUCH

    def __init__(self) -> None:
        super().__init__()
        self._shown, self._statuses = Publisher("pytorch/ras"), Statuses(NAME)
        self._before: RasReply | None = None
        self._first = False

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes) and request.asked(NAME) is not None

    async def begin(self, context: Context) -> bool:
        """Find the address and protocol version.

        Raises:
            TouchRefused: intrusive actions are forbidden.
            TargetUnsuitable: the NCCL of the job is too old, or not known.
            SourceError: the address is invalid.
        """
        refuse_touch(context.request, f"A query of {_TEXT} wakes a thread in every rank of the job")
        self._nccl = await self._version(context)
        self._address = address(context)
        return True

    async def look(self, context: Context) -> float:
        begun_s = time.monotonic()
        reply = await self._ask(context, *self._address, self._nccl)
        self._first = self._before is None and reply is not None
        if reply is not None:
            context.emit(*self._shown.show(context.stamp(), diagnostics=compared(self._before, reply)))
            self._before = reply
        return _APART_S if self._first else _LIMIT.rest_s(Cost(wall_s=time.monotonic() - begun_s))

    async def again(self, context: Context) -> bool:
        """Request a second query, since two replies are compared."""
        if self._first:
            await context.sleep(_APART_S)
        return self._first

    async def _version(self, context: Context) -> tuple[int, int, int]:
        """Return the oldest NCCL version of the processes; raise TargetUnsuitable if too old or unknown."""
        await processes_seen(context)
        versions = set(_versions(_living(context)))
        if not versions:
            raise TargetUnsuitable(
                "no process has loaded an NCCL that says its version.",
                "--all-ranks, for the ranks of the job",
                "no-nccl",
            )
        oldest = min(versions)
        if oldest < _OLDEST:
            text, least = (".".join(map(str, one)) for one in (oldest, _OLDEST))
            raise TargetUnsuitable(
                f"the job has NCCL {text}: before {least} a query can crash the rank that answers it.",
                f"NCCL {least} or newer",
                "nccl-old",
            )
        return oldest

    async def _ask(self, context: Context, host: str, port: int, version: tuple[int, int, int]) -> RasReply | None:
        touch = Intrusion(
            target=_living(context)[0].id if _living(context) else "",
            what="query",
            why=f"{_TEXT} at {host}:{port} was asked for its status (--ask {NAME})",
            measured=False,
            at_wall_ns=time.time_ns(),
        )
        context.emit(Touched(intrusion=touch, **context.stamp()))
        try:
            reply = await ask_ras(host, port, json=version >= _JSON_SINCE)
        except NoAnswer as error:
            self._statuses.say(context, "", "ras-silent", f"{_TEXT} says nothing: {error}.", _SILENT)
            return None
        self._statuses.withdraw(context, "")
        return reply


def address(context: Context) -> tuple[str, int]:
    """Return the address: the option's, NCCL_RAS_ADDR's, or NCCL's default; raise SourceError if invalid."""
    named = context.request.asked(NAME) or next(
        (text for one in _living(context) if (text := one.environment.get("NCCL_RAS_ADDR"))), f"localhost:{PORT}"
    )
    host, colon, port = named.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise SourceError(f"{named!r} is no address.", f"--ask {NAME}=HOST:PORT", "address")
    return host.strip("[]") or "localhost", int(port)


def _living(context: Context) -> list[Process]:
    found = context.snapshot().processes.values()
    return [one for one in found if one.target and not one.exited]


def _versions(processes: list[Process]) -> Iterator[tuple[int, int, int]]:
    for process in processes:
        with contextlib.suppress(OSError):
            if (version := nccl_version(process.pid)) is not None:
                yield version


def compared(before: RasReply | None, now: RasReply) -> list[Diagnostic]:
    """Return the statements of the newest reply; if it is the first (`before` is None), no rank is called behind."""
    return [*_dead(now), *_missing(now), *(_behind(before, now) if before is not None else ())]


def _dead(reply: RasReply) -> Iterator[Diagnostic]:
    if reply.dead:
        names = ", ".join(reply.dead[:_NAMED])
        sentence = f"NCCL's RAS takes {many(len(reply.dead), 'process', 'processes')} for dead: {names}."
        yield _diagnostic(RAS_DEAD, sentence, names)


def _missing(reply: RasReply) -> Iterator[Diagnostic]:
    for one in reply.communicators:
        if one.missing:
            sentence = f"NCCL's RAS has no data of {_ranks(one.missing)} of communicator {one.name}."
            yield _diagnostic(RAS_MISSING, sentence, _processes(one.missing), one.name)


def _behind(before: RasReply, now: RasReply) -> Iterator[Diagnostic]:
    earlier = {one.name: one for one in before.communicators}
    for one in now.communicators:
        for operation in dict.fromkeys(group.operation for group in one.launched):
            lag = list(_lagging(earlier.get(one.name), one, operation))
            if not lag:
                continue
            ranks = sorted({rank for group in lag for rank in group.ranks})
            number = sum(group.number for group in lag)
            most = max(group.count for group in one.launched if group.operation == operation)
            counts = ", ".join(sorted({str(group.count) for group in lag}))
            who = _ranks(ranks) if ranks else many(number, "rank")
            what = f"{operation} {counts}" if operation else f"operation {counts}"
            sentence = (
                f"By NCCL's RAS {who} of communicator {one.name} launched {what} last, in two queries; others launched "
                f"{most}."
            )
            yield _diagnostic(RAS_BEHIND, sentence, _processes(ranks), one.name, operation)


def _lagging(before: Communicator | None, now: Communicator, operation: str) -> Iterator[Launched]:
    """Yield the groups of ranks that have not moved, and were behind others in both replies."""
    if before is None:
        return
    then = [group for group in before.launched if group.operation == operation]
    newest = [group for group in now.launched if group.operation == operation]
    most_then, most = (max((group.count for group in groups), default=0) for groups in (then, newest))
    for group in newest:
        same = next((one for one in then if one.count == group.count), None)
        if same is None or group.count >= most or group.count >= most_then:
            continue
        stayed = tuple(rank for rank in group.ranks if rank in same.ranks)
        if group.ranks and stayed:
            yield Launched(operation, group.count, len(stayed), stayed)
        elif not group.ranks and same.number == group.number:
            yield group


def _ranks(ranks: Sequence[RasRank]) -> str:
    names = ", ".join(str(one.rank) for one in ranks[:_NAMED])
    more = f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {names}{more}"


def _processes(ranks: Sequence[RasRank]) -> str:
    return ", ".join(
        f"rank {one.rank}: process {one.pid} on {one.host}" for one in ranks[:_NAMED] if one.pid is not None
    )


def _diagnostic(code: str, sentence: str, text: str, *about: str) -> Diagnostic:
    return Diagnostic(
        id="/".join(("pytorch", code, *about)),
        system="pytorch",
        code=code,
        severity=Severity.WARNING,
        sentence=sentence,
        evidence=(Evidence(kind="runtime", source=_TEXT, text=text),),
    )
