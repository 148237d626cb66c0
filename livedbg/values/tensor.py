"""Tensors that are read piece by piece, from a dump's payload or from memory, and cancelling of such reads.

Payload is read with pread, not mapped: a run that begins anew empties the file, and a mapping of it would end this
process with SIGBUS. A thread can't be cancelled from outside: whoever reads much calls `go_on` between two pieces.

Invariants:
    tensor.T1. `block` reads at most what was asked for; nothing is read before.
    tensor.T2. `count` elements are there, at most `total`; a shape that promises more is no error.
"""

from __future__ import annotations

import errno
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from livedbg.linux import target_files
from livedbg.model.errors import SourceError
from livedbg.text.sanitize import clean_line
from livedbg.values.dtypes import Array, ElementType, of_numpy

_PIECE: Final = 1 << 26
_stops: Final[ContextVar[tuple[threading.Event, ...]]] = ContextVar("livedbg-values-stops", default=())


class GivenUp(BaseException):
    """The read was cancelled. Not an error to show; like asyncio's CancelledError, no Exception."""


@contextmanager
def until(*stops: threading.Event) -> Iterator[None]:
    """Cancel what is read inside soon after one of `stops` is set; the first means the end of everything."""
    token = _stops.set(stops)
    try:
        yield
    finally:
        _stops.reset(token)


@contextmanager
def insisting() -> Iterator[None]:
    """Cancel what is read inside at the end of everything only: it is of use to the next request, too."""
    with until(*_stops.get()[:1]):
        yield


def go_on() -> None:
    """Raise GivenUp if the read was cancelled."""
    if any(stop.is_set() for stop in _stops.get()):
        raise GivenUp


def open_regular(path: Path) -> int:
    """Open a regular file for reading, without waiting for a pipe or device.

    Raises:
        SourceError: it can't be read, or is no regular file.
    """
    try:
        return target_files.open_fd(path)
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte, which no file has
        odd = isinstance(error, OSError) and error.errno == errno.EINVAL
        why = "it is not a regular file" if odd else error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"{clean_line(str(path))} can't be read: {why}.", "", "unreadable") from None


class Payload:
    """The file that holds the values of a dump, of `size` bytes when it was opened; a run that goes on adds to them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self.open()

    def open(self) -> None:
        """Open the payload, also again after `close`. Raises as `open_regular` does."""
        self.close()
        self._fd = open_regular(self.path)
        self.size = os.fstat(self._fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the payload; fewer at its end.

        Raises:
            SourceError: the disk can't be read.
        """
        pieces = []
        while size > 0:
            go_on()
            try:
                piece = os.pread(self._fd, min(size, _PIECE), offset)
            except OSError as error:
                raise SourceError(
                    f"{clean_line(str(self.path))} can't be read: {error.strerror}.", "", "unreadable"
                ) from None
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


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
    """A tensor in a payload, of which `size` bytes are there."""

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
        """Return elements from `first` on, as far as they are there."""
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
        flat = self.array.reshape(-1)[first : first + count]
        return flat.view(np.uint8) if flat.dtype == np.bool_ else flat


@dataclass(frozen=True, slots=True)
class Sample:
    """A large tensor of which `blocks` gives only evenly spread pieces."""

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
        """Return elements of the whole tensor."""
        return self.whole.block(first, count)

    def places(self) -> Iterator[tuple[int, int]]:
        """Yield start and length of each piece; the first and the last element are in one."""
        last = max(0, self.count - self.length)
        for piece in range(self.pieces):
            yield last * piece // max(1, self.pieces - 1), self.length


def blocks(tensor: Tensor) -> Iterator[tuple[int, Array]]:
    """Yield all elements that are there, or those of a sample, each block with the index of its first element."""
    whole = ((first, BLOCK) for first in range(0, tensor.count, BLOCK))
    for first, length in tensor.places() if isinstance(tensor, Sample) else whole:
        block = tensor.block(first, length)
        if not len(block):
            return
        yield first, block


def window(tensor: Tensor, row: int, rows: int, column: int, columns: int) -> list[Array]:
    """Cut out a window: rows are all leading dimensions, columns the last; end pieces are shorter, or missing."""
    width = tensor.shape[-1] if tensor.shape else 1
    wanted = max(0, min(columns, width - column))
    return [
        tensor.block(line * width + column, wanted)
        for line in range(row, row + rows)
        if wanted and line * width + column < tensor.count
    ]


def index_of(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of the element that is the `place`th in row-major order."""
    index = []
    for size in reversed(shape):
        place, at = divmod(place, size) if size else (place, 0)
        index.append(at)
    return tuple(reversed(index))
