"""What threads do of torch.distributed.rpc, from the Python frames in memory.

Invariants:
    rpc_frames.F1. A thread asks another worker only if its innermost frame waits for a future or for the value of an
        RRef; it carries a request out as long as `_run_function` is on its stack.

Source: torch/distributed/rpc/api.py and internal.py (2.13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.c_calls import MethodCall
from livedbg.cpython.frame_locals import FrameLocals
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.threads import PyFrame, PyThread

_API: Final = "/torch/distributed/rpc/api.py"
_INTERNAL: Final = "/torch/distributed/rpc/internal.py"
_CODE_AT: Final = 48  # func_code of a PyFunctionObject (Include/cpython/funcobject.h, 3.11 to 3.13)
_DEPTH: Final = 24
_ASKS: Final = (("Future", "wait"), ("PyRRef", "to_here"))


class RpcThread(Struct, frozen=True):
    """One thread.

    Attributes:
        ident: pthread_self(3).
        asks: it waits for what another worker carries out.
        to: the name of that worker; "" where it is not known.
        function: what it has asked for; "" where it is not known.
        serves: the function that it carries out itself for another worker; "" for none.
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
    """The threads of a process that do something of RPC.

    Args:
        heap: reads objects of the process.
        variables: reads its frames' variables.
        threads: as just read.
        methods: what their innermost frames call, by the thread's ident.

    Raises:
        OSError: not readable.
    """
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
