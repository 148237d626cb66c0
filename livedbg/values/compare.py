"""Compares two tensors within a tolerance, block by block.

An element is inside when `|actual - expected| <= atol + rtol * |expected|` (as numpy.isclose has it), when both are
NaN, or when both are the same infinity. Unless it is given, the tolerance is that of the looser of the two types
(livedbg.values.tensor).

Scalar arguments are numbers that a manifest holds as text: floats with six digits, NaN as null, infinities as `$Inf`
and `-$Inf`, or only the UINT64 of their bits.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from livedbg.values.dump import Entry
from livedbg.values.tensor import BLOCK, Array, ElementType, Floats, Tensor, as_floats, element_type, exact, index_of

_PRINTED: Final = 1e-5  # six digits


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerances; None for the defaults of the types."""

    rtol: float | None = None
    atol: float | None = None

    def of(self, *elements: ElementType) -> tuple[float, float]:
        """Return relative and absolute tolerance between elements of these types."""
        rtol = max(element.rtol for element in elements) if self.rtol is None else self.rtol
        atol = max(element.atol for element in elements) if self.atol is None else self.atol
        return rtol, atol


@dataclass(slots=True)
class Difference:
    """The difference of two tensors.

    Attributes:
        compared: elements that both have.
        total: elements of the shape.
        outside: elements beyond the tolerance.
        nans: elements outside that are NaN in one only.
        first: index of the first element outside; `actual` and `expected` are its values.
        largest: greatest finite distance of elements outside.
        relative: greatest finite distance as a share of the expected value.
        reason: why they can't be compared, or "".
    """

    compared: int = 0
    total: int = 0
    outside: int = 0
    nans: int = 0
    first: tuple[int, ...] | None = None
    actual: float | int | None = None
    expected: float | int | None = None
    largest: float = 0.0
    relative: float = 0.0
    reason: str = ""

    @property
    def differs(self) -> bool:
        """True if the values certainly differ."""
        return self.outside > 0 or bool(self.reason)


def tolerance_of(elements: set[ElementType], tolerance: Tolerance) -> str:
    """Return the tolerance of some types in words."""
    words = []
    for element in sorted(elements, key=lambda element: element.name):
        rtol, atol = tolerance.of(element)
        words.append(f"{element.name} " + (f"rtol {rtol:g} atol {atol:g}" if rtol or atol else "exact"))
    return ", ".join(words)


def outside(actual: Array, expected: Array, rtol: float, atol: float) -> npt.NDArray[np.bool_]:
    """Return which elements are beyond a tolerance."""
    if not rtol and not atol and actual.dtype.kind in "iu" and actual.dtype == expected.dtype:
        return np.not_equal(actual, expected)
    one, other = as_floats(actual), as_floats(expected)
    wrong: npt.NDArray[np.bool_] = ~(_near(one, other, rtol, atol) | (one == other) | (np.isnan(one) & np.isnan(other)))
    return wrong


def _near(one: Floats, other: Floats, rtol: float, atol: float) -> npt.NDArray[np.bool_]:
    with np.errstate(invalid="ignore", over="ignore"):
        near: npt.NDArray[np.bool_] = np.abs(one - other) <= atol + rtol * np.abs(other)
        return near & np.isfinite(one) & np.isfinite(other)


def compare(actual: Tensor, expected: Tensor, tolerance: Tolerance) -> Difference:
    """Compare the elements that both tensors have."""
    found = Difference(total=expected.total)
    if actual.shape != expected.shape:
        found.reason = f"shape {list(actual.shape)}, expected {list(expected.shape)}"
        return found
    if "raw" in {actual.element.kind, expected.element.kind} and actual.element.name != expected.element.name:
        found.reason = f"{actual.element.name}, expected {expected.element.name}"
        return found
    rtol, atol = tolerance.of(actual.element, expected.element)
    there = min(actual.count, expected.count)
    for first in range(0, there, BLOCK):
        one, other = actual.block(first, min(BLOCK, there - first)), expected.block(first, min(BLOCK, there - first))
        size = min(len(one), len(other))  # the file was cut meanwhile
        _add(found, first, (one[:size], other[:size]), (rtol, atol))
    if found.first is not None:
        found.first = index_of(found.first[0], expected.shape)
    return found


def _add(found: Difference, first: int, pair: tuple[Array, Array], limits: tuple[float, float]) -> None:
    found.compared += len(pair[0])
    if pair[0].dtype == pair[1].dtype and pair[0].tobytes() == pair[1].tobytes():  # the usual case
        return
    wrong = outside(*pair, *limits)
    if not wrong.any():
        return
    if found.first is None:
        at = int(wrong.argmax())
        found.first = (first + at,)
        found.actual, found.expected = (_number(side, at) for side in pair)
    one, other = as_floats(pair[0][wrong]), as_floats(pair[1][wrong])
    found.outside += len(one)
    found.nans += int(np.count_nonzero(np.isnan(one) != np.isnan(other)))
    with np.errstate(all="ignore"):
        far = np.abs(one - other)
        share = far / np.abs(other)
    found.largest = max(found.largest, float(np.max(far, initial=0, where=np.isfinite(far))))
    found.relative = max(found.relative, float(np.max(share, initial=0, where=np.isfinite(share))))


def _number(block: Array, at: int) -> float | int:
    value = exact(block[at : at + 1]).tolist()[0]
    return value if isinstance(value, int | float) else float(str(value))


def scalar_value(entry: Entry) -> float | int | None:
    """Return a scalar as a number, or None if the manifest has none."""
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
    """Reinterpret the bits of a value as the other's type."""
    if entry.dtype == "UINT64" and isinstance(value, int) and 0 <= value < 1 << 32:
        if other.dtype == "FLOAT32":
            return float(struct.unpack("<f", struct.pack("<I", value))[0])
        if other.dtype == "INT32":
            return int(struct.unpack("<i", struct.pack("<I", value))[0])
    return value
