"""What a glance gave, as the stream and the user get it."""

from __future__ import annotations

from typing import Final

from livedbg.linux.access import access_problem
from livedbg.model import Stack, ids
from livedbg.model.errors import TargetDenied
from livedbg.text.wording import sentences
from livedbg.touch.glance import Glanced
from livedbg.unwind.refusal import Refusal
from livedbg.unwind.unwound import Unwound

__all__ = ["denied", "skip_reasons", "stacks_of"]

_GUESSED: Final = "outer frames may be missing or wrong: the frame pointer is unknown without a stop"
_LOST: Final = "outer frames may be missing: code without unwind tables, or more stack than was copied"


def denied(pid: int) -> TargetDenied:
    """Why a process may not be read."""
    problem = access_problem(pid)
    if problem is None:
        return TargetDenied(f"The kernel denies reading process {pid}.", "livedbg doctor", "denied")
    return TargetDenied(problem.sentence, problem.remedy, problem.code)


def stacks_of(host: str, found: Glanced, unwound: dict[int, Unwound], taken_ns: int) -> tuple[Stack, ...]:
    """The stacks of a glance; those of threads that were not stopped are marked as such."""
    stacks = []
    for tid, stack in unwound.items():
        if stack.frames:
            stopped = tid in found.stops_ns
            stacks.append(
                Stack(
                    thread=ids.thread(host, found.pid, tid),
                    frames=stack.frames,
                    taken_mono_ns=taken_ns,
                    source="glance" if stopped else "no stop",
                    layer="native",
                    partial=not stack.whole,
                    note=None if stack.whole else _LOST if stopped else _GUESSED,
                )
            )
    return tuple(stacks)


def skip_reasons(found: Glanced) -> dict[str, tuple[str, str]]:
    """Code -> sentence and remedy, for the threads that there is no copy of. Those that ended need none."""
    reasons: dict[str, list[tuple[int, Refusal]]] = {}
    for tid, refusal in found.skipped.items():
        if refusal.code != "ended":
            reasons.setdefault(refusal.code, []).append((tid, refusal))
    shown = {}
    for code, threads in reasons.items():
        _, refusal = threads[0]
        number = len(threads)
        who = f"thread {threads[0][0]}" if number == 1 else f"{number} threads"
        shown[code] = (sentences(f"No glance at {who} of {found.pid}: {refusal.sentence}"), refusal.remedy)
    return shown
