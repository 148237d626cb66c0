"""Wording of a thread's place and of a lock without its address, for sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from livedbg.analysis.place_names import function_name, line_of, place_text
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import call_of, many, name_of
from livedbg.model import Frame, Thread
from livedbg.model.snapshot import Snapshot
from livedbg.text.patterns import lazy_re

MOST_WORDS: Final = 25
"""Words of the first sentence of a verdict."""

_ONE_LOOK_NS: Final = 100_000_000
"""So far apart are a thread's state and its stack that one look has read, at most."""

_FUNCTION: Final = lazy_re(r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*")
_KINDS: Final = {
    "mutex": "a mutex",
    "rwlock": "a read-write lock",
    "cond": "a condition variable",
    "sem": "a semaphore",
    "pylock": "a Python lock",
    "flock": "a file lock",
    "futex": "a futex",
}


def user_frame(thread: str, state: RuleInput) -> Frame | None:
    """Return the frame of the user's own code that a thread is in, if known (livedbg.analysis.user_code).

    A stack from before a thread began to wait for something else tells of another place.
    """
    return None if is_outdated(thread, state) else state.code.frame(state.snapshot.stacks.get(thread))


def is_outdated(thread: str, state: RuleInput) -> bool:
    """Return whether the stack of a thread was taken before it began to wait for something of another kind."""
    stack, activity = state.snapshot.stacks.get(thread), state.snapshot.activity.get(thread)
    return (
        stack is not None and activity is not None and stack.taken_mono_ns + _ONE_LOOK_NS < activity.rests_since_mono_ns
    )


def at(thread: str, state: RuleInput) -> str:
    """Return ` in step (server.cpp:31)`: the user's function and line that a thread is in; "" if not known."""
    frame = user_frame(thread, state)
    return f" in {place_text(frame)}" if frame is not None else ""


def call_at(call: str, thread: str, state: RuleInput) -> str:
    """Return `synchronize in step (train.cpp:31)`: a call, and where the user's code makes it, if known."""
    frame = user_frame(thread, state)
    if frame is None or function_name(frame.function, frame.language) == call:
        return call
    return f"{call} in {place_text(frame)}"


def places_in(threads: Iterable[str], state: RuleInput, *, functions: bool = True) -> str:
    """Return ` (step server.cpp:31, launch :44)`: the user's lines of some threads; "" if one of them is not known.

    Repeated parts are left out: a file, a function, and all but one of equal places.
    """
    found: list[tuple[str, str, str]] = []
    for thread in threads:
        frame = user_frame(thread, state)
        if frame is None:
            return ""
        file, _, line = line_of(frame).rpartition(":")
        module = (frame.module or "").rpartition("/")[2]
        found.append((function_name(frame.function, frame.language), file or module, line))
    if len(found) > 1 and len(set(found)) == 1:
        return f" (all in {_written(found[:1], functions=functions)})"
    return f" ({_written(found, functions=functions)})" if found else ""


def _written(found: Iterable[tuple[str, str, str]], *, functions: bool) -> str:
    parts = []
    last_name = last_file = ""
    for name, file, line in found:
        shown = "" if line and file == last_file else file
        words = [name] if name != last_name and (functions or not line) and name != "<module>" else []
        where = f"{shown}:{line}" if line else shown
        parts.append(" ".join([*words, *([where] if where else [])]) or file)
        last_name, last_file = name, file
    return ", ".join(parts)


def shortest(*sentences: str) -> str:
    """Return the first of some wordings, longest first, that is short enough for a first sentence."""
    return next((one for one in sentences if len(one.split()) <= MOST_WORDS), sentences[-1])


def blocked_in(thread: Thread, state: RuleInput) -> str:
    """Return a thread's blocking call and its place: `pause() in serve (server.cpp:31)`, `read of socket 3`."""
    call = call_of(thread, state) or "a call"
    return f"{call}{'()' if _FUNCTION.fullmatch(call) else ''}{at(thread.id, state)}"


def thing_name(entity: str, snapshot: Snapshot) -> str:
    """Return the name of a wait's target without an address: `a mutex`, `the GIL`, `pipe 3 of worker`."""
    name = name_of(entity, snapshot)
    if "0x" not in name:
        return name
    kind = entity.partition(":")[0]
    return _KINDS.get(kind, f"a {kind}")


def waiting(entity: str, state: RuleInput) -> str:
    """Return how many wait for an entity: `1 thread waits`, `5 others wait` if not all of them are threads."""
    count = state.graph.behind(entity)
    if all(waiter.startswith("thread:") for waiter in state.graph.waiters_of(entity)):
        return many(count, "thread waits", "threads wait")
    return many(count, "other waits", "others wait")
