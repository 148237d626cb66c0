"""The wait graph of ranks in pending collectives: cycles, and all ranks behind one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec import structs

from livedbg.adapters.pytorch.rules.calls import Call


def waiting_processes(calls: Iterable[Call]) -> dict[str, list[Call]]:
    """Return the collectives in which a thread of a process waits, by process."""
    found: dict[str, list[Call]] = {}
    for call in calls:
        for rank in call.waiting:
            found.setdefault(call.processes[rank], []).append(call)
    return found


def circle_of(start: str, waits: dict[str, list[Call]]) -> list[str]:
    """Return a wait cycle of threads through `start`, [] if there is none; `waits` has their calls by process."""
    before: dict[str, str] = {}
    todo = [start]
    while todo:
        thread = todo.pop(0)
        for call in (call for calls in waits.values() for call in calls if thread in call.waiting.values()):
            for other in _entering(call, waits):
                if other == start:
                    path = [thread]
                    while path[-1] != start:
                        path.append(before[path[-1]])
                    return path[::-1]
                if other not in before:
                    before[other] = thread
                    todo.append(other)
    return []


def _entering(call: Call, waits: dict[str, list[Call]]) -> Iterator[str]:
    """Yield the threads of absent ranks that may be the ones to enter a call, and wait in others."""
    for rank in call.facts.absent:
        process = call.processes.get(rank, "")
        for other in waits.get(process, ()):
            for own, thread in other.waiting.items():
                if other.processes[own] == process and call.may_be_entered(rank, thread):
                    yield thread


def held_up_in_another(call: Call, rank: int, waits: dict[str, list[Call]]) -> bool:
    """Return whether the thread of a rank that may have to enter a call waits in another one."""
    return any(True for _ in _entering(structs.replace(call, facts=structs.replace(call.facts, absent=(rank,))), waits))


def ranks_behind(rank: int, waits: Iterable[tuple[Collection[int], Collection[int]]]) -> list[int]:
    """Return the ranks that wait for `rank`, directly or indirectly, by the waiting and absent ranks of each call."""
    known = list(waits)
    found: set[int] = set()
    todo = {rank}
    while todo:
        one = todo.pop()
        fresh = {waiter for waiting, absent in known if one in absent for waiter in waiting} - found - {rank}
        found |= fresh
        todo |= fresh
    return sorted(found)
