"""The wait of a thread as a value, and its conversion to edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from livedbg.model import Edge, EdgeKey, EdgeKind, Resource, WaitKind


class Holding(Struct, frozen=True):
    """A holder or server of a resource, with evidence."""

    entity: str
    evidence: str
    inferred: bool = False


class Wakers(Struct, frozen=True):
    """The possible wakers of a wait.

    Attributes:
        pids: processes any of whose threads could.
        shared_at: address of the futex word if other processes could map it, and so end the wait too.
        outside: what else could, or why that isn't known.
    """

    pids: frozenset[int] = frozenset()
    shared_at: int | None = None
    outside: str = ""


UNTOLD = Wakers(outside="livedbg can't tell what could end its wait")


class Waited(Struct, frozen=True):
    """One thing that a thread waits for.

    Attributes:
        target: id of the resource, thread or process.
        resource: its description, if it is a resource.
        holders: any one of several can serve it.
    """

    target: str
    evidence: str
    resource: Resource | None = None
    holders: tuple[Holding, ...] = ()
    inferred: bool = False
    wakers: Wakers = UNTOLD


class Wait(Struct, frozen=True):
    """The wait of a thread: for any one of `waited`.

    Attributes:
        waits_in: in a user's words; None if it doesn't wait.
        kind: None if it doesn't wait.
        sleeps_s: requested time of a sleep; of one until some time, what was left of it when it was first seen.
        timed: it wakes by itself after some time; None if not known.
        outside: what could end it independently of `waited`, or why that isn't known.
        sharers: other processes that have the same epoll set open.
    """

    waits_in: str | None
    timed: bool | None = None
    waited: tuple[Waited, ...] = ()
    outside: str = ""
    sharers: frozenset[int] = frozenset()
    kind: WaitKind | None = None
    sleeps_s: float | None = None


NO_WAIT = Wait(None)
"""The wait of a thread that runs."""


def edges_of(
    waits: Iterable[tuple[str, Wait]], since: Mapping[EdgeKey, int], now_mono_ns: int
) -> tuple[dict[EdgeKey, Edge], dict[str, Resource]]:
    """Return the edges and resources of the waits of some threads.

    Args:
        waits: (thread id, its wait).
        since: when each edge was first seen.
        now_mono_ns: time for new edges.
    """
    edges: dict[EdgeKey, Edge] = {}
    resources: dict[str, Resource] = {}

    def put(edge: Edge) -> None:
        if edge.key not in edges:
            edges[edge.key] = structs.replace(edge, since_mono_ns=since.get(edge.key, now_mono_ns))

    for thread, wait in waits:
        any_of = len({waited.target for waited in wait.waited}) > 1
        for waited in wait.waited:
            put(
                Edge(
                    kind=EdgeKind.WAITS_FOR,
                    source=thread,
                    target=waited.target,
                    evidence=waited.evidence,
                    any_of=any_of,
                    inferred=waited.inferred,
                    timed=bool(wait.timed),
                )
            )
            if waited.resource is not None:
                resources[waited.target] = waited.resource
            several = len({holding.entity for holding in waited.holders}) > 1
            for holding in waited.holders:
                put(
                    Edge(
                        kind=EdgeKind.HOLDS,
                        source=holding.entity,
                        target=waited.target,
                        evidence=holding.evidence,
                        any_of=several,
                        inferred=holding.inferred,
                    )
                )
    return edges, resources
