"""The element types of dumped tensors, and their tolerances.

Each type has one name; `--as` and manifests may use those of numpy, ml_dtypes and the usual frameworks too. FP4E2M1
keeps two elements in a byte, low half first, and its shape counts bytes, as `float4_e2m1fn_x2` does.

Tolerances: those of frameworks' own tests (`assert_close`) where they have one; one step of the format for 8 and 4 bit
floats; nothing for integers, booleans and scale exponents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

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
