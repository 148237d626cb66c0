"""Asks NCCL's RAS service what the ranks have launched, where the user wants that (`--ask nccl-ras`).

Invariants:
    ras_adapter.R1. Nothing is asked without the option, in a read-only session, or of an NCCL older than 2.27.3, whose
        RAS thread such a query can crash.
    ras_adapter.R2. Every query is in the ledger.
    ras_adapter.R3. A rank is called behind only if its count was the same in two queries, and others were ahead in
        both: the counts of a healthy job differ in most queries.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from livedbg.adapters.pytorch.ras.client import PORT, NoAnswer, ask_ras
from livedbg.adapters.pytorch.ras.compared import Said, compared
from livedbg.adapters.pytorch.ras.reply import RasReply
from livedbg.adapters.pytorch.ras.version import nccl_version
from livedbg.model import Diagnostic, Evidence, Intrusion, Process, Severity
from livedbg.model.errors import SourceError, TargetUnsuitable
from livedbg.model.events import Touched
from livedbg.session.adapter import Context, Level, Request, processes_seen
from livedbg.session.pacing import Cost, Limit
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher, Statuses
from livedbg.touch.config import refuse_touch

__all__ = ["NAME", "NcclRasAdapter"]

NAME: Final = "nccl-ras"
_OLDEST: Final = (2, 27, 3)
_JSON_SINCE: Final = (2, 28, 7)
_APART_S: Final = 2.0
_LIMIT: Final = Limit(wall=0.05, least_s=30.0)
_TEXT: Final = "NCCL's RAS"
_SILENT: Final = f"--ask {NAME}=HOST:PORT where NCCL_RAS_ADDR says another; NCCL_RAS_ENABLE=0 switches it off"


class NcclRasAdapter(PolledAdapter):
    """Ranks that are behind or missing, as NCCL's own service has it."""

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
        """Only where it is asked for (R1)."""
        return bool(request.processes) and request.asked(NAME) is not None

    async def begin(self, context: Context) -> bool:
        """Whom to ask, and in which words.

        Raises:
            TouchRefused: touches are forbidden.
            TargetUnsuitable: the NCCL of the job is too old, or not known.
            SourceError: the address is none.
        """
        refuse_touch(context.request, f"A query of {_TEXT} wakes a thread in every rank of the job")
        self._nccl = await self._version(context)
        self._address = address(context)
        return True

    async def look(self, context: Context) -> float:
        """Ask."""
        begun_s = time.monotonic()
        reply = await self._ask(context, *self._address, self._nccl)
        self._first = self._before is None and reply is not None
        if reply is not None:
            told = (_diagnostic(one) for one in compared(self._before, reply))
            context.emit(*self._shown.show(context.stamp(), diagnostics=told))
            self._before = reply
        return _APART_S if self._first else _LIMIT.rest_s(Cost(wall_s=time.monotonic() - begun_s))

    async def again(self, context: Context) -> bool:
        """Two answers are compared."""
        if self._first:
            await context.sleep(_APART_S)
        return self._first

    async def _version(self, context: Context) -> tuple[int, int, int]:
        """The NCCL of the processes.

        Raises:
            TargetUnsuitable: it is too old, or not known.
        """
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
    """Where to ask: what the option says, or NCCL_RAS_ADDR of a process, or NCCL's own default.

    Raises:
        SourceError: it is no address.
    """
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
        try:
            version = nccl_version(process.pid)
        except OSError:
            continue
        if version is not None:
            yield version


def _diagnostic(said: Said) -> Diagnostic:
    return Diagnostic(
        id=f"pytorch/{said.key}",
        system="pytorch",
        code=said.code,
        severity=Severity.WARNING,
        sentence=said.sentence,
        evidence=(Evidence(kind="runtime", source=_TEXT, text=said.evidence),),
    )
