"""What a sentence says of a thread and of a lock without an address: where the thread is, what it waits for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import many, name_of
from livedbg.logs.sanitizers import own_frames
from livedbg.model import Frame, Thread
from livedbg.model.snapshot import Snapshot

__all__ = ["blocked_in", "place", "places_in", "thing_name", "user_frame", "waiting"]

_NOT_OWN: Final = re.compile(
    r"/lib(?:64)?/python3[^/]*/|/(?:site|dist)-packages/|^<frozen |^/usr/(?:include|lib|src)/|/include/c\+\+/"
    r"|^(?:\.{1,2}/)+(?:sysdeps|nptl|io|socket|misc|stdlib|csu|posix|string)/"
)
"""Files of Python's library, of installed packages, of system headers, of the C++ library (also of another toolchain),
and of glibc, whose debug information has paths relative to its source."""

_INTERPRETER: Final = re.compile(r"libpython\d|python\d?(?:\.\d+)?[a-z]?$")
"""Modules of CPython itself, where the functions of a Python program are frames of their own."""

_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*")
_KINDS: Final = {
    "mutex": "a mutex",
    "rwlock": "a read-write lock",
    "cond": "a condition variable",
    "sem": "a semaphore",
    "pylock": "a Python lock",
    "flock": "a file lock",
    "futex": "a futex",
}


def user_frame(thread: str, snapshot: Snapshot) -> Frame | None:
    """The innermost frame of the user's own code with a source line, if a stack of the thread is known."""
    stack = snapshot.stacks.get(thread)
    if stack is None:
        return None
    own = (frame for frame in own_frames(stack.frames) if frame.file and frame.line)
    return next((f for f in own if not _NOT_OWN.search(f.file or "") and not _INTERPRETER.match(f.module or "")), None)


def place(frame: Frame) -> str:
    """`server.cpp:31`; "" where the line is not known."""
    return f"{(frame.file or '').rpartition('/')[2]}:{frame.line}" if frame.file and frame.line else ""


def places_in(threads: Iterable[str], snapshot: Snapshot) -> str:
    """` (server.cpp:31, :44, :58)`: the user's lines of some threads; "" if one of them is not known."""
    found: list[str] = []
    last = ""
    for thread in threads:
        frame = user_frame(thread, snapshot)
        if frame is None:
            return ""
        file = (frame.file or "").rpartition("/")[2]
        found.append(f":{frame.line}" if file == last else f"{file}:{frame.line}")
        last = file
    return f" ({', '.join(found)})" if found else ""


def blocked_in(thread: Thread, snapshot: Snapshot) -> str:
    """What a thread is blocked in and where: `pause() (server.cpp:31)`, `read of socket 3`."""
    call = thread.waits_in or thread.syscall or "a call"
    return f"{call}{'()' if _FUNCTION.fullmatch(call) else ''}{places_in((thread.id,), snapshot)}"


def thing_name(entity: str, snapshot: Snapshot) -> str:
    """What is waited for, without an address: `a mutex`, `the GIL`, `pipe 3 of worker`."""
    name = name_of(entity, snapshot)
    if "0x" not in name:
        return name
    kind = entity.partition(":")[0]
    return _KINDS.get(kind, f"a {kind}")


def waiting(entity: str, state: RuleInput) -> str:
    """How many wait for an entity: `1 thread waits`, `5 others wait` where not all of them are threads."""
    count = state.graph.behind(entity)
    if all(waiter.startswith("thread:") for waiter in state.graph.waiters_of(entity)):
        return many(count, "thread waits", "threads wait")
    return many(count, "other waits", "others wait")
