"""Parse the output of a module compiled with `--iree-flow-trace-dispatch-tensors`: tensors around each dispatch.

    === main_dispatch_0::main_dispatch_0_matmul_16x16_f32 inputs ===
    16x16xf32=[1 1 …][…]…

A line for each tensor follows, then an empty one.
"""

from __future__ import annotations

import math
import re
from typing import Final

from msgspec import Struct

from livedbg.text.patterns import lazy_re

_HEADER: Final = lazy_re(r"^=== (?P<exe>[^:\s]+)::(?P<fn>[^:\s]+)(?:::(?P<ordinal>\d+))? (?P<io>inputs|outputs) ===$")
_TENSOR: Final = lazy_re(r"^(?P<shape>(?:\d++x)*+)(?P<type>(?:b?f|tf|[su]?i|ui)\d+\w{0,16})=(?P<values>.*)$", re.DOTALL)
_MOST: Final = 1 << 20  # characters of values that are read


class Header(Struct, frozen=True):
    """The first line of a block: its dispatch, and whether inputs or outputs follow."""

    dispatch: str
    inputs: bool


class TracedTensor(Struct, frozen=True):
    """One tensor of a block.

    Attributes:
        read: number of values read: a log keeps a part of a long line.
        nans, infinities: among these.
        first_nan: index of the first NaN.
    """

    shape: tuple[int, ...]
    type: str
    read: int = 0
    nans: int = 0
    infinities: int = 0
    least: float | None = None
    most: float | None = None
    mean: float | None = None
    first_nan: tuple[int, ...] = ()

    @property
    def told(self) -> str:
        """Return shape, type and statistics as text."""
        name = "x".join([*map(str, self.shape), self.type])
        numbers = [
            f"{word} {number:g}"
            for word, number in (("least", self.least), ("most", self.most), ("mean", self.mean))
            if number is not None
        ]
        odd = [f"{count:,} {word}" for count, word in ((self.nans, "NaN"), (self.infinities, "infinite")) if count]
        part = f"of the first {self.read:,} values" if 0 < self.read < math.prod(self.shape) else ""
        return f"{name}: {', '.join([*odd, *numbers, *filter(None, (part,))])}" if odd or numbers else name


def header(line: str) -> Header | None:
    """Return the block header in a line, or None."""
    match = _HEADER.match(line.rstrip())
    return Header(match["fn"], match["io"] == "inputs") if match is not None else None


def tensor(line: str) -> TracedTensor | None:
    """Return the tensor in a line with statistics, or None."""
    match = _TENSOR.match(line.rstrip("\n"))
    if match is None:
        return None
    import numpy as np  # most logs have no such line

    from livedbg.values.statistics import statistics
    from livedbg.values.tensor import Held

    shape = tuple(int(size) for size in match["shape"].split("x") if size)
    text = match["values"]
    words = text[:_MOST].translate(_SPACES).split()
    wanted = math.prod(shape)
    if words and (len(words) < wanted or len(text) > _MOST):
        words.pop()  # cut in the middle, perhaps
    try:
        values = np.array(words[:wanted], np.float64)
    except ValueError:
        return TracedTensor(shape, match["type"])
    if not len(values):
        return TracedTensor(shape, match["type"])
    found = statistics(Held(values))
    least, most = (float(one) if one is not None else None for one in (found.minimum, found.maximum))
    place = found.first_nan[0] if found.first_nan else 0
    first = tuple(int(one) for one in np.unravel_index(place, shape)) if found.nans and shape else ()
    return TracedTensor(shape, match["type"], len(values), found.nans, found.infinities, least, most, found.mean, first)


_SPACES: Final = str.maketrans("[]", "  ")
