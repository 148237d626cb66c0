"""What threads of Python wait for, told by their stacks: workers of its own pools for a job, others for the end of one,
or for a semaphore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_WORKERS: Final = frozenset(
    {
        ("concurrent/futures/process.py", "_process_worker"),
        ("concurrent/futures/thread.py", "_worker"),
        ("multiprocessing/forkserver.py", "main"),
        ("multiprocessing/pool.py", "worker"),
        ("multiprocessing/resource_tracker.py", "main"),
    }
)
"""Functions of the standard library that take a job, do it, and take the next one (3.11 to 3.14)."""

_QUEUES: Final = lazy_re(r"/(multiprocessing/(queues|connection|synchronize)|queue|threading|selectors)\.py$")
"""What they call to take it. A job that runs has other files above them."""


def waits_for_job(frames: Sequence[Frame]) -> bool:
    """Whether a thread is in such a function and in nothing but its queue.

    Args:
        frames: innermost first; frames of other languages are left out.
    """
    for frame in frames:
        file = frame.file or ""
        if frame.language != "python":
            continue
        if any(frame.function == function and file.endswith(f"/{name}") for name, function in _WORKERS):
            return True
        if not _QUEUES.search(file):
            return False
    return False


_POOLS: Final = lazy_re(r"/(concurrent/futures/(_base|thread|process)|multiprocessing/pool)\.py$")
_AT_EXIT: Final = "_python_exit"  # of an interpreter that ends: the job may be a server


def awaits_jobs(frames: Sequence[Frame]) -> bool:
    """Return whether a thread waits for a pool to do its jobs, each of which is to end.

    Args:
        frames: innermost first; frames of other languages are left out.
    """
    for frame in frames:
        file = frame.file or ""
        if frame.language != "python":
            continue
        if _POOLS.search(file):
            return frame.function != _AT_EXIT
        if not _QUEUES.search(file):
            return False
    return False


def waits_for_semaphore(frames: Sequence[Frame]) -> bool:
    """Whether a thread of Python is in `Semaphore.acquire` or `Barrier.wait` of `threading`.

    Args:
        frames: innermost first; frames of other languages are left out.
    """
    python = [frame for frame in frames if frame.language == "python"][:3]
    inside = [frame.function for frame in python if (frame.file or "").endswith("/threading.py")]
    return any(name.startswith(("Semaphore.", "Barrier.")) for name in inside)
