"""Translate IR expressions to calls of the Python bindings: `T2 = fd.ops.add(T0, T1)`.

Sources: NVIDIA/Fuser python/python_direct/ops.cpp (names and arguments), csrc/type.cpp (names in the IR),
csrc/ir/internal_nodes.cpp (printed forms). Unsupported expressions raise `Uncovered`, nothing is guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from livedbg.adapters.nvfuser.dumps.ir import DTYPES, Expression, Number, Tensor, number_of, parse_tensor, split_top
from livedbg.adapters.nvfuser.dumps.statements import Domain
from livedbg.text.patterns import lazy_re

_NAMES: Final = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "%": "mod",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "&&": "logical_and",
    "||": "logical_or",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "bitwise_left_shift",
    ">>": "bitwise_right_shift",
    "max": "maximum",
    "fmax": "maximum",
    "min": "minimum",
    "fmin": "minimum",
    "nearbyint": "round",
    "std::real": "real",
    "std::imag": "imag",
    "std::complex": "complex",
    "SegmenterSet": "segment_set",
    "Set": "set",
    "unary -": "neg",
    "unary !": "logical_not",
    "unary ~": "bitwise_not",
}
_UNARY: Final = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh", "erf", "erfc"),
    *("erfcinv", "erfinv", "exp", "exp2", "expm1", "floor", "frac", "isfinite", "isinf", "isnan", "isneginf"),
    *("isposinf", "isreal", "lgamma", "log", "log10", "log1p", "log2", "logical_not", "neg", "reciprocal", "relu"),
    *("rsqrt", "sigmoid", "signbit", "silu", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)
_OTHERS: Final = (
    *("atan2", "clamp", "fmod", "gcd", "lerp", "linear", "matmul", "nextafter", "pow", "remainder", "threshold"),
    "where",
)
_PLAIN: Final = frozenset((*_UNARY, *_OTHERS))
_REDUCTIONS: Final = {"add": "sum", "mul": "prod", "max": "max", "fmax": "max", "min": "min", "fmin": "min"}
_SCALAR: Final = lazy_re(r"[a-z]+\d{1,18}$")
_LITERAL_TYPE: Final = lazy_re(r"\s*([a-z_][\w:<>]*)\(")


class Uncovered(Exception):
    """An expression without a known call; the text names it and the reason."""


def literal(value: Number) -> str:
    """Return a number as Python source."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


@dataclass(slots=True)
class Writer:
    """Writes the body of a fusion's definition.

    Attributes:
        known: values of numbers and extents.
        domains: axes of the fusion's tensors, if printed.
        defined: defined tensors by number, as last printed.
        variables: numbers that are variables of the definition (inputs, and values computed from them).
        lines: the result.
    """

    known: dict[str, Number]
    domains: Mapping[int, Domain] = field(default_factory=dict)
    defined: dict[int, Tensor] = field(default_factory=dict)
    variables: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)

    def write(self, expression: Expression) -> None:
        """Write one expression; raise Uncovered if it can't be translated."""
        try:
            if not expression.outputs:
                self._scalar(expression)
                return
            call = self._call(expression)
        except (IndexError, ValueError, OverflowError):  # fewer arguments than it has, or odd ones: it is damaged
            raise Uncovered(_said(expression)) from None
        names = ", ".join(f"T{tensor.number}" for tensor in expression.outputs)
        self.lines.append(f"{names} = fd.ops.{call}")
        self.defined.update((tensor.number, tensor) for tensor in expression.outputs)

    def _scalar(self, expression: Expression) -> None:
        """Write `i185 = 0 + 16;`: a known number, or a variable."""
        name, _, right = expression.text.partition(" = ")
        name, right = name.strip(), " ".join(right.split()).rstrip(";")
        if not _SCALAR.match(name):
            raise Uncovered(_said(expression))
        value = number_of(right, self.known)
        if value is not None:
            self.known[name] = value
            return
        self.lines.append(f"{name} = fd.ops.{self._call(expression)}")
        self.variables.add(name)

    def _call(self, expression: Expression) -> str:
        operation = expression.operation
        special = _SPECIAL.get(operation)
        if special is not None:
            return special(self, expression)
        if operation.startswith("__") and expression.outputs:
            return f"cast({self._value(expression, 0)}, dtype={_dtype(expression.outputs[0], expression)})"
        name = _NAMES.get(operation, operation)
        if name not in _PLAIN and name.removesuffix("f") in _PLAIN:
            name = name.removesuffix("f")  # `expf`: of single precision
        name = _NAMES.get(name, name)
        if operation not in _NAMES and name not in _PLAIN and name not in _NAMES.values():
            raise Uncovered(_said(expression))
        values = [self._value(expression, n) for n, text in enumerate(expression.arguments) if "=" not in text]
        return f"{name}({', '.join(values)})"

    def _value(self, expression: Expression, number: int) -> str:
        return self.value(expression.arguments[number], expression)

    def value(self, text: str, expression: Expression) -> str:
        """Return an operand as Python source."""
        tensor = parse_tensor(text)
        if tensor is not None:
            if tensor.number not in self.defined:
                raise Uncovered(f"{_said(expression)}: T{tensor.number} is neither an input nor defined before")
            return f"T{tensor.number}"
        name = text.strip()
        if name in self.variables:
            return name
        value = number_of(name, self.known)
        if value is None:
            raise Uncovered(f"{_said(expression)}: the value of {name} is not known")
        spelt = _LITERAL_TYPE.match(name)
        default = "bool" if isinstance(value, bool) else "int64_t" if isinstance(value, int) else "double"
        dtype = DTYPES.get(spelt[1] if spelt is not None else default, DTYPES[default])
        return f"fd.define_scalar({literal(value)}, dtype=DataType.{dtype.bindings})"

    def _size(self, text: str, expression: Expression) -> int:
        value = number_of(text, self.known)
        if value is None:
            raise Uncovered(f"{_said(expression)}: the size {text} is not known")
        return int(value)

    # operations with forms of their own

    def reduction(self, expression: Expression) -> str:
        """Translate `reduction( T, op = add, initial value = …, allreduce = false )`."""
        out = expression.outputs[0]
        about = dict(part.split(" = ", 1) for part in expression.arguments[1:] if " = " in part)
        name = _REDUCTIONS.get(about.get("op", ""))
        source = parse_tensor(expression.arguments[0])
        if name is None or source is None or len(source.logical) != len(out.axes):
            raise Uncovered(_said(expression))
        dims = [number for number, axis in enumerate(out.axes) if axis.kind == "r"]
        dtype = f", dtype={_dtype(out, expression)}" if name in {"sum", "prod"} else ""
        return f"{name}({self._value(expression, 0)}, dims={dims}, keepdim=False{dtype})"

    def broadcast(self, expression: Expression) -> str:
        """Translate `broadcast( T, flags = {false, true} )`."""
        flags = [flag == "true" for flag in _braces(expression.arguments[1])]
        return f"broadcast({self._value(expression, 0)}, is_broadcast_dim={flags})"

    def squeeze(self, expression: Expression) -> str:
        """Translate `squeeze( T, flags = {false, true} )`."""
        dims = [number for number, flag in enumerate(_braces(expression.arguments[1])) if flag == "true"]
        source = parse_tensor(expression.arguments[0])
        wide = source is not None and any(source.logical[n].expanded for n in dims if n < len(source.logical))
        more = ", squeeze_expanded=True" if wide else ""
        return f"squeeze({self._value(expression, 0)}, dims={dims}{more})"

    def permute(self, expression: Expression) -> str:
        """Translate `Set.Permute( T, cache_op=Streaming )`, with the axes from the tensor's transforms."""
        domain = self.domains.get(expression.outputs[0].number)
        if domain is None or not domain.root or sorted(domain.root) != sorted(domain.logical):
            raise Uncovered(f"{_said(expression)}: which axes it exchanges is not printed")
        dims = [domain.root.index(axis) for axis in domain.logical]
        return f"permute({self._value(expression, 0)}, dims={dims})"

    def resized(self, expression: Expression) -> str:
        """Translate `T1 = expand( T0 )` or `T1 = reshape( T0 )`, to the sizes of its output."""
        name = {"expand": "shape", "reshape": "new_shape"}[expression.operation]
        axes = expression.outputs[0].logical
        sizes = [self._size(axis.expanded or axis.extent, expression) for axis in axes]
        return f"{expression.operation}({self._value(expression, 0)}, {name}={sizes})"

    def full(self, expression: Expression) -> str:
        """Translate `full({8, 16}, float(3))`."""
        shape = [self._size(size, expression) for size in _braces(expression.arguments[0])]
        dtype = _dtype(expression.outputs[0], expression)
        return f"full(shape={shape}, fill_value={self._value(expression, 1)}, dtype={dtype})"

    def iota(self, expression: Expression) -> str:
        """Translate `iota(16, 0, 2, int64_t)`."""
        length, start, step = (self._value(expression, number) for number in range(3))
        return f"iota(length={length}, start={start}, step={step}, dtype={_dtype(expression.outputs[0], expression)})"

    def select(self, expression: Expression) -> str:
        """Translate `select( T, axis = iS3{8}, index = i11 )`."""
        source = parse_tensor(expression.arguments[0])
        axis = re.search(r"axis = [a-zA-Z.]*?(\d{1,18})\{", expression.arguments[1])
        axes = source.logical if source is not None and axis is not None else ()
        places = [n for n, a in enumerate(axes) if axis is not None and a.name == int(axis[1])]
        if len(places) != 1:
            raise Uncovered(_said(expression))
        index = self.value(expression.arguments[2].partition(" = ")[2], expression)
        return f"select({self._value(expression, 0)}, index={index}, dim={places[0]})"

    def slice(self, expression: Expression) -> str:
        """Translate `slice( T, { {0, 4, 1} {2, 10, 1} } )`."""
        ranges = re.findall(r"\{([^{}]*)\}", expression.arguments[1])
        parts = [[self._size(word, expression) for word in split_top(text)] for text in ranges]
        if not parts or any(len(part) != 3 for part in parts):
            raise Uncovered(_said(expression))
        starts, stops, steps = ([part[n] for part in parts] for n in range(3))
        return (
            f"slice({self._value(expression, 0)}, start_indices={starts}, end_indices={stops}, strides={steps}, "
            "manual_normalization=True)"
        )

    def pad(self, expression: Expression) -> str:
        """Translate `pad( T, {3, 4, 1, 2} )`: printed outermost axis first; the bindings take the innermost first."""
        widths = [self._size(word, expression) for word in _braces(expression.arguments[1])]
        pairs = [widths[n : n + 2] for n in range(0, len(widths), 2)]
        return f"pad({self._value(expression, 0)}, pad_widths={[width for pair in reversed(pairs) for width in pair]})"

    def cat(self, expression: Expression) -> str:
        """Translate `cat( T1, T2, 1 )`, of already padded tensors."""
        values = [self._value(expression, number) for number in range(len(expression.arguments) - 1)]
        dim = self._size(expression.arguments[-1], expression)
        return f"cat([{', '.join(values)}], dim={dim}, manual_padding=True)"


_SPECIAL: Final[dict[str, Callable[[Writer, Expression], str]]] = {
    "reduction": Writer.reduction,
    "broadcast": Writer.broadcast,
    "squeeze": Writer.squeeze,
    "Set.Permute": Writer.permute,
    "expand": Writer.resized,
    "reshape": Writer.resized,
    "full": Writer.full,
    "iota": Writer.iota,
    "select": Writer.select,
    "slice": Writer.slice,
    "pad": Writer.pad,
    "cat": Writer.cat,
}


def _said(expression: Expression) -> str:
    text = " ".join(expression.text.split())
    return f"expression {expression.number}, “{text[:300]}”"


def _dtype(tensor: Tensor, expression: Expression) -> str:
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        raise Uncovered(f"{_said(expression)}: the type {tensor.dtype or 'of its result'} is not known")
    return f"DataType.{dtype.bindings}"


def _braces(text: str) -> list[str]:
    return split_top(text[text.find("{") + 1 : text.rfind("}")])
