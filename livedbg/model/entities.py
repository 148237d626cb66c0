"""The entities of the state, as immutable values.

Invariants:
    entities.M1. Every value is frozen: a change is a new value, so a snapshot can share them.
    entities.M2. An optional field that is not given is `None`: not known. Zero, `False` and "" are known, and stay what
        they are in a recording.
    entities.M3. Times are nanoseconds: `*_mono_ns` on CLOCK_MONOTONIC of the entity's host,
        `*_wall_ns` since the Unix epoch.
    entities.M4. Strings that come from a target are sanitised (livedbg.text.sanitize) before they are put into a model
        value: no control or escape character is left in them. One exception: `LogSource.path`, by which the file is
        opened; whoever shows it sanitises it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from livedbg.model.facts import facts_shown
from livedbg.model.states import EdgeKind, EdgeState, LoopWay, TaskState, ThreadState, WaitKind

SAMPLED: Final = "sampled"
"""`Stack.source` of a running thread that was sampled by the kernel's clock."""

FORKED_OWNER: Final = "owner"
FORKED_LIKELY: Final = "likely"
"""Values of `LockFacts.forked`."""


class Process(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A target process.

    Attributes:
        start_ticks: start time in clock ticks since boot (/proc/PID/stat field 22); identifies the process together
            with the pid (pid reuse).
        rank_by: the source of `rank`, if not the environment; set by `RanksSeen`.
        environment: the few variables that analyses and panels use (RANK and its like), never secrets.
        target: part of the job; False for others that hold what a target waits for.
        named: the user named it; False if it was found through another process.
        notes: special properties (`zombie`, `kernel thread`, `pid namespace: 1`, …).
        outside: what could wake its threads whatever they wait for (`handles SIGTERM`, `has a timer`); "" for nothing,
            None if not checked because not all of its threads wait.
    """

    id: str
    host: str
    pid: int
    ppid: int | None = None
    start_ticks: int | None = None
    start_wall_ns: int | None = None
    rank: int | None = None
    rank_by: str = ""
    exe: str | None = None
    command: tuple[str, ...] = ()
    cwd: str | None = None
    user: str | None = None
    state: ThreadState = ThreadState.UNKNOWN
    thread_count: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    target: bool = True
    named: bool = False
    exited: bool = False
    exit_status: int | None = None
    outside: str | None = None


class Thread(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An OS thread.

    Attributes:
        wait_channel: /proc/PID/task/TID/wchan, e.g. `futex_wait_queue`.
        waits_in: the blocking call in a user's words, e.g. `pthread_mutex_lock`, `poll of 3 fds`, `sleep 30 s`.
        sleeps_s: requested duration of a sleep, at least.
        timed: the wait has a time limit of its own.
        switches: voluntary + involuntary context switches so far.
        queued_ns: time so far in which it was runnable and waited for a CPU.
        last_ran_mono_ns: when it last ran, from the kernel; for threads that were blocked at their first sample.
        marks: reads, writes, voluntary waits and page faults of a running thread so far. Code that only computes, or
            spins, makes none.
        moved: bytes that a main thread has read and written so far (files, pipes, sockets); None if not known.
        start_ticks: start time in clock ticks since boot; its tid may be reused later.
        role: its role in its runtime, e.g. `core 8 (AIV0)`; set by `ThreadRolesSeen`.
        given: its name in the program's language (`threading.Thread(name=…)`); from its stacks.
        wakers: the processes whose threads could end its wait, if that list is complete; () if not known.
        outside: what else could end its wait (`a signal`, `any process that may open /tmp/fifo`), or why that is not
            known; "" if not checked.
    """

    id: str
    process: str
    tid: int
    name: str = ""
    state: ThreadState = ThreadState.UNKNOWN
    wait_channel: str | None = None
    syscall: str | None = None
    waits_in: str | None = None
    wait: WaitKind | None = None
    sleeps_s: float | None = None
    timed: bool | None = None
    cpu_ns: int | None = None
    switches: int | None = None
    queued_ns: int | None = None
    since_mono_ns: int | None = None
    last_ran_mono_ns: int | None = None
    marks: int | None = None
    exited: bool = False
    role: str = ""
    given: str = ""
    wakers: tuple[str, ...] = ()
    outside: str = ""
    ended_mono_ns: int | None = None
    start_ticks: int | None = None
    moved: int | None = None

    @property
    def title(self) -> str:
        """Return role and name: `core 8 (AIV0), python3`."""
        name = self.given or self.name
        return f"{self.role}, {name}" if self.role and name else self.role or name


class Frame(Struct, frozen=True, omit_defaults=True):
    """A stack frame.

    Attributes:
        function: demangled name, or `0x…` if no symbol is known.
        module: base name of the ELF file, or the Python module.
        language: `native` or `python`.
        local_variables: `name=value` texts; only on request.
        source: lines of its source around `line`; only on request.
        source_from: number of the first of these lines.
        source_note: why there is no source, or why it may be wrong.
        held_mono_ns: since when this frame and all outer ones were in every sample of the thread; None if the stack is
            no sample.
        column: of the call in its line, if known.
        inlined: inlined into the next outer frame, with the same address.
        loop: how a loop of its function around its line goes on.
    """

    function: str
    file: str | None = None
    line: int | None = None
    module: str | None = None
    language: str = "native"
    address: int | None = None
    local_variables: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    source_from: int = 0
    held_mono_ns: int | None = None
    held_samples: int = 0
    column: int | None = None
    inlined: bool = False
    source_note: str = ""
    loop: LoopWay = LoopWay.UNKNOWN


class Stack(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stack of a thread at one moment, innermost frame first.

    Attributes:
        thread_name: name given to the thread in its language.
        partial: outer frames may be missing or wrong; `note` says why.
        source: how it was taken: `py-spy`, `no stop`, `sampled`, `glance`, `gdb`; merged: `no stop+py-spy`.
        layer: `python` (Python frames only), `native` (native frames only) or `merged`. The store keeps the newest
            stack of each layer and shows them merged (livedbg.state.stacks).
        repeats_since_mono_ns: since when every sample was in one loop that only reads, with the same registers (the
            thread spins). None if not known.
        repeats: samples that were the same as an earlier one.
    """

    thread: str
    frames: tuple[Frame, ...]
    taken_mono_ns: int
    source: str
    layer: str = "native"
    partial: bool = False
    note: str | None = None
    thread_name: str = ""
    holds_gil: bool | None = None
    waits_gil: bool | None = None
    repeats_since_mono_ns: int | None = None
    repeats: int = 0


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A unit of work of a runtime.

    The store merges several events about one task: a `None` (or `UNKNOWN`) never overwrites a known value.

    Attributes:
        name: its name inside its system (`r0t12`), the last part of its id.
        kernel: name (or number) of the kernel it runs.
        since_mono_ns: when it entered its present state.
        since_wall_ns: the same on the wall clock, if only a log's clock is known.
        ends_wall_ns: when its runtime fails it by timeout, unless it completes first.
        fanin_left: unmet dependencies.
        where: identifiers or names of the units it runs on (`core:SYSTEM/8`).
        facts: further typed data of its system (livedbg.model.facts).
        attributes: further data of its runtime, as text for display.
    """

    id: str
    system: str
    name: str
    kernel: str | None = None
    state: TaskState = TaskState.UNKNOWN
    since_mono_ns: int | None = None
    since_wall_ns: int | None = None
    ends_wall_ns: int | None = None
    fanin_left: int | None = None
    fanin_total: int | None = None
    where: tuple[str, ...] = ()
    owner: str | None = None
    facts: Any = None
    attributes: dict[str, str] = field(default_factory=dict)

    def shown(self) -> dict[str, str]:
        """Return all further data as text by name."""
        return {**self.attributes, **facts_shown(self.facts)}


class Resource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is waited for or held. `holds` edges name the holders.

    Attributes:
        kind: `mutex`, `rwlock`, `cond`, `sem`, `barrier`, `gil`, `pylock`, `futex`, `pipe`, `socket`, `eventfd`,
            `flock`, `file`, `core`, `stream`, `ring`, `group`, `future`.
        name: name for the user, e.g. `pipe 3 of worker`, `core 8 (AIV0)`.
        state: free text (`locked`, `3 waiters`, `busy`).
        outside: why something outside the wait-for graph may end a wait for it (a signal handler, a timer, a process
            that may open it); "" for nothing.
        idle: what an idle program waits for here, in a user's words (`a key`); "" if waiting here does not mean idle.
        lost: why nothing visible can end a wait for it (`nothing else refers to it`).
        wakes_itself: only its own process has the other end, and polls it (a self-pipe).
        facts: further typed data of its source (livedbg.model.facts).
    """

    id: str
    kind: str
    name: str = ""
    state: str | None = None
    outside: str = ""
    idle: str = ""
    lost: str = ""
    listening: bool = False
    wakes_itself: bool = False
    facts: Any = None
    attributes: dict[str, str] = field(default_factory=dict)

    def shown(self) -> dict[str, str]:
        """Return all data beyond name and state as text by name."""
        own = {
            "outside": self.outside,
            "idle": self.idle,
            "lost": self.lost,
            "listening": "yes" if self.listening else "",
            "wake-up": "other end in the same process" if self.wakes_itself else "",
        }
        return {**self.attributes, **facts_shown(self.facts), **{name: text for name, text in own.items() if text}}


class EdgeKey(NamedTuple):
    """Key of an edge."""

    kind: EdgeKind
    source: str
    target: str


class Edge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An edge of the graph. On the wire its ends are called `from` and `to`.

    Attributes:
        evidence: where this was read, e.g. `futex 0x7f.. owner word = 4713`.
        since_mono_ns: since when it has been so.
        any_of: for `waits_for` edges: the source waits for *any* of its `any_of` targets (poll over several
            descriptors, a pipe with several writers); otherwise for all. For `holds` edges on one resource: any of the
            holders can serve it.
        inferred: concluded, not read.
    """

    kind: EdgeKind
    source: str = field(name="from")
    target: str = field(name="to")
    state: EdgeState = EdgeState.PENDING
    evidence: str = ""
    since_mono_ns: int | None = None
    any_of: bool = False
    inferred: bool = False
    timed: bool = False

    @property
    def key(self) -> EdgeKey:
        """(kind, source, target)."""
        return EdgeKey(self.kind, self.source, self.target)
