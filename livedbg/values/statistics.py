"""What a tensor's values are like: counts, extremes, mean, a histogram; block by block.

Mean and variance are merged over blocks as Chan, Golub and LeVeque have it ("Updating Formulae and a Pairwise
Algorithm for Computing Sample Variances", 1979).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from livedbg.values.dtypes import Array, ElementType, as_floats
from livedbg.values.tensor import Tensor, blocks, index_of

BINS: Final = 16


@dataclass(slots=True)
class Statistics:
    """What was counted.

    Attributes:
        count: elements that are there.
        total: elements that the shape has.
        minimum: of the finite elements; None where there is none.
        mean: of the finite elements; None where it is no double.
        std: of the finite elements as a whole population, as numpy's; None where it is no double.
        denormals: numbers that are nearer to 0 than the type's smallest normal number.
        first_nan: index of the first NaN.
    """

    count: int = 0
    total: int = 0
    finite: int = 0
    minimum: int | float | None = None
    maximum: int | float | None = None
    mean: float | None = None
    std: float | None = None
    zeros: int = 0
    nans: int = 0
    infinities: int = 0
    denormals: int = 0
    first_nan: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many finite elements lie between neighbouring edges; the last bin holds its upper edge."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


def statistics(tensor: Tensor) -> Statistics:
    """Compute statistics of every element, in one pass."""
    found = Statistics(total=tensor.total)
    squares = mean = 0.0
    for first, block in blocks(tensor):
        values = as_floats(block)
        good = values
        found.count += len(block)
        if tensor.element.kind == "float":
            _count_oddities(found, tensor, first, values)
            sound = np.isfinite(values)
            if not sound.all():
                good, block = values[sound], block[sound]  # noqa: PLW2901
        found.zeros += int(np.count_nonzero(values == 0))
        if not len(good):
            continue
        _extremes(found, block, tensor.element)
        count = len(good)
        with np.errstate(over="ignore", invalid="ignore"):  # of doubles the squares may be none
            part = float(good.mean())
            step = part - mean
            squares += float(((good - part) ** 2).sum()) + step * step * found.finite * count / (found.finite + count)
        found.finite += count
        mean += step * count / found.finite
    if found.finite and math.isfinite(mean):
        found.mean = mean
        found.std = math.sqrt(squares / found.finite) if math.isfinite(squares) else None
    return found


def _count_oddities(found: Statistics, tensor: Tensor, first: int, values: Array) -> None:
    nans = np.isnan(values)
    if nans.any():
        if found.first_nan is None:
            found.first_nan = index_of(first + int(nans.argmax()), tensor.shape)
        found.nans += int(np.count_nonzero(nans))
    found.infinities += int(np.count_nonzero(np.isinf(values)))
    size = np.abs(values)
    found.denormals += int(np.count_nonzero((size > 0) & (size < tensor.element.smallest_normal)))


def _extremes(found: Statistics, block: Array, element: ElementType) -> None:
    exact = block if block.dtype.kind in "iu" else as_floats(block)
    low, high = exact.min().item(), exact.max().item()
    if element.kind == "float":
        low, high = float(low), float(high)
    found.minimum = low if found.minimum is None else min(found.minimum, low)
    found.maximum = high if found.maximum is None else max(found.maximum, high)


def histogram(tensor: Tensor, known: Statistics | None = None, bins: int = BINS) -> Histogram | None:
    """How the finite elements are spread; None where there is none."""
    known = known or statistics(tensor)
    if known.minimum is None or known.maximum is None:
        return None
    low, high = float(known.minimum), float(known.maximum)
    if low == high:
        return Histogram((low, high), (known.finite,))
    counts = np.zeros(bins, np.int64)
    if math.isfinite(high - low):
        edges = np.histogram_bin_edges(np.array([low, high]), bins, (low, high))
    else:  # the width of a double's whole range is no double
        edges = np.linspace(low / 2, high / 2, bins + 1) * 2
    for _, block in blocks(tensor):
        values = as_floats(block)
        counts += np.histogram(values[np.isfinite(values)], edges)[0]
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()))
