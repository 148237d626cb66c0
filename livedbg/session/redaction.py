"""The redaction gate: masks a target's secrets in events before the state, a screen, a report or a recording gets them.

Invariants:
    redaction.D1. Every event of a session or of a recording passes it once, unless the user gave `--no-redact`.
    redaction.D2. An event without a secret stays the same object.
    redaction.D3. A private key or a token that continues in the next record of its log is masked there too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from livedbg.model import (
    Diagnostic,
    Edge,
    ExceptionHit,
    Frame,
    Intrusion,
    LogRecord,
    LogSource,
    Resource,
    SourceStatus,
    Task,
    Thread,
)
from livedbg.model.events import (
    DiagnosticSeen,
    EdgesAdded,
    EdgesReplaced,
    Event,
    ExceptionSeen,
    LogSourceSeen,
    LogsSeen,
    ProcessSeen,
    ResourcesSeen,
    StacksSeen,
    StatusSeen,
    TasksSeen,
    ThreadsSeen,
    Touched,
)
from livedbg.text.secrets import TextMasker, mask_command, mask_environment, mask_text, mask_variable


class Redaction:
    """Masks the events of one stream, in order."""

    def __init__(self) -> None:
        self._logs: defaultdict[str, TextMasker] = defaultdict(TextMasker)

    def of(self, events: Iterable[Event]) -> list[Event]:
        """Return the events with the values of secrets masked (livedbg.text.secrets)."""
        return [
            self._records(event)
            if isinstance(event, LogsSeen)
            else mask(event)
            if (mask := _MASKS.get(type(event))) is not None
            else event
            for event in events
        ]

    def _records(self, event: LogsSeen) -> LogsSeen:
        masked = tuple(map(self._record, event.records))
        return event if _same(masked, event.records) else replace(event, records=masked)

    def _record(self, record: LogRecord) -> LogRecord:
        text = self._logs[record.source].mask(record.text)
        return record if text is record.text else replace(record, text=text)


def _process(event: ProcessSeen) -> ProcessSeen:
    process = event.process
    command, environment = mask_command(process.command), mask_environment(process.environment)
    if command == process.command and environment == process.environment:
        return event
    return replace(event, process=replace(process, command=command, environment=environment))


def _stacks(event: StacksSeen) -> StacksSeen:
    if not any(frame.local_variables or frame.source for stack in event.stacks for frame in stack.frames):
        return event
    return replace(event, stacks=tuple(replace(stack, frames=_frames(stack.frames)) for stack in event.stacks))


def _exception(event: ExceptionSeen) -> ExceptionSeen:
    hit = _masked(event.hit)
    stack = _frames(hit.stack)
    return event if hit is event.hit and stack == hit.stack else replace(event, hit=replace(hit, stack=stack))


def _frames(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    return tuple(
        replace(
            frame,
            local_variables=tuple(map(mask_variable, frame.local_variables)),
            source=_source(frame.source),
        )
        if frame.local_variables or frame.source
        else frame
        for frame in frames
    )


@lru_cache(maxsize=1024)
def _source(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Mask source lines; cached because many stacks have the same lines."""
    return tuple(map(mask_text, lines))


def _edges(event: EdgesReplaced | EdgesAdded) -> EdgesReplaced | EdgesAdded:
    texts = {edge.evidence for edge in event.edges}  # a graph has millions of edges, and few of these
    masked = {text: changed for text in texts if (changed := mask_text(text)) is not text}
    if not masked:
        return event
    edges: tuple[Edge, ...] = tuple(
        replace(edge, evidence=masked[edge.evidence]) if edge.evidence in masked else edge for edge in event.edges
    )
    return event if edges == event.edges else replace(event, edges=edges)


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        masked = _short_text(value) if len(value) < _SHORT else mask_text(value)
        return value if masked == value else masked
    if isinstance(value, tuple | list):
        items = tuple(map(_masked, value))
        return value if _same(items, value) else items
    if isinstance(value, dict):
        named = {name: text for name, text in value.items() if isinstance(name, str) and isinstance(text, str)}
        texts = mask_environment(named)
        values = {name: texts[name] if name in texts else _masked(one) for name, one in value.items()}
        return value if values == value else values
    if isinstance(value, Struct):
        changed = {}
        for name in _TEXTS.get(type(value), value.__struct_fields__):
            before = getattr(value, name)
            if (after := _masked(before)) is not before:
                changed[name] = after
        return replace(value, **changed) if changed else value
    return value


_SHORT: Final = 200  # characters
_short_text: Final = lru_cache(maxsize=4096)(mask_text)
"""Names of threads and what they wait in are the same in each look."""


def _same(after: Sequence[object], before: Sequence[object]) -> bool:
    return all(one is other for one, other in zip(after, before, strict=True))


_TEXTS: Final[dict[type[Struct], tuple[str, ...]]] = {
    DiagnosticSeen: ("diagnostic",),
    LogSourceSeen: ("source",),
    ResourcesSeen: ("resources",),
    StatusSeen: ("status",),
    TasksSeen: ("tasks",),
    ThreadsSeen: ("threads",),
    Touched: ("intrusion",),
    Diagnostic: ("sentence", "does", "facts", "attributes", "evidence"),
    ExceptionHit: ("message", "related", "survived", "operation"),
    Intrusion: ("why",),
    LogSource: ("first_error", "last_error"),
    Resource: ("name", "state", "outside", "idle", "lost", "facts", "attributes"),
    SourceStatus: ("sentence", "remedy"),
    Task: ("kernel", "facts", "attributes"),
    Thread: ("name", "given", "waits_in", "outside"),
}
"""The fields that may quote a target's command line, environment, variables or logs; of other values all are masked.

Identifiers are not: who refers to them would not find them."""
_MASKS: Final[dict[type[Any], Callable[[Any], Event]]] = {
    ProcessSeen: _process,
    StacksSeen: _stacks,
    ExceptionSeen: _exception,
    EdgesReplaced: _edges,
    EdgesAdded: _edges,
    **dict.fromkeys(
        (DiagnosticSeen, LogSourceSeen, ResourcesSeen, StatusSeen, TasksSeen, ThreadsSeen, Touched), _masked
    ),
}
