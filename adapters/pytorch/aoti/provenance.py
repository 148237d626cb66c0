"""The lines of the model's own source that a kernel was made of, the likeliest to have made a NaN first.

`kernel_information.json`, which a model has that was compiled with INDUCTOR_PROVENANCE=1, gives by kernel the stack
traces of the operators that it was fused of, and their names (torch/_inductor/debug.py). Which trace is which
operator's it does not give: a trace whose source names the operator is taken for its own.

Invariants:
    aoti_provenance.O1. A line comes first only if its source names an operator that is in the kernel and that can make
        NaN of finite numbers. Else the order is that of torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from livedbg.linux import target_files
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_TRACE: Final = lazy_re(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)')
_LIBRARY: Final = lazy_re(r"/(?:site|dist)-packages/|/torch/")
_WORD: Final = lazy_re(r"[A-Za-z]\w*|\*\*|//?|%")
_HARMLESS: Final = lazy_re(
    r"\*\*=?\s*\d+(?![\w.])|(?://?|%)=?\s*(?=[\d_.]*[1-9])\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.])"
)
"""A power with a whole number, and a division by a number that is not zero."""
_COUNTED: Final = lazy_re(r"_\d+$")
_MOST: Final = 12  # lines of a kernel that are told
_LARGEST: Final = 4 << 20  # bytes of a source file
_DOMAIN: Final = frozenset(
    ("sqrt", "rsqrt", "log", "log2", "log10", "log1p", "pow", "acos", "asin", "acosh", "atanh", "logit", "erfinv")
)
"""Operators that are defined for some numbers only, and give NaN for the others."""
_QUOTIENT: Final = frozenset(("div", "remainder", "fmod", "xlogy"))
"""Operators that give NaN where both operands are zero, or the second one is."""
_SAME: Final[Mapping[str, str]] = {
    **{"**": "pow", "float_power": "pow", "/": "div", "//": "div", "%": "remainder"},
    **{"divide": "div", "true_divide": "div", "floor_divide": "div", "reciprocal": "div"},
    **{"arccos": "acos", "arcsin": "asin", "arccosh": "acosh", "arctanh": "atanh"},
}


class Line(Struct, frozen=True, kw_only=True):
    """A line of the model.

    Attributes:
        function: that it is in, with its class where the file says it.
        maker: the operator in it that can make NaN of finite numbers, or "".
    """

    file: str
    number: int
    function: str
    source: str
    maker: str = ""

    @property
    def told(self) -> str:
        """`model.py:8 in Norm.forward: return x * torch.rsqrt(v)`."""
        place = f"{self.file}:{self.number}{f' in {self.function}' if self.function else ''}"
        return f"{place}: {self.source}" if self.source else place


def rows_of(lines: Sequence[Line], value: str = "") -> Iterator[tuple[str, str]]:
    """Lines for people: the first one is the model's; `value` is the bad one that their kernel made."""
    for number, line in enumerate(lines[:_MOST]):
        why = f" ({line.maker} can make NaN of finite numbers)" if value == "NaN" and line.maker else ""
        yield "also" if number else "model", f"{line.told}{why}"
    if len(lines) > _MOST:
        yield "also", f"{len(lines) - _MOST} more lines"


def lines_by_kernel(information: bytes) -> dict[str, tuple[Line, ...]]:
    """By provenance handle: the lines of the model, those of torch left out where there are others."""
    try:
        decoded = msgspec.json.decode(information) if information else {}
        return {str(handle): tuple(_ordered(known)) for handle, known in decoded.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _ordered(known: Mapping[str, Any]) -> Iterator[Line]:
    named = (*known.get("post_grad_nodes", ()), *known.get("pre_grad_nodes", ()))
    operators = {_plain(_COUNTED.sub("", str(name))) for name in named}
    places: dict[tuple[str, int], Line] = {}
    for text in known["stack_traces"]:
        frames = _TRACE.findall(str(text))
        own = [frame for frame in frames if not _LIBRARY.search(frame[0])] or frames
        for file, number, function, source in own[-1:]:
            maker = _maker([frame[3] for frame in frames], operators)
            line = _line(file, int(number), function, source, maker)
            if not places.get((file, line.number), line).maker:
                places[file, line.number] = line
            places.setdefault((file, line.number), line)
    yield from sorted(places.values(), key=lambda line: (line.maker not in _DOMAIN, not line.maker))


def _line(file: str, number: int, function: str, source: str, maker: str) -> Line:
    name = _qualified(file, number, function, source)
    return Line(file=clean_line(file, 300), number=number, function=name, source=clean_line(source, 300), maker=maker)


def _maker(sources: Sequence[str], operators: Set[str]) -> str:
    """The operator of a kernel that lines of source name and that can make NaN of finite numbers."""
    words = {_plain(word) for source in sources for word in _WORD.findall(_HARMLESS.sub("", source))}
    for kind in (_DOMAIN, _QUOTIENT):
        for word in sorted(words & kind & operators):
            return word
    return ""


def _plain(word: str) -> str:
    """An operator's own name: `div` of `divide_`."""
    bare = word.rstrip("_")
    return _SAME.get(bare, bare)


@lru_cache(maxsize=256)
def _qualified(file: str, number: int, function: str, source: str) -> str:
    """`Norm.forward` for `forward`, where the file still has that line."""
    name = clean_line(function, 100)
    try:
        text = target_files.read_bytes(file, _LARGEST).decode("utf-8", "replace")
        if text.splitlines()[number - 1].strip() != source.strip():
            return name
        return ".".join(_around(ast.parse(text), number)) or name
    except (OSError, ValueError, SyntaxError, IndexError, RecursionError, MemoryError):
        return name


def _around(node: ast.AST, number: int) -> Iterator[str]:
    """The names of the classes and functions that a line is in, from the outermost."""
    for inner in ast.iter_child_nodes(node):
        if getattr(inner, "lineno", 0) <= number <= (getattr(inner, "end_lineno", 0) or 0):
            if isinstance(inner, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield clean_line(inner.name, 100)
            yield from _around(inner, number)
