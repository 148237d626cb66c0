"""The catchpoints panel; what catchpoints caught, merged; links from a hit to its thread, log records and task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from livedbg.model import ExceptionHit, Task, TaskState
from livedbg.model.catchpoints import Catchpoint, CatchpointState, Moment
from livedbg.model.intents import Uncatch
from livedbg.panels.base import Asked, Key, Led, LinePanel, Noticed, Opened
from livedbg.panels.draw_context import CATCH_MARKS, DrawContext
from livedbg.panels.table import SORT_KEY, Cell, Column, GrowingTablePanel, Rows
from livedbg.session.catch_options import presets, usual_types
from livedbg.text.quantities import rate
from livedbg.text.wording import many
from livedbg.themes import Role

_SECOND_NS: Final = 1_000_000_000
_SECONDS: Final = 600
"""Seconds of history that are merged at most: more than any screen has columns."""


@dataclass(frozen=True, slots=True)
class HitGroup:
    """Hits of one type and stack, whatever their messages and threads; not empty, newest first."""

    hits: tuple[ExceptionHit, ...]

    @property
    def id(self) -> str:
        """Return a stable id: that of the first hit."""
        return min(self.hits, key=lambda hit: (_first(hit), hit.id)).id

    @property
    def newest(self) -> ExceptionHit:
        return self.hits[0]

    @property
    def count(self) -> int:
        """Return the total number of hits."""
        return sum(hit.count for hit in self.hits)

    @property
    def first_wall_ns(self) -> int:
        """Return when it was first seen; 0 if not known."""
        return min(map(_first, self.hits))

    @property
    def last_wall_ns(self) -> int:
        """Return when it was last seen; 0 if not known."""
        return self.newest.at_wall_ns or 0

    @property
    def threads(self) -> tuple[str, ...]:
        """Return the throwing threads, last one first."""
        return tuple(dict.fromkeys(hit.thread for hit in self.hits if hit.thread is not None))

    @property
    def messages(self) -> dict[str, int]:
        """Return its messages with their counts, last one first."""
        found: dict[str, int] = {}
        for hit in self.hits:
            found[hit.message] = found.get(hit.message, 0) + hit.count
        return found

    @property
    def history(self) -> tuple[int, ...]:
        """Return the hits in each second up to the last hit, newest last."""
        end = self.last_wall_ns // _SECOND_NS
        sums = [0] * _SECONDS
        for hit in self.hits:
            late = end - (hit.at_wall_ns or 0) // _SECOND_NS
            for back, number in enumerate(reversed(hit.history[-_SECONDS:])):
                if late + back < _SECONDS:
                    sums[-1 - late - back] += number
        begin = next((place for place, number in enumerate(sums) if number), _SECONDS)
        return tuple(sums[begin:])


def merged(hits: Mapping[str, ExceptionHit], *, apart: bool = False) -> dict[str, HitGroup]:
    """Return groups by id; with `apart`, every hit is a group of its own."""
    found: dict[object, list[ExceptionHit]] = {}
    for hit in hits.values():
        found.setdefault(hit.id if apart else _shape(hit), []).append(hit)
    groups = (HitGroup(tuple(sorted(same, key=lambda hit: -(hit.at_wall_ns or 0)))) for same in found.values())
    return {group.id: group for group in groups}


def group_of(hits: Mapping[str, ExceptionHit], identity: str) -> HitGroup | None:
    """Return the group that contains a hit."""
    wanted = hits.get(identity)
    if wanted is None:
        return None
    shape = _shape(wanted)
    same = {name: hit for name, hit in hits.items() if hit.type == wanted.type and _shape(hit) == shape}
    return next(iter(merged(same).values()))


def sparkline(history: Sequence[int], width: int, sparks: str) -> str:
    """Return the last `width` seconds as characters; the maximum has the highest one, and any count shows."""
    shown = history[-width:] if width > 0 else ()
    most, top = max(shown, default=0), len(sparks) - 1
    return "".join(sparks[-(-number * top // most)] if number > 0 else sparks[0] for number in shown)


def _first(hit: ExceptionHit) -> int:
    return hit.first_wall_ns or hit.at_wall_ns or 0


def _shape(hit: ExceptionHit) -> object:
    """Return the grouping key of a hit; without a stack the messages must be equal."""
    if not hit.stack:
        return hit.type, hit.message
    return hit.type, tuple((frame.function, frame.file, frame.line) for frame in hit.stack)


LINK_KEYS: Final = (
    Key("T", "T", "to_thread", "go to the thread of the last hit (screen Threads)"),
    Key("L", "L", "to_log", "go to the log records around that time, of that thread if it logs"),
    Key("W", "W", "to_task", "go to the task that the thread works on (screen Tasks)"),
)
_LIKELY: Final = (TaskState.RUNNING, TaskState.FAILED, TaskState.COMPLETED)


class HitLinks(LinePanel):
    """A panel with a selected hit."""

    def selected(self) -> HitGroup | None:
        """Return the selected group."""
        raise NotImplementedError

    def action_to_thread(self) -> None:
        group = self.selected()
        if group is None:
            self._say("Nothing is selected.")
            return
        known = self.context.snapshot.threads
        living = [thread for thread in group.threads if thread in known and not known[thread].exited]
        if living:
            self.post_message(Led("threads", living[0]))
        elif group.threads:
            self._say(f"{self._label(group)} has exited; its stack at the throw is shown here.")
        else:
            self._say("The thread that threw it is unknown.")

    def action_to_log(self) -> None:
        group = self.selected()
        if group is None:
            self._say("Nothing is selected.")
        elif not self.context.snapshot.recent_logs:
            self._say("No logs are read. Use --logs PATH or `livedbg launch`.")
        else:
            newest = group.newest
            self.post_message(Led("logs", newest.thread or newest.process or "", newest.at_wall_ns))

    def action_to_task(self) -> None:
        group = self.selected()
        if group is None:
            self._say("Nothing is selected.")
            return
        task = task_of(self.context, group)
        if task is not None:
            self.post_message(Led("tasks", task.id))
        elif not self.context.snapshot.tasks:
            self._say("There are no tasks: no runtime reports any here.")
        else:
            self._say(f"No task is known for {self._label(group)}: its runtime reports cores, or other threads.")

    def _label(self, group: HitGroup) -> str:
        return self.context.names.label(group.threads[0]) if group.threads else "its thread"

    def _say(self, text: str) -> None:
        self.post_message(Noticed(text))


def task_of(context: DrawContext, group: HitGroup) -> Task | None:
    """Return a task on one of the threads: a running one, else a failed one, else a finished one."""
    threads = set(group.threads)
    if not threads:
        return None
    found = [task for task in context.snapshot.tasks.values() if not threads.isdisjoint(task.where)]
    return min(found, key=lambda task: _LIKELY.index(task.state) if task.state in _LIKELY else 9, default=None)


NO_CATCHPOINT: Final = "No catchpoints. Press c, e.g. std::runtime_error. Nothing is stopped."
UNCATCH_KEY: Final = Key("d,delete", "d Del", "uncatch", "remove the catchpoint of the selected row")
_OVER: Final = (CatchpointState.DONE, CatchpointState.FAILED)
_USUAL: Final = ("std::runtime_error", "std::exception", "std::bad_alloc")


class CatchpointsPanel(GrowingTablePanel, scope="catchpoints"):
    """Every catchpoint."""

    LABEL = "Catchpoints"
    HELP = (
        "Catchpoints and their hits. ENGINE is how a catchpoint works: probes (kernel probes) and registers (debug "
        "registers) never stop the target; gdb (--stop) stops the throwing thread briefly. SEEN counts all throws, "
        "HITS those that matched, LOST those that the kernel dropped."
    )
    COLUMNS = (
        Column("STATE", 8, keep=10, sort="state"),
        Column("PATTERN", 18, stretch=2, keep=10, sort="pattern"),
        Column("WHEN", 7, keep=5),
        Column("ENGINE", 9, keep=6),
        Column("SEEN", 6, keep=7, align="right"),
        Column("HITS", 6, keep=9, sort="hits", align="right"),
        Column("LOST", 6, keep=8, align="right"),
        Column("PROCESS", 14, stretch=1, keep=3),
        Column("NOTE", 18, stretch=3, keep=4),
        Column("FIX", 16, stretch=2, keep=2),
    )
    SORTS = ("state", "hits", "pattern")
    KEYS = (SORT_KEY, UNCATCH_KEY)

    def source(self, context: DrawContext) -> object:
        return id(context.snapshot.catchpoints)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """Return the rows: failed and armed catchpoints before finished ones."""
        known = context.snapshot.catchpoints
        found = [
            c for c in known.values() if not needle or needle in f"{c.pattern} {c.state} {c.engine} {c.note}".lower()
        ]
        found.sort(key=_ORDERS[sort])
        title = f"{armed(context)} armed  {many(sum(c.hits for c in known.values()), 'hit')}" if known else ""
        return Rows([c.id for c in found], len(known), title)

    def cells(self, identity: str) -> Sequence[Cell]:
        point = self.context.snapshot.catchpoints.get(identity)
        if point is None:
            return [Cell("")] * len(self.COLUMNS)
        mark, ink = CATCH_MARKS[point.state], self.context.ink
        dim = ink.style(Role.DIM)
        quiet = dim if point.state is CatchpointState.DONE else None
        text = f'{point.pattern} with "{point.message}"' if point.message else point.pattern
        state = Cell(f"{mark.sign(self.context.glyphs)} {mark.word}", ink.style(mark.role))
        if point.stopped_thread is not None:
            state = Cell("stopped", ink.style(Role.BAD, bold=True))
        return (
            state,
            Cell(text, quiet or ink.style(Role.TEXT, bold=True)),
            Cell(point.moment.value, dim),
            Cell(
                f"{point.engine} {left_s(self.context, point)}s" if point.stopped_thread else point.engine or "-", dim
            ),
            Cell(rate(point.seen), dim),
            Cell(rate(point.hits), ink.style(Role.WARN, bold=True) if point.hits else dim),
            Cell(rate(point.lost) if point.lost else "", ink.style(Role.WARN)),
            Cell(self.context.names.label(point.process) + (" and children" if point.follow else ""), dim),
            Cell(_note(self.context, point), ink.style(mark.role) if point.state is CatchpointState.FAILED else None),
            Cell(point.remedy, ink.style(Role.ACCENT)),
        )

    def hidden(self, width: int) -> Set[str]:
        """Return empty columns; if space is short, a note has priority over the process."""
        points = self.context.snapshot.catchpoints.values()
        wanted = {
            "LOST": any(point.lost for point in points),
            "PROCESS": len({point.process for point in points}) > 1 or width > 150,
            "NOTE": any(point.note or point.stopped_thread for point in points),
            "FIX": any(point.remedy for point in points),
        }
        return {title for title, is_wanted in wanted.items() if not is_wanted}

    def entity(self, index: int) -> str | None:
        row = super().entity(index)
        point = self.context.snapshot.catchpoints.get(row) if row is not None else None
        return point.process if point is not None else None

    def placeholder(self) -> str:
        return "No catchpoint matches." if self.needle else NO_CATCHPOINT

    def action_open(self) -> None:
        if self.count():
            self.post_message(Opened(self.rows.order[self.cursor]))

    def action_uncatch(self) -> None:
        take_out(self, self.rows.order[self.cursor] if self.count() else None)


_ORDERS: Final[Mapping[str, Callable[[Catchpoint], tuple[object, ...]]]] = {
    "hits": lambda point: (-point.hits,),
    "pattern": lambda point: (point.pattern,),
    "state": lambda point: (CATCH_MARKS[point.state].order,),
}


def take_out(panel: LinePanel, identity: str | None) -> None:
    """Ask to remove a catchpoint, or say that there is none."""
    point = panel.context.snapshot.catchpoints.get(identity or "")
    if point is None:
        panel.post_message(Noticed("There is no catchpoint here to remove."))
    elif point.state in _OVER:
        panel.post_message(Noticed(f"The catchpoint on {point.pattern} has already ended."))
    else:
        panel.post_message(Asked(Uncatch(catchpoint=point.id), f"Removing the catchpoint on {point.pattern}"))


def left_s(context: DrawContext, point: Catchpoint) -> int:
    """Return how many more seconds a thread can be stopped, at most."""
    return max(0, (point.until_wall_ns or 0) - context.snapshot.now().wall_ns) // 1_000_000_000


def _note(context: DrawContext, point: Catchpoint) -> str:
    """Return its note, with a stopped thread first."""
    if point.stopped_thread is None:
        return point.note
    return f"{context.names.label(point.stopped_thread)}: R resumes it; {point.note}"


def armed(context: DrawContext, *, stopping: bool = False) -> int:
    """Return the number of armed catchpoints; `stopping`: only those that stop the target."""
    points = context.snapshot.catchpoints.values()
    return sum(1 for c in points if c.state is CatchpointState.ARMED and (c.engine == "gdb" or not stopping))


def process_to_catch_in(context: DrawContext) -> str | None:
    """Return the target of the selection, or the only one; None if the user has to choose."""
    shot, chosen = context.snapshot, context.selection or ""
    process = shot.threads[chosen].process if chosen in shot.threads else chosen
    live = [process.id for process in shot.processes.values() if process.target and not process.exited]
    return process if process in live else live[0] if len(live) == 1 else None


def catch_hint() -> str:
    """Return the possible input, in one line."""
    return f"{' '.join(presets())}, TYPE, call F, --stop"


def catch_words(context: DrawContext) -> list[str]:
    """Return completion words: presets, types that were caught, usual types."""
    caught = (hit.type for hit in context.snapshot.exceptions.values())
    return list(
        dict.fromkeys((*presets(), *caught, *_USUAL, *usual_types(), *(f"{moment.value} " for moment in Moment)))
    )


def about(point: Catchpoint) -> str:
    """Return the meaning of a preset; "" for a user's own pattern."""
    preset = presets().get(point.pattern)
    return f"{preset.about}: {', '.join(preset.patterns)}" if preset is not None else ""
