"""The entities of the state, their identifiers, the events that report them, and the snapshot.

The entities themselves are taken from here: `from livedbg.model import Task`.
"""

from __future__ import annotations

from livedbg.model.entities import (
    SAMPLED,
    Edge,
    EdgeKey,
    Frame,
    Process,
    Resource,
    Stack,
    Task,
    Thread,
)
from livedbg.model.observations import (
    FAILED_TESTS,
    FAULT,
    HANG_SEEN,
    NO_ACCESS,
    NO_LOG,
    OUT_OF_TIME,
    POLLS,
    SOURCE_FAILED,
    UNSEEN_RUNTIME,
    Diagnostic,
    Evidence,
    ExceptionHit,
    Intrusion,
    LogRecord,
    LogSource,
    SourceStatus,
)
from livedbg.model.states import (
    CauseClass,
    EdgeKind,
    EdgeState,
    LoopWay,
    Severity,
    SourceHealth,
    TaskState,
    ThreadState,
    WaitKind,
)

__all__ = [
    "FAILED_TESTS",
    "FAULT",
    "HANG_SEEN",
    "NO_ACCESS",
    "NO_LOG",
    "OUT_OF_TIME",
    "POLLS",
    "SAMPLED",
    "SOURCE_FAILED",
    "UNSEEN_RUNTIME",
    "CauseClass",
    "Diagnostic",
    "Edge",
    "EdgeKey",
    "EdgeKind",
    "EdgeState",
    "Evidence",
    "ExceptionHit",
    "Frame",
    "Intrusion",
    "LogRecord",
    "LogSource",
    "LoopWay",
    "Process",
    "Resource",
    "Severity",
    "SourceHealth",
    "SourceStatus",
    "Stack",
    "Task",
    "TaskState",
    "Thread",
    "ThreadState",
    "WaitKind",
]
