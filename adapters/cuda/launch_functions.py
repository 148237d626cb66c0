"""CUDA's launch functions, and how to read grid, block, stream and kernel from a call; descriptions of error calls;
catch presets.

Arguments are read by the System V ABI for x86-64 (3.2.3: a `dim3` of 12 bytes takes two registers; the stack
begins at 8(%rsp)). Signatures and structs: CUDA's cuda.h (cuLaunchKernel, CUlaunchConfig) and cuda_runtime_api.h with
driver_types.h (cudaLaunchKernel, cudaLaunchConfig_t), CUDA 12. A `_ptsz` in a name means the per-thread default stream.
The runtime's functions take the address of a host function that nvcc generates and that has the kernel's name (CUDA C++
Programming Guide, "Compilation with NVCC").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from livedbg.linux.registers import SP
from livedbg.model.catchpoints import Moment, Preset
from livedbg.probes.launch_calls import Describe, LaunchCall, LaunchFunctions
from livedbg.probes.perf_records import Sample
from livedbg.probes.tracefs import pieces

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


_CODES: Final = {
    0: "no error", 1: "invalid value", 2: "out of memory", 3: "not initialized", 4: "being shut down",
    35: "insufficient driver", 98: "invalid device function", 100: "no device", 101: "invalid device",
    200: "invalid image", 201: "invalid context", 209: "no binary for this GPU", 214: "uncorrectable ECC error",
    217: "peer access not supported", 218: "invalid PTX", 222: "unsupported PTX version", 300: "invalid source",
    304: "operating system", 400: "invalid handle", 500: "not found", 600: "not ready", 700: "illegal address",
    701: "launch out of resources", 702: "launch timeout", 704: "peer access already enabled",
    709: "context is destroyed", 710: "assert", 714: "hardware stack error", 715: "illegal instruction",
    716: "misaligned address", 717: "invalid address space", 718: "invalid program counter", 719: "launch failure",
    720: "cooperative launch too large", 800: "not permitted", 801: "not supported", 802: "system not ready",
    803: "system driver mismatch", 900: "stream capture unsupported", 901: "stream capture invalidated",
    999: "unknown",
}  # fmt: skip
"""cudaError and CUresult, which have had the same numbers since CUDA 10.1 (driver_types.h, cuda.h)."""


def _error(numbers: Sequence[int], texts: Sequence[str]) -> str:
    """Describe cudaGetErrorString(code) and similar calls."""
    code = numbers[0] & 0xFFFFFFFF
    return f"{code} ({_CODES[code]})" if code in _CODES else str(code)


_ERROR_TEXTS: Final = ("cudaGetErrorString", "cudaGetErrorName", "cuGetErrorString", "cuGetErrorName")

KNOWN_CALLS: Final[Mapping[str, Describe]] = MappingProxyType(dict.fromkeys(_ERROR_TEXTS, _error))


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "cuda": Preset(
            moment=Moment.CALL,
            patterns=_ERROR_TEXTS,
            about="CUDA errors, where the program asks for their text",
        ),
    }
)
