"""State as glyph, word and colour; the glyphs in Unicode and in ASCII."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from livedbg.analysis.diagnosis import VerdictState
from livedbg.model import Severity, SourceHealth, Task, TaskState, Thread, ThreadState
from livedbg.model.catchpoints import CatchpointState
from livedbg.themes import Role


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of one set. All are one cell wide except the three of the tree; `sparks` are ascending bars."""

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


_VERDICTS: Final = {
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
_SEVERITIES: Final = {
    Severity.DEBUG: Mark("dot", "DEBUG", Role.FAINT),
    Severity.INFO: Mark("dot", "INFO", Role.DIM),
    Severity.WARNING: Mark("dot", "WARN", Role.WARN),
    Severity.ERROR: Mark("fail", "ERROR", Role.BAD),
    Severity.CRITICAL: Mark("fail", "FATAL", Role.BAD),
}
_HEALTH: Final = {
    SourceHealth.OK: Mark("done", "ok", Role.GOOD, 3),
    SourceHealth.DEGRADED: Mark("stop", "partly", Role.WARN, 1),
    SourceHealth.FAILED: Mark("fail", "failed", Role.BAD, 0),
    SourceHealth.ENDED: Mark("wait", "ended", Role.DONE, 2),
}
_CATCHPOINTS: Final = {
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


def verdict_mark(state: VerdictState) -> Mark:
    """Return the mark of a verdict's state."""
    return _VERDICTS[state]


def thread_mark(thread: Thread) -> Mark:
    """Return the mark of a thread's run state."""
    return _EXITED if thread.exited else _THREADS[thread.state]


def task_mark(task: Task, *, stalled: bool = False) -> Mark:
    """Return the mark of a task's state; `stalled` if a finding calls a running task so."""
    return _STALLED if stalled and task.state is TaskState.RUNNING else _TASKS[task.state]


def severity_mark(severity: Severity) -> Mark:
    """Return the mark of a log record's severity."""
    return _SEVERITIES[severity]


def health_mark(health: SourceHealth) -> Mark:
    """Return the mark of a source's health."""
    return _HEALTH[health]


def catch_mark(state: CatchpointState) -> Mark:
    """Return the mark of a catchpoint's state."""
    return _CATCHPOINTS[state]
