"""Find the collective that a thread is in when it throws (`catch c10::Error`).

Invariants:
    thrown.H1. An operation is named only if this thread enqueued it as its newest one, and it is pending, or the stack
        shows the thread in the function of that name. For a thread that executes another thread's operation: only if
        the stack has its name, and no other of that name is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from livedbg.adapters.pytorch.collectives.groups import rank_in_memory, tid_of
from livedbg.adapters.pytorch.collectives.recorder import LayoutUnknown, Recorder, find_recorders
from livedbg.adapters.pytorch.collectives.recorder_entry import Entry
from livedbg.linux.procfs import read_stat
from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_MODULE: Final = lazy_re(r"(?:^|/)torch/distributed/distributed_c10d\.py$")
_WORK: Final = lazy_re(r"c10d::Async([A-Z][a-z]+(?:[A-Z][a-z]+)*)Work::")
_NEWEST: Final = 64  # entries that are looked at


def thrown_in(pid: int, tid: int) -> Callable[[Sequence[Frame]], tuple[int | None, str]] | None:
    """Read the recorders of a thread's process at once; None if it uses no torch.distributed.

    Returns:
        A function that takes the stack, once known, and returns the rank (None if not known), and the operation with
        its number and group (`all_reduce #5 of group 0`; "" for none).

    Raises:
        OSError: the process is gone or not permitted.
    """
    recorders = _recorders(pid, read_stat(pid).start_ticks)
    if not recorders:
        return None
    try:
        rings = [ring for one in recorders if (ring := one.read()) is not None]
    except LayoutUnknown:
        return None
    rank = rank_in_memory(pid)
    entries = [one for ring in rings for one in ring.entries[-_NEWEST:]]
    own = [one for one in entries if tid_of(pid, one.thread) == tid]

    def said(frames: Sequence[Frame]) -> tuple[int | None, str]:
        if own:
            one = own[-1] if not own[-1].done or _in_it(own[-1], frames) else None
        else:
            one = _carried_out(entries, frames)
        return rank, _name(one) if one is not None else ""

    return said


def _name(one: Entry) -> str:
    return f"{one.name} #{one.sequence}{f' of group {one.description or one.group}' if one.group else ''}"


def _in_it(entry: Entry, frames: Sequence[Frame]) -> bool:
    wanted = entry.name.replace("_", "")
    return any(
        frame.file is not None and _MODULE.search(frame.file) and frame.function.replace("_", "").startswith(wanted)
        for frame in frames
    )


def _carried_out(entries: Sequence[Entry], frames: Sequence[Frame]) -> Entry | None:
    """Return the operation that a gloo worker executes: the only pending one of its name, or the newest."""
    named = next((match[1].lower() for frame in frames if (match := _WORK.search(frame.function))), "")
    alike = [one for one in entries if named and one.name.replace("_", "").startswith(named)]
    pending = [one for one in alike if not one.done]
    if len(pending) > 1:
        return None
    return pending[0] if pending else next((one for one in alike[-1:] if one is entries[-1]), None)


@lru_cache(maxsize=1 << 10)
def _recorders(pid: int, began: int) -> tuple[Recorder, ...]:
    """Return the recorders of a process; `began` distinguishes reused pids."""
    try:
        return tuple(find_recorders(pid))
    except LayoutUnknown:
        return ()
