"""Publish requests of torch.distributed.rpc as tasks and edges.

The worker's name is read through `torch::distributed::rpc::RpcAgent::currentRpcAgent_`. An agent begins with a vtable
pointer and its `workerInfo_`: vtable pointer, two reference counts, the name (libstdc++ std::string) and the number
(int16) (torch/csrc/distributed/rpc/rpc_agent.h).

Invariants:
    rpc_tasks.T1. A request is published only if the same thread waited for the same in two samples.
    rpc_tasks.T2. A request is attributed to each thread of the asked worker that executes that function. Since several
        requests for it can't be told apart, these are no edges: a function that calls itself over two workers makes no
        cycle.
    rpc_tasks.N1. A name is given only if it is printable and the number next to it is the process's rank, or a possible
        one if the rank is not known otherwise: `init_rpc` alone leaves it nowhere else.
    rpc_tasks.F1. A thread asks another worker only if its innermost frame waits for a future or for the value of an
        RRef; it serves a request as long as `_run_function` is on its stack.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.c_calls import MethodCall
from livedbg.adapters.pytorch.facts import RpcFacts
from livedbg.cpython.call_frames import FrameLocals
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.threads import PyFrame, PyThread
from livedbg.linux import memory
from livedbg.model import Edge, EdgeKind, Task, TaskState, ids

_API: Final = "/torch/distributed/rpc/api.py"
_INTERNAL: Final = "/torch/distributed/rpc/internal.py"
_CODE_AT: Final = 48  # func_code of a PyFunctionObject (Include/cpython/funcobject.h, 3.11 to 3.13)
_DEPTH: Final = 24
_ASKS: Final = (("Future", "wait"), ("PyRRef", "to_here"))


class RpcThread(Struct, frozen=True):
    """RPC activity of one thread.

    Attributes:
        ident: pthread_self(3).
        asks: it waits for another worker's result.
        to: the name of that worker; "" if not known.
        function: the requested function; "" if not known.
        serves: the function that it executes for another worker; "" for none.
        leaves: it is in `rpc.shutdown`, which returns once all workers have called it.
    """

    ident: int
    asks: bool
    to: str
    function: str
    serves: str
    leaves: bool


def rpc_threads(
    heap: HeapReader, variables: FrameLocals, threads: Sequence[PyThread], methods: Mapping[int, MethodCall]
) -> tuple[RpcThread, ...]:
    """Return the threads that use RPC, by their innermost calls; raise OSError if memory is unreadable."""
    found = (_thread(heap, variables, thread, methods.get(thread.ident)) for thread in threads)
    return tuple(one for one in found if one is not None)


def _thread(heap: HeapReader, variables: FrameLocals, thread: PyThread, method: MethodCall | None) -> RpcThread | None:
    frames = thread.frames
    serves = next((frames[at - 1].code.name for at, one in enumerate(frames) if at and _runs(one)), "")
    leaves = not serves and any(one.code.name == "shutdown" and one.code.file.endswith(_API) for one in frames[:_DEPTH])
    asks = method is not None and (method.owner, method.method) in _ASKS
    if not (serves or leaves or asks):
        return None
    to = function = ""
    first = frames[0]
    if asks and first.code.name == "rpc_sync" and first.code.file.endswith(_API):
        values = variables.of(first, {"to", "func"})
        to = heap.objects.text(values["to"]) if heap.type_name(values.get("to", 0)) == "str" else ""
        function = _named(heap, values.get("func", 0))
    return RpcThread(thread.ident, asks, to, function, serves, leaves)


def _runs(frame: PyFrame) -> bool:
    return frame.code.name == "_run_function" and frame.code.file.endswith(_INTERNAL)


def _named(heap: HeapReader, function: int) -> str:
    if heap.type_name(function) != "function":
        return ""
    (code,) = heap.words(function + _CODE_AT, 1)
    found = heap.objects.code(code)
    return found.name if found is not None else ""


_OWN: Final = ("_gather_to_leader", "_broadcast_to_followers", "_update_group_membership")
"""Functions by which `shutdown` and `_all_gather` talk to the other workers."""


class RpcRank(Struct, frozen=True):
    """A worker at one moment, with its thread ids by pthread_self(3)."""

    rank: int
    process: str
    name: str
    threads: tuple[RpcThread, ...]
    tids: Mapping[int, str]


def rpc_events(ranks: Sequence[RpcRank], before: Mapping[str, tuple[RpcThread, ...]]) -> tuple[list[Task], list[Edge]]:
    """Return the pending requests and the ranks in `shutdown`; `before` has the threads of the last sample."""
    tasks: list[Task] = []
    edges: list[Edge] = []
    for one in ranks:
        for thread in one.threads:
            own = one.tids.get(thread.ident, "")
            if not own or not (thread.asks or thread.leaves) or thread not in before.get(one.process, ()):  # T1
                continue
            leaves = thread.leaves and (not thread.asks or thread.function in _OWN)
            task = _task(one, thread, ranks, leaves=leaves)
            tasks.append(task)
            what = "is in rpc.shutdown" if leaves else f"waits for {thread.function or 'a request'}"
            edges.append(Edge(kind=EdgeKind.WAITS_FOR, source=own, target=task.id, evidence=f"rank {one.rank} {what}"))
    return tasks, edges


def _task(one: RpcRank, thread: RpcThread, ranks: Sequence[RpcRank], *, leaves: bool) -> Task:
    others = [rank for rank in ranks if rank is not one]
    asked = [rank for rank in others if rank.name == thread.to] if thread.to else others if len(others) == 1 else []
    served = [] if leaves else [one for rank in asked for one in rank.threads if one.serves and one.ident in rank.tids]
    meant = [one for one in served if thread.function in ("", one.serves)]
    absent = [rank for rank in others if not any(other.leaves for other in rank.threads)]
    facts = RpcFacts(
        leaves=leaves,
        rank=one.rank,
        to="" if leaves else thread.to or (asked[0].name if asked else ""),
        function="" if leaves else thread.function,
        asked=asked[0].process if asked and not leaves else "",
        absent=tuple(rank.rank for rank in absent) if leaves else (),
        busy=tuple(rank.tids[one.ident] for rank in asked for one in served),
        served_by=tuple(rank.tids[one.ident] for rank in asked for one in meant),
        processes={rank.rank: rank.process for rank in ranks},
    )
    return Task(
        id=ids.task("rpc", f"{one.rank}.{thread.ident:x}"),
        system="pytorch",
        name="rpc.shutdown" if leaves else f"rpc {thread.function}".strip(),
        state=TaskState.RUNNING,
        facts=facts,
    )


AGENT: Final = "_ZN5torch11distributed3rpc8RpcAgent16currentRpcAgent_E"
"""The pointer to the agent."""
_NAME_AT: Final = 8 + 16
_MOST: Final = 128  # WorkerInfo::MAX_NAME_LEN


def agent_worker(pid: int, pointer: int, rank: int | None) -> tuple[str, int] | None:
    """Return the name and number of the worker with an agent pointer; None if there is none (N1)."""
    try:
        (agent,) = struct.unpack("<Q", memory.read(pid, pointer, 8))
        if not agent:
            return None
        text, size, number = struct.unpack("<QQ16xh", memory.read(pid, agent + _NAME_AT, 34))
        if number < 0 or rank not in (None, number) or not 0 < size <= _MOST:
            return None
        name = memory.read(pid, text, size).decode("ascii")
    except (OSError, OverflowError, UnicodeDecodeError):
        return None
    return (name, number) if name.isprintable() else None
