"""The launches panel: kernel launches by thread, traced only on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from textual.geometry import Size

from livedbg.model import SourceHealth
from livedbg.model.intents import WatchLaunches
from livedbg.model.launches import Dim3, LaunchTrail, kernel_text, launch_text
from livedbg.model.snapshot import Snapshot
from livedbg.panels.base import Asked, Key, Noticed
from livedbg.panels.catchpoints import process_to_catch_in
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.sheet import SheetLine
from livedbg.panels.table import SORT_KEY, Cell, Column, GrowingTablePanel, Rows
from livedbg.text.quantities import clock_ms, count, elapsed, rate
from livedbg.text.wording import many
from livedbg.themes import Role

LAUNCH_KEYS: Final = (Key("l", "l", "launches", "start or stop tracing the launches of the selected process"),)
_LEAST_ROWS: Final = 1
_MOST_ROWS: Final = 8


class LaunchesPanel(GrowingTablePanel, scope="launches"):
    """Threads that launched something while traced."""

    LABEL = "Launches"
    HELP = (
        "Kernel launches, traced by kernel probes on the driver and the runtime. Nothing is stopped; tracing pauses"
        " where it would cost more than 2 % of the launching threads' time. AGO is the time since the newest "
        "launch. Enter shows the last 16 of a thread."
    )
    COLUMNS = (
        Column("THREAD", 12, stretch=1, keep=8, sort="thread"),
        Column("LAST KERNEL", 16, stretch=4, keep=10, sort="kernel"),
        Column("GRID", 9, keep=6),
        Column("BLOCK", 9, keep=5),
        Column("STREAM", 8, keep=3),
        Column("LAUNCHES", 8, keep=7, sort="count", align="right"),
        Column("PER S", 6, keep=7, sort="rate", align="right"),
        Column("AGO", 8, keep=9, sort="ago", align="right"),
    )
    SORTS = ("ago", "rate", "count", "thread", "kernel")
    KEYS = (SORT_KEY, *LAUNCH_KEYS)

    def source(self, context: DrawContext) -> object:
        return id(context.snapshot.launches), id(context.snapshot.statuses)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """Return the rows, longest time without a launch first."""
        trails = context.snapshot.launches.values()
        found = [trail for trail in trails if trail.last and (not needle or needle in _text(context, trail))]
        found.sort(key=_order(context, sort))
        title = many(sum(trail.count for trail in trails), "launch") if found else ""
        if said := next(_trouble(context.snapshot), ""):
            title = f"{title}  {said}".strip()
        return Rows([trail.thread for trail in found], len(trails), title)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.HEAD + min(max(self.count(), _LEAST_ROWS), _MOST_ROWS)

    def cells(self, identity: str) -> Sequence[Cell]:
        context, ink = self.context, self.context.ink
        trail = context.snapshot.launches.get(identity)
        if trail is None or not trail.last:
            return [Cell("")] * len(self.COLUMNS)
        last, dim = trail.last[-1], ink.style(Role.DIM)
        return (
            Cell(context.names.label(identity), ink.style(Role.TEXT)),
            Cell(kernel_text(last), ink.style(Role.TEXT, bold=True)),
            Cell(_size(last.grid), dim),
            Cell(_size(last.block), dim),
            Cell(f"{last.stream:#x}" if last.stream else "default", dim),
            Cell(count(trail.count), dim),
            Cell(
                rate(trail.rate_per_s) if trail.seen else "?", ink.style(Role.TEXT if trail.rate_per_s else Role.WARN)
            ),
            Cell(elapsed(context.snapshot.now().mono_ns - last.mono_ns) if trail.seen else "?", dim),
        )

    def placeholder(self) -> str:
        if self.needle:
            return "No launch matches the filter."
        statuses = [status for key, status in self.context.snapshot.statuses.items() if key.source == "launches"]
        if not any(status.health is not SourceHealth.ENDED for status in statuses):
            if self.context.recorded:
                return "The recording contains no launches up to here."
            return "Launches are not traced. Press l to trace them; nothing is stopped."
        return next(_trouble(self.context.snapshot), "No launches yet.")

    def action_launches(self) -> None:
        process = process_to_catch_in(self.context)
        if process is None:
            self.post_message(Noticed("Select a process or one of its threads first."))
            return
        status = next(
            (
                s
                for key, s in self.context.snapshot.statuses.items()
                if (key.source, key.target) == ("launches", process)
            ),
            None,
        )
        traces = status is not None and status.health not in {SourceHealth.ENDED, SourceHealth.FAILED}
        words = "Stopping the trace of launches" if traces else "Tracing launches"
        self.post_message(Asked(WatchLaunches(process=process, on=not traces), words))


def launch_lines(context: DrawContext, thread: str) -> Iterator[SheetLine]:
    """Yield the launches of a thread, newest first."""
    trail = context.snapshot.launches.get(thread)
    if trail is None:
        return
    yield SheetLine()
    lately = (
        f"{rate(trail.rate_per_s)} a second recently" if trail.seen else "before there were too many to trace each one"
    )
    yield SheetLine(f"{many(trail.count, 'launch')}, {lately}", lead="launches")
    for launch in reversed(trail.last):
        yield SheetLine(f"{clock_ms(launch.wall_ns)} {launch_text(launch)}", indent=2)


def _order(context: DrawContext, sort: str) -> Callable[[LaunchTrail], tuple[str, float]]:
    orders: dict[str, Callable[[LaunchTrail], tuple[str, float]]] = {
        "ago": lambda trail: ("", trail.last[-1].mono_ns),
        "rate": lambda trail: ("", -trail.rate_per_s),
        "count": lambda trail: ("", -trail.count),
        "thread": lambda trail: (context.names.label(trail.thread), 0),
        "kernel": lambda trail: (kernel_text(trail.last[-1]), 0),
    }
    return orders[sort]


def _trouble(snapshot: Snapshot) -> Iterator[str]:
    for key, status in snapshot.statuses.items():
        if key.source == "launches" and status.health in {SourceHealth.DEGRADED, SourceHealth.FAILED}:
            yield status.sentence


def _size(size: Dim3 | None) -> str:
    if size is None:
        return "-"
    return ",".join(map(str, size)) if size[1:] != (1, 1) else str(size[0])


def _text(context: DrawContext, trail: LaunchTrail) -> str:
    return f"{context.names.label(trail.thread)} {kernel_text(trail.last[-1])} {trail.last[-1].function}".lower()
