"""Tensors that are read piece by piece: out of a dump's payload, or out of memory.

Invariants:
    tensor.T1. `block` reads at most what was asked for; nothing is read before.
    tensor.T2. `count` elements are there, at most `total`; a shape that promises more is no error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from livedbg.values.dtypes import Array, ElementType, of_numpy
from livedbg.values.payload import Payload

BLOCK: Final = 1 << 20
"""Elements that are read together."""


class Tensor(Protocol):
    """Elements in row-major order."""

    @property
    def element(self) -> ElementType: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def count(self) -> int: ...

    @property
    def total(self) -> int: ...

    def block(self, first: int, count: int) -> Array: ...


@dataclass(slots=True)
class Stored:
    """A tensor in a payload.

    Attributes:
        offset: of its first byte.
        size: bytes that are there for it.
        total: elements that its shape has.
        count: elements that are there.
    """

    payload: Payload
    offset: int
    size: int
    shape: tuple[int, ...]
    element: ElementType
    total: int = field(init=False)
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = math.prod(self.shape)
        self.count = min(self.total, self.element.elements_in(self.size))

    def block(self, first: int, count: int) -> Array:
        """Elements from `first` on, as far as they are there."""
        count = max(0, min(count, self.count - first))
        skip = first % self.element.packed
        begin = self.element.bytes_for(first - skip)
        data = self.payload.read(self.offset + begin, self.element.bytes_for(count + skip))
        return self.element.decode(data)[skip : skip + count]


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor in memory."""

    array: Array
    element: ElementType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "element", of_numpy(self.array.dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def total(self) -> int:
        return self.array.size

    @property
    def count(self) -> int:
        return self.array.size

    def block(self, first: int, count: int) -> Array:
        """Elements from `first` on."""
        flat = self.array.reshape(-1)[first : first + count]
        return flat.view(np.uint8) if flat.dtype == np.bool_ else flat


@dataclass(frozen=True, slots=True)
class Sample:
    """A large tensor of which `blocks` gives pieces only that are spread evenly.

    Attributes:
        pieces: how many.
        length: elements of each.
    """

    whole: Tensor
    pieces: int = 64
    length: int = 1 << 15

    @property
    def element(self) -> ElementType:
        return self.whole.element

    @property
    def shape(self) -> tuple[int, ...]:
        return self.whole.shape

    @property
    def total(self) -> int:
        return self.whole.total

    @property
    def count(self) -> int:
        return self.whole.count

    def block(self, first: int, count: int) -> Array:
        """Elements from `first` on, of the whole tensor."""
        return self.whole.block(first, count)

    def places(self) -> Iterator[tuple[int, int]]:
        """Where each piece begins, and its length; the first and the last element are in one."""
        last = max(0, self.count - self.length)
        for piece in range(self.pieces):
            yield last * piece // max(1, self.pieces - 1), self.length


def blocks(tensor: Tensor) -> Iterator[tuple[int, Array]]:
    """All elements that are there, or those of a sample, with the place of each block's first."""
    whole = ((first, BLOCK) for first in range(0, tensor.count, BLOCK))
    for first, length in tensor.places() if isinstance(tensor, Sample) else whole:
        block = tensor.block(first, length)
        if not len(block):
            return
        yield first, block


def window(tensor: Tensor, row: int, rows: int, column: int, columns: int) -> list[Array]:
    """A cut-out for a screen: the leading dimensions are rows below each other, the last is the columns.

    Returns:
        A piece of each row; shorter, or none, where the tensor ends.
    """
    width = tensor.shape[-1] if tensor.shape else 1
    wanted = max(0, min(columns, width - column))
    return [
        tensor.block(line * width + column, wanted)
        for line in range(row, row + rows)
        if wanted and line * width + column < tensor.count
    ]


def index_of(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element that is the `place`th in row-major order."""
    index = []
    for size in reversed(shape):
        place, at = divmod(place, size) if size else (place, 0)
        index.append(at)
    return tuple(reversed(index))
