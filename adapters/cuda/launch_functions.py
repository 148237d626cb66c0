"""CUDA's functions that launch, and what is read of a call: grid, block, stream, kernel.

Arguments are where the System V ABI for x86-64 has them (3.2.3: a `dim3` of 12 bytes takes two registers; the stack
begins at 8(%rsp)). Signatures and structs: CUDA's cuda.h (cuLaunchKernel, CUlaunchConfig) and cuda_runtime_api.h with
driver_types.h (cudaLaunchKernel, cudaLaunchConfig_t), CUDA 12. A `_ptsz` in a name means the per-thread default stream.
The runtime's functions take the address of a host function that nvcc makes and that has the kernel's name (CUDA C++
Programming Guide, "Compilation with NVCC").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from livedbg.linux.registers import SP
from livedbg.probes.fetch import pieces
from livedbg.probes.launch_calls import LaunchCall, LaunchFunctions
from livedbg.probes.perf_records import Sample

_NAME: Final = 256  # bytes of a kernel's name that are fetched

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
_LOOKUP: Final = ("out=%di:x64", *pieces("name", "%dx", _NAME))

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


def _call(function: str, sample: Sample, read: Mapping[str, int | bytes]) -> LaunchCall:
    by = (function, sample.pid, sample.tid, sample.mono_ns, sample.registers[SP])

    def number(name: str) -> int:
        value = read.get(name, 0)
        return value if isinstance(value, int) else 0

    if function in LOOKUPS:
        name = read.get("name", b"")
        text = name.partition(b"\0")[0] if isinstance(name, bytes) else b""
        return LaunchCall(*by, number("out"), name=text, is_lookup=True)
    form = _FORMS[function.removesuffix("_ptsz")]
    by_runtime = function.startswith("cuda")
    if form is _GRAPH:
        return LaunchCall(*by, number("f"), stream=number("stream"), by_runtime=by_runtime)
    if form is _BY_DIM3:
        grid = (number("gxy") & 0xFFFFFFFF, number("gxy") >> 32, number("gz"))
        block = (number("bxy") & 0xFFFFFFFF, number("bxy") >> 32, number("bz"))
    else:
        grid = (number("gx"), number("gy"), number("gz"))
        block = (number("bx"), number("by"), number("bz"))
    return LaunchCall(*by, number("f"), grid, block, number("shared"), number("stream"), by_runtime=by_runtime)


CUDA_LAUNCHES: Final = LaunchFunctions(
    arguments={name: _FORMS[name.removesuffix("_ptsz")] for name in FUNCTIONS} | dict.fromkeys(LOOKUPS, _LOOKUP),
    lookups=frozenset(LOOKUPS),
    call=_call,
)
