"""The gate at which events lose the secrets of a target, before the state, a screen, a report or a recording has them.

Invariants:
    redaction.D1. Every event of a session or of a recording passes it once, unless the user asked for `--no-redact`.
    redaction.D2. An event without a secret stays the same object.
    redaction.D3. A private key or a token that goes on in the next record of its log is masked there too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct, structs
from msgspec.structs import replace

from livedbg.model import Diagnostic, Edge, Evidence, Frame, LogRecord, Resource, Task, Thread
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

__all__ = ["Redaction"]


class Redaction:
    """Masks the events of one stream, in their order."""

    def __init__(self) -> None:
        self._logs: defaultdict[str, TextMasker] = defaultdict(TextMasker)

    def of(self, events: Iterable[Event]) -> list[Event]:
        """The events with the values of secrets masked (livedbg.text.secrets)."""
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


def _log_source(event: LogSourceSeen) -> LogSourceSeen:
    source = event.source
    first, last = mask_text(source.first_error), mask_text(source.last_error)
    if (first, last) == (source.first_error, source.last_error):
        return event
    return replace(event, source=replace(source, first_error=first, last_error=last))


_short_text: Final = lru_cache(maxsize=4096)(mask_text)
"""Names of threads and what they wait in are the same in each look."""


def _threads(event: ThreadsSeen) -> ThreadsSeen:
    threads = tuple(map(_thread, event.threads))
    return event if _same(threads, event.threads) else replace(event, threads=threads)


def _thread(thread: Thread) -> Thread:
    name, given = _short_text(thread.name), _short_text(thread.given)
    return thread if (name, given) == (thread.name, thread.given) else replace(thread, name=name, given=given)


def _stacks(event: StacksSeen) -> StacksSeen:
    if not any(frame.local_variables or frame.source for stack in event.stacks for frame in stack.frames):
        return event
    return replace(event, stacks=tuple(replace(stack, frames=_frames(stack.frames)) for stack in event.stacks))


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
    """Many stacks have the same lines."""
    return tuple(map(mask_text, lines))


def _exception(event: ExceptionSeen) -> ExceptionSeen:
    hit = event.hit
    message, stack = mask_text(hit.message), _frames(hit.stack)
    return (
        event
        if (message, stack) == (hit.message, hit.stack)
        else replace(event, hit=replace(hit, message=message, stack=stack))
    )


def _diagnostic(event: DiagnosticSeen) -> DiagnosticSeen:
    said = event.diagnostic
    masked: Diagnostic = replace(
        said,
        sentence=mask_text(said.sentence),
        facts=_facts(said.facts),
        attributes=mask_environment(said.attributes),
        evidence=tuple(map(_evidence, said.evidence)),
    )
    return event if masked == said else replace(event, diagnostic=masked)


def _evidence(evidence: Evidence) -> Evidence:
    text = mask_text(evidence.text)
    return evidence if text is evidence.text else replace(evidence, text=text)


def _tasks(event: TasksSeen) -> TasksSeen:
    tasks = tuple(map(_task, event.tasks))
    return event if _same(tasks, event.tasks) else replace(event, tasks=tasks)


def _task(task: Task) -> Task:
    kernel = task.kernel and mask_text(task.kernel)
    attributes, facts = task.attributes and mask_environment(task.attributes), _facts(task.facts)
    if (kernel, attributes, facts) == (task.kernel, task.attributes, task.facts):
        return task
    return replace(task, kernel=kernel, attributes=attributes, facts=facts)


def _resources(event: ResourcesSeen) -> ResourcesSeen:
    resources = tuple(map(_resource, event.resources))
    return event if _same(resources, event.resources) else replace(event, resources=resources)


def _resource(resource: Resource) -> Resource:
    name, state = mask_text(resource.name), resource.state and mask_text(resource.state)
    attributes = resource.attributes and mask_environment(resource.attributes)
    masked: Resource = replace(
        resource,
        name=name,
        state=state,
        outside=mask_text(resource.outside),
        idle=mask_text(resource.idle),
        facts=_facts(resource.facts),
        attributes=attributes,
    )
    return resource if masked == resource else masked


def _facts(facts: Any) -> Any:
    """Facts of a system with the texts in them masked; of an unknown tag too."""
    if isinstance(facts, Struct):
        texts = {name: mask_text(text) for name, text in structs.asdict(facts).items() if isinstance(text, str)}
        return replace(facts, **texts)
    if isinstance(facts, dict):
        return {name: mask_text(text) if isinstance(text, str) else text for name, text in facts.items()}
    return facts


def _edges(event: EdgesReplaced | EdgesAdded) -> EdgesReplaced | EdgesAdded:
    texts = {edge.evidence for edge in event.edges}  # a graph has millions of edges, and few of these
    masked = {text: changed for text in texts if (changed := mask_text(text)) is not text}
    if not masked:
        return event
    edges: tuple[Edge, ...] = tuple(
        replace(edge, evidence=masked[edge.evidence]) if edge.evidence in masked else edge for edge in event.edges
    )
    return event if edges == event.edges else replace(event, edges=edges)


def _same(after: tuple[object, ...], before: tuple[object, ...]) -> bool:
    return all(one is other for one, other in zip(after, before, strict=True))


def _status(event: StatusSeen) -> StatusSeen:
    status = event.status
    sentence, remedy = mask_text(status.sentence), mask_text(status.remedy)
    if (sentence, remedy) == (status.sentence, status.remedy):
        return event
    return replace(event, status=replace(status, sentence=sentence, remedy=remedy))


def _touched(event: Touched) -> Touched:
    why = mask_text(event.intrusion.why)
    return event if why == event.intrusion.why else replace(event, intrusion=replace(event.intrusion, why=why))


_MASKS: Final[dict[type[Any], Callable[[Any], Event]]] = {
    ProcessSeen: _process,
    LogSourceSeen: _log_source,
    ThreadsSeen: _threads,
    StacksSeen: _stacks,
    ExceptionSeen: _exception,
    DiagnosticSeen: _diagnostic,
    TasksSeen: _tasks,
    ResourcesSeen: _resources,
    EdgesReplaced: _edges,
    EdgesAdded: _edges,
    StatusSeen: _status,
    Touched: _touched,
}
"""Only what may quote a target's command line, environment, variables or logs is masked."""
