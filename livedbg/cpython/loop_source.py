"""The loops around a line of Python source, and which of them only their own end ends.

A loop that polls has an exit for the case that what it waits for has come: a `break`, a `return`, or its condition. A
loop without one does its work as often as it says.

Invariants:
    loop_source.X1. Only its own end ends a loop if no `break` or `return` leaves it, but for those under an `if` that
        compares a number which the loop counts; the condition of `while` must be such a comparison, or always true
        beside one. What an exception ends is not seen.
    loop_source.X2. A file that was changed after the process began is not read: its lines may be others.
    loop_source.X3. A loop polls if it has another way out: a `break`, a `return`, or a condition that no counter
        decides.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux import procfs, target_files

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_ORDERS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class SourceLoop(NamedTuple):
    """A loop.

    Attributes:
        ends: only its own end ends it.
        polls: it ends when something has come: not only at its own end, and not never.
        counter: the variable that a `while` loop counts, or "".
        bound: what ends it: a number, a variable, or "" for another expression.
        falls: it counts down.
    """

    is_for: bool
    ends: bool
    counter: str = ""
    bound: int | str = ""
    falls: bool = False
    polls: bool = False


class _Test(NamedTuple):
    name: str
    bound: int | str
    orders: bool  # and does not ask whether they are equal


class Span(NamedTuple):
    """The lines of a loop, or of a function or class (`loop` is None); `other` are those of the loop's `else`."""

    first: int
    last: int
    loop: SourceLoop | None = None
    other: range = range(0)


def spans_of(tree: ast.Module) -> tuple[Span, ...]:
    """Return the loops, functions and classes of a file, each before those inside of it."""
    return tuple(_spans(tree.body))


def _spans(nodes: Sequence[ast.AST]) -> Iterator[Span]:
    for node in nodes:
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
        if isinstance(node, _FUNCTIONS):
            yield Span(first, last)
        elif isinstance(node, _LOOPS):
            lines = [line for one in node.orelse for line in (one.lineno, (one.end_lineno or 0) + 1)]
            yield Span(first, last, _loop(node), range(min(lines), max(lines)) if lines else range(0))
        yield from _spans(list(_statements(node)))


def loops_around(spans: Sequence[Span], line: int) -> list[SourceLoop]:
    """Return the loops around a line in its function, outermost first."""
    found: list[SourceLoop] = []
    for span in spans:
        if span.first <= line <= span.last:
            if span.loop is None:
                found.clear()
            elif line not in span.other:
                found.append(span.loop)
    return found


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements right inside of one."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.stmt):
            yield one
        elif isinstance(one, (ast.ExceptHandler, ast.match_case)):
            yield from one.body


def _loop(node: ast.For | ast.AsyncFor | ast.While) -> SourceLoop:
    counted = dict(_counted(node))
    if not isinstance(node, ast.While):
        counted |= {one.id: False for one in ast.walk(node.target) if isinstance(one, ast.Name)}
    tests = [_test(test) for test in _exits(node.body, None, inside=False)]
    ends = all(one is not None and one.name in counted for one in tests)
    if not isinstance(node, ast.While):
        return SourceLoop(True, ends and isinstance(node, ast.For), polls=not ends)
    own = _test(node.test)
    always = isinstance(node.test, ast.Constant) and bool(node.test.value)
    if always and ends:
        own = next(iter(tests), None)
    elif own is not None and not own.orders:
        own = None
    if own is None or own.name not in counted:
        return SourceLoop(False, False, polls=not always or not ends)
    return SourceLoop(False, ends, own.name, own.bound, counted[own.name], polls=not ends)


def _counted(loop: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield the variables that statements of a loop count up or down, each with whether down."""
    changes = (node for node in ast.walk(loop) if isinstance(node, ast.AugAssign) and not _calls(node.value))
    for node in changes:
        if isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.target, ast.Name):
            yield node.target.id, isinstance(node.op, ast.Sub)


def _calls(node: ast.AST) -> bool:
    return any(isinstance(one, (ast.Call, ast.Await, ast.NamedExpr)) for one in ast.walk(node))


def _test(node: ast.expr | None) -> _Test | None:
    """Return what a comparison of a variable with a value compares."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.left, ast.Name):
        return None
    if not isinstance(node.ops[0], (*_ORDERS, ast.Eq)):
        return None
    right = node.comparators[0]
    if _calls(right):
        return None
    bound = right.value if isinstance(right, ast.Constant) else right.id if isinstance(right, ast.Name) else ""
    return _Test(node.left.id, bound if isinstance(bound, (int, str)) else "", isinstance(node.ops[0], _ORDERS))


def _exits(nodes: Sequence[ast.AST], test: ast.expr | None, *, inside: bool) -> Iterator[ast.expr | None]:
    """Yield for each way out of a loop the condition of the `if` right around it, or None.

    Args:
        nodes: statements of it.
        test: the condition around these.
        inside: they are in a loop inside of it.
    """
    for node in nodes:
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break) and not inside):
            yield test
        elif isinstance(node, ast.If):
            yield from _exits(node.body, node.test, inside=inside)
            yield from _exits(node.orelse, None, inside=inside)
        elif isinstance(node, _LOOPS):
            yield from _exits(node.body, None, inside=True)
            yield from _exits(node.orelse, None, inside=inside)
        elif not isinstance(node, _FUNCTIONS):
            yield from _exits(list(_statements(node)), None, inside=inside)


_LARGEST: Final = 1 << 20


class Sources:
    """The sources of one process; each is read once."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._spans: dict[str, tuple[Span, ...] | None] = {}

    def spans(self, file: str) -> tuple[Span, ...] | None:
        """Return the loops of a file that a code object names; None if it can't be read or was changed."""
        if file not in self._spans:
            self._spans[file] = None
            with suppress(OSError, ValueError, SyntaxError, RecursionError, MemoryError):
                self._spans[file] = self._read(file)
        return self._spans[file]

    def _read(self, file: str) -> tuple[Span, ...] | None:
        root = Path(f"/proc/{self._pid}")
        path = root / "root" / file.removeprefix("/") if file.startswith("/") else root / "cwd" / file
        booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        began_s = booted_s + procfs.read_stat(self._pid).start_ticks * procfs.CLOCK_TICK_NS / 1e9
        if path.suffix != ".py" or target_files.status(path).st_mtime > began_s:
            return None
        text = target_files.read_bytes(path, _LARGEST)
        return spans_of(ast.parse(text)) if len(text) < _LARGEST else None
