"""Values as pictures of characters: a histogram, a heat map; as large as they are asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from livedbg.values.dtypes import Floats, as_floats
from livedbg.values.numbers import number_text
from livedbg.values.statistics import Histogram
from livedbg.values.tensor import Tensor, blocks

PLAIN_SHADES: Final = " .:-=+*#%@"
"""The shades of a heat map in ASCII, the least first."""
_BEYOND: Final = math.inf
_SHADES: Final = (PLAIN_SHADES, " ░▒▓█")


def histogram_lines(found: Histogram, width: int = 60, ascii_only: bool = False) -> Iterator[str]:
    """A line a bin: its lower edge, a bar, its count."""
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
    """Means of cells.

    Attributes:
        lines: one character a cell.
        legend: what the characters mean.
    """

    lines: tuple[str, ...]
    legend: str


def heat_map(tensor: Tensor, width: int = 64, height: int = 16, ascii_only: bool = False) -> HeatMap:
    """The mean of each cell as a shade; rows are all leading dimensions, columns the last.

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
    """Columns and rows that the elements are laid out in."""
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
