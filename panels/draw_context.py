"""Input of a panel's drawing: a consistent update, the shared selection, styles, names and marks of entities, glyphs.

A mark is a state as glyph, word and colour; the glyphs are in Unicode and in ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import Final

from rich.style import Style

from livedbg.analysis.diagnosis import Diagnosis, VerdictState
from livedbg.model import Process, Severity, SourceHealth, Task, TaskState, Thread, ThreadState, ids
from livedbg.model.catchpoints import CatchpointState
from livedbg.model.snapshot import Snapshot
from livedbg.session.view import NOTHING_YET, Update
from livedbg.themes import DEFAULT, Palette, Role


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of one set. All are one cell wide except the three of the tree; `sparks` are bars that rise."""

    run: str
    wait: str
    ready: str
    done: str
    fail: str
    stop: str
    dot: str
    unknown: str
    loop: str
    arrow: str
    here: str
    tee: str
    corner: str
    bar: str
    track: str
    knob: str
    play: str
    pause: str
    times: str
    up: str
    down: str
    separator: str
    sparks: str


UNICODE: Final = Glyphs(
    run="▶", wait="○", ready="◇", done="✓", fail="✗", stop="■", dot="●", unknown="?", loop="↺", arrow="→",
    here="▶", tee="├─ ", corner="└─ ", bar="│  ", track="─", knob="●", play="▶", pause="‖", times="×",
    up="▲", down="▼", separator="·", sparks=" ▁▂▃▄▅▆▇█",
)  # fmt: skip

ASCII: Final = Glyphs(
    run=">", wait="o", ready="=", done="+", fail="X", stop="#", dot="*", unknown="?", loop="@", arrow=">",
    here=">", tee="|- ", corner="`- ", bar="|  ", track="-", knob="O", play=">", pause="=", times="x",
    up="^", down="v", separator="-", sparks=" .:-=+*%@",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """A state for the screen: a field of Glyphs, and a key that sorts important states to the top."""

    glyph: str
    word: str
    role: Role
    order: int = 5

    def sign(self, glyphs: Glyphs) -> str:
        return str(getattr(glyphs, self.glyph))


VERDICT_MARKS: Final = {
    VerdictState.RUNNING: Mark("run", "running", Role.GOOD),
    VerdictState.STALLED: Mark("stop", "stalled", Role.WARN),
    VerdictState.DEADLOCK: Mark("loop", "deadlock", Role.BAD),
    VerdictState.CRASHED: Mark("fail", "crashed", Role.BAD),
    VerdictState.EXITED: Mark("done", "exited", Role.DONE),
    VerdictState.DIVERGED: Mark("fail", "diverged", Role.WARN),
    VerdictState.UNKNOWN: Mark("unknown", "unknown", Role.DIM),
}
_THREADS: Final = {
    ThreadState.RUNNING: Mark("run", "running", Role.GOOD, 1),
    ThreadState.WAITING: Mark("wait", "waiting", Role.WAIT, 3),
    ThreadState.DISK: Mark("stop", "disk", Role.WARN, 0),
    ThreadState.STOPPED: Mark("stop", "stopped", Role.BAD, 0),
    ThreadState.TRACED: Mark("stop", "traced", Role.BAD, 0),
    ThreadState.ZOMBIE: Mark("fail", "zombie", Role.BAD, 0),
    ThreadState.DEAD: Mark("fail", "dead", Role.DONE, 6),
    ThreadState.UNKNOWN: Mark("unknown", "unknown", Role.DIM, 5),
}
_TASKS: Final = {
    TaskState.FAILED: Mark("fail", "failed", Role.BAD, 0),
    TaskState.RUNNING: Mark("run", "running", Role.GOOD, 1),
    TaskState.READY: Mark("ready", "ready", Role.ACCENT, 2),
    TaskState.SUBMITTED: Mark("wait", "waiting", Role.WAIT, 3),
    TaskState.UNKNOWN: Mark("unknown", "unknown", Role.DIM, 4),
    TaskState.COMPLETED: Mark("done", "done", Role.DONE, 5),
}
SEVERITY_MARKS: Final = {
    Severity.DEBUG: Mark("dot", "DEBUG", Role.FAINT),
    Severity.INFO: Mark("dot", "INFO", Role.DIM),
    Severity.WARNING: Mark("dot", "WARN", Role.WARN),
    Severity.ERROR: Mark("fail", "ERROR", Role.BAD),
    Severity.CRITICAL: Mark("fail", "FATAL", Role.BAD),
}
HEALTH_MARKS: Final = {
    SourceHealth.OK: Mark("done", "ok", Role.GOOD, 3),
    SourceHealth.DEGRADED: Mark("stop", "partly", Role.WARN, 1),
    SourceHealth.FAILED: Mark("fail", "failed", Role.BAD, 0),
    SourceHealth.ENDED: Mark("wait", "ended", Role.DONE, 2),
}
CATCH_MARKS: Final = {
    CatchpointState.FAILED: Mark("fail", "failed", Role.BAD, 0),
    CatchpointState.ARMING: Mark("ready", "arming", Role.ACCENT, 1),
    CatchpointState.ARMED: Mark("run", "armed", Role.GOOD, 2),
    CatchpointState.DONE: Mark("done", "done", Role.DONE, 3),
}
_STALLED: Final = Mark("stop", "stalled", Role.WARN, -1)
_EXITED: Final = Mark("done", "exited", Role.DONE, 7)


def exit_mark(status: int | None) -> Mark:
    """Return the mark of an ended process: a tick for status 0 only."""
    if status is None:
        return Mark("unknown", "exited", Role.DONE)
    if status == 0:
        return Mark("done", "exited", Role.DONE)
    return Mark("fail", f"exited {status}" if status > 0 else f"killed {-status}", Role.BAD)


def thread_mark(thread: Thread) -> Mark:
    """Return the mark of a thread's run state."""
    return _EXITED if thread.exited else _THREADS[thread.state]


def task_mark(task: Task, *, stalled: bool = False) -> Mark:
    """Return the mark of a task's state; `stalled` if a finding calls a running task so."""
    return _STALLED if stalled and task.state is TaskState.RUNNING else _TASKS[task.state]


class Ink:
    """The styles of one palette."""

    def __init__(self, palette: Palette) -> None:
        self.palette = palette
        self._plain = {role: Style(color=colour) for role, colour in palette.roles.items()}
        self._bold = {role: style + Style(bold=True) for role, style in self._plain.items()}

    def style(self, role: Role, *, bold: bool = False) -> Style:
        """Return the foreground style of a role."""
        return self._bold[role] if bold else self._plain[role]

    @cached_property
    def base(self) -> Style:
        """Style of text on the background of a panel."""
        return Style(color=self.palette.roles[Role.TEXT], bgcolor=self.palette.background)

    @cached_property
    def raised(self) -> Style:
        """Style of text on bars and overlays."""
        return Style(color=self.palette.roles[Role.TEXT], bgcolor=self.palette.raised)

    @cached_property
    def selected(self) -> Style:
        """Style of the selected row in the focused panel."""
        return Style(color=self.palette.selection_text, bgcolor=self.palette.selection, bold=True)

    @cached_property
    def followed(self) -> Style:
        """Style of the selected row in other panels."""
        return Style(color=self.palette.selection_text, bgcolor=self.palette.raised)


@lru_cache(8)
def ink_of(palette_name: str) -> Ink:
    """Return the ink of a palette."""
    from livedbg.themes import PALETTES

    return Ink(PALETTES[palette_name])


_RESOURCE = Mark("dot", "", Role.DIM)
_UNKNOWN = Mark("unknown", "", Role.DIM)
_STALE_NS = 3_000_000_000


class Names:
    """Names and states of the entities of one snapshot; unknown ids get sensible answers."""

    def __init__(self, snapshot: Snapshot, glyphs: Glyphs) -> None:
        self.snapshot = snapshot
        self.glyphs = glyphs

    def label(self, entity: str) -> str:
        """Return `thread 4712 worker`, `r0t12 moe_gate`, `mutex 0x7f12`, `core 8 (AIV0)`."""
        state = self.snapshot
        if (thread := state.threads.get(entity)) is not None:
            return f"thread {thread.tid} {thread.title}".rstrip()
        if (task := state.tasks.get(entity)) is not None:
            named = task.kernel is None or task.name.startswith(task.kernel)
            return task.name if named else f"{task.name} {task.kernel}"
        if (process := state.processes.get(entity)) is not None:
            return _process_label(process)
        if (resource := state.resources.get(entity)) is not None:
            return resource.name or f"{resource.kind} {_short(entity)}"
        if (source := state.log_sources.get(entity)) is not None:
            return f"log {source.name}"
        kind, colon, _rest = entity.partition(":")
        return f"{kind} {_short(entity)}" if colon else entity

    def rank_of(self, thread: str) -> str:
        """Return `rank 2`; "" if the thread's process has no rank."""
        known = self.snapshot.threads.get(thread)
        process = self.snapshot.processes.get(known.process) if known is not None else None
        return f"rank {process.rank}" if process is not None and process.rank is not None else ""

    def mark(self, entity: str, stalled: frozenset[str] = frozenset()) -> Mark:
        """Return the state of any entity."""
        state = self.snapshot
        if (thread := state.threads.get(entity)) is not None:
            return thread_mark(thread)
        if (task := state.tasks.get(entity)) is not None:
            return task_mark(task, stalled=entity in stalled)
        if (process := state.processes.get(entity)) is not None:
            if process.exited:
                return exit_mark(process.exit_status)
            return thread_mark(Thread(id="", process="", tid=0, state=process.state))
        if (resource := state.resources.get(entity)) is not None:
            return Mark("dot", resource.state or "", Role.DIM)
        return _RESOURCE if ":" in entity else _UNKNOWN

    def age_ns(self, entity: str) -> int | None:
        """Return how long the entity has been in its state; None if not known."""
        state = self.snapshot
        if (thread := state.threads.get(entity)) is not None:
            return self._thread_age(thread)
        if (task := state.tasks.get(entity)) is not None:
            return self._task_age(task)
        return None

    def cpu_share(self, thread: str) -> float | None:
        """Return the recent share of one core that a thread used; None before its second sample."""
        seen = self.snapshot.activity.get(thread)
        if seen is None:
            return None
        now = self.snapshot.now(_host(thread)).mono_ns
        if now - seen.changed_mono_ns > max(_STALE_NS, 2 * seen.window_ns):
            return 0.0
        return seen.cpu_ns / seen.window_ns if seen.window_ns else None

    def waits(self, thread: Thread) -> str:
        """Return what a thread waits in, in a user's words."""
        return thread.waits_in or thread.syscall or thread.wait_channel or ""

    def _thread_age(self, thread: Thread) -> int | None:
        seen = self.snapshot.activity.get(thread.id)
        since = thread.since_mono_ns
        if seen is not None and seen.waiting_since_mono_ns is not None:
            since = seen.waiting_since_mono_ns if since is None else min(since, seen.waiting_since_mono_ns)
        if since is None:
            return None
        return max(self.snapshot.now(_host(thread.id)).mono_ns - since, 0)

    def _task_age(self, task: Task) -> int | None:
        now = self.snapshot.now()
        if task.since_mono_ns is not None:
            return max(now.mono_ns - task.since_mono_ns, 0)
        if task.since_wall_ns is not None:
            return max(now.wall_ns - task.since_wall_ns, 0)
        return None


def _process_label(process: Process) -> str:
    """Return `process 4711 python moe.py`."""
    words = [PurePosixPath(process.command[0]).name, *_own_words(process.command[1:])[:2]] if process.command else []
    rank = "" if process.rank is None else f"rank {process.rank} "
    return f"process {process.pid} {rank}{' '.join(words)}".rstrip()


def _own_words(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without leading options, which distinguish commands."""
    first = next((place for place, word in enumerate(arguments) if not word.startswith("-")), 0)
    return list(arguments[first:])


def _host(entity: str) -> str | None:
    """Return the host in the id of a process, thread or lock."""
    return entity.partition(":")[2].partition("/")[0] or None


def _short(entity: str) -> str:
    try:
        return ids.parse(entity).short
    except ValueError:
        return entity


@dataclass(frozen=True)
class DrawContext:
    """The data for drawing all panels; immutable: a new one for every change of state, selection or theme."""

    update: Update = NOTHING_YET
    selection: str | None = None
    ink: Ink = field(default_factory=lambda: ink_of(DEFAULT))
    glyphs: Glyphs = UNICODE
    recorded: bool = False

    @property
    def snapshot(self) -> Snapshot:
        return self.update.snapshot

    @property
    def diagnosis(self) -> Diagnosis:
        return self.update.diagnosis

    @cached_property
    def names(self) -> Names:
        return Names(self.snapshot, self.glyphs)

    @cached_property
    def now_ns(self) -> int:
        """The state's wall clock, that of the newest event, not of this machine."""
        return self.snapshot.now().wall_ns

    @cached_property
    def stalled(self) -> frozenset[str]:
        """The entities that the verdict calls stalled."""
        verdict = self.diagnosis.verdict
        return frozenset(verdict.roots) if verdict.state is VerdictState.STALLED else frozenset()

    def since_ns(self, wall_ns: int | None) -> int | None:
        """Return the time since then."""
        return None if wall_ns is None else max(self.now_ns - wall_ns, 0)


EMPTY_CONTEXT = DrawContext()
