"""Enumerations for states, kinds and severities of entities (livedbg.model)."""

from __future__ import annotations

from enum import StrEnum


class ThreadState(StrEnum):
    """Run state of a thread, in words (the letter of /proc/PID/stat behind it)."""

    RUNNING = "running"  # R
    WAITING = "waiting"  # S, and I: sleeps in the kernel, can be woken
    DISK = "disk"  # D: uninterruptible
    STOPPED = "stopped"  # T: job control
    TRACED = "traced"  # t: stopped by a tracer
    ZOMBIE = "zombie"  # Z
    DEAD = "dead"  # X
    UNKNOWN = "unknown"


class WaitKind(StrEnum):
    """Kind of a blocked thread's wait: the closed set that rules test, instead of the words of `Thread.waits_in`."""

    MUTEX = "mutex"
    RWLOCK = "rwlock"
    CONDITION = "condition"
    SEMAPHORE = "semaphore"
    BARRIER = "barrier"
    JOIN = "join"
    FUTEX = "futex"  # a word in memory of which no more is known
    READ = "read"  # of a pipe, a socket, a file or a device
    WRITE = "write"
    ACCEPT = "accept"
    CONNECT = "connect"
    OPEN = "open"
    POLL = "poll"  # poll, select or epoll over descriptors
    FILE_LOCK = "file lock"
    MESSAGE_QUEUE = "message queue"  # of POSIX
    SYSTEM_V = "system v"  # a queue or a semaphore of System V: any process may use it
    COMPLETION = "completion"  # of I/O that was submitted before: io_uring
    CHILD = "child"
    SIGNAL = "signal"
    SLEEP = "sleep"
    DISK = "disk"  # a call on a file or a device
    FAULT = "page fault"
    STOP = "stop"  # stopped, traced or frozen
    UNKNOWN = "unknown"


class TaskState(StrEnum):
    """State of a runtime's unit of work.

    Being stalled is no state but a finding about a task.
    """

    SUBMITTED = "submitted"
    READY = "ready"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class EdgeKind(StrEnum):
    """Relation between an edge's source and target."""

    DEPENDS_ON = "depends_on"  # task -> task that must complete before it
    WAITS_FOR = "waits_for"  # entity -> what it waits for now
    HOLDS = "holds"  # thread or process -> resource that it holds or serves
    RUNS_ON = "runs_on"  # task -> core, stream or thread; process -> GPU
    PART_OF = "part_of"  # member -> whole
    GIVES = "gives"  # thread -> pipe or socket into which it writes when it has slept, perhaps


class EdgeState(StrEnum):
    """State of an edge."""

    PENDING = "pending"  # blocks now
    SATISFIED = "satisfied"  # was met
    MISSING = "missing"  # should exist and was never declared


class Severity(StrEnum):
    """Severity of a log record or a finding, in rising order."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Return 0 (debug) to 4 (critical), for comparisons."""
        return _SEVERITY_RANK[self]


_SEVERITY_RANK = {severity: number for number, severity in enumerate(Severity)}


class CauseClass(StrEnum):
    """Nearness of an error to the cause of a job's end, the nearest first."""

    HOST = "host"  # hardware and the kernel: a GPU's memory or links, the OOM killer, a node, a limit of the scheduler
    DEVICE = "device"  # a fault of a program on a device
    PROCESS = "process"  # a signal, an abort or the first exception of a process
    PEER = "peer"  # it noticed that another one is gone, late or silent: closed connections, watchdogs, time-outs
    SUMMARY = "summary"  # a launcher's account of what ended

    @property
    def rank(self) -> int:
        """Return 0 (host) to 4 (summary), for comparisons."""
        return _CAUSE_RANK[self]


_CAUSE_RANK = {cause: number for number, cause in enumerate(CauseClass)}


class SourceHealth(StrEnum):
    """Health of an adapter's source."""

    OK = "ok"
    DEGRADED = "degraded"  # partial data: `sentence` names what is missing, `remedy` how to fix it
    FAILED = "failed"  # sees nothing
    ENDED = "ended"  # the source is gone (process exited, log closed)


class LoopWay(StrEnum):
    """How the loop around a line of source goes on.

    Attributes:
        POLLS: it ends when something has come.
        RESTS: it waits for nothing, and each round comes to the line.
        WORKS: so, and each round does a job of a queue.
        ENDS: so, and it ends by itself.
        PAUSES: so, and waits at the line to be told to stop.
        ONCE: there is no loop around it in the user's code.
    """

    UNKNOWN = ""
    POLLS = "polls"
    RESTS = "rests"
    WORKS = "works"
    ENDS = "ends"
    PAUSES = "pauses"
    ONCE = "once"
