"""What the calls mean by which a program asks for the text of a CUDA error.

Catch presets of CUDA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from livedbg.model.catchpoints import Moment, Preset
from livedbg.probes.call_text import Describe

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
    """cudaGetErrorString(code) and its kind."""
    code = numbers[0] & 0xFFFFFFFF
    return f"{code} ({_CODES[code]})" if code in _CODES else str(code)


KNOWN_CALLS: Final[Mapping[str, Describe]] = MappingProxyType(
    dict.fromkeys(("cudaGetErrorString", "cudaGetErrorName", "cuGetErrorString", "cuGetErrorName"), _error)
)


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "cuda": Preset(
            moment=Moment.CALL,
            patterns=("cudaGetErrorString", "cudaGetErrorName", "cuGetErrorString", "cuGetErrorName"),
            about="CUDA errors, where the program asks for their text",
        ),
    }
)
