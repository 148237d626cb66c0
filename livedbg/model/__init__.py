"""The entities of the state, their identifiers, the events that tell of them, and the snapshot.

The entities themselves are taken from here: `from livedbg.model import Task`.
"""

from __future__ import annotations

from livedbg.model.entities import (
    NO_ACCESS,
    OUTSIDE,
    POLLS,
    SOURCE_FAILED,
    UNSEEN_RUNTIME,
    Diagnostic,
    Edge,
    EdgeKey,
    EdgeKind,
    EdgeState,
    Evidence,
    ExceptionHit,
    Frame,
    Intrusion,
    LogRecord,
    LogSource,
    Process,
    Resource,
    Severity,
    SourceHealth,
    SourceStatus,
    Stack,
    Task,
    TaskState,
    Thread,
    ThreadState,
)

__all__ = [
    "NO_ACCESS",
    "OUTSIDE",
    "POLLS",
    "SOURCE_FAILED",
    "UNSEEN_RUNTIME",
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
]
