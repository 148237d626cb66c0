"""Values as numbers: printed as numpy prints them, of a large tensor its edges only.

At most 7 places of a dimension are read, so that a tensor of any size is printed at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from livedbg.values.dtypes import ElementType
from livedbg.values.statistics import Statistics
from livedbg.values.tensor import Tensor

_WHOLE: Final = 200
_EDGE: Final = 3
_CELLS: Final = 10_000
_DIGITS: Final = {"FLOAT64": 10, "FLOAT32": 6, "FLOAT16": 4, "BFLOAT16": 3}


def number_text(value: float, digits: int = 6) -> str:
    """A number, short."""
    return str(value) if isinstance(value, int) else f"{value:.{digits}g}"


def element_text(value: object, element: ElementType) -> str:
    """One element, with the digits that its type has."""
    if element.kind == "raw":
        return f"{int(str(value)):02x}"
    if element.kind == "float":
        return number_text(float(str(value)), _DIGITS.get(element.name, 3))
    return str(value)


def number_lines(tensor: Tensor, width: int = 100, whole: int = _WHOLE) -> Iterator[str]:
    """The values in brackets, as numpy prints them; dots stand for what is left out, `?` for what is not there."""
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
    """Statistics as words and texts."""
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
