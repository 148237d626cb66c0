"""The verdict panel: what is stuck, since when, on what evidence, and what to do next; and the code that explains it.

That is the code of the thread (or task) the others wait for, or the crash's traceback.

Invariants:
    culprit.V1. For a crash no earlier stack is shown: the traceback named in the verdict is, or else no stack of
        anything that has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from msgspec import structs
from textual.geometry import Size

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import function_name, line_of, place_text
from livedbg.analysis.postmortem.exceptions import exception_of
from livedbg.model import ExceptionHit, Frame, ThreadState
from livedbg.panels.base import LinePanel
from livedbg.panels.cells import Line, wrap
from livedbg.panels.draw_context import VERDICT_MARKS, DrawContext
from livedbg.text.quantities import stopwatch
from livedbg.themes import Role

_FINE: Final = (VerdictState.RUNNING, VerdictState.EXITED)


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A place in code: the thread, task or exception that is there, and its stack, innermost first."""

    entity: str
    frame: Frame
    frames: Sequence[Frame]
    raised: ExceptionHit | None = None


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
                return structs.replace(frame, source=one.source, source_from=one.source_from)
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


WIDE: Final = 100
"""From so many cells on, lines hang under the text of their first one, and evidence may take several."""


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    role: Role
    bold: bool = False
    lead: str = ""
    lead_role: Role = Role.DIM
    hang: int = 2
    rank: int = 0


class VerdictPanel(LinePanel):
    """The verdict, its evidence in short, the next steps.

    If space is short, the evidence is cut first, then the end of the sentence; the next step stays.
    """

    LABEL: ClassVar[str] = "Verdict"
    HELP = (
        "The overall diagnosis. `e` opens the evidence: the rule, the log lines and the addresses it rests on. What"
        " was inferred and not read is marked. If space is short, `e` has the rest."
    )
    CURSOR = False

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[_Part] = []
        self._wrapped: tuple[tuple[int, int], list[_Part]] = ((-1, 0), [])

    def context_changed(self, before: DrawContext) -> None:
        old = self.parts
        self.parts = self._parts_now()
        if old != self.parts:
            height = len(self._wrapped[1])
            self._wrapped = ((-1, 0), [])
            if len(self._lines(max(self.scrollable_content_region.width, 20))) != height:
                self.refresh(layout=True)
        findings = len(self.context.diagnosis.findings)
        others = f"{findings} findings" if findings > 1 else ""
        self.title(self.LABEL, f"e: {others or 'evidence'}" if findings else "")

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(max(width - 1, 10)))

    def count(self) -> int:
        return len(self._lines(max(self.scrollable_content_region.width, 10)))

    def draw(self, index: int, line: Line) -> None:
        part, ink = self._lines(max(line.width, 10))[index], self.context.ink
        if part.lead:
            line.add(part.lead, ink.style(part.lead_role, bold=True))
        line.add(part.text, ink.style(part.role, bold=part.bold))

    def copy_text(self) -> str:
        return "\n".join(f"{part.lead}{part.text}" for part in self._parts_now())

    def _lines(self, width: int) -> list[_Part]:
        key = (width, self.max_lines)
        if self._wrapped[0] != key:
            parts = [(part.rank, self._wrap(part, width)) for part in self.parts]
            self._wrapped = (key, _squeezed(parts, key[1]))
        return self._wrapped[1]

    @staticmethod
    def _wrap(part: _Part, width: int) -> list[_Part]:
        if part.rank and width < WIDE:
            return [part]
        hang = len(part.lead) if width >= WIDE else part.hang
        first = max(width - len(part.lead), 8)
        return [
            _Part(text, part.role, part.bold, part.lead if number == 0 else " " * hang, part.lead_role)
            for number, text in enumerate(wrap(part.text, max(width - hang, 8), first))
        ]

    def _parts_now(self) -> list[_Part]:
        context, verdict = self.context, self.context.diagnosis.verdict
        mark = VERDICT_MARKS[verdict.state]
        since = stopwatch(context.since_ns(verdict.since_wall_ns))
        lead = f"{mark.sign(context.glyphs)} {mark.word.upper()}{' ' + since if since else ''}  "
        parts = [_Part(verdict.sentence, Role.TEXT, True, lead, mark.role)]
        finding = finding_of(context)
        if finding is None:
            return parts
        if not verdict.chief:
            parts.append(_Part(finding.sentence, Role.TEXT, rank=2))
        dot = f" {context.glyphs.separator} "
        if finding.evidence:
            shown = dot.join(f"{proof.place}: {proof.text}" for proof in finding.evidence[:2])
            more = f"{dot}{len(finding.evidence) - 2} more" if len(finding.evidence) > 2 else ""
            inferred = "Inferred" if finding.inferred else "Evidence"
            lead = f"{inferred} (e) "
            parts.append(_Part(f"{shown}{more}", Role.DIM, lead=lead, lead_role=Role.ACCENT, rank=3))
        if finding.next:
            shown = dot.join(finding.next[:2])
            parts.append(_Part(shown, Role.DIM, lead="Next ", lead_role=Role.ACCENT, rank=1))
        return parts


def _squeezed(parts: list[tuple[int, list[_Part]]], room: int) -> list[_Part]:
    """Return at most `room` lines: the parts of highest rank are cut first, the next step last."""
    over = sum(len(lines) for _rank, lines in parts) - room
    for rank, least in ((3, 1), (2, 0), (3, 0), (1, 1), (0, 1)):
        for number, (own, lines) in enumerate(parts):
            keep = max(len(lines) - max(over, 0), least)
            if own == rank and keep < len(lines):
                over -= len(lines) - keep
                cut = lines[:keep]
                if cut:
                    cut[-1] = replace(cut[-1], text=f"{cut[-1].text} …")
                parts[number] = (own, cut)
    return [line for _rank, lines in parts for line in lines]


def finding_of(context: DrawContext) -> Finding | None:
    """Return the finding behind the verdict, or the first one if there is none."""
    return context.diagnosis.chief or next(iter(context.diagnosis.findings.values()), None)
