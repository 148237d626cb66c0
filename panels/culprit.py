"""Find the code that explains the verdict: that of the thread (or task) the others wait for, or the crash's traceback.

Invariants:
    culprit.V1. For a crash no earlier stack is shown: the traceback named in the verdict is, or else no stack of
        anything that has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.place_names import function_name, line_of, place_text
from livedbg.analysis.postmortem.exceptions import exception_of
from livedbg.model import ExceptionHit, Frame, ThreadState
from livedbg.panels.draw_context import DrawContext

_FINE: Final = (VerdictState.RUNNING, VerdictState.EXITED)


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A place in code: the thread, task or exception that is there, and its stack, innermost first."""

    entity: str
    frame: Frame
    frames: Sequence[Frame]
    raised: ExceptionHit | None = None


def culprit(context: DrawContext) -> str | None:
    """Return the entity whose code is shown; None if all is well or no code is known."""
    place = code_place(context)
    return place.entity if place is not None else None


def code_place(context: DrawContext) -> CodePlace | None:
    """Return the place in code that the verdict points to; None if all is well or it is not known."""
    state = context.diagnosis.verdict.state
    if state in _FINE:
        return None
    crashed = state is VerdictState.CRASHED
    if crashed and (raised := _raised(context)) is not None:
        return raised
    places = (place_of(context, entity, after_crash=crashed) for entity in _named(context))
    return next(filter(None, places), None)


def place_of(context: DrawContext, entity: str, *, after_crash: bool = False) -> CodePlace | None:
    """Return the place in code of an entity, or of the threads that it runs in; None if not known."""
    for one in _threads(context, entity):
        stack = context.snapshot.stacks.get(one)
        frame = context.diagnosis.code.frame(stack)
        if stack is not None and frame is not None and not (after_crash and _has_ended(context, one)):
            return CodePlace(one, frame, stack.frames)
    return None


def _raised(context: DrawContext) -> CodePlace | None:
    """Return the place of the traceback that the verdict names."""
    findings = context.diagnosis.findings.values()
    chief = next((finding for finding in findings if finding.state is VerdictState.CRASHED), None)
    hit = exception_of(chief, context.snapshot) if chief is not None else None
    frame = context.diagnosis.code.frame_of(hit.stack) if hit is not None else None
    return CodePlace(hit.id, _with_lines(frame, context), hit.stack, hit) if hit and frame else None


def _with_lines(frame: Frame, context: DrawContext) -> Frame:
    """Add the lines around a frame, if a stack has them: a log has one line at most."""
    for stack in context.snapshot.stacks.values():
        for one in stack.frames:
            if one.file != frame.file or not one.source:
                continue
            at = (frame.line or 0) - one.source_from
            if 0 <= at < len(one.source) and (not frame.source or one.source[at].strip() == frame.source[0].strip()):
                return replace(frame, source=one.source, source_from=one.source_from)
    return frame


def _has_ended(context: DrawContext, entity: str) -> bool:
    thread = context.snapshot.threads.get(entity)
    return thread is not None and thread.state is ThreadState.DEAD


def _named(context: DrawContext) -> Iterator[str]:
    verdict = context.diagnosis.verdict
    yield from verdict.roots
    for finding in context.diagnosis.findings.values():
        if finding.state is verdict.state:
            yield from finding.roots
            yield from finding.entities


def _threads(context: DrawContext, entity: str) -> Iterator[str]:
    yield entity
    process = context.snapshot.processes.get(entity)
    if process is not None:
        yield f"thread:{process.host}/{process.pid}/{process.pid}"
    task = context.snapshot.tasks.get(entity)
    if task is not None:
        yield from task.where


def at(context: DrawContext, thread: str) -> str:
    """Return `step (server.cpp:31)`; "" if the thread has no stack with a place worth naming."""
    frame = context.diagnosis.code.frame(context.snapshot.stacks.get(thread))
    return place_text(frame) if frame is not None else ""


def line_first(context: DrawContext, thread: str) -> str:
    """Return `server.cpp:31 step`, for a narrow column, where the function may be cut; without a line, as `at`."""
    frame = context.diagnosis.code.frame(context.snapshot.stacks.get(thread))
    if frame is None or not line_of(frame):
        return place_text(frame) if frame is not None else ""
    return f"{line_of(frame)} {function_name(frame.function, frame.language)}"
