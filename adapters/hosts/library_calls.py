"""The calls of known libraries in a stack that somebody printed, and whether one waits there.

Invariants:
    library_calls.L1. A call waits only if it may, and the innermost functions of the stack are those by which a library
        waits: a test for what has come turns there, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from livedbg.model import Frame
from livedbg.text.patterns import lazy_re

_CALLS: Final = lazy_re(
    r"(?:P?MPIX?_[A-Z]|p?(?:nccl|cuda|cu|hip|aclrt|acl|Hccl|nvshmem|cudnn|cublas)[A-Z]|iree_\w{1,60}_wait\b)"
)
"""Names of the functions of libraries that a program calls; those in them only do it."""
_WAITS: Final = lazy_re(
    r"(?:_{0,3}GI_{1,3}|_{1,3}(?:libc_)?)?(?:p?poll|epoll_p?wait|p?select|futex_\w{1,60}|pthread_cond_\w{0,20}wait"
    r"|sched_yield|clock_nanosleep|nanosleep|recv(?:from|msg)?)\b"
    r"|(?:MPI[CDR]\w{0,40}_|MPI[CR]_|PMPI_|MPI_|opal_|ompi_|ucp_|ucs_|uct_|mca_|psm2_|fi_|cxip_|ofi_)\w{0,60}?"
    r"(?:[Pp]rogress|[Ww]ait|[Pp]oll|_Recv$|_cq_read)"
)
"""Functions in which libraries of communication wait."""
_DEEP: Final = 4  # frames of a stack among which one of these must be
_TESTS: Final = lazy_re(r"P?MPIX?_(?:I[a-z]|Test|Improbe|Start|Init|Finalize)")
"""Calls that return at once, or of which a wait tells nothing."""
_PROFILED: Final = lazy_re(r"P(MPIX?_\w{1,60}?)(?:_c)?$")
_COLLECTIVES: Final = "/distributed_c10d.py"
_NONE: Final = ("_", "init_process_group", "new_group", "destroy_process_group", "wrapper")


def library_call(frames: Sequence[Frame]) -> int | None:
    """Return the index of the outermost function by which a known library is called, or None."""
    return next((at for at in range(len(frames) - 1, -1, -1) if _CALLS.match(frames[at].function)), None)


def awaited_in(frames: Sequence[Frame]) -> int | None:
    """Return the index of the library's call that a stack waits in (L1), or None."""
    call = library_call(frames)
    if call is None or _TESTS.match(frames[call].function) is not None:
        return None
    return call if any(_WAITS.match(frame.function) for frame in frames[: min(call + 1, _DEEP)]) else None


def collective_in(frames: Sequence[Frame]) -> int | None:
    """Return the index of the collective operation of torch.distributed that a stack ends in, or None."""
    first = next((at for at, frame in enumerate(frames) if frame.language == "python"), None)
    known = first is not None and f"/{frames[first].file}".endswith(_COLLECTIVES)
    return first if first is not None and known and not frames[first].function.startswith(_NONE) else None


def with_public_name(frame: Frame) -> Frame:
    """Return a frame of MPI with the name that programs call it by, and not that of its profiling interface."""
    return replace(frame, function=_PROFILED.sub(r"\1", frame.function))
