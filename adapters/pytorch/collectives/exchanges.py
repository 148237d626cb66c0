"""Match up calls across a job's ranks that no recorder has: sends, receives, monitored barriers, waits for store keys.

Invariants:
    exchanges.E1. A call is blocked only if the same call, with the same variables, was there in two samples. It may
        still be another one if its variables happen to be at the same addresses: how long its thread waits says more.
    exchanges.E2. A receive has no absent rank if its sender is in a matching send (group and tag), since bytes may be
        in flight. Likewise while a connection between the two has unread or unacknowledged bytes: a posted message may
        still cross a slow link.
    exchanges.E3. Whether a thread that waits for a posted operation sends or receives is taken from its native stack;
        without that it is no exchange. A stack that was taken while the thread was at another line of Python, before or
        after the call, does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from livedbg.adapters.pytorch.collectives.joined import Look, named
from livedbg.adapters.pytorch.collectives.python_calls import STORE, WORK, PythonCall
from livedbg.model import Stack
from livedbg.text.patterns import lazy_re

_OTHER: Final = {"recv": "send", "send": "recv"}
_TOGETHER: Final = ("monitored_barrier", "init_process_group", "new_group")
_POSTED: Final = lazy_re(r"c10d::ProcessGroupGloo::(Send|Recv)Work::wait")
_STORES: Final = lazy_re(r"c10d::\w*Store::")


class Exchange(Struct, frozen=True, kw_only=True):
    """A blocked call, on one rank or on several.

    Attributes:
        description: user's name of the group, or "".
        peer: the other rank of a send or receive; None if not known.
        tag: of a message; None if not known.
        calls: by rank, of the ranks in it.
        absent: missing ranks that are seen.
        unseen: missing ranks about which nothing is known.
        total: number of ranks it takes.
        under_way: bytes between the two are in flight.
        posted: it was posted before, and is waited for now.
    """

    name: str
    group: str
    calls: Mapping[int, PythonCall]
    absent: tuple[int, ...]
    unseen: tuple[int, ...]
    total: int
    description: str = ""
    peer: int | None = None
    tag: int | None = None
    under_way: bool = False
    posted: bool = False

    @property
    def key(self) -> str:
        """Return its key within the group: `recv.0.1.7` is rank 0's receive from rank 1 with tag 7."""
        if self.name in _TOGETHER:
            return self.name
        rank, call = next(iter(self.calls.items()))
        if self.peer is None or self.tag is None:
            return f"{self.name}.{rank}.{call.ident:x}"
        return f"{self.name}.{rank}.{self.peer}.{self.tag}"


def standing_calls(before: Look | None, now: Look) -> tuple[PythonCall, ...]:
    """Return the blocked calls of a rank (E1)."""
    return tuple(call for call in now.calls if before is not None and call in before.calls)


def said_by(stack: Stack | None, call: PythonCall) -> PythonCall | None:
    """Refine a call by the native stack of its thread (E3); None if the stack shows that it is no exchange."""
    frames = stack.frames if stack is not None else ()
    python = next(((_name(frame.file), frame.line) for frame in frames if frame.language == "python"), None)
    if call.line is not None and python not in (None, (_name(call.line[0]), call.line[1])):
        return None  # taken while the thread was elsewhere
    native = [frame.function for frame in frames if frame.language != "python"]
    if call.name == STORE:
        return call if any(map(_STORES.match, native)) else None
    if call.name != WORK:
        return call
    ways = [found[1] for one in native if (found := _POSTED.match(one)) is not None]
    return structs.replace(call, name=ways[0].lower()) if ways else None


def _name(file: str | None) -> str:
    return (file or "").rpartition("/")[2]


def root_of(look: Look, thread: int, name: str) -> int | None:
    """Return the root of a collective that a thread (pthread_self(3)) is in; None if not known."""
    return next((call.peer for call in look.calls if call.ident == thread and call.name == name), None)


def exchanges(
    looks: Sequence[Look],
    stands: Mapping[int, Sequence[PythonCall]],
    crosses: Callable[[Look, Look], bool] = lambda *_: False,
) -> list[Exchange]:
    """Return the blocked exchanges of a job; `crosses` tells if bytes are in flight between two ranks."""
    by_rank = {look.rank: look for look in looks}
    described = {e.group: named(e.description) for look in looks for e in look.entries if e.description}
    found = [*_messages(by_rank, stands, described), *_meetings(by_rank, stands, described), *_keys(by_rank, stands)]
    found = [
        structs.replace(one, absent=(), under_way=True)
        if one.name in _OTHER and one.absent and crosses(*(by_rank[rank] for rank in (*one.calls, *one.absent)))
        else one
        for one in found
    ]
    return sorted(found, key=lambda one: (one.name, min(one.calls)))


def _messages(
    looks: Mapping[int, Look], stands: Mapping[int, Sequence[PythonCall]], described: Mapping[str, str]
) -> Iterator[Exchange]:
    for rank, calls in stands.items():
        for call in calls:
            posted = call.tag is None
            if call.name not in _OTHER or call.peer == rank or (call.peer is None and not posted):
                continue
            other = _matching(call, rank, looks)
            lacks = () if other is not None or call.peer is None else (call.peer,)
            yield Exchange(
                name=call.name,
                group=call.group,
                description=described.get(call.group, ""),
                peer=call.peer,
                tag=call.tag,
                calls={rank: call} | ({call.peer: other} if other is not None and call.peer is not None else {}),
                posted=posted,
                **_missing(lacks, looks),
                total=2,
            )


def _matching(call: PythonCall, rank: int, looks: Mapping[int, Look]) -> PythonCall | None:
    """Return the matching call at the other rank, if it is in one (E2)."""
    other = looks.get(call.peer if call.peer is not None else -1)
    calls = other.calls if other is not None else ()
    meant = [one for one in calls if (one.name, one.peer) == (_OTHER[call.name], rank)]
    wanted = (call.group, call.tag)
    return next((one for one in meant if None in (one.tag, call.tag) or (one.group, one.tag) == wanted), None)


def _missing(ranks: Sequence[int], looks: Mapping[int, Look]) -> dict[str, Any]:
    """Return the fields of an exchange for missing ranks."""
    absent = tuple(one for one in ranks if one in looks)
    return {"absent": absent, "unseen": tuple(one for one in ranks if one not in looks)}


def _keys(looks: Mapping[int, Look], stands: Mapping[int, Sequence[PythonCall]]) -> Iterator[Exchange]:
    for rank, calls in stands.items():
        for call in calls:
            if call.name == STORE:
                members = looks[rank].groups.get(call.group, (rank,))
                yield Exchange(
                    name=STORE,
                    group=call.group,
                    calls={rank: call},
                    **_missing([one for one in members if one != rank], looks),
                    total=len(members),
                )


def _meetings(
    looks: Mapping[int, Look], stands: Mapping[int, Sequence[PythonCall]], described: Mapping[str, str]
) -> Iterator[Exchange]:
    found: dict[tuple[str, str], dict[int, PythonCall]] = {}
    for rank, calls in stands.items():
        for call in calls:
            if call.name in _TOGETHER and call.group:
                found.setdefault((call.name, call.group), {})[rank] = call
    for (name, group), inside in found.items():
        members = max((looks[rank].groups.get(group, ()) for rank in inside), key=len)
        fresh = {rank for rank, look in looks.items() if any((c.name, c.group) == (name, group) for c in look.calls)}
        if name == "init_process_group":  # who has process groups has left it
            fresh |= {rank for rank, look in looks.items() if look.initialised}
        yield Exchange(
            name=name,
            group=group,
            description=described.get(group, ""),
            tag=0,
            calls=inside,
            **_missing([rank for rank in members if rank not in inside and rank not in fresh], looks),
            total=len(members),
        )
