"""nvFuser's data types: as its IR prints them, as its Python bindings and torch call them.

Source: NVIDIA/Fuser csrc/type.cpp (`data_type2string`), python/python_direct/enum.cpp, csrc/type.cpp
(`aten_to_data_type`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["DTYPES", "Dtype", "dtype_of_torch"]


class Dtype(NamedTuple):
    """A data type.

    Attributes:
        bindings: member of `DataType`.
        torch: name in torch, or "" where torch has none.
        kind: `float`, `int`, `bool` or `complex`.
    """

    bindings: str
    torch: str
    kind: str


DTYPES: Final = {
    "float": Dtype("Float", "float32", "float"),
    "double": Dtype("Double", "float64", "float"),
    "__half": Dtype("Half", "float16", "float"),
    "__bfloat": Dtype("BFloat16", "bfloat16", "float"),
    "__e4m3": Dtype("Float8_e4m3fn", "float8_e4m3fn", "float"),
    "__e5m2": Dtype("Float8_e5m2", "float8_e5m2", "float"),
    "__e8m0": Dtype("Float8_e8m0fnu", "float8_e8m0fnu", "float"),
    "bool": Dtype("Bool", "bool", "bool"),
    "int": Dtype("Int32", "int32", "int"),
    "int64_t": Dtype("Int", "int64", "int"),
    "uint64_t": Dtype("UInt64", "uint64", "int"),
    "nvfuser_index_t": Dtype("Int", "int64", "int"),
    "std::complex<float>": Dtype("ComplexFloat", "complex64", "complex"),
    "std::complex<double>": Dtype("ComplexDouble", "complex128", "complex"),
}
"""By the name in the IR."""

_C10: Final = {
    "c10::BFloat16": "__bfloat",
    "c10::Half": "__half",
    "long": "int64_t",
    "long int": "int64_t",
    "c10::complex<float>": "std::complex<float>",
    "c10::complex<double>": "std::complex<double>",
}


def dtype_of_torch(name: str) -> str:
    """The IR's name of a type as a list of arguments prints it (`c10::BFloat16`)."""
    return _C10.get(name, name)
