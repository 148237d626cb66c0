"""Sheets with all details of an entity, a hit, a catchpoint or a log record, and with the verdict's evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from livedbg.model import Frame, LogRecord, Process, Task, TaskState, Thread
from livedbg.model.catchpoints import Catchpoint, CatchpointState
from livedbg.panels.catchpoints import HitGroup, about, group_of, left_s, merged, sparkline
from livedbg.panels.draw_context import CATCH_MARKS, HEALTH_MARKS, DrawContext
from livedbg.panels.log import concerns
from livedbg.panels.measured import launch_lines, profile_lines
from livedbg.panels.sheet import Sheet, SheetLine, SidePanel, facts, led, link
from livedbg.panels.stack import frame_place
from livedbg.panels.verdict import at, place_of
from livedbg.text.quantities import clock_ms, count, elapsed, milliseconds, percent
from livedbg.text.wording import many
from livedbg.themes import Role

_MOST = 30
_AROUND = 3  # lines of source on each side
BLANK = SheetLine()


def details(entity: str) -> Sheet:
    """Return the sheet of one entity."""
    return lambda context: (context.names.label(entity), list(_about(context, entity)))


class AboutPanel(SidePanel):
    """Details of the selected entity, next to the table of the selection."""

    LABEL = "About"
    HELP = (
        "What is known of the selected row: its state, what it waits for and what waits for it, the code where it is, "
        "and what its runtime says of it. Enter opens the entity of a line. Shown where there is room."
    )

    def __init__(self) -> None:
        super().__init__(_selected)

    def context_changed(self, before: DrawContext) -> None:
        super().context_changed(before)
        self.title(f"{self.LABEL}  {self.heading}".rstrip())

    def placeholder(self) -> str:
        return "Nothing is selected."


def _selected(context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
    entity = context.selection or next(iter(context.diagnosis.verdict.roots), None)
    if entity is None:
        return "", ()
    return context.names.label(entity), [line for line in _about(context, entity) if line.lead != "id"]


def evidence(context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
    """Return every finding with its evidence and next steps."""
    return "Evidence for the verdict", list(_findings(context))


def _findings(context: DrawContext) -> Iterator[SheetLine]:
    verdict = context.diagnosis.verdict
    yield SheetLine(verdict.sentence, lead="verdict", bold=True)
    for name, finding in context.diagnosis.findings.items():
        yield BLANK
        role = Role.BAD if finding.severity.rank >= 3 else Role.WARN if finding.severity.rank == 2 else Role.TEXT
        if name != verdict.chief or finding.sentence != verdict.sentence:
            yield SheetLine(finding.sentence, role, name, bold=True)
        how = "inferred" if finding.inferred else "read directly"
        since = f", since {clock_ms(finding.since_wall_ns)}" if finding.since_wall_ns else ""
        yield SheetLine(f"{finding.rule} ({finding.severity.value}), {how}{since}", Role.DIM, "rule")
        for proof in finding.evidence:
            at = f"  {clock_ms(proof.at_wall_ns)}" if proof.at_wall_ns else ""
            yield SheetLine(f"{proof.place}{at}", Role.NATIVE, proof.kind)
            yield SheetLine(proof.text, indent=2)
        yield from led("involved", (link(context, entity) for entity in finding.entities[:_MOST]))
        if len(finding.entities) > _MOST:
            yield SheetLine(f"and {count(len(finding.entities) - _MOST)} more", Role.DIM)
        yield from led("next", map(SheetLine, finding.next))
    if not context.diagnosis.findings:
        yield BLANK
        yield SheetLine("No rule has a finding. The Ledger screen shows what could not be seen.", Role.DIM)


def _about(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    shot = context.snapshot
    yield SheetLine(entity, Role.DIM, "id")
    mark = context.names.mark(entity, context.stalled)
    if mark.word:
        age = elapsed(context.names.age_ns(entity))
        yield SheetLine(f"{mark.sign(context.glyphs)} {mark.word}{f' for {age}' if age else ''}", mark.role, "state")
    if (task := shot.tasks.get(entity)) is not None:
        yield from _task(context, task)
    elif (thread := shot.threads.get(entity)) is not None:
        yield from _thread(context, thread)
    elif (process := shot.processes.get(entity)) is not None:
        yield from _process(process)
    elif (resource := shot.resources.get(entity)) is not None:
        yield SheetLine(resource.kind, lead="kind")
        yield from (SheetLine(value, lead=name) for name, value in resource.shown().items())
    elif (source := shot.log_sources.get(entity)) is not None:
        yield SheetLine(source.path or "", lead="path")
        yield SheetLine(source.format or "", lead="format")
    yield from _sources(context, entity)
    yield from _waits(context, entity)
    yield from _code(context, entity)
    yield from _stack(context, entity)
    yield from profile_lines(context, entity)
    yield from launch_lines(context, entity)
    yield from _caught(context, entity)
    if task is not None and (said := task.shown()):
        yield BLANK
        yield from (SheetLine(value, lead=name) for name, value in said.items())
    yield from _log(context, entity)


def _task(context: DrawContext, task: Task) -> Iterator[SheetLine]:
    yield SheetLine(task.system, lead="system")
    yield SheetLine(task.kernel or "unknown", lead="kernel")
    if task.fanin_total is not None:
        yield SheetLine(f"{task.fanin_left or 0} of {task.fanin_total} not met", lead="dependencies")
    yield from led("runs on", (link(context, where) for where in task.where))
    if task.owner:
        yield SheetLine(task.owner, lead="driven by")
    usual = context.snapshot.kernels.get((task.system, task.kernel or ""))
    if usual is not None:
        text = f"{elapsed(usual.mean_ns)} mean, {elapsed(usual.longest_ns)} max, {many(usual.count, 'run')}"
        yield SheetLine(text, lead="usually takes")


def _thread(context: DrawContext, thread: Thread) -> Iterator[SheetLine]:
    yield link(context, thread.process, "of")
    yield SheetLine(context.names.waits(thread) or "-", lead="blocked in")
    yield from facts(
        ("at", at(context, thread.id)), ("system call", thread.syscall), ("wait channel", thread.wait_channel)
    )
    share = percent(context.names.cpu_share(thread.id))
    used = "" if thread.cpu_ns is None else f"{elapsed(thread.cpu_ns)} in total"
    yield SheetLine(", ".join(filter(None, (f"{share} recently" if share else "", used))), lead="CPU")
    if thread.timed:
        yield SheetLine("the wait has a timeout", Role.DIM)


def _process(process: Process) -> Iterator[SheetLine]:
    yield from facts(
        ("command", " ".join(process.command)),
        ("executable", process.exe),
        ("directory", process.cwd),
        ("user", process.user),
        ("host", process.host),
        ("parent", str(process.ppid) if process.ppid else None),
        ("threads", str(process.thread_count) if process.thread_count else None),
        ("notes", ", ".join(process.notes)),
    )
    yield from (SheetLine(f"{name}={value}", lead="") for name, value in process.environment.items())


def _sources(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    for status in context.snapshot.statuses.values():
        if status.target == entity and status.sentence:
            mark = HEALTH_MARKS[status.health]
            yield SheetLine(f"{status.source}, {mark.word}: {status.sentence}", mark.role, "source")
            if status.remedy:
                yield SheetLine(status.remedy, Role.ACCENT, "fix")


def _waits(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    graph = context.diagnosis.graph
    edges = graph.waits_of(entity)
    blockers, waiters = list(graph.blockers_of(entity)), list(graph.waiters_of(entity))
    if blockers or waiters:
        yield BLANK
    for place, blocker in enumerate(blockers[:_MOST]):
        yield link(context, blocker, "waits for" if place == 0 else "")
        for edge in edges:
            if blocker in (edge.source, edge.target) and edge.evidence:
                inferred = " (inferred)" if edge.inferred else ""
                yield SheetLine(f"{edge.evidence}{inferred}", Role.DIM, indent=2)
    yield from led("waiters", (link(context, waiter) for waiter in waiters[:_MOST]))
    if len(waiters) > _MOST:
        yield SheetLine(f"and {count(len(waiters) - _MOST)} more", Role.DIM)
    behind = graph.behind(entity)
    if behind > len(waiters):
        yield SheetLine(f"{count(behind)} wait behind it in total", Role.WARN)


def _code(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    """Yield the source at a task's or thread's place."""
    place = place_of(context, entity)
    if place is None or not place.frame.source:
        return
    yield BLANK
    frame = place.frame
    yield SheetLine(f"{frame.function}  {frame_place(frame)}", Role.TEXT, "code")
    at = (frame.line or 0) - frame.source_from
    first = max(0, at - _AROUND)
    for number, text in enumerate(frame.source[first : at + _AROUND + 1], first):
        here = number == at
        mark = context.glyphs.here if here else " "
        yield SheetLine(f"{mark} {number + frame.source_from:4}  {text}", Role.ACCENT if here else Role.DIM, bold=here)


def _stack(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    stack = context.snapshot.stacks.get(entity)
    if stack is None:
        return
    yield BLANK
    yield from led("stack", (line for frame in stack.frames[:_MOST] for line in _frame_lines(frame)))
    if stack.partial:
        yield SheetLine(f"partial: {stack.note or 'outer frames may be missing'}", Role.WARN)


def _frame_lines(frame: Frame) -> Iterator[SheetLine]:
    """Yield a frame and its variables."""
    role = Role.PYTHON if frame.language == "python" else Role.TEXT
    yield SheetLine(f"{frame.function}  {frame_place(frame)}", role)
    yield from (SheetLine(text, Role.DIM, indent=4) for text in frame.local_variables)


def _caught(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    hits = context.snapshot.exceptions
    own = {name: hit for name, hit in hits.items() if entity in (hit.thread, hit.process)}
    groups = sorted(merged(own).values(), key=lambda group: -group.last_wall_ns)
    times = context.glyphs.times
    yield from _section(
        "exceptions",
        (
            SheetLine(
                f"{clock_ms(one.last_wall_ns)} {one.newest.type} {times}{count(one.count)}".strip(),
                Role.BAD,
                entity=one.newest.id,
            )
            for one in groups[:_MOST]
        ),
    )


def _section(lead: str, lines: Iterable[SheetLine]) -> Iterator[SheetLine]:
    """Yield lines with a blank one before them; nothing if there are none."""
    if shown := list(led(lead, lines)):
        yield BLANK
        yield from shown


def _log(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    return _records([record for record in context.snapshot.recent_logs if concerns(record, entity)])


def _records(records: Sequence[LogRecord]) -> Iterator[SheetLine]:
    texts = (f"{clock_ms(record.wall_ns)} {record.text}".strip() for record in records[-10:])
    return _section("log", map(SheetLine, texts))


_MOST_SHOWN: Final = 20
_MOST_FRAMES: Final = 64
_MOST_TASKS: Final = 50_000
"""Among more tasks none is searched for: an open sheet is made anew with every update."""
_SPARKS: Final = 60
_S: Final = 1_000_000_000
_AROUND_NS: Final = 10 * _S
"""Log records so much before or after the last hit are shown with it."""
_GONE: Final[tuple[str, Sequence[SheetLine]]] = ("Gone", ())


def caught_sheet(context: DrawContext, identity: str) -> Sheet | None:
    """Return the sheet of a hit or of a catchpoint; None if it is neither."""
    if identity in context.snapshot.exceptions:
        return lambda context: _hit_sheet(context, group_of(context.snapshot.exceptions, identity))
    if identity in context.snapshot.catchpoints:
        return lambda context: _point_sheet(context, context.snapshot.catchpoints.get(identity))
    return None


def _hit_sheet(context: DrawContext, group: HitGroup | None) -> tuple[str, Sequence[SheetLine]]:
    return (group.newest.type, list(_hit(context, group))) if group is not None else _GONE


def _point_sheet(context: DrawContext, point: Catchpoint | None) -> tuple[str, Sequence[SheetLine]]:
    return (f"Catchpoint {point.pattern}", list(_point(context, point))) if point is not None else _GONE


def _hit(context: DrawContext, group: HitGroup) -> Iterator[SheetLine]:
    newest = group.newest
    for number, (message, times) in enumerate(list(group.messages.items())[:_MOST_SHOWN]):
        counted = f"{context.glyphs.times}{count(times)}  " if len(group.messages) > 1 else ""
        for place, text in enumerate((message or "(empty)").split("\n")):
            lead = "message" if number == place == 0 else ""
            yield SheetLine(text if place else counted + text, Role.WARN, lead, indent=2 if place else 0)
    if len(group.messages) > _MOST_SHOWN:
        yield SheetLine(f"and {many(len(group.messages) - _MOST_SHOWN, 'more message')}", Role.DIM)
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
    yield from led("thread", (link(context, thread) for thread in group.threads[:_MOST_SHOWN]))
    if newest.process is not None:
        yield link(context, newest.process, "process")
    point = context.snapshot.catchpoints.get(newest.catchpoint or "")
    if point is not None:
        yield SheetLine(f"{point.moment.value} {point.pattern}", lead="caught by", entity=point.id)
    elif newest.catchpoint:
        yield SheetLine(newest.catchpoint, lead="caught by")
    yield from _tasks(context, group)
    yield from _stack_of_throw(group)
    yield from _log_around(context, group)


def _tasks(context: DrawContext, group: HitGroup) -> Iterator[SheetLine]:
    threads, tasks = set(group.threads), context.snapshot.tasks
    if not threads or len(tasks) > _MOST_TASKS:
        return
    found = [
        task.id for task in tasks.values() if task.state is TaskState.RUNNING and not threads.isdisjoint(task.where)
    ]
    yield from led("its task", (link(context, task) for task in found[:_MOST_SHOWN]))


def _stack_of_throw(group: HitGroup) -> Iterator[SheetLine]:
    newest = group.newest
    yield BLANK
    yield from led("stack", (line for frame in newest.stack[:_MOST_FRAMES] for line in _with_source(frame)))
    if len(newest.stack) > _MOST_FRAMES:
        yield SheetLine(f"and {many(len(newest.stack) - _MOST_FRAMES, 'more frame')}", Role.DIM)
    if not newest.stack:
        yield SheetLine("none", Role.DIM, "stack")
    elif newest.partial:
        yield SheetLine("partial: outer frames may be missing", Role.WARN)


def _with_source(frame: Frame) -> Iterator[SheetLine]:
    yield from _frame_lines(frame)
    for line, text in enumerate(frame.source, frame.source_from):
        here = line == frame.line
        yield SheetLine(f"{line:5}  {text}", Role.ACCENT if here else Role.FAINT, indent=4, bold=here)


def _log_around(context: DrawContext, group: HitGroup) -> Iterator[SheetLine]:
    at, threads = group.last_wall_ns, group.threads

    def near(record: LogRecord) -> bool:
        known = record.wall_ns is None or not at or abs(record.wall_ns - at) <= _AROUND_NS
        return known and any(concerns(record, thread) for thread in threads)

    return _records([record for record in context.snapshot.recent_logs if near(record)])


def _point(context: DrawContext, point: Catchpoint) -> Iterator[SheetLine]:
    mark = CATCH_MARKS[point.state]
    yield SheetLine(f"{mark.sign(context.glyphs)} {mark.word}", mark.role, "state")
    yield SheetLine(point.pattern, lead="pattern", bold=True)
    yield from facts(("preset", about(point)), ("with message", point.message), ("when", point.moment.value))
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
        yield link(context, point.stopped_thread, "stopped")
        yield SheetLine(f"resumes in {left_s(context, point)} s at the latest; R resumes it now", Role.WARN)
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
    said = (
        (f"{context.glyphs.times}{count(one.count)}  {one.newest.type}  {one.newest.message}", one) for one in groups
    )
    yield from _section("caught", (SheetLine(text, entity=one.newest.id) for text, one in islice(said, _MOST_SHOWN)))
