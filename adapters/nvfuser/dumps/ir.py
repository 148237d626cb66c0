"""Parse tensors, expressions, scalars and data types of nvFuser's printed fusion IR.

The form: NVIDIA/Fuser csrc/tensor_view.cpp (`TensorView::toString`), csrc/ir/internal_base_nodes.cpp
(`IterDomain::toString`), csrc/ir/internal_nodes.cpp (`…Op::toString`). Up to 2023 a tensor's name had no type, and a
space followed the bracket.

Nothing is executed: `ast` parses a scalar expression and a walk evaluates it; operators that are not in the small table
below make it unknown. Source of the types: NVIDIA/Fuser csrc/type.cpp (`data_type2string`, `aten_to_data_type`),
python/python_direct/enum.cpp.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.text.patterns import lazy_re

_TENSOR: Final = lazy_re(r"\bT(\d{1,18})_(sym|[glst])(?:_((?:std::complex<\w+>|\w+?)))?\[")
_AXIS: Final = lazy_re(r"\s*([irbsnv?])([A-Za-z.]*)(\d{1,18})\{")
_INLINE: Final = ("&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "<", ">", "&", "|", "^")
_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_LIMIT: Final = 100_000  # characters of one expression that are parsed
_AXES: Final = lazy_re(r"[^()\[\]{}]*(?:\{[^()\[\]{}]*\}[^()\[\]{}]*)*\]")  # of nearly all tensors
_BRACKET: Final = lazy_re(r"[()\[\]{}]")
_BRACKET_OR_COMMA: Final = lazy_re(r"[()\[\]{},]")
_BRACKET_OR_SIGN: Final = lazy_re(r"[()\[\]{}]|(?<=\s)=")
_BRACKET_OR_OPERATOR: Final = lazy_re(rf"[()\[\]{{}}]|(?<=\s)(?:{'|'.join(map(re.escape, _INLINE))})(?=\s)")


class Axis(Struct, frozen=True):
    """One axis of a tensor.

    Attributes:
        kind: `i` iteration, `r` reduction, `b` broadcast, `s` stride, `?` symbolic, …
        extent: as printed: a number, a symbol (`i0`) or an expression.
        expanded: extent of an expanded broadcast axis, or "".
        name: its number.
        root: it came out of a reshape (`rf`).
    """

    kind: str
    extent: str
    expanded: str = ""
    name: int = 0
    root: bool = False


class Tensor(Struct, frozen=True):
    """A tensor as printed.

    Attributes:
        number: of its name: 3 for `T3_g_float[…]`.
        dtype: as nvFuser spells it (`float`, `__bfloat`), or "" if not printed.
        body: its axes as printed; parsed only on demand.
    """

    number: int
    memory: str
    dtype: str
    body: str = ""

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(axis for axis in map(_axis, split_top(self.body)) if axis is not None)

    @property
    def logical(self) -> tuple[Axis, ...]:
        """Return the axes that a consumer sees: without the reduced ones."""
        return tuple(axis for axis in self.axes if axis.kind != "r")


class Expression(Struct, frozen=True):
    """One expression of a group, parsed on demand; `number` is its name, the `(N)` below it."""

    number: int
    text: str

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Return the defined tensors."""
        left, sign, _ = _halves(self.text)
        return tuple(tensors_in(left)) if sign else ()

    @property
    def operation(self) -> str:
        """Return `relu`, `reduction`, `Set`, `+`, …; "" for an unknown form."""
        return _parsed(self.text)[0]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments as printed."""
        given = _parsed(self.text)[1]
        return tuple(split_top(given)) if isinstance(given, str) else given


def parse_tensor(text: str) -> Tensor | None:
    """Return the first tensor in a text, or None."""
    return next(iter(tensors_in(text)), None)


def tensors_in(text: str) -> list[Tensor]:
    """Return all tensors in a text, in order."""
    found: list[Tensor] = []
    position = 0
    while len(text) <= _LIMIT:
        match = _TENSOR.search(text, position)
        if match is None:
            break
        end = _closing(text, match.end() - 1)
        body = text[match.end() : end]
        dtype = match[3] or ""
        if not dtype:  # the old form: the type comes last
            dtype = (re.match(r"\] (\w+)$", text[end:].rstrip()) or ["", ""])[1]
        found.append(Tensor(int(match[1]), match[2], dtype, body))
        position = end
    return found


def _axis(text: str) -> Axis | None:
    match = _AXIS.match(text)
    if match is None:
        return None
    end = _closing(text, match.end() - 1)
    extent, _, expanded = text[match.end() : end].rpartition(" : ")[2].partition(" ex ")
    return Axis(match[1], extent.strip(), expanded.strip(), int(match[3]), text[end + 1 :].startswith("rf"))


def _closing(text: str, opening: int) -> int:
    """Return where the bracket at `opening` closes; the end of the text if it doesn't."""
    if text[opening] == "[" and (plain := _AXES.match(text, opening + 1)) is not None:
        return plain.end() - 1
    closing = [_OPEN[text[opening]]]
    for match in _BRACKET.finditer(text, opening + 1):
        sign = match[0]
        if sign in _OPEN:
            closing.append(_OPEN[sign])
        elif sign == closing[-1]:
            closing.pop()
            if not closing:
                return match.start()
    return len(text)


def split_top(text: str) -> list[str]:
    """Split a list at commas outside of all brackets."""
    found, begin = [], 0
    for match in _outside_brackets(_BRACKET_OR_COMMA, text):
        found.append(text[begin : match.start()].strip())
        begin = match.end()
    last = text[begin:].strip()
    return [*found, last] if last else found


def parse_expression(number: int, text: str) -> Expression:
    """Return an expression from its printed lines (without the `(N)` below them)."""
    return Expression(number, text[:_LIMIT].strip("\n"))


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[str, str | tuple[str, ...]]:
    """Return operation and arguments of an expression; cached for both."""
    _, sign, right = _halves(text)
    return _operation(right.strip()) if sign else ("", ())


@lru_cache(maxsize=64)
def _halves(text: str) -> tuple[str, str, str]:
    match = next(_outside_brackets(_BRACKET_OR_SIGN, text), None)
    return (text[: match.start()], "=", text[match.end() :]) if match is not None else (text, "", "")


def _outside_brackets(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a sign outside of all brackets; the pattern matches brackets and signs."""
    depth = 0
    for match in pattern.finditer(text):
        if match[0] in "([{":
            depth += 1
        elif match[0] in ")]}":
            depth -= 1
        elif depth <= 0:
            yield match


def _operation(right: str) -> tuple[str, str | tuple[str, ...]]:
    """Return the operation, and its arguments or the unsplit list of them."""
    body = right.rstrip(";").rstrip()
    match = re.match(r"([A-Za-z_][\w.:<>]*)\s?\(", body)
    if match is not None:
        end = _closing(body, match.end() - 1)
        if not body[end + 1 :].strip():
            return match[1], body[match.end() : end]
    match = next(_outside_brackets(_BRACKET_OR_OPERATOR, body), None)
    if match is not None:  # `A + B`, with spaces around the operator
        return match[0], (body[: match.start()].strip(), body[match.end() :].strip())
    if body and body[0] in "-!~":
        return f"unary {body[0]}", (body[1:].strip(),)
    return "", (body,)


Number = float | int | bool

_LITERAL: Final = lazy_re(r"[a-z_]\w{0,100}\((-?(?:inf|nan|[\d.]{1,100}(?:e[-+]?\d{1,9})?))\)")
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

TORCH_TYPES: Final = {
    "c10::BFloat16": "__bfloat",
    "c10::Half": "__half",
    "long": "int64_t",
    "long int": "int64_t",
    "c10::complex<float>": "std::complex<float>",
    "c10::complex<double>": "std::complex<double>",
}
"""The IR's name of a type in an argument list."""


def number_of(text: str, known: Mapping[str, Number]) -> Number | None:
    """Return the value of `16`, `float(0.5)`, `i0`, `( ceilDiv(i0, 4) )` … by known names; None if not known."""
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
        torch: name in torch, or "" for none.
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
