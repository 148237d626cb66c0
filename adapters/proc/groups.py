"""What the control groups of the watched processes do to them: freeze them, take CPU time or memory from them.

Nothing is emitted of a group that does nothing of that. Shares are rounded, so that a group whose share moves a little
makes no event.

Invariants:
    groups.G1. What a group did before livedbg came (its counters since it was made) says nothing of now.
    groups.G2. A group that is as full as it may be is no trouble by itself: its page cache can be taken back.
"""

from __future__ import annotations

import time
from typing import Final

from msgspec import Struct, field, structs

from livedbg.linux.cgroups import CpuLimit, Group, read_cpu, read_frozen, read_memory, view_of
from livedbg.model import Resource, ids
from livedbg.model.facts import GroupFacts
from livedbg.text.sanitize import clean_line

KIND: Final = "cgroup"

_FRESH_S: Final = 0.2
"""Two reads of the same group within this time are one."""

_WINDOW_S: Final = 10.0
_PERIODS: Final = 2
"""Fewer scheduling periods than this say nothing."""

_THROTTLED: Final = 0.5
_STALLED: Final = 0.2
"""Shares from which on a group is reported."""


class _State(Struct):
    """What is known of one group.

    Attributes:
        counts: by file, (time, periods, throttled) of the last _WINDOW_S seconds, oldest first.
        kills: tasks that were killed for memory when it was first read.
    """

    taken_s: float = -1e9
    resource: Resource | None = None
    frozen: bool = False
    counts: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)
    kills: int | None = None


class Groups:
    """The groups of all watched processes. Used from one thread at a time."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._views: dict[int, Group | None] = {}
        self._states: dict[Group, _State] = {}

    def forget(self, pid: int) -> None:
        """Find the group of a process anew at the next sample: it may have been moved."""
        self._views.pop(pid, None)

    def readable(self, pid: int) -> bool:
        """Whether what the group of a process does can be seen."""
        view = self._view(pid)
        return view is not None and view.readable

    def frozen(self, pid: int) -> bool:
        """Whether the group of a process is frozen."""
        return self._state(pid).frozen

    def resource(self, pid: int) -> Resource | None:
        """The group of a process, if it holds it back."""
        return self._state(pid).resource

    def _view(self, pid: int) -> Group | None:
        if pid not in self._views:
            self._views[pid] = view_of(pid)
        return self._views[pid]

    def _state(self, pid: int) -> _State:
        view = self._view(pid)
        if view is None:
            return _State()
        state = self._states.setdefault(view, _State())
        now_s = time.monotonic()
        if now_s - state.taken_s >= _FRESH_S:
            state.taken_s = now_s
            self._read(view, state, now_s)
        return state

    def _read(self, view: Group, state: _State, now_s: float) -> None:
        facts, words = GroupFacts(), []
        file = read_frozen(view)
        state.frozen = bool(file)
        if file:
            facts = structs.replace(facts, frozen_by=clean_line(file, 300))
            words.append("frozen")
        for limit in read_cpu(view):
            share = _throttled(state, limit, now_s)
            if share is not None and share >= _THROTTLED and facts.throttled is None:
                facts = structs.replace(
                    facts,
                    throttled=round(share, 1),
                    cores=limit.cores,
                    throttled_by=clean_line(limit.control, 300),
                    cpu_stat=clean_line(limit.file, 300),
                )
                words.append("throttled")
        facts, more = self._memory(view, state, facts)
        words += more
        name = clean_line(view.path, 200)
        entity = ids.fd_object(KIND, self._host, name.strip("/").replace("/", ":") or "root")
        known = state.resource
        if not words:
            state.resource = None
        elif known is None or known.facts != facts:
            state.resource = Resource(
                id=entity, kind=KIND, name=f"control group {name}", state=", ".join(words), facts=facts
            )

    def _memory(self, view: Group, state: _State, facts: GroupFacts) -> tuple[GroupFacts, list[str]]:
        memory = read_memory(view)
        if memory is None:
            return facts, []
        words = []
        if state.kills is None:
            state.kills = memory.kills
        killed = memory.kills - state.kills if memory.kills is not None and state.kills is not None else 0
        if memory.under_oom:
            words.append("out of memory")
            facts = structs.replace(facts, under_oom=True)
        if memory.stalled is not None and memory.stalled >= _STALLED:
            words.append("short of memory")
            facts = structs.replace(facts, memory_stalled=round(memory.stalled, 1))
        if killed > 0:
            words.append("tasks killed for memory")
            facts = structs.replace(facts, killed=killed)
        if words:
            share = round((memory.used or 0) / memory.limit, 2) if memory.limit else None
            file = clean_line(memory.file, 300)
            facts = structs.replace(facts, memory_file=file, memory_limit=memory.limit or None, memory_used=share)
        return facts, words


def _throttled(state: _State, limit: CpuLimit, now_s: float) -> float | None:
    """In which share of the periods of the last seconds a group was throttled; None where too few have passed (G1)."""
    counts = state.counts.setdefault(limit.file, [])
    while len(counts) > 1 and now_s - counts[1][0] >= _WINDOW_S:
        del counts[0]
    if not counts or now_s - counts[-1][0] >= 1.0 or len(counts) == 1:
        counts.append((now_s, limit.periods, limit.throttled))
    _, periods, throttled = counts[0]
    passed = limit.periods - periods
    return (limit.throttled - throttled) / passed if passed >= _PERIODS else None
