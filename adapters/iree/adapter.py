"""The IREE adapter: a runtime's queued, running and waiting work from memory, and traced tensors from logs.

A module that traces the tensors of its dispatches logs each execution, which becomes a task with inputs and outputs.

Invariants:
    iree_adapter.R1. No target is stopped, and nothing is set or run in it.
    iree_adapter.D1. An execution completes with its outputs. One with inputs and without outputs is running; in a log
        only the last one can be.
    iree_adapter.D2. A dispatch is said to make NaN only if all its inputs were read completely and have none.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import Struct, field

from livedbg.adapters.iree.dispatch_graph import Behind, DispatchGraph, Dumped, behind, dumped_beside, graph_beside
from livedbg.adapters.iree.facts import MADE_NAN, DispatchFacts, iree_task
from livedbg.adapters.iree.traced import Header, TracedTensor, header, tensor
from livedbg.linux.maps import maps_mention
from livedbg.logs.decoder import LogDecoder
from livedbg.model import Diagnostic, Evidence, LogRecord, LogSource, Process, Severity, Task, TaskState, ids
from livedbg.model.events import DiagnosticSeen, Event, Stamp, TasksSeen
from livedbg.session.adapter import Context, Request, processes_seen
from livedbg.session.pacing import SEARCH_S, Searches
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher, Statuses
from livedbg.text.wording import many

if TYPE_CHECKING:
    from livedbg.adapters.iree.live.watch import LiveWatch

_TOLD: Final = 8  # tensors of a block that are shown


class _Block(Struct):
    head: Header
    tensors: list[TracedTensor] = field(default_factory=list)


class _Open(Struct):
    """An open execution.

    Attributes:
        bad: an input has NaN, or was not read completely.
        source: of the dispatch, if it was dumped.
    """

    name: str
    dispatch: str
    inputs: str
    bad: bool
    since_wall_ns: int
    source: Dumped | None = None


class _Log(Struct):
    """State of one log.

    Attributes:
        counts: executions of each dispatch so far.
        waiting: tasks of the dispatch graph that wait for the execution `told_of`.
        done: the execution whose outputs are being read.
        told: a dispatch that made NaN was reported.
    """

    number: int
    waiting: Publisher
    block: _Block | None = None
    open: _Open | None = None
    counts: Counter[str] = field(default_factory=Counter)
    told_of: str = ""
    done: _Open | None = None
    told: bool = False


class TraceDecoder(LogDecoder):
    """Decodes the output of such modules; the arguments return the dispatch graph and the dumped sources."""

    name: ClassVar[str] = "iree-trace"
    triggers: ClassVar[tuple[bytes, ...]] = (
        b" inputs ===", b" outputs ===", b"f32=", b"f16=", b"f64=", b"i1=", b"i8=", b"i16=", b"i32=", b"i64=",
    )  # fmt: skip

    def __init__(
        self,
        graph: Callable[[], DispatchGraph | None] = lambda: None,
        sources: Callable[[], Mapping[str, Dumped]] = dict,
    ) -> None:
        self._logs: dict[str, _Log] = {}
        self._graph = graph
        self._sources = sources

    def opened(self, source: LogSource) -> None:
        self._log(source.id)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        log = self._log(record.source)
        events: list[Event] = []
        for line in record.text.split("\n"):
            head = header(line) if line.startswith("=== ") else None
            if head is not None:
                events += self._end(log, record, stamp)
                log.block = _Block(head)
                events += self._begin(log, head, record, stamp) if head.inputs else self._returned(log, head, stamp)
            elif log.block is not None and "=" in line:
                found = tensor(line)
                if found is not None:
                    log.block.tensors.append(found)
            elif log.block is not None and not line.strip():
                events += self._end(log, record, stamp)
        return events, (log.open.name,) if log.open is not None else ()

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        events: list[Event] = []
        for source, log in self._logs.items():
            if log.block is not None and log.block.tensors:
                events += self._taken(log, log.block, source, stamp)
            if log.open is None or log.open.name != log.told_of:
                events += self._behind(log, stamp)
        return events

    def _behind(self, log: _Log, stamp: Stamp) -> list[Event]:
        """Return the tasks that wait for the open execution, by the dispatch graph."""
        found, one = Behind(), log.open
        graph = self._graph() if one is not None else None
        if one is not None and graph is not None:
            found = behind(graph, _task(one, TaskState.RUNNING), one.dispatch, log.counts[one.dispatch] - 1, {})
        log.told_of = one.name if one is not None else ""
        return log.waiting.show(stamp, tasks=found.tasks, edges=found.edges)

    def _log(self, source: str) -> _Log:
        if source not in self._logs:
            self._logs[source] = _Log(len(self._logs), Publisher(f"iree/graph/{source}", dated=False))
        return self._logs[source]

    def _begin(self, log: _Log, head: Header, record: LogRecord, stamp: Stamp) -> list[Event]:
        number = log.counts[head.dispatch]
        log.counts[head.dispatch] += 1
        log_name = (f"log{log.number}",) if log.number else ()
        name = ids.task("iree", "traced", *log_name, f"{head.dispatch}#{number}")
        since_ns = record.wall_ns or stamp["wall_ns"]
        log.open = _Open(name, head.dispatch, "", True, since_ns, self._sources().get(head.dispatch))
        return [TasksSeen(tasks=(_task(log.open, TaskState.RUNNING),), **stamp)]

    def _end(self, log: _Log, record: LogRecord, stamp: Stamp) -> list[Event]:
        block, log.block = log.block, None
        return self._taken(log, block, record.source, stamp) if block is not None else []

    def _returned(self, log: _Log, head: Header, stamp: Stamp) -> list[Event]:
        """Note that a dispatch has returned: its outputs follow."""
        if log.open is None or log.open.dispatch != head.dispatch:
            log.done = None
            return []
        log.done, log.open = log.open, None
        return [TasksSeen(tasks=(_task(log.done, TaskState.COMPLETED),), **stamp)]

    def _taken(self, log: _Log, block: _Block, source: str, stamp: Stamp) -> list[Event]:
        """Return the events from the tensors of a block."""
        one = log.open if block.head.inputs else log.done
        if one is None:
            return []
        if block.head.inputs:
            one.inputs, one.bad = _told(block.tensors), _unsound(block.tensors)
            return [TasksSeen(tasks=(_task(one, TaskState.RUNNING),), **stamp)]
        done = _task(one, TaskState.COMPLETED, _told(block.tensors))
        events: list[Event] = [TasksSeen(tasks=(done,), **stamp)]
        nans = sum(tensor.nans for tensor in block.tensors)
        if nans and not one.bad and not log.told:
            log.told = True
            events.append(DiagnosticSeen(diagnostic=_made_nan(one, block.tensors, nans, source), **stamp))
        return events


def _task(one: _Open, state: TaskState, outputs: str = "") -> Task:
    source = one.source or Dumped("")
    facts = DispatchFacts(
        traced=one.dispatch, inputs=one.inputs, outputs=outputs, source=source.place, backend=source.backend
    )
    since_ns = one.since_wall_ns if state is TaskState.RUNNING else None
    return iree_task(one.name, one.dispatch, state, since_wall_ns=since_ns, facts=facts)


def _told(tensors: Sequence[TracedTensor]) -> str:
    more = f"; {len(tensors) - _TOLD} more" if len(tensors) > _TOLD else ""
    return "; ".join(one.told for one in tensors[:_TOLD]) + more


def _unsound(tensors: Sequence[TracedTensor]) -> bool:
    """Return whether a tensor has NaN, or may have (D2)."""
    return any(one.nans or one.infinities or one.read < math.prod(one.shape) for one in tensors)


def _made_nan(one: _Open, tensors: Sequence[TracedTensor], nans: int, log: str) -> Diagnostic:
    return Diagnostic(
        id=f"iree/{MADE_NAN}/{one.name}",
        system="iree",
        code=MADE_NAN,
        severity=Severity.ERROR,
        sentence=f"Dispatch {one.dispatch}{_source(one)} made NaN ({_where(tensors, nans)}): its inputs are finite.",
        entities=(one.name,),
        facts=DispatchFacts(inputs=one.inputs, outputs=_told(tensors)),
        evidence=(
            Evidence(kind="log", source=f"trace of {one.name.rpartition('/')[2]}", text=_told(tensors), log=log),
        ),
    )


def _source(one: _Open) -> str:
    if one.source is None:
        return ""
    return f" ({one.source.place}{f', compiled for {one.source.backend}' if one.source.backend else ''})"


def _where(tensors: Sequence[TracedTensor], nans: int) -> str:
    """Return the number of NaN, and where the first one is."""
    number, first = next((number, one) for number, one in enumerate(tensors) if one.nans)
    of = math.prod(first.shape) if len(tensors) == 1 else 0
    many_nans = f"{nans:,} of {many(of, 'element')}" if of > 1 else many(nans, "element")
    output = f" of output {number}" if len(tensors) > 1 else ""
    return f"{many_nans}, first at {list(first.first_nan)}{output}" if first.first_nan else many_nans


_SIGN: Final = b"iree"


class IreeAdapter(PolledAdapter):
    """Dispatches, queue operations and semaphores of IREE runtimes in processes."""

    name = "iree"
    sees = "which dispatch runs, what is queued behind it, semaphores that are waited for, and traced tensors in logs"
    cost = (
        "no stop; copies the runtime's memory when what is queued has changed (20 to 200 ms of processor time, at most "
        "1 % of a core), else reads some hundred bytes each second"
    )

    apart_s = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._searches = Searches()
        self._with_iree: set[str] = set()
        self._live: LiveWatch | None = None
        self._statuses = Statuses("iree")
        self._looked_twice = False

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        return (TraceDecoder(*_beside(request)),)

    async def begin(self, context: Context) -> bool:
        if context.request.processes:
            await processes_seen(context)
        return bool(context.request.processes)

    async def look(self, context: Context) -> float:
        found = await self._found(context)
        if found and self._live is None:
            from livedbg.adapters.iree.live.watch import LiveWatch  # numpy, and most sessions have no such process

            self._live = LiveWatch(self._statuses, *_beside(context.request))
        return await self._live.look(context, found) if self._live is not None else SEARCH_S

    async def again(self, context: Context) -> bool:
        """In a session that samples once, sample a second time."""
        if self._live is None or self._looked_twice or not context.request.once:
            return False
        self._looked_twice = True
        return await self._live.sampled(context)

    async def reread(self, context: Context) -> None:
        if self._live is not None:
            await self.turn(context)

    async def _found(self, context: Context) -> list[Process]:
        """Return the processes that have mapped something of IREE."""
        living = [one for one in context.snapshot().processes.values() if one.target and not one.exited]
        return [one for one in living if await self._shows(one)]

    async def _shows(self, process: Process) -> bool:
        """Return whether a process has IREE; checked ever more rarely until found."""
        if process.id in self._with_iree:
            return True
        if self._searches.due(process.id) and await asyncio.to_thread(maps_mention, process.pid, _SIGN):
            self._with_iree.add(process.id)
        return process.id in self._with_iree


def _beside(request: Request) -> tuple[Callable[[], DispatchGraph | None], Callable[[], Mapping[str, Dumped]]]:
    """Return functions that find the dispatch graph and the dumped sources next to the logs, on first use."""
    logs = tuple(map(Path, request.logs))
    return cache(partial(graph_beside, logs)), cache(partial(dumped_beside, logs))
