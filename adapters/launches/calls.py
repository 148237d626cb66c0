"""The functions that launch, and what is read of a call: grid, block, stream, kernel.

Arguments stand where the System V ABI for x86-64 has them (3.2.3: a `dim3` of 12 bytes takes two registers; the stack
begins at 8(%rsp)). Signatures and structs: CUDA's cuda.h (cuLaunchKernel, CUlaunchConfig) and cuda_runtime_api.h with
driver_types.h (cudaLaunchKernel, cudaLaunchConfig_t), CUDA 12. A `_ptsz` in a name means the per-thread default stream.

Invariants:
    K1. A launch that the runtime hands on to the driver is one launch, not two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from livedbg.model.launches import Dim3
from livedbg.probes.perf import Sample

__all__ = ["FUNCTIONS", "LOOKUPS", "Called", "arguments", "called", "is_nested"]

_POINTER: Final = 19  # sp in struct user_regs_struct
_NAME: Final = 32  # words of a kernel's name that are fetched, of 8 bytes

_BY_VALUE: Final = (
    "f=%di:x64", "gx=%si:u32", "gy=%dx:u32", "gz=%cx:u32", "bx=%r8:u32", "by=%r9:u32", "bz=+8(%sp):u32",
    "shared=+16(%sp):u32", "stream=+24(%sp):x64",
)  # fmt: skip
_BY_DIM3: Final = (
    "f=%di:x64", "gxy=%si:x64", "gz=%dx:u32", "bxy=%cx:x64", "bz=%r8:u32", "shared=+8(%sp):u32", "stream=+16(%sp):x64",
)  # fmt: skip
_BY_CONFIG: Final = (
    "f=%si:x64", "gx=+0(%di):u32", "gy=+4(%di):u32", "gz=+8(%di):u32", "bx=+12(%di):u32", "by=+16(%di):u32",
    "bz=+20(%di):u32", "shared=+24(%di):u32", "stream=+32(%di):x64",
)  # fmt: skip
_GRAPH: Final = ("f=%di:x64", "stream=%si:x64")
_LOOKUP: Final = ("out=%di:x64", f"name=+0(%dx):x64[{_NAME}]")

_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "cuLaunchKernel": _BY_VALUE,
    "cuLaunchCooperativeKernel": _BY_VALUE,
    "cuLaunchKernelEx": _BY_CONFIG,
    "cuGraphLaunch": _GRAPH,
    "cudaLaunchKernel": _BY_DIM3,
    "cudaLaunchCooperativeKernel": _BY_DIM3,
    "cudaLaunchKernelExC": _BY_CONFIG,
    "cudaGraphLaunch": _GRAPH,
}
FUNCTIONS: Final = tuple(name + tail for name in _FORMS for tail in ("", "_ptsz"))
"""Functions that launch."""

LOOKUPS: Final = ("cuModuleGetFunction", "cuLibraryGetKernel")
"""Functions that give the handle of a kernel for its name, through their first argument."""


class Called(NamedTuple):
    """A call.

    Attributes:
        handle: of the kernel; of a lookup, where the handle will be put.
        name: of the kernel, where a lookup says it.
        stack: the stack pointer at the function's first instruction.
        mono_ns: CLOCK_MONOTONIC.
    """

    function: str
    pid: int
    tid: int
    mono_ns: int
    stack: int
    handle: int
    grid: Dim3 | None = None
    block: Dim3 | None = None
    shared_bytes: int = 0
    stream: int = 0
    name: bytes = b""


def arguments(function: str) -> tuple[str, ...]:
    """What the kernel is asked to read at a call (Documentation/trace/uprobetracer.rst)."""
    return _LOOKUP if function in LOOKUPS else _FORMS[function.removesuffix("_ptsz")]


def called(function: str, sample: Sample, read: Mapping[str, int | bytes]) -> Called:
    """The call that a sample is of.

    Args:
        function: which was called.
        sample: at its first instruction.
        read: the fields of its event.
    """
    by = (function, sample.pid, sample.tid, sample.mono_ns, sample.registers[_POINTER])

    def number(name: str) -> int:
        value = read.get(name, 0)
        return value if isinstance(value, int) else 0

    if function in LOOKUPS:
        name = read.get("name", b"")
        text = name.partition(b"\0")[0] if isinstance(name, bytes) else b""
        return Called(*by, number("out"), name=text)
    form = _FORMS[function.removesuffix("_ptsz")]
    if form is _GRAPH:
        return Called(*by, number("f"), stream=number("stream"))
    if form is _BY_DIM3:
        grid = (number("gxy") & 0xFFFFFFFF, number("gxy") >> 32, number("gz"))
        block = (number("bxy") & 0xFFFFFFFF, number("bxy") >> 32, number("bz"))
    else:
        grid = (number("gx"), number("gy"), number("gz"))
        block = (number("bx"), number("by"), number("bz"))
    return Called(*by, number("f"), grid, block, number("shared"), number("stream"))


def is_nested(outer: Called, inner: Called) -> bool:
    """Whether a call is how the runtime carries out the one before it in the same thread: K1.

    It stands deeper in the stack, launches the same, and the outer one is the runtime's, the inner the driver's.
    """
    return (
        outer.function.startswith("cuda")
        and not inner.function.startswith("cuda")
        and inner.stack < outer.stack
        and (outer.grid, outer.block, outer.shared_bytes) == (inner.grid, inner.block, inner.shared_bytes)
    )
