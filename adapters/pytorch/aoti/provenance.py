"""Find the source lines of the model from which a kernel was generated, most likely makers of a NaN first.

`kernel_information.json`, written when compiling with INDUCTOR_PROVENANCE=1, lists for each kernel the stack traces and
names of its fused operators (torch/_inductor/debug.py). It does not say which trace belongs to which operator: a trace
whose source names an operator is taken as that operator's.

Invariants:
    aoti_provenance.O1. A line comes first only if its source names an operator that is in the kernel and that can make
        NaN of finite numbers. Otherwise torch's order is kept.
    aoti_provenance.O2. A module has its path only if each frame above names the one attribute that it calls, by its
        class if there are several, and no method; the model's inputs have names only if all traces begin in one
        function.
    aoti_provenance.O3. In a loop over modules the frames name none. Then it is most likely the module whose own
        modules, attributes of the line's class, made the call's inputs, if there is only one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise
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
_MODULE: Final = lazy_re(r"\bself((?:\.[A-Za-z_]\w*(?:\[\d+\])?)+)\(")
_COUNTED: Final = lazy_re(r"_\d+$")
_MOST: Final = 12  # lines of a kernel that are told
_LARGEST: Final = 4 << 20  # bytes of a source file
_DOMAIN: Final = frozenset(
    ("sqrt", "rsqrt", "log", "log2", "log10", "log1p", "pow", "acos", "asin", "acosh", "atanh", "logit", "erfinv")
)
"""Operators that are defined for some numbers only, and give NaN for the others."""
_QUOTIENT: Final = frozenset(("div", "remainder", "fmod", "xlogy"))
"""Operators that give NaN where both operands are zero, or the second one is."""
_OF_INFINITY: Final = ("sub", "div", "mul", "addmm", "mm", "bmm", "matmul", "remainder", "fmod", "sin", "cos", "tan")
"""Operators that give NaN of two infinities, of infinity and zero, or of one: the likeliest first."""
_LOOKING_UP: Final = (
    *("embedding", "embedding_bag", "gather", "index_select", "take", "take_along_dim", "index_put", "index_add"),
    *("index_copy", "scatter", "scatter_add", "scatter_reduce", "index", "select_scatter"),
)
_SIGNS: Final[Mapping[str, re.Pattern[str]]] = {
    "sub": lazy_re(r"[\w)\]]\s{0,4}(?<!\d[eE])-=?\s{0,4}(?=[\w(\[])"),
    "mul": lazy_re(r"[\w)\]]\s{0,4}(?<!\*)\*(?!\*)=?\s{0,4}(?=[\w(\[-])"),
    "matmul": lazy_re(r"[\w)\]]\s{0,4}@"),
    "index": lazy_re(r"\w\[[A-Za-z_]"),
}
_SAME: Final[Mapping[str, str]] = {
    **{"**": "pow", "float_power": "pow", "/": "div", "//": "div", "%": "remainder"},
    **{"divide": "div", "true_divide": "div", "floor_divide": "div", "reciprocal": "div"},
    **{"arccos": "acos", "arcsin": "asin", "arccosh": "acosh", "arctanh": "atanh"},
}


_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_Frame = tuple[str, str, str, str]
"""A file, a line's number, the function and the source."""


class Line(Struct, frozen=True, kw_only=True):
    """A source line of the model.

    Attributes:
        function: its function, with the class if known.
        maker: an operator in it that can make NaN of finite numbers, or "".
        of_infinity: one that can make NaN of infinity, or "".
        looks_up: one that takes an index, or "".
        module: path of the module that it ran for, from the model (`encoder.norm`), or "" (O2).
    """

    file: str
    number: int
    function: str
    source: str
    maker: str = ""
    of_infinity: str = ""
    looks_up: str = ""
    module: str = ""

    @property
    def told(self) -> str:
        """Return `model.py:8 in Norm.forward: return x * torch.rsqrt(v)`."""
        place = f"{self.file}:{self.number}{f' in {self.function}' if self.function else ''}"
        return f"{place}: {self.source}" if self.source else place


def attributes_at(line: Line) -> Set[str]:
    """Return the attributes to which the class around a line assigns new objects, as `fc` in `self.fc = Linear(…)`."""
    within = _class_of(line.file, line.number, line.source)
    return {name for name, _ in _assigned_classes(within)} if within is not None else set()


def rows_of(lines: Sequence[Line], about: str = "") -> Iterator[tuple[str, str]]:
    """Yield labelled lines for display, those first that may have done what it is about.

    Args:
        about: `NaN` that their kernel made, `NaN of infinity`, or `index`, which was out of range.
    """
    field, can = _ABOUT.get(about, ("", ""))
    operators = {line: getattr(line, field, "") for line in lines}
    if about != "NaN":  # these have their makers first
        lines = sorted(lines, key=lambda line: not operators[line])
    for number, line in enumerate(lines[:_MOST]):
        why = f" ({operators[line]} {can})" if can and operators[line] else ""
        yield "also" if number else "model", f"{line.told}{why}"
    if len(lines) > _MOST:
        yield "also", f"{len(lines) - _MOST} more lines"


_ABOUT: Final = {
    "NaN": ("maker", "can make NaN of finite numbers"),
    "NaN of infinity": ("of_infinity", "can make NaN of infinity"),
    "index": ("looks_up", ""),
}
"""The attribute of a line with the operator that may have done it, and what that can do."""


def lines_by_kernel(information: bytes) -> dict[str, tuple[Line, ...]]:
    """Return the model's lines by provenance handle; torch's own lines are left out if there are others."""
    try:
        decoded = msgspec.json.decode(information) if information else {}
        return {str(handle): tuple(_ordered(known)) for handle, known in decoded.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def parameters(information: bytes) -> tuple[str, ...]:
    """Return the names of the model's positional arguments, as in its `forward`; () if not known (O2)."""
    try:
        decoded = msgspec.json.decode(information) if information else {}
        traces = [
            _own_frames(_TRACE.findall(str(text))) for known in decoded.values() for text in known["stack_traces"]
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ()
    found = {_arguments(file, int(number), source) for (file, number, _, source), *_ in filter(None, traces)}
    return found.pop() if len(found) == 1 else ()


def _own_frames(frames: Sequence[_Frame]) -> Sequence[_Frame]:
    """Return the frames that are not torch's; all if there are no others."""
    return [frame for frame in frames if not _LIBRARY.search(frame[0])] or frames


def _ordered(known: Mapping[str, Any]) -> Iterator[Line]:
    named = (*known.get("post_grad_nodes", ()), *known.get("pre_grad_nodes", ()))
    operators = {_base_operator(_COUNTED.sub("", str(name))) for name in named}
    places: dict[tuple[str, int], Line] = {}
    for text in known["stack_traces"]:
        frames = _TRACE.findall(str(text))
        for frame in _own_frames(frames)[-1:]:
            file, number, function, source = frame
            sources = [each[3] for each in frames]
            line = Line(
                file=clean_line(file, 300),
                number=int(number),
                function=_qualified(file, int(number), function, source),
                source=clean_line(source, 300),
                maker=_maker(sources, operators),
                of_infinity=_named(sources, operators, _OF_INFINITY),
                looks_up=_named(sources, operators, _LOOKING_UP),
                module=_module(frames[: frames.index(frame)], frame),
            )
            if not places.get((file, line.number), line).maker:
                places[file, line.number] = line
            places.setdefault((file, line.number), line)
    yield from sorted(places.values(), key=lambda line: (line.maker not in _DOMAIN, not line.maker))


def _module(callers: Sequence[_Frame], frame: _Frame) -> str:
    """Return the path of the module that a frame runs for, from the model, or "" (O2)."""
    path: list[str] = []
    for (file, number, _, source), below in pairwise((*callers, frame)):
        within = _class_of(file, int(number), source)
        called = {match[1].removeprefix(".") for match in _MODULE.finditer(source)}
        if len(called) > 1 and within is not None:
            runs = _class_of(below[0], int(below[1]), below[3])
            called &= {name for name, made in _assigned_classes(within) if runs is not None and made == runs.name}
        methods = {each.name for each in within.body if isinstance(each, _FUNCTIONS)} if within is not None else set()
        if _LIBRARY.search(file) or len(called) != 1 or called & methods:
            return ""
        path += called
    return clean_line(".".join(path).replace("[", ".").replace("]", ""), 200)


def _class_of(file: str, number: int, source: str) -> ast.ClassDef | None:
    return next((node for node in reversed(_around(file, number, source)) if isinstance(node, ast.ClassDef)), None)


def _assigned_classes(module: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield attributes to which a class assigns new objects, with the names of their classes."""
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = node.value.func
            name = made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", "")
            yield from ((target.attr, name) for target in node.targets if isinstance(target, ast.Attribute))


def _maker(sources: Sequence[str], operators: Set[str]) -> str:
    """Return a kernel operator that the source lines name and that can make NaN of finite numbers, or ""."""
    words = {_base_operator(word) for source in sources for word in _WORD.findall(_HARMLESS.sub("", source))}
    for kind in (_DOMAIN, _QUOTIENT):
        for word in sorted(words & kind & operators):
            return word
    return ""


def _named(sources: Sequence[str], operators: Set[str], wanted: Sequence[str]) -> str:
    """Return the first of some operators that is in the kernel and that the source lines name, also by a sign."""
    words = {_base_operator(word) for source in sources for word in _WORD.findall(source)}
    words |= {name for name, sign in _SIGNS.items() if any(sign.search(source) for source in sources)}
    return next((name for name in wanted if name in words & operators), "")


def _base_operator(word: str) -> str:
    """Return the base name of an operator: `div` for `divide_`."""
    bare = word.rstrip("_")
    return _SAME.get(bare, bare)


def _qualified(file: str, number: int, function: str, source: str) -> str:
    """Return `Norm.forward` for `forward`, if the file still has that line."""
    return ".".join(clean_line(node.name, 100) for node in _around(file, number, source)) or clean_line(function, 100)


def _arguments(file: str, number: int, source: str) -> tuple[str, ...]:
    """Return the parameters of the function around a line, without `self` and keyword-only ones."""
    functions = [node for node in _around(file, number, source) if isinstance(node, _FUNCTIONS)]
    if not functions:
        return ()
    names = [clean_line(one.arg, 100) for one in (*functions[0].args.posonlyargs, *functions[0].args.args)]
    return tuple(names[1:] if names[:1] == ["self"] else names)


@lru_cache(maxsize=256)
def _around(file: str, number: int, source: str) -> tuple[_Definition, ...]:
    """Return the classes and functions around a line, outermost first; () if the file has changed."""
    try:
        text = target_files.read_bytes(file, _LARGEST).decode("utf-8", "replace")
        here = text.splitlines()[number - 1].strip() == source.strip()
        return tuple(_inside(ast.parse(text), number)) if here else ()
    except (OSError, ValueError, SyntaxError, IndexError, RecursionError, MemoryError):
        return ()


def _inside(node: ast.AST, number: int) -> Iterator[_Definition]:
    for inner in ast.iter_child_nodes(node):
        if getattr(inner, "lineno", 0) <= number <= (getattr(inner, "end_lineno", 0) or 0):
            if isinstance(inner, (ast.ClassDef, *_FUNCTIONS)):
                yield inner
            yield from _inside(inner, number)
