"""Scalars and data types of the IR: literals, extents, known expressions; names of types in the IR and in torch.

Nothing is executed: `ast` parses an expression and a walk evaluates it; operators that are not in the small table below
make it unknown. Source of the types: NVIDIA/Fuser csrc/type.cpp (`data_type2string`, `aten_to_data_type`),
python/python_direct/enum.cpp.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

Number = float | int | bool

_LITERAL: Final = re.compile(r"[a-z_]\w{0,100}\((-?(?:inf|nan|[\d.]{1,100}(?:e[-+]?\d{1,9})?))\)")
_LENGTH: Final = 2_000
_BINARY: Final[dict[type[ast.operator], Callable[[Number, Number], Number]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: lambda a, b: math.fmod(a, b) if isinstance(a, float) else int(math.fmod(a, b)),
    ast.Div: lambda a, b: int(a / b) if isinstance(a, int) and isinstance(b, int) else a / b,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Number, Number], bool]]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_CALLS: Final[dict[str, Callable[..., Number]]] = {
    "ceilDiv": lambda a, b: -(-a // b),
    "max": max,
    "fmax": max,
    "min": min,
    "fmin": min,
    "abs": abs,
    "where": lambda c, a, b: a if c else b,
    "reciprocal": lambda a: 1.0 / a,
    "sqrt": math.sqrt,
    "__to_double": float,
    "__to_float": float,
    "__to_int64": int,
    "__to_int32": int,
    "double": float,
    "float": float,
}

_C10: Final = {
    "c10::BFloat16": "__bfloat",
    "c10::Half": "__half",
    "long": "int64_t",
    "long int": "int64_t",
    "c10::complex<float>": "std::complex<float>",
    "c10::complex<double>": "std::complex<double>",
}


def number_of(text: str, known: Mapping[str, Number]) -> Number | None:
    """What a text of the IR comes to, or None where that is not known.

    Args:
        text: `16`, `float(0.5)`, `i0`, `( ceilDiv(i0, 4) )`, `true`, …
        known: values of names.
    """
    text = _LITERAL.sub(lambda match: _plain(match[1]), text.strip())
    if text in {"true", "false"}:
        return text == "true"
    if len(text) > _LENGTH:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the target's text, not of ours
            tree = ast.parse(text, mode="eval")
        return _value(tree.body, known)
    except (SyntaxError, ValueError, ArithmeticError, TypeError, KeyError, RecursionError, MemoryError):
        return None


def _plain(word: str) -> str:
    if word.lstrip("-") in {"inf", "nan"}:
        return {"inf": "1e999", "-inf": "-1e999"}.get(word, "(1e999-1e999)")
    return f"({float(word)!r})"


def _value(node: ast.expr, known: Mapping[str, Number]) -> Number:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.Name(id=name):
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, known)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, known), _value(right, known))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _COMPARE[type(op)](_value(left, known), _value(right, known))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _CALLS[name](*(_value(arg, known) for arg in args))
    raise ValueError(type(node).__name__)


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


def dtype_of_torch(name: str) -> str:
    """The IR's name of a type as a list of arguments prints it (`c10::BFloat16`)."""
    return _C10.get(name, name)
