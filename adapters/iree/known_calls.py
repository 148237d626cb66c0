"""Descriptions of the calls by which IREE creates a failing status, and catch presets of IREE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from livedbg.model.catchpoints import Moment, Preset
from livedbg.probes.launch_calls import Describe, failure, source_line

_CODES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED", "DEFERRED", "INCOMPATIBLE",
)  # fmt: skip
"""iree_status_code_e (runtime/src/iree/base/status.h)."""


def _status(numbers: Sequence[int], texts: Sequence[str]) -> str:
    """Describe iree_status_allocate(code, file, line, message), and _f with a format for the message."""
    code = numbers[0] & 0x1F  # IREE_STATUS_CODE_MASK
    name = _CODES[code] if code < len(_CODES) else str(code)
    return failure(name, texts[3], source_line(texts[1], numbers[2]))


KNOWN_CALLS: Final[Mapping[str, Describe]] = MappingProxyType(
    {"iree_status_allocate": _status, "iree_status_allocate_f": _status}
)


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "iree": Preset(
            moment=Moment.CALL,
            patterns=("iree_status_allocate", "iree_status_allocate_f"),
            about="IREE statuses other than OK, where they are created",
        ),
    }
)
