"""Sheets with all details of one entity, and with the verdict's evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.style import Style
from textual.geometry import Size

from livedbg.model import LogRecord, Process, Task, Thread
from livedbg.panels.culprit import at, place_of
from livedbg.panels.draw_context import DrawContext, health_mark
from livedbg.panels.functions import profile_lines
from livedbg.panels.hits import merged
from livedbg.panels.launches import launch_lines
from livedbg.panels.log import concerns
from livedbg.panels.sheet import Sheet, SheetLine, SheetPanel
from livedbg.panels.stack import frame_place
from livedbg.text.quantities import clock_ms, count, elapsed, percent
from livedbg.text.wording import many
from livedbg.themes import Role

_MOST = 30
_AROUND = 3  # lines of source on each side
BLANK = SheetLine()


def details(entity: str) -> Sheet:
    """Return the sheet of one entity."""

    def sheet(context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
        return context.names.label(entity), list(_about(context, entity))

    return sheet


class AboutPanel(SheetPanel):
    """Details of the selected entity, next to the table of the selection."""

    LABEL = "About"
    HELP = (
        "What is known of the selected row: its state, what it waits for and what waits for it, the code where it is, "
        "and what its runtime says of it. Enter opens the entity of a line. Shown where there is room."
    )
    HEAD = 0

    def __init__(self) -> None:
        super().__init__(_selected)

    def context_changed(self, before: DrawContext) -> None:
        super().context_changed(before)
        self.title(f"{self.LABEL}  {self.heading}".rstrip())

    @property
    def base_style(self) -> Style:
        return self.context.ink.base

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return super().get_content_height(container, viewport, width) - SheetPanel.HEAD

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
        for place, entity in enumerate(finding.entities[:_MOST]):
            yield link(context, entity, "involved" if place == 0 else "")
        if len(finding.entities) > _MOST:
            yield SheetLine(f"and {count(len(finding.entities) - _MOST)} more", Role.DIM)
        for place, step in enumerate(finding.next):
            yield SheetLine(step, lead="next" if place == 0 else "")
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
    for place, where in enumerate(task.where):
        yield link(context, where, "runs on" if place == 0 else "")
    if task.owner:
        yield SheetLine(task.owner, lead="driven by")
    usual = context.snapshot.kernels.get((task.system, task.kernel or ""))
    if usual is not None:
        text = f"{elapsed(usual.mean_ns)} mean, {elapsed(usual.longest_ns)} max, {many(usual.count, 'run')}"
        yield SheetLine(text, lead="usually takes")


def _thread(context: DrawContext, thread: Thread) -> Iterator[SheetLine]:
    yield link(context, thread.process, "of")
    yield SheetLine(context.names.waits(thread) or "-", lead="blocked in")
    place = at(context, thread.id)
    if place:
        yield SheetLine(place, lead="at")
    for name, value in (("system call", thread.syscall), ("wait channel", thread.wait_channel)):
        if value:
            yield SheetLine(value, lead=name)
    share = percent(context.names.cpu_share(thread.id))
    used = "" if thread.cpu_ns is None else f"{elapsed(thread.cpu_ns)} in total"
    yield SheetLine(", ".join(filter(None, (f"{share} recently" if share else "", used))), lead="CPU")
    if thread.timed:
        yield SheetLine("the wait has a timeout", Role.DIM)


def _process(process: Process) -> Iterator[SheetLine]:
    for name, value in (
        ("command", " ".join(process.command)),
        ("executable", process.exe),
        ("directory", process.cwd),
        ("user", process.user),
        ("host", process.host),
        ("parent", str(process.ppid) if process.ppid else None),
        ("threads", str(process.thread_count) if process.thread_count else None),
        ("notes", ", ".join(process.notes)),
    ):
        if value:
            yield SheetLine(value, lead=name)
    yield from (SheetLine(f"{name}={value}", lead="") for name, value in process.environment.items())


def _sources(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    for status in context.snapshot.statuses.values():
        if status.target == entity and status.sentence:
            mark = health_mark(status.health)
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
    for place, waiter in enumerate(waiters[:_MOST]):
        yield link(context, waiter, "waiters" if place == 0 else "")
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
    for number, frame in enumerate(stack.frames[:_MOST]):
        role = Role.PYTHON if frame.language == "python" else Role.TEXT
        yield SheetLine(f"{frame.function}  {frame_place(frame)}", role, "stack" if number == 0 else "")
        yield from (SheetLine(text, Role.DIM, indent=4) for text in frame.local_variables)
    if stack.partial:
        yield SheetLine(f"partial: {stack.note or 'outer frames may be missing'}", Role.WARN)


def _caught(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    hits = context.snapshot.exceptions
    own = {name: hit for name, hit in hits.items() if entity in (hit.thread, hit.process)}
    groups = sorted(merged(own).values(), key=lambda group: -group.last_wall_ns)
    if groups:
        yield BLANK
    for number, group in enumerate(groups[:_MOST]):
        text = f"{clock_ms(group.last_wall_ns)} {group.newest.type} {context.glyphs.times}{count(group.count)}"
        yield SheetLine(text.strip(), Role.BAD, "exceptions" if number == 0 else "", entity=group.newest.id)


def _log(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    own: list[LogRecord] = [record for record in context.snapshot.recent_logs if concerns(record, entity)]
    if own:
        yield BLANK
    for number, record in enumerate(own[-10:]):
        text = f"{clock_ms(record.wall_ns)} {record.text}".strip()
        yield SheetLine(text, Role.TEXT, "log" if number == 0 else "")


def link(context: DrawContext, entity: str, lead: str) -> SheetLine:
    """Return a line that leads to an entity."""
    mark = context.names.mark(entity, context.stalled)
    label = context.names.label(entity) if ":" in entity else entity
    state = f"  {mark.sign(context.glyphs)} {mark.word}" if mark.word else ""
    return SheetLine(f"{label}{state}", Role.TEXT, lead, entity=entity)
