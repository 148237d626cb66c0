"""What is measured of threads: own and total CPU share of functions, from samples of running ones, and kernel launches.

Launches are traced only on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from livedbg.analysis.profile import FunctionShare, function_shares, profile_of
from livedbg.model import SourceHealth, ids
from livedbg.model.intents import WatchLaunches
from livedbg.model.launches import Dim3, LaunchTrail, ProfileSlice, kernel_text, launch_text
from livedbg.model.snapshot import Snapshot
from livedbg.panels.base import Asked, FunctionsAsked, Key, Noticed
from livedbg.panels.catchpoints import process_to_catch_in
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.sheet import SheetLine
from livedbg.panels.table import SORT_KEY, Cell, Column, GrowingTablePanel, Rows, TablePanel
from livedbg.text.demangling import short_symbol
from livedbg.text.quantities import clock_ms, count, elapsed, rate
from livedbg.text.wording import many
from livedbg.themes import Role

_MINUTE_NS: Final = 60_000_000_000
_MOST: Final = 10


def profile_lines(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    """Yield own and total shares of functions in the last minute; nothing without samples."""
    profile = profile_of(slices_since(context.snapshot, _MINUTE_NS, entity))
    shares = function_shares(profile)
    if not shares:
        return
    yield SheetLine()
    yield SheetLine(
        f"{many(profile.samples, 'sample')} of running threads: own and total share", Role.DIM, "last minute"
    )
    for share in shares[:_MOST]:
        role = Role.PYTHON if share.language == "python" else Role.TEXT
        yield SheetLine(f"{share.own:>6.1%} {share.total:>6.1%}  {share.function}  {place_of(share)}".rstrip(), role)


def slices_since(shot: Snapshot, span_ns: int, entity: str | None = None) -> list[ProfileSlice]:
    """Return recent samples of a thread or process (None: all), by the newest event of their host."""
    found: list[ProfileSlice] = []
    for thread, kept in shot.profiles.items():
        if entity is None or entity in (thread, ids.process_of(thread)):
            since_ns = shot.now(ids.parse(thread).parts[0]).mono_ns - span_ns
            found += (one for one in kept if one.end_mono_ns >= since_ns)
    return found


def place_of(share: FunctionShare) -> str:
    """Return `server.cpp:31`, or the module if the line is not known."""
    if share.file and share.line:
        return f"{share.file.rpartition('/')[2]}:{share.line}"
    return share.module or ""


FUNCTIONS_KEY: Final = Key("f", "f", "functions", "show which functions take the CPU time, or the threads again")
_BACK_KEY: Final = Key("escape", "Esc", "back", "clear the filter, or show the threads again")

_SPAN_S: Final = 10
"""The shares are those of so many last seconds."""


class FunctionsPanel(TablePanel, scope="functions"):
    """Every function in samples of running threads."""

    LABEL = "Functions"
    HELP = (
        "The functions that take the CPU time, over all running threads of the target, in the last 10 seconds. OWN is "
        "the share of the samples in which a function is the innermost one, TOTAL the share in which it is anywhere in "
        "the stack; AT is its line that most of them are in. Blocked threads have no samples. The kernel's clock takes "
        "them, up to 50 a second of each thread while this is shown; no thread is stopped."
    )
    COLUMNS = (
        Column("OWN", 6, keep=10, sort="own", align="right"),
        Column("TOTAL", 6, keep=9, sort="total", align="right"),
        Column("FUNCTION", 24, stretch=2, keep=8, sort="name"),
        Column("AT", 18, stretch=1, keep=7),
        Column("SAMPLES", 7, keep=3, sort="samples", align="right"),
    )
    SORTS = ("own", "total", "samples", "name")
    KEYS = (FUNCTIONS_KEY, _BACK_KEY, SORT_KEY)

    def __init__(self) -> None:
        super().__init__()
        self._shares: dict[str, FunctionShare] = {}

    def source(self, context: DrawContext) -> object:
        """Return the samples and the time, since old ones expire."""
        shot = context.snapshot
        return id(shot.profiles), shot.now().mono_ns // 1_000_000_000

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        slices = slices_since(context.snapshot, _SPAN_S * 1_000_000_000)
        profile = profile_of(slices)
        self._shares = {
            f"{one.function}\n{one.file}\n{one.module}\n{one.language}": one for one in function_shares(profile)
        }
        shown = [
            name for name, share in self._shares.items() if needle in f"{share.function} {place_of(share)}".lower()
        ]
        shown.sort(key=lambda name: _ORDERS[sort](self._shares[name]))
        threads = many(len({one.thread for one in slices}), "thread")
        title = f"{many(profile.samples, 'sample')} of {threads} in {_SPAN_S} s" if profile.samples else ""
        note = f"{count(profile.unknown)} without a stack" if profile.unknown else ""
        return Rows(shown, len(self._shares), title, note=note)

    def cells(self, identity: str) -> Sequence[Cell]:
        share, ink = self._shares.get(identity), self.context.ink
        if share is None:
            return [Cell("")] * len(self.COLUMNS)
        python = share.language == "python"
        return (
            Cell(f"{share.own:.1%}", ink.style(Role.GOOD if share.own >= 0.05 else Role.FAINT)),
            Cell(f"{share.total:.1%}", ink.style(Role.TEXT)),
            Cell(short_symbol(share.function), ink.style(Role.PYTHON if python else Role.TEXT, bold=share.own >= 0.05)),
            Cell(place_of(share), ink.style(Role.DIM)),
            Cell(count(share.samples), ink.style(Role.DIM)),
        )

    def entity(self, index: int) -> str | None:
        """Return None: a function is no entity."""
        return None

    def placeholder(self) -> str:
        if self.needle:
            return "No function matches the filter."
        if self.context.recorded:
            return "The recording contains no samples of these seconds."
        for status in self.context.snapshot.statuses.values():
            if status.source == "samples" and status.sentence:
                return status.sentence
        return f"No samples of the last {_SPAN_S} s: no thread was seen running."

    def action_functions(self) -> None:
        self.post_message(FunctionsAsked())

    def action_back(self) -> None:
        if self.needle:
            self.filter("")
        else:
            self.post_message(FunctionsAsked())


_ORDERS: Final[Mapping[str, Callable[[FunctionShare], tuple[object, ...]]]] = {
    "own": lambda share: (-share.own, -share.total, share.function),
    "total": lambda share: (-share.total, -share.own, share.function),
    "samples": lambda share: (-share.samples, -share.own, share.function),
    "name": lambda share: (share.function.lower(),),
}


LAUNCH_KEYS: Final = (Key("l", "l", "launches", "start or stop tracing the launches of the selected process"),)


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
    MOST_ROWS = 8
    KEYS = (SORT_KEY, *LAUNCH_KEYS)

    def source(self, context: DrawContext) -> object:
        return id(context.snapshot.launches), id(context.snapshot.statuses)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """Return the rows, longest time without a launch first."""
        trails = context.snapshot.launches.values()
        found = [trail for trail in trails if trail.last and (not needle or needle in _launch_text(context, trail))]
        found.sort(key=_order(context, sort))
        title = many(sum(trail.count for trail in trails), "launch") if found else ""
        if said := next(_trouble(context.snapshot), ""):
            title = f"{title}  {said}".strip()
        return Rows([trail.thread for trail in found], len(trails), title)

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


def _launch_text(context: DrawContext, trail: LaunchTrail) -> str:
    return f"{context.names.label(trail.thread)} {kernel_text(trail.last[-1])} {trail.last[-1].function}".lower()
