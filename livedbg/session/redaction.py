"""The gate at which events lose the secrets of a target, before the state, a screen, a report or a recording has them.

Invariants:
    redaction.D1. Every event of a session or of a recording passes it once, unless the user asked for `--no-redact`.
    redaction.D2. An event without a secret stays the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from livedbg.model import Diagnostic, Evidence, Frame
from livedbg.model.events import (
    DiagnosticSeen,
    Event,
    ExceptionSeen,
    LogsSeen,
    ProcessSeen,
    StacksSeen,
    StatusSeen,
    Touched,
)
from livedbg.text.secrets import mask_command, mask_environment, mask_text, mask_variable

__all__ = ["redacted"]


def redacted(events: Iterable[Event]) -> list[Event]:
    """The events with the values of secrets masked (livedbg.text.secrets)."""
    return [mask(event) if (mask := _MASKS.get(type(event))) is not None else event for event in events]


def _process(event: ProcessSeen) -> ProcessSeen:
    process = event.process
    command, environment = mask_command(process.command), mask_environment(process.environment)
    if command == process.command and environment == process.environment:
        return event
    return replace(event, process=replace(process, command=command, environment=environment))


def _logs(event: LogsSeen) -> LogsSeen:
    texts = [mask_text(record.text) for record in event.records]
    if all(text is record.text for text, record in zip(texts, event.records, strict=True)):
        return event
    return replace(
        event, records=tuple(replace(record, text=text) for record, text in zip(event.records, texts, strict=True))
    )


def _stacks(event: StacksSeen) -> StacksSeen:
    if not any(frame.local_variables or frame.source for stack in event.stacks for frame in stack.frames):
        return event
    return replace(event, stacks=tuple(replace(stack, frames=_frames(stack.frames)) for stack in event.stacks))


def _frames(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    return tuple(
        replace(
            frame,
            local_variables=tuple(map(mask_variable, frame.local_variables)),
            source=tuple(map(mask_text, frame.source)),
        )
        if frame.local_variables or frame.source
        else frame
        for frame in frames
    )


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
        attributes=mask_environment(said.attributes),
        evidence=tuple(map(_evidence, said.evidence)),
    )
    return event if masked == said else replace(event, diagnostic=masked)


def _evidence(evidence: Evidence) -> Evidence:
    text = mask_text(evidence.text)
    return evidence if text is evidence.text else replace(evidence, text=text)


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
    LogsSeen: _logs,
    StacksSeen: _stacks,
    ExceptionSeen: _exception,
    DiagnosticSeen: _diagnostic,
    StatusSeen: _status,
    Touched: _touched,
}
"""Only what may quote a target's command line, environment, variables or logs is masked."""
