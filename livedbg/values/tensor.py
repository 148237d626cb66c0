"""Element types, and tensors that are read piece by piece, from a dump's payload or from memory.

Each type has one name; `--as` and manifests may use those of numpy, ml_dtypes and the usual frameworks too. FP4E2M1
keeps two elements in a byte, low half first, and its shape counts bytes, as `float4_e2m1fn_x2` does. Tolerances are
those of frameworks' own tests (`assert_close`) where they have one; one step of the format for 8 and 4 bit floats;
nothing for integers, booleans and scale exponents.

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
from typing import Final, Protocol, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from livedbg.linux import target_files
from livedbg.model.errors import SourceError
from livedbg.text.sanitize import clean_line

Array: TypeAlias = npt.NDArray[np.generic]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ElementType:
    """The type of one element.

    Attributes:
        numpy: dtype of a decoded array; a byte for each element of packed types.
        packed: elements in a byte: 2 for 4-bit types, else 1.
        kind: `float`, `int`, `bool`, or `raw` for a name that is not known.
        smallest_normal: smaller numbers are denormal; 0 if there are none.
    """

    name: str
    numpy: np.dtype[np.generic]
    packed: int = 1
    kind: str = "int"
    rtol: float = 0.0
    atol: float = 0.0
    smallest_normal: float = 0.0

    def bytes_for(self, count: int) -> int:
        """Return the bytes that `count` elements take."""
        return (count + self.packed - 1) // self.packed * (self.numpy.itemsize if self.packed == 1 else 1)

    def elements_in(self, size: int) -> int:
        """Return the whole elements in `size` bytes."""
        return size * self.packed if self.packed > 1 else size // self.numpy.itemsize

    def logical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape in elements, for a shape that counts bytes of packed elements."""
        return (*shape[:-1], shape[-1] * self.packed) if shape and self.packed > 1 else shape

    def decode(self, data: bytes) -> Array:
        """Return the elements of some bytes; bytes behind the last whole element are left out."""
        if self.packed == 1:
            return np.frombuffer(data, self.numpy, len(data) // self.numpy.itemsize)
        halves = np.frombuffer(data, np.uint8)
        both = np.empty(2 * len(halves), np.uint8)
        both[0::2] = halves & 0xF
        both[1::2] = halves >> 4
        if self.name == "INT4":  # sign-extended: what ml_dtypes keeps
            both = ((both ^ 8) - 8).astype(np.uint8)
        return both.view(self.numpy)


def _float(name: str, kind: type, rtol: float, atol: float, exponent: int | None, *, packed: int = 1) -> ElementType:
    smallest = 0.0 if exponent is None else 2.0**exponent
    return ElementType(name, np.dtype(kind), packed, "float", rtol, atol, smallest)


_TYPES: Final = {
    kind.name: kind
    for kind in (
        _float("FLOAT32", np.float32, 1.3e-6, 1e-5, -126),
        _float("FLOAT16", np.float16, 1e-3, 1e-5, -14),
        ElementType("INT32", np.dtype(np.int32)),
        ElementType("INT16", np.dtype(np.int16)),
        ElementType("INT8", np.dtype(np.int8)),
        ElementType("UINT8", np.dtype(np.uint8)),
        _float("BFLOAT16", ml_dtypes.bfloat16, 1.6e-2, 1e-5, -126),
        ElementType("INT64", np.dtype(np.int64)),
        ElementType("UINT64", np.dtype(np.uint64)),
        ElementType("UINT16", np.dtype(np.uint16)),
        ElementType("UINT32", np.dtype(np.uint32)),
        ElementType("BOOL", np.dtype(np.uint8), kind="bool"),  # a byte that is neither 0 nor 1 shall be seen
        _float("FP8E4M3FN", ml_dtypes.float8_e4m3fn, 0.125, 2**-9, -6),
        _float("FP8E8M0", ml_dtypes.float8_e8m0fnu, 0.0, 0.0, None),
        _float("FP4E2M1", ml_dtypes.float4_e2m1fn, 0.5, 0.5, 0, packed=2),
        # not written by the runtime; for `--as` and for golden files
        _float("FLOAT64", np.float64, 1e-7, 1e-7, -1022),
        _float("FP8E5M2", ml_dtypes.float8_e5m2, 0.25, 2**-16, -14),
        ElementType("INT4", np.dtype(ml_dtypes.int4), 2),
        ElementType("UINT4", np.dtype(ml_dtypes.uint4), 2),
    )
}
_OTHER_NAMES: Final = {
    "BF16": "BFLOAT16",
    "F16": "FLOAT16",
    "FP16": "FLOAT16",
    "F32": "FLOAT32",
    "FP32": "FLOAT32",
    "F64": "FLOAT64",
    "FLOAT8_E4M3FN": "FP8E4M3FN",
    "FLOAT8_E5M2": "FP8E5M2",
    "FLOAT8_E8M0FNU": "FP8E8M0",
    "FLOAT4_E2M1FN": "FP4E2M1",
    "FLOAT4_E2M1FN_X2": "FP4E2M1",
}


def known_types() -> tuple[str, ...]:
    """Return all type names in lower case."""
    return tuple(name.lower() for name in _TYPES)


def element_type(name: str) -> ElementType | None:
    """Return the type of a name in any case, or None."""
    upper = name.upper()
    return _TYPES.get(_OTHER_NAMES.get(upper, upper))


def raw_bytes(name: str) -> ElementType:
    """Return a type that shows values of an unknown type as bytes."""
    return ElementType(name, np.dtype(np.uint8), kind="raw")


def of_numpy(dtype: np.dtype[np.generic]) -> ElementType:
    """Return the type of an array's elements.

    Raises:
        ValueError: no element type of tensors.
    """
    if dtype == np.dtype(np.bool_):
        return _TYPES["BOOL"]
    for kind in _TYPES.values():
        if kind.numpy == dtype and kind.kind != "bool":
            return kind
    raise ValueError(f"elements of type {dtype} can't be compared")


def as_floats(block: Array) -> Floats:
    """Return the elements as 64-bit floats; integers beyond 2^53 are rounded."""
    return block.astype(np.float64)


def exact(block: Array) -> Array:
    """Return the elements as they are if they are integers, else as 64-bit floats."""
    return block if block.dtype.kind in "iu" else as_floats(block)


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


@dataclass(slots=True)
class Sample(Stored):
    """A large tensor of which `blocks` gives only evenly spread pieces."""

    pieces: int = 64
    length: int = 1 << 15

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


def index_of(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of the element that is the `place`th in row-major order."""
    index = []
    for size in reversed(shape):
        place, at = divmod(place, size) if size else (place, 0)
        index.append(at)
    return tuple(reversed(index))
