"""Statistics of a tensor's values, and the values as numbers, histogram and heat map in characters.

Mean and variance are merged over blocks as Chan, Golub and LeVeque have it ("Updating Formulae and a Pairwise Algorithm
for Computing Sample Variances", 1979).

Numbers are printed as numpy prints them, of a large tensor its edges only: at most 7 places of a dimension are read, so
that a tensor of any size is printed at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from livedbg.values.tensor import Array, ElementType, Floats, Tensor, as_floats, blocks, exact, index_of

BINS: Final = 16


@dataclass(slots=True)
class Statistics:
    """Statistics of a tensor; `minimum`, `mean` … are of the finite elements.

    Attributes:
        count: elements that are there.
        total: elements of the shape.
        minimum: None if there are no finite elements.
        mean: None if it is no double.
        std: of a whole population, as numpy's; None if it is no double.
        denormals: numbers that are nearer to 0 than the type's smallest normal number.
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
    """Number of finite elements between neighbouring edges; the last bin holds its upper edge."""

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
    values = exact(block)
    low, high = values.min().item(), values.max().item()
    if element.kind == "float":
        low, high = float(low), float(high)
    found.minimum = low if found.minimum is None else min(found.minimum, low)
    found.maximum = high if found.maximum is None else max(found.maximum, high)


def histogram(tensor: Tensor, known: Statistics | None = None, bins: int = BINS) -> Histogram | None:
    """Return the distribution of the finite elements, or None if there are none."""
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


_WHOLE: Final = 200
_EDGE: Final = 3
_CELLS: Final = 10_000
_DIGITS: Final = {"FLOAT64": 10, "FLOAT32": 6, "FLOAT16": 4, "BFLOAT16": 3}


def number_text(value: float, digits: int = 6) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{digits}g}"


def element_text(value: object, element: ElementType) -> str:
    """Return one element, with the digits that its type has."""
    if element.kind == "raw":
        return f"{int(str(value)):02x}"
    if element.kind == "float":
        return number_text(float(str(value)), _DIGITS.get(element.name, 3))
    return str(value)


def number_lines(tensor: Tensor, width: int = 100, whole: int = _WHOLE) -> Iterator[str]:
    """Yield the values in brackets, as numpy prints them; `...` marks omitted values, `?` missing ones."""
    cut = tensor.total > whole
    edge = _EDGE
    while cut and math.prod(min(size, 2 * edge + 1) for size in tensor.shape) > _CELLS:
        edge -= 1  # many dimensions
    # numpy leaves out the middle of what is longer than two edges: it needs one place to leave out
    kept = [
        [*range(edge + 1), *range(size - edge, size)] if cut and size > 2 * edge else range(size)
        for size in tensor.shape
    ]
    shape = tuple(len(places) for places in kept)
    words = np.array(list(_words(tensor, kept)), dtype=object).reshape(shape)
    field = max((len(word) for word in words.flat), default=1)
    text = np.array2string(
        words,
        max_line_width=width,
        separator=" ",
        threshold=0 if cut else max(1, words.size),
        edgeitems=edge,
        formatter={"object": lambda word: str(word).rjust(field)},
    )
    yield from str(text).splitlines()


def _words(tensor: Tensor, kept: Sequence[Sequence[int]]) -> Iterator[str]:
    for index in itertools.product(*kept[:-1]):
        start = 0
        for at, size in zip((*index, 0), tensor.shape, strict=False):
            start = start * size + at
        for _, group in itertools.groupby(enumerate(kept[-1] if kept else [0]), lambda pair: pair[1] - pair[0]):
            run = [column for _, column in group]
            block = tensor.block(start + run[0], len(run)).tolist()
            yield from (element_text(value, tensor.element) for value in block)
            yield from "?" * (len(run) - len(block))


def statistic_pairs(found: Statistics, element: ElementType) -> list[tuple[str, str]]:
    """Return statistics as names and texts."""
    count = str(found.count) if found.count == found.total else f"{found.count} of {found.total}"
    pairs = [("count", count)]
    numbers = (("min", found.minimum), ("max", found.maximum), ("mean", found.mean), ("std", found.std))
    pairs += [(name, number_text(value)) for name, value in numbers if value is not None]
    pairs.append(("zeros", str(found.zeros)))
    if element.kind == "float":
        pairs += [("NaN", str(found.nans)), ("Inf", str(found.infinities)), ("denormal", str(found.denormals))]
    if found.first_nan is not None:
        pairs.append(("first NaN at", f"[{', '.join(map(str, found.first_nan))}]"))
    return pairs


PLAIN_SHADES: Final = " .:-=+*#%@"
"""The shades of a heat map in ASCII, the least first."""
_BEYOND: Final = math.inf
_SHADES: Final = (PLAIN_SHADES, " ░▒▓█")


def histogram_lines(found: Histogram, width: int = 60, ascii_only: bool = False) -> Iterator[str]:
    """Yield a line for each bin: its lower edge, a bar, its count."""
    most = max(found.counts, default=0)
    edges = [number_text(edge, 4) for edge in found.edges]
    field = max(map(len, edges))
    numbers = max((len(str(count)) for count in found.counts), default=1)
    room = max(1, width - field - numbers - 4)
    for place, count in enumerate(found.counts):
        bar = ("#" if ascii_only else "█") * (math.ceil(room * count / most) if most else 0)
        yield f"{edges[place]:>{field}}  {bar:<{room}}  {count:>{numbers}}"
    yield f"{edges[-1]:>{field}}"


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Means of cells, one character each."""

    lines: tuple[str, ...]
    legend: str


def heat_map(tensor: Tensor, width: int = 64, height: int = 16, ascii_only: bool = False) -> HeatMap:
    """Return the mean of each cell as a shade; rows are all leading dimensions, columns the last.

    A tensor of one dimension is folded into lines. A cell that holds NaN is `N`, one with Inf `I`.
    """
    if not tensor.total:
        return HeatMap((), "no elements")
    columns, rows = _grid(tensor, width)
    across, down = min(width, columns), min(height, rows)
    sums, counts = np.zeros(across * down), np.zeros(across * down)
    odd = np.zeros((2, across * down), np.bool_)
    for first, block in blocks(tensor):
        places = np.arange(first, first + len(block))
        cells = (places // columns * down // rows) * across + places % columns * across // columns
        values = as_floats(block)
        for number, wrong in enumerate((np.isnan(values), np.isinf(values))):
            odd[number, cells[wrong]] = True
        sound = np.isfinite(values)
        sums += np.bincount(cells[sound], values[sound], across * down)
        counts += np.bincount(cells[sound], minlength=across * down)
    means = np.divide(sums, counts, out=np.full(across * down, np.nan), where=counts > 0)
    for row in range(down):  # the last line of a folded tensor is not full; shapes may be beyond 64 bits
        begin = -(-row * rows // down) * columns
        beyond = [begin - (-column * columns // across) >= tensor.total for column in range(across)]
        means[row * across : (row + 1) * across][beyond] = _BEYOND
    return _shaded(means, odd, (down, across), ascii_only)


def _grid(tensor: Tensor, width: int) -> tuple[int, int]:
    if len(tensor.shape) < 2 or tensor.shape[-1] == 0:
        columns = max(1, min(tensor.total, max(width, math.isqrt(tensor.total))))
        return columns, max(1, math.ceil(tensor.total / columns))
    return tensor.shape[-1], max(1, tensor.total // tensor.shape[-1])


def _shaded(means: Floats, odd: npt.NDArray[np.bool_], size: tuple[int, int], plain: bool) -> HeatMap:
    shades = _SHADES[0 if plain else 1]
    sound = means[np.isfinite(means)]  # leaves _BEYOND out too
    low, high = (float(sound.min()), float(sound.max())) if len(sound) else (0.0, 0.0)
    span = high / 2 - low / 2  # the whole span of a double's range is no double
    signs = []
    for place, mean in enumerate(means.tolist()):
        if odd[0, place]:
            signs.append("N")
        elif odd[1, place]:
            signs.append("I")
        elif mean == _BEYOND:
            signs.append(" ")
        elif math.isnan(mean):
            signs.append("?")
        else:
            share = (mean / 2 - low / 2) / span if span > 0 else 0.5
            signs.append(shades[min(len(shades) - 1, int(share * len(shades)))])
    lines = tuple("".join(signs[row * size[1] : (row + 1) * size[1]]) for row in range(size[0]))
    odd_words = "".join([", N: has NaN"] * bool(odd[0].any()) + [", I: has Inf"] * bool(odd[1].any()))
    missing = ", ?: not there" if "?" in signs else ""
    ramp = f"'{shades[0]}' {number_text(low, 4)} … '{shades[-1]}' {number_text(high, 4)} (means)"
    if not len(sound):
        ramp = "no finite value"
    elif span <= 0:
        ramp = f"everything{' else' if odd_words else ''} {number_text(low, 4)}"
    legend = f"{ramp}{odd_words}{missing}"
    return HeatMap(lines, legend.replace("…", "to") if plain else legend)
