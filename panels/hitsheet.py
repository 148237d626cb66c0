"""Sheets with all details of a hit, a catchpoint, or a log record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.model import LogRecord, TaskState
from livedbg.model.catchpoints import Catchpoint, CatchpointState
from livedbg.panels.catchpoints import about
from livedbg.panels.details import BLANK, link
from livedbg.panels.draw_context import DrawContext, catch_mark, severity_mark
from livedbg.panels.hits import HitGroup, group_of, merged, sparkline
from livedbg.panels.log import concerns, source_name
from livedbg.panels.sheet import Sheet, SheetLine
from livedbg.panels.stack import frame_place
from livedbg.text.quantities import clock_ms, count, milliseconds
from livedbg.text.wording import many
from livedbg.themes import Role

_MOST: Final = 20
_MOST_FRAMES: Final = 64
_MOST_TASKS: Final = 50_000
"""Among more tasks none is searched for: an open sheet is made anew with every update."""
_SPARKS: Final = 60
_S: Final = 1_000_000_000
_AROUND_NS: Final = 10 * _S
"""Log records so much before or after the last hit are shown with it."""


def caught_sheet(context: DrawContext, identity: str) -> Sheet | None:
    """Return the sheet of a hit or of a catchpoint; None if it is neither."""
    if identity in context.snapshot.exceptions:
        return _hit_sheet(identity)
    return _point_sheet(identity) if identity in context.snapshot.catchpoints else None


def _hit_sheet(identity: str) -> Sheet:
    def sheet(context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
        group = group_of(context.snapshot.exceptions, identity)
        return (group.newest.type, list(_hit(context, group))) if group is not None else ("Gone", ())

    return sheet


def _point_sheet(identity: str) -> Sheet:
    def sheet(context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
        point = context.snapshot.catchpoints.get(identity)
        return (f"Catchpoint {point.pattern}", list(_point(context, point))) if point is not None else ("Gone", ())

    return sheet


def _hit(context: DrawContext, group: HitGroup) -> Iterator[SheetLine]:
    newest = group.newest
    for number, (message, times) in enumerate(list(group.messages.items())[:_MOST]):
        counted = f"{context.glyphs.times}{count(times)}  " if len(group.messages) > 1 else ""
        for place, text in enumerate((message or "(empty)").split("\n")):
            lead = "message" if number == place == 0 else ""
            yield SheetLine(text if place else counted + text, Role.WARN, lead, indent=2 if place else 0)
    if len(group.messages) > _MOST:
        yield SheetLine(f"and {many(len(group.messages) - _MOST, 'more message')}", Role.DIM)
    yield SheetLine(count(group.count), lead="count", bold=True)
    yield SheetLine(clock_ms(group.first_wall_ns) or "unknown", lead="first")
    yield SheetLine(clock_ms(group.last_wall_ns) or "unknown", lead="last")
    if group.history:
        yield SheetLine(sparkline(group.history, _SPARKS, context.glyphs.sparks), Role.ACCENT, "per second")
    paused = sum(hit.paused_ms for hit in group.hits)
    pause = (
        f"the target was paused for {milliseconds(paused * 1e6)} in total"
        if paused
        else "the target was not stopped for it"
    )
    yield SheetLine(pause, Role.WARN if paused else Role.DIM, "pause")
    for number, thread in enumerate(group.threads[:_MOST]):
        yield link(context, thread, "thread" if number == 0 else "")
    if newest.process is not None:
        yield link(context, newest.process, "process")
    point = context.snapshot.catchpoints.get(newest.catchpoint or "")
    if point is not None:
        yield SheetLine(f"{point.moment.value} {point.pattern}", lead="caught by", entity=point.id)
    elif newest.catchpoint:
        yield SheetLine(newest.catchpoint, lead="caught by")
    yield from _tasks(context, group)
    yield from _stack(group)
    yield from _log(context, group)


def _tasks(context: DrawContext, group: HitGroup) -> Iterator[SheetLine]:
    threads, tasks = set(group.threads), context.snapshot.tasks
    if not threads or len(tasks) > _MOST_TASKS:
        return
    found = [
        task.id for task in tasks.values() if task.state is TaskState.RUNNING and not threads.isdisjoint(task.where)
    ]
    for number, task in enumerate(found[:_MOST]):
        yield link(context, task, "its task" if number == 0 else "")


def _stack(group: HitGroup) -> Iterator[SheetLine]:
    newest = group.newest
    yield BLANK
    for number, frame in enumerate(newest.stack[:_MOST_FRAMES]):
        role = Role.PYTHON if frame.language == "python" else Role.TEXT
        yield SheetLine(f"{frame.function}  {frame_place(frame)}", role, "stack" if number == 0 else "")
        yield from (SheetLine(text, Role.DIM, indent=4) for text in frame.local_variables)
        for line, text in enumerate(frame.source, frame.source_from):
            here = line == frame.line
            yield SheetLine(f"{line:5}  {text}", Role.ACCENT if here else Role.FAINT, indent=4, bold=here)
    if len(newest.stack) > _MOST_FRAMES:
        yield SheetLine(f"and {many(len(newest.stack) - _MOST_FRAMES, 'more frame')}", Role.DIM)
    if not newest.stack:
        yield SheetLine("none", Role.DIM, "stack")
    elif newest.partial:
        yield SheetLine("partial: outer frames may be missing", Role.WARN)


def _log(context: DrawContext, group: HitGroup) -> Iterator[SheetLine]:
    at, threads = group.last_wall_ns, group.threads

    def near(record: LogRecord) -> bool:
        known = record.wall_ns is None or not at or abs(record.wall_ns - at) <= _AROUND_NS
        return known and any(concerns(record, thread) for thread in threads)

    own = [record for record in context.snapshot.recent_logs if near(record)]
    if own:
        yield BLANK
    for number, record in enumerate(own[-10:]):
        text = f"{clock_ms(record.wall_ns)} {record.text}".strip()
        yield SheetLine(text, Role.TEXT, "log" if number == 0 else "")


def _point(context: DrawContext, point: Catchpoint) -> Iterator[SheetLine]:
    mark = catch_mark(point.state)
    yield SheetLine(f"{mark.sign(context.glyphs)} {mark.word}", mark.role, "state")
    yield SheetLine(point.pattern, lead="pattern", bold=True)
    for lead, text in (("preset", about(point)), ("with message", point.message), ("when", point.moment.value)):
        if text:
            yield SheetLine(text, lead=lead)
    how = {
        "probes": "kernel probes; the target is never stopped",
        "registers": "debug registers of the CPU; the target is never stopped",
        "gdb": "gdb; each hit stops the throwing thread",
    }
    yield SheetLine(how.get(point.engine, point.engine or "not chosen yet"), lead="engine")
    yield link(context, point.process, "process")
    if point.follow:
        yield SheetLine("and its children", Role.DIM)
    lost = f", {count(point.lost)} dropped by the kernel" if point.lost else ""
    yield SheetLine(f"{count(point.seen)} seen, {many(point.hits, 'hit')}{lost}", lead="counts")
    if point.stopped_thread is not None:
        left_s = max(0, (point.until_wall_ns or 0) - context.snapshot.now().wall_ns) // _S
        yield link(context, point.stopped_thread, "stopped")
        yield SheetLine(f"resumes in {left_s} s at the latest; R resumes it now", Role.WARN)
    if point.ending:
        yield SheetLine(f"the process {point.ending}", Role.WARN, "ended")
    if point.note:
        failed = point.state is CatchpointState.FAILED
        yield SheetLine(point.note, mark.role if failed else Role.TEXT, "note")
    if point.remedy:
        yield SheetLine(point.remedy, Role.ACCENT, "fix")
    touches = context.snapshot.touches_of(point.process)
    paused = milliseconds(touches.paused_ns)
    actions = many(touches.count, "intrusive action")
    yield SheetLine(f"{actions} on its process, paused {paused} in total", Role.DIM, "ledger")
    own = {name: hit for name, hit in context.snapshot.exceptions.items() if hit.catchpoint == point.id}
    groups = sorted(merged(own).values(), key=lambda group: -group.count)
    if groups:
        yield BLANK
    for number, group in enumerate(groups[:_MOST]):
        text = f"{context.glyphs.times}{count(group.count)}  {group.newest.type}  {group.newest.message}"
        yield SheetLine(text, lead="caught" if number == 0 else "", entity=group.newest.id)


def record_sheet(record: LogRecord) -> Sheet:
    def sheet(context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
        line = f", line {record.line:,}" if record.line is not None else ""
        return f"Record of {source_name(context, record.source)}{line}", list(_about(context, record))

    return sheet


def _about(context: DrawContext, record: LogRecord) -> Iterator[SheetLine]:
    mark = severity_mark(record.severity)
    yield SheetLine(clock_ms(record.wall_ns) or "the record has none", Role.DIM, "time")
    yield SheetLine(mark.word, mark.role, "severity")
    for number, text in enumerate(record.text.split("\n")):
        yield SheetLine(text, Role.TEXT, "text" if number == 0 else "")
    for number, entity in enumerate(record.links):
        yield link(context, entity, "speaks of" if number == 0 else "")
    yield link(context, record.source, "log")
