"""The entities of the state, their identifiers, the events that tell of them, and the snapshot.

The entities themselves are taken from here: `from livedbg.model import Task`.
"""

from __future__ import annotations

from livedbg.model.entities import (
    OUTSIDE,
    POLLS,
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
    "OUTSIDE",
    "POLLS",
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
