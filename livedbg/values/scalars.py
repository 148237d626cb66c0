"""Scalar arguments compared: numbers that the manifest holds as text.

The writer prints a FLOAT32 with six digits, NaN as null, infinities as `$Inf` and `-$Inf` (simpler,
args_dump_collector.cpp), and until June 2026 all scalars as the UINT64 of their bits.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from livedbg.values.compare import Difference, Tolerance
from livedbg.values.dtypes import element_type
from livedbg.values.manifest import Entry

__all__ = ["compare_scalars", "scalar_value"]

_PRINTED: Final = 1e-5  # six digits


def scalar_value(entry: Entry) -> float | int | None:
    """A scalar as a number; None where the manifest says nothing that is one."""
    value = entry.value
    if isinstance(value, str):
        return {"$Inf": math.inf, "-$Inf": -math.inf}.get(value)
    if value is None:
        return math.nan if entry.dtype.upper() == "FLOAT32" else None
    return int(value) if isinstance(value, bool) else value


def compare_scalars(entry: Entry, other: Entry, tolerance: Tolerance) -> Difference:
    """Compare two scalars; one that is only known by its bits is read as the other's type."""
    actual, expected = scalar_value(entry), scalar_value(other)
    if actual is None or expected is None:
        return Difference(total=1)
    if entry.dtype != other.dtype:
        actual, expected = _as_type(actual, entry, other), _as_type(expected, other, entry)
    found = Difference(compared=1, total=1)
    kind = element_type(entry.dtype)
    rtol, atol = (tolerance.of(kind) if kind is not None else (0.0, 0.0)) if isinstance(actual, float) else (0.0, 0.0)
    near = math.isclose(actual, expected, rel_tol=max(rtol, _PRINTED if isinstance(actual, float) else 0), abs_tol=atol)
    if near or (math.isnan(actual) and math.isnan(expected)):
        return found
    found.outside, found.first, found.actual, found.expected = 1, (), actual, expected
    if math.isfinite(actual) and math.isfinite(expected):
        found.largest = abs(actual - expected)
        found.relative = abs(actual - expected) / abs(expected) if expected else 0.0
    return found


def _as_type(value: float | int, entry: Entry, other: Entry) -> float | int:
    """A value that stands as bits, as what the other says it is."""
    if entry.dtype == "UINT64" and isinstance(value, int) and 0 <= value < 1 << 32:
        if other.dtype == "FLOAT32":
            return float(struct.unpack("<f", struct.pack("<I", value))[0])
        if other.dtype == "INT32":
            return int(struct.unpack("<i", struct.pack("<I", value))[0])
    return value
