"""What calls of known functions mean: failures of IREE, of CUDA, of assert, in words instead of registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from livedbg.adapters.exceptions.calls import Describe

__all__ = ["KNOWN_CALLS"]

_IREE: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED", "DEFERRED", "INCOMPATIBLE",
)  # fmt: skip
"""iree_status_code_e (runtime/src/iree/base/status.h)."""

_CUDA: Final = {
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

Numbers = Sequence[int]
Texts = Sequence[str]


def _place(file: str, line: int) -> str:
    number = line & 0xFFFFFFFF
    return f"{file}:{number}" if file else f"line {number}"


def _joined(name: str, message: str, place: str) -> str:
    """Of what a process held that has ended meanwhile, only numbers are left."""
    text = ": ".join(filter(None, (name, message)))
    return f"{text} ({place})" if text else place


def _iree(numbers: Numbers, texts: Texts) -> str:
    """iree_status_allocate(code, file, line, message), and _f with a format for the message."""
    code = numbers[0] & 0x1F  # IREE_STATUS_CODE_MASK
    name = _IREE[code] if code < len(_IREE) else str(code)
    return _joined(name, texts[3], _place(texts[1], numbers[2]))


def _cuda(numbers: Numbers, texts: Texts) -> str:
    code = numbers[0] & 0xFFFFFFFF
    return f"{code} ({_CUDA[code]})" if code in _CUDA else str(code)


def _assertion(numbers: Numbers, texts: Texts) -> str:
    """__assert_fail(assertion, file, line, function): assert.h."""
    return _joined("", texts[0], ", ".join(filter(None, (_place(texts[1], numbers[2]), texts[3]))))


KNOWN_CALLS: Final[Mapping[str, Describe]] = {
    "iree_status_allocate": _iree,
    "iree_status_allocate_f": _iree,
    "cudaGetErrorString": _cuda,
    "cudaGetErrorName": _cuda,
    "cuGetErrorString": _cuda,
    "cuGetErrorName": _cuda,
    "__assert_fail": _assertion,
    "abort": lambda _numbers, _texts: "",
}
"""What a call of each of these functions means."""
