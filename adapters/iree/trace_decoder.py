"""The log of a module that traces the tensors of its dispatches: each execution as a task with inputs and outputs.

Invariants:
    trace_decoder.D1. An execution completes with its outputs. One with inputs and without outputs is running, and of a
        log only the last one can be.
    trace_decoder.D2. A dispatch is said to make NaN only if all its inputs were read whole and have none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from msgspec import Struct, field

from livedbg.adapters.iree.dispatch_graph import Behind, DispatchGraph, behind
from livedbg.adapters.iree.dumped_sources import Dumped
from livedbg.adapters.iree.facts import DispatchFacts
from livedbg.adapters.iree.traced import Header, TracedTensor, header, tensor
from livedbg.logs.decoder import LogDecoder
from livedbg.model import Diagnostic, Evidence, LogRecord, LogSource, Severity, Task, TaskState, ids
from livedbg.model.events import DiagnosticSeen, Event, Stamp, TasksSeen
from livedbg.session.publisher import Publisher
from livedbg.text.wording import many

__all__ = ["MADE_NAN", "TraceDecoder"]

MADE_NAN: Final = "made-nan"
"""Code of the diagnostic of the first dispatch that made NaN."""

_TOLD: Final = 8  # tensors of a block that are shown


class _Block(Struct):
    """The block that is being read."""

    head: Header
    tensors: list[TracedTensor] = field(default_factory=list)


class _Open(Struct):
    """An execution that has begun.

    Attributes:
        bad: an input has NaN, or was not read whole.
        source: of the dispatch, if it was dumped.
    """

    name: str
    dispatch: str
    inputs: str
    bad: bool
    since_wall_ns: int
    source: Dumped | None = None


class _Log(Struct):
    """One log.

    Attributes:
        counts: executions of each dispatch so far.
        waiting: tasks of the dispatch graph that wait for the execution `told_of`.
        done: the execution whose outputs are read.
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
    """Understands what such modules print on standard error.

    Args:
        graph: gives the dispatch graph of the module, if there is one.
        sources: gives the dumped sources of its dispatches, by name.
    """

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
        """A log begins."""
        self._log(source.id)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Lines of a block, or the end of one."""
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
        """What is there of the block that is being read."""
        events: list[Event] = []
        for source, log in self._logs.items():
            if log.block is not None and log.block.tensors:
                events += self._taken(log, log.block, source, stamp)
            if log.open is None or log.open.name != log.told_of:
                events += self._behind(log, stamp)
        return events

    def _behind(self, log: _Log, stamp: Stamp) -> list[Event]:
        """What waits for the execution that is open, by the dispatch graph."""
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
        """The block is whole."""
        block, log.block = log.block, None
        return self._taken(log, block, record.source, stamp) if block is not None else []

    def _returned(self, log: _Log, head: Header, stamp: Stamp) -> list[Event]:
        """Its outputs follow: it has returned."""
        if log.open is None or log.open.dispatch != head.dispatch:
            log.done = None
            return []
        log.done, log.open = log.open, None
        return [TasksSeen(tasks=(_task(log.done, TaskState.COMPLETED),), **stamp)]

    def _taken(self, log: _Log, block: _Block, source: str, stamp: Stamp) -> list[Event]:
        """What the tensors of a block say."""
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
    return Task(
        id=one.name,
        system="iree",
        name=one.name.rpartition("/")[2],
        kernel=one.dispatch,
        state=state,
        since_wall_ns=one.since_wall_ns if state is TaskState.RUNNING else None,
        facts=DispatchFacts(
            traced=one.dispatch, inputs=one.inputs, outputs=outputs, source=source.place, backend=source.backend
        ),
    )


def _told(tensors: Sequence[TracedTensor]) -> str:
    more = f"; {len(tensors) - _TOLD} more" if len(tensors) > _TOLD else ""
    return "; ".join(one.told for one in tensors[:_TOLD]) + more


def _unsound(tensors: Sequence[TracedTensor]) -> bool:
    """Whether one has NaN, or may have (D2)."""
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
    """How many elements, and where the first of them is."""
    number, first = next((number, one) for number, one in enumerate(tensors) if one.nans)
    of = math.prod(first.shape) if len(tensors) == 1 else 0
    many_nans = f"{nans:,} of {many(of, 'element')}" if of > 1 else many(nans, "element")
    output = f" of output {number}" if len(tensors) > 1 else ""
    return f"{many_nans}, first at {list(first.first_nan)}{output}" if first.first_nan else many_nans
