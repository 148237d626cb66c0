"""Where in the user's code a thread is, and what it called there."""

from __future__ import annotations

from typing import Final

from livedbg.cpython.threads import PyThread

__all__ = ["library_call", "user_frame"]

_LIBRARY: Final = ("/threading.py", "/queue.py", "/concurrent/futures/_base.py", "/concurrent/futures/thread.py")


def user_frame(thread: PyThread) -> str:
    """The innermost frame outside of the threading library."""
    for frame in thread.frames:
        if not frame.code.file.endswith(_LIBRARY):
            return frame.where
    return thread.frames[-1].where if thread.frames else ""


def library_call(thread: PyThread) -> str:
    """The outermost of the library's frames: what the user called (`Queue.get`, `Event.wait`)."""
    name = ""
    for frame in thread.frames:
        if not frame.code.file.endswith(_LIBRARY):
            break
        name = frame.code.name
    return name
