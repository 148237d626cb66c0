"""The loops around a line of Python source, and which of them only their own end ends.

A loop that polls has an exit for the case that what it waits for has come: a `break`, a `return`, or its condition. A
loop without one does its work as often as it says, or until it is told to stop: by a flag of such a name, or by what it
takes from a queue.

Invariants:
    loop_source.X1. Only its own end ends a loop if no `break` or `return` leaves it, but for those under an `if` that
        compares a number which the loop counts; the condition of `while` must be such a comparison, or always true
        beside one. What an exception ends is not seen.
    loop_source.X2. A file that was changed after the process began is not read: its lines may be others.
    loop_source.X3. A loop polls if it has another way out: a `break`, a `return`, or a condition that no counter
        decides. One that waits for nothing does not (X4).
    loop_source.X4. A loop waits for nothing if it has no way out but its own end, and those under a test of a number
        that only its own arithmetic changes, of a flag, of the time, or of an item that it took from a queue, or of
        several of these; or of a variable that one statement of the loop sets to such a test. A flag has the name of
        one (`stop`, `_shutdown_event`) and is an event, or is set to True or False somewhere in its file: a list of
        what is `running` is none. A loop that `sys.exit` leaves has another way out, and so has that of a generator,
        whose caller decides: of it, only polling counts.
    loop_source.X5. It rests at a line that each round comes to. What is under an `if`, or handles an exception, may be
        done only while something has not come.
    loop_source.X6. A wait with a time limit for such a flag is a rest too, and so is each wait for one in no loop,
        unless a caller's loop polls: the thread has nothing to do until it is told to stop.
    loop_source.X7. A loop is steady if each round brings it nearer to its own end, or if a time ends it, or an item
        that each round takes from a queue: a thread that computes in such loops alone waits for nothing to become true.
        One that counts under an `if`, or may `continue` before it counts, may poll for what it counts.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple

from livedbg.linux import procfs, target_files
from livedbg.model import LoopWay
from livedbg.text.patterns import lazy_re

STANDARD_LIBRARY: Final = lazy_re(r"/lib(?:64)?/python3[^/]*/(?!site-packages/|dist-packages/)|^<frozen ")
"""Files of Python's own library, whose loops are its own business."""

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_ORDERS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)

_FLAG: Final = lazy_re(
    r"_*(?:is_|should_|must_|keep_|please_)?"
    r"(?:stop(?:ped|ping)?|shut_?down|shutting_down|quit(?:ting)?|exit(?:ing)?|terminat(?:e|ed|ing)|running|going)"
    r"(?:_?(?:event|flag|requested|now))?$",
    2,  # re.IGNORECASE
)
_ORDER: Final = lazy_re(
    r"_*(?:is_|should_|must_|please_)?(?:stop|shut_?down|quit|exit|terminate)_?(?:event|flag|signal|requested|now)?$",
    2,  # re.IGNORECASE
)
"""A flag that is set to stop somebody; `stopped` may say that he has."""
_ASKED: Final = ("is_set", "isSet", "wait")
_OWN: Final = ("self", "cls")
_CLOCKS: Final = frozenset(
    {
        *("time", "monotonic", "perf_counter", "process_time", "time_ns", "monotonic_ns", "perf_counter_ns"),
        *("now", "utcnow", "get_running_loop", "get_event_loop", "total_seconds", "timedelta"),
    }
)
_TAKES: Final = frozenset({"get", "recv", "recv_bytes", "recv_json", "recv_pyobj", "recv_string", "receive", "accept"})
_GETTER: Final = "get"
_READS: Final = frozenset({"read", "readline", "read1", "recv", "recv_bytes", "receive_bytes"})
_LINES: Final = frozenset({"readline", "recv_bytes", "receive_bytes"})
_ARITHMETIC: Final = frozenset({"len", "min", "max", "abs", "int", "round"})
_EXITS: Final = ("sys.exit", "os._exit", "exit", "quit")
_BLOCKS: Final = (ast.With, ast.AsyncWith)
_NESTED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class SourceLoop(NamedTuple):
    """A loop.

    Attributes:
        ends: only its own end ends it.
        polls: it ends when something has come: not only at its own end, and not never.
        counter: the variable that a `while` loop counts, or "".
        bound: what ends it: a number, a variable, or "" for another expression.
        falls: it counts down.
        rests: the lines that each round of a loop comes to that waits for nothing.
        pauses: the lines where such a loop waits to be told to stop.
        endless: it does not end by itself.
        works: it tells a queue of each job that it has done.
        steady: no round of it waits for anything to become true (X7).
        yields: it is one of a generator: how it goes on its caller decides, unless it polls itself.
    """

    is_for: bool
    ends: bool
    counter: str = ""
    bound: int | str = ""
    falls: bool = False
    polls: bool = False
    rests: frozenset[int] = frozenset()
    pauses: frozenset[int] = frozenset()
    endless: bool = False
    works: bool = False
    steady: bool = False
    yields: bool = False


class _Test(NamedTuple):
    name: str
    bound: int | str
    orders: bool  # and does not ask whether they are equal


class Around(NamedTuple):
    """What is around a line, in its function.

    Attributes:
        loops: outermost first.
        pauses: its statement only waits for a flag, or returns what that said (X6).
    """

    loops: tuple[SourceLoop, ...] = ()
    pauses: bool = False


def around(tree: ast.Module, line: int, flags: Collection[str] | None = None) -> Around:
    """Return what is around a line of a file.

    Args:
        tree: the file.
        line: counted from 1.
        flags: `flags_of` the file, where known.
    """
    loops: list[SourceLoop] = []
    pauses = False
    for node in _down_to(tree.body, line):
        if isinstance(node, _FUNCTIONS):
            loops.clear()
        elif isinstance(node, _LOOPS):
            if not any(_holds(one, line) for one in node.orelse):
                loops.append(_loop(node, flags_of(tree) if flags is None else flags))
        elif isinstance(node, (ast.Expr, ast.Return)) and node.value is not None:
            pauses = pauses or _waits_to_stop(node.value)
    return Around(tuple(loops), pauses)


def _down_to(nodes: Iterable[ast.AST], line: int) -> Iterator[ast.AST]:
    """Yield the statements that hold a line, each before those inside of it."""
    for node in nodes:
        if _holds(node, line):
            yield node
            yield from _down_to(_statements(node), line)


def _holds(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", 0) or 0)


def way_of(loops: Iterable[SourceLoop], line: int) -> LoopWay | None:
    """Return how the loops around a line go on; None without a loop."""
    own = [loop for loop in loops if loop.polls or not loop.yields]
    if not own:
        return None
    if line in own[-1].pauses:
        return LoopWay.PAUSES
    if any(loop.polls for loop in own):
        return LoopWay.POLLS
    if not all(line in loop.rests for loop in own):
        return LoopWay.UNKNOWN
    if not any(loop.endless for loop in own):
        return LoopWay.ENDS
    return LoopWay.WORKS if any(loop.works for loop in own) else LoopWay.RESTS


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements right inside of one."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.stmt):
            yield one
        elif isinstance(one, (ast.ExceptHandler, ast.match_case)):
            yield from one.body


def _loop(node: ast.For | ast.AsyncFor | ast.While, flags: Collection[str]) -> SourceLoop:
    loop = _goes_on(node, flags)
    steady = loop.ends if loop.is_for else not loop.polls and _is_steady(node, loop)
    yields = any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in _inside(node.body))
    return loop._replace(steady=steady, yields=yields)


def _is_steady(node: ast.For | ast.AsyncFor | ast.While, loop: SourceLoop) -> bool:
    """Return whether a loop that does not poll counts each round, ends at a time, or takes an item in each (X7)."""
    if not isinstance(node, ast.While):
        return False
    if loop.counter:
        rounds = (one for one in _each_round(node.body) if isinstance(one, ast.AugAssign))
        counts = any(isinstance(one.target, ast.Name) and one.target.id == loop.counter for one in rounds)
        return counts and loop.counter in _own(node) and not _skips(node.body)
    taken = dict(_taken([one for one in node.body if isinstance(one, ast.Assign)]))
    exits = [test for test in _exits(node.body, None, inside=False) if test is not None]
    once = dict(_assigned_once(node))
    in_time = _has_time(node.test, ast.And, {}) or any(_has_time(test, ast.Or, once) for test in exits)
    return in_time or _is_last(node.test, True) or any(_of_item(test, taken) for test in exits)


def _skips(nodes: Iterable[ast.AST]) -> bool:
    """Return whether a `continue` may leave out the rest of a round."""
    inner = (node for node in nodes if not isinstance(node, (*_LOOPS, *_NESTED)))
    return any(isinstance(node, ast.Continue) or _skips(ast.iter_child_nodes(node)) for node in inner)


def _has_time(test: ast.expr, joined: type[ast.boolop], once: Mapping[str, ast.expr]) -> bool:
    """Return whether a condition ends at a time, whatever else it asks."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, joined):
        return any(_has_time(one, joined, once) for one in test.values)
    return _is_time(test, once)


def _goes_on(node: ast.For | ast.AsyncFor | ast.While, flags: Collection[str]) -> SourceLoop:
    counted = dict(_counted(node))
    if not isinstance(node, ast.While):
        counted |= {one.id: False for one in ast.walk(node.target) if isinstance(one, ast.Name)}
    exits = list(_exits(node.body, None, inside=False))
    tests = [_test(test) for test in exits]
    ends = all(one is not None and one.name in counted for one in tests)
    around = _rests_of(node, exits, flags)
    polls, (rests, pauses) = around is None, around or (frozenset(), frozenset())
    if not isinstance(node, ast.While):
        by_itself = ends and isinstance(node, ast.For)
        return SourceLoop(True, by_itself, polls=polls and not ends, rests=rests, pauses=pauses)
    own = _test(node.test)
    always = isinstance(node.test, ast.Constant) and bool(node.test.value)
    if always and ends:
        own = next(iter(tests), None)
    elif own is not None and not own.orders:
        own = None
    if own is None or own.name not in counted:
        endless = not polls and (always or own is None)
        polls = polls and not (always and ends)
        works = any(isinstance(one, ast.Attribute) and one.attr == "task_done" for one in _inside(node.body))
        return SourceLoop(False, False, polls=polls, rests=rests, pauses=pauses, endless=endless, works=works)
    falls = counted[own.name]
    return SourceLoop(False, ends, own.name, own.bound, falls, polls and not ends, rests, pauses)


def _counted(loop: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield the variables that statements of a loop count up or down, each with whether down."""
    changes = (node for node in ast.walk(loop) if isinstance(node, ast.AugAssign) and not _calls(node.value))
    for node in changes:
        if isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.target, ast.Name):
            yield node.target.id, isinstance(node.op, ast.Sub)


def _calls(node: ast.AST) -> bool:
    """Return whether an expression calls something that may have an effect, or may tell something new."""
    calls = (one for one in ast.walk(node) if isinstance(one, (ast.Call, ast.Await, ast.NamedExpr)))
    return any(not isinstance(one, ast.Call) or _name(one.func) not in _ARITHMETIC for one in calls)


def _test(node: ast.expr | None) -> _Test | None:
    """Return what a comparison of a variable, or of what rises with it (`d * d`), with a value compares."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    if not isinstance(node.ops[0], (*_ORDERS, ast.Eq)):
        return None
    left, right = node.left, node.comparators[0]
    orders = isinstance(node.ops[0], _ORDERS)
    if _calls(right) or not isinstance(left, (ast.Name, ast.BinOp)):
        return None
    if isinstance(left, ast.BinOp):
        name = _name_in(left) if orders else ""
        return _Test(name, "", orders) if name else None
    bound = right.value if isinstance(right, ast.Constant) else right.id if isinstance(right, ast.Name) else ""
    return _Test(left.id, bound if isinstance(bound, (int, str)) else "", orders)


def _name_in(node: ast.expr) -> str:
    """Return the only variable of a sum or a product, or ""."""
    parts = [one for one in ast.walk(node) if isinstance(one, ast.expr)]
    names = {one.id for one in parts if isinstance(one, ast.Name)}
    simple = all(isinstance(one, (ast.Name, ast.Constant, ast.BinOp)) for one in parts)
    rises = all(isinstance(one.op, (ast.Add, ast.Sub, ast.Mult)) for one in parts if isinstance(one, ast.BinOp))
    return next(iter(names)) if simple and rises and len(names) == 1 else ""


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


def flags_of(tree: ast.AST) -> frozenset[str]:
    """Return the variables that a file sets to True or False: `stop`, `self.stop`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Constant):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(_name(target) for target in targets if isinstance(node.value.value, bool))
    return frozenset(found)


def _rests_of(
    loop: ast.For | ast.AsyncFor | ast.While, exits: Iterable[ast.expr | None], flags: Collection[str]
) -> tuple[frozenset[int], frozenset[int]] | None:
    """Return the lines that each round of a loop comes to, and those of its waits for a flag; None if it polls (X4).

    Args:
        exits: the conditions of its ways out (None: without one).
        flags: `flags_of` its file.
    """
    taken, own, once = dict(_taken(loop.body)), _own(loop), dict(_assigned_once(loop))

    def waits_for_nothing(test: ast.expr, goes_on: bool) -> bool:
        if isinstance(test, ast.BoolOp):
            return all(waits_for_nothing(one, goes_on) for one in test.values)
        if isinstance(test, ast.Name) and isinstance(once.get(test.id), ast.Compare):
            return waits_for_nothing(once[test.id], goes_on)
        return _is_flag(test, flags) or _is_of(test, own) or _is_time(test, once) or _is_last(test, goes_on)

    test = loop.test if isinstance(loop, ast.While) else ast.Constant(True)
    begins = (isinstance(test, ast.Constant) and bool(test.value)) or waits_for_nothing(test, True)

    def is_told(way_out: ast.expr) -> bool:
        if isinstance(way_out, ast.BoolOp) and isinstance(way_out.op, ast.And):
            return any(waits_for_nothing(one, False) for one in way_out.values)
        return waits_for_nothing(way_out, False) or _of_item(way_out, taken)

    told = (one is not None and is_told(one) for one in exits)
    if not begins or not all(told) or any(map(_leaves, _inside(loop.body))):
        return None
    calls = (one for one in _inside([loop]) if isinstance(one, ast.Call) and (one.args or one.keywords))
    waits = frozenset(one.lineno for one in calls if _is_flag(one, flags))
    return _lines((*_head(loop), *_each_round(loop.body))), waits


def _lines(nodes: Iterable[ast.AST]) -> frozenset[int]:
    ends = ((getattr(one, "lineno", 0), getattr(one, "end_lineno", 0) or 0) for one in nodes)
    return frozenset(line for first, last in ends for line in range(first, last + 1))


def _own(loop: ast.AST) -> set[str]:
    """Return the variables that nothing but the loop's own arithmetic changes in it."""
    inside = list(_inside([loop]))
    own = (node.target for node in inside if isinstance(node, ast.AugAssign) and not _calls(node.value))
    by_itself = Counter(target.id for target in own if isinstance(target, ast.Name))
    changed = Counter(one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    return {name for name, times in by_itself.items() if times == changed[name]}


def _assigned_once(loop: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the variables that one statement of a loop sets, and nothing else in it, with the value."""
    inside = list(_inside([loop]))
    changed = Counter(one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    for one in (one for one in inside if isinstance(one, ast.Assign)):
        target = one.targets[0]
        if isinstance(target, ast.Name) and changed[target.id] == 1:
            yield target.id, one.value


def _is_of(test: ast.expr, own: Collection[str]) -> bool:
    """Return whether a condition compares a variable, which the loop changes itself, with a bound, or asks for 0."""
    if isinstance(test, ast.Name):
        return test.id in own
    compared = _test(test)
    return compared is not None and compared.orders and compared.name in own


def _is_time(test: ast.expr, once: Mapping[str, ast.expr] = MappingProxyType({})) -> bool:
    """Return whether a condition compares the time with a bound.

    Args:
        once: the values of variables that one statement of the loop sets: `left = end - time.monotonic()`.
    """
    if not isinstance(test, ast.Compare) or not all(isinstance(one, _ORDERS) for one in test.ops):
        return False
    asked = {one.id for one in ast.walk(test) if isinstance(one, ast.Name)}
    parts = (test, *(once[name] for name in sorted(asked & once.keys())))
    calls = [one.func for part in parts for one in ast.walk(part) if isinstance(one, ast.Call)]
    names = {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in calls}
    return bool(names & _CLOCKS) and names <= _CLOCKS | _ARITHMETIC


def _is_last(test: ast.expr, goes_on: bool) -> bool:
    """Return whether a condition takes an item and asks whether it is the last: `(item := q.get()) is not END`.

    Of a stream, what is empty is the end: `data := file.read(9)`.

    Args:
        goes_on: the loop goes on as long as it holds; else it ends by it.
    """
    compared = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot if goes_on else ast.Is)
    asked = test.left if isinstance(test, ast.Compare) and compared else test
    if not isinstance(asked, ast.NamedExpr) or not (compared or goes_on):  # else it ends when something has come
        return False
    awaited = isinstance(asked.value, ast.Await)
    item = asked.value.value if isinstance(asked.value, ast.Await) else asked.value
    called = item.func if isinstance(item, ast.Call) else None
    if not isinstance(item, ast.Call) or not isinstance(called, ast.Attribute):
        return False
    if called.attr in _READS and (item.args or called.attr in _LINES):  # a `read()` may tell a state
        return True
    may_be_getter = called.attr == _GETTER and not awaited and not compared
    return called.attr in _TAKES and not item.args and not may_be_getter


def _is_flag(node: ast.expr, flags: Collection[str]) -> bool:
    """Return whether a condition asks a flag, or its contrary, and nothing else (X4)."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _is_flag(node.operand, flags)
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _ASKED:
            return False
        return _is_named(node.func.value)
    return _is_named(node) and _name(node) in flags


def _waits_to_stop(node: ast.expr) -> bool:
    """Return whether a statement waits for a flag: `stop.wait()`, also awaited."""
    called = node.value if isinstance(node, ast.Await) else node
    if not isinstance(called, ast.Call) or not isinstance(called.func, ast.Attribute) or called.func.attr != "wait":
        return False
    first, _, last = _name(called.func.value).rpartition(".")
    return _ORDER.match(last) is not None and first in ("", *_OWN)


def _is_named(node: ast.expr) -> bool:
    first, _, last = _name(node).rpartition(".")
    return _FLAG.match(last) is not None and first in ("", *_OWN)


def _name(node: ast.AST) -> str:
    """Return a variable's name, also as an attribute of another: `self.stop`; "" for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    return (
        f"{node.value.id}.{node.attr}" if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else ""
    )


def _taken(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, bool]]:
    """Yield the variables that get what a call took from a queue or a connection; False for what may be a getter."""
    for node in _inside(nodes):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            awaited = isinstance(node.value, ast.Await)
            value = node.value.value if isinstance(node.value, ast.Await) else node.value
            called = value.func if isinstance(value, ast.Call) and not value.args else None
            if isinstance(called, ast.Attribute) and called.attr in _TAKES:
                yield node.targets[0].id, awaited or called.attr != _GETTER


def _of_item(test: ast.expr, taken: Mapping[str, bool]) -> bool:
    """Return whether a condition asks of what was taken whether it is the last one.

    What `get()` returned must be the end itself (`is None`): `if not busy.get()` polls.
    """
    is_end = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.Eq)):
        test = test.left
    return isinstance(test, ast.Name) and test.id in taken and (is_end or taken[test.id])


def _leaves(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name(node.func) in _EXITS


def _inside(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and all inside of them, without those of nested functions."""
    for node in nodes:
        if not isinstance(node, _NESTED):
            yield node
            yield from _inside(ast.iter_child_nodes(node))


def _head(loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[ast.AST]:
    """Yield what a loop evaluates before each round: its condition, or the next of its items."""
    yield from (loop.test,) if isinstance(loop, ast.While) else (loop.target, loop.iter)


def _each_round(nodes: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the simple statements, and the heads of loops, that each round of a loop comes to (X5)."""
    for node in nodes:
        if isinstance(node, ast.Try):
            yield from _each_round([*node.body, *node.orelse, *node.finalbody])
        elif isinstance(node, (*_BLOCKS, *_LOOPS)):
            yield from (item.context_expr for item in node.items) if isinstance(node, _BLOCKS) else _head(node)
            yield from _each_round(node.body)
        elif not isinstance(node, (ast.If, ast.Match, *_NESTED)):
            yield node


_LARGEST: Final = 1 << 20
_KEPT: Final = 4
"""How many parsed files of a process are kept: a tree takes some hundred times the memory of its text."""
_COMMAND: Final = "<string>"
"""The file that Python names for `-c` (and for `exec` of a string, which is as rare in such a program)."""

_WITH_VALUE: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})


def command_of(words: Sequence[str]) -> str | None:
    """Return the program that a command line of Python has behind `-c`; None if it has none."""
    rest = iter(words[1:])
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif word.startswith(("-W", "-X")):
            continue
        elif word.startswith("-") and not word.startswith("--") and "c" in word:
            inside = word.partition("c")[2]
            return inside or next(rest, None)
        elif not word.startswith("-") or word in ("-", "-m"):
            return None
    return None


class Ahead(NamedTuple):
    """What the code ahead of a line names: variables, and attributes, each with the name before the dot.

    Before the dot: `.inbox` of `self.inbox.put`, `queues` of `queues[0].put`; "" for a call. Who leaves a `with` block
    calls `release` of its object.
    """

    attributes: Set[tuple[str, str]] = frozenset()
    variables: Set[str] = frozenset()


class SourceFile(NamedTuple):
    """What is named in a file: its functions and methods (first, last line, name), and what a line names.

    `rounds` are the loops by first and last line, each with the lines that each round of it comes to (X5).
    """

    rounds: tuple[tuple[int, int, frozenset[int]], ...]
    functions: tuple[tuple[int, int, str], ...]
    methods: tuple[tuple[int, int, str], ...]
    attributes: tuple[tuple[int, tuple[str, str]], ...]
    variables: tuple[tuple[int, str], ...]

    def ahead(self, line: int) -> Collection[int]:
        """Return the lines that will run after one: in each round of the outermost loop around it, or behind it."""
        around = [(first, last) for first, last, _ in (*self.functions, *self.methods) if first <= line <= last]
        first, last = max(around, default=(1, line))
        loops = (lines for begin, end, lines in self.rounds if first <= begin <= line <= end)
        return next(loops, range(line + 1, last + 2))

    def names_ahead(self, line: int) -> Ahead:
        found = Ahead(set(), set())
        todo: list[Collection[int]] = [self.ahead(line)]
        called = [(range(first, last + 1), name, False) for first, last, name in self.functions]
        called += [(range(first, last + 1), name, True) for first, last, name in self.methods]
        while todo:
            lines = todo.pop()
            attributes = {name for at, name in self.attributes if at in lines} - found.attributes
            variables = {name for at, name in self.variables if at in lines} - found.variables
            found = Ahead(found.attributes | attributes, found.variables | variables)
            methods = {name for _, name in attributes}
            todo += (inside for inside, name, of_class in called if name in (methods if of_class else variables))
        return found


def file_of(tree: ast.Module) -> SourceFile:
    nodes = list(ast.walk(tree))
    functions = [one for one in nodes if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    of_classes = {id(one) for node in nodes if isinstance(node, ast.ClassDef) for one in node.body}
    known = [(id(one) in of_classes, (one.lineno, one.end_lineno or one.lineno, one.name)) for one in functions]
    attributes = (one for one in nodes if isinstance(one, ast.Attribute))
    variables = (one for one in nodes if isinstance(one, ast.Name))
    blocks = [(one, item) for one in nodes if isinstance(one, _BLOCKS) for item in one.items]
    released = [(_before_dot(item.context_expr), "release", one) for one, item in blocks]
    leaves = [(line, (of, what)) for of, what, one in released for line in (one.lineno, (one.end_lineno or 0) + 1)]
    loops = (one for one in nodes if isinstance(one, _LOOPS))
    rounds = ((one.lineno, one.end_lineno or one.lineno, _lines(_each_round([one]))) for one in loops)
    return SourceFile(
        rounds=tuple(sorted(rounds, key=lambda one: one[:2])),
        functions=tuple(one for method, one in known if not method),
        methods=tuple(one for method, one in known if method),
        attributes=(*((one.lineno, (_before_dot(one.value), one.attr)) for one in attributes), *leaves),
        variables=tuple((one.lineno, one.id) for one in variables),
    )


def _before_dot(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _before_dot(node.value)
    return f".{node.attr}" if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class _Parsed:
    """A file that was parsed."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree

    @functools.cached_property
    def flags(self) -> frozenset[str]:
        return flags_of(self.tree)

    @functools.cached_property
    def named(self) -> SourceFile:
        return file_of(self.tree)


class Sources:
    """The sources of one process; what was asked of one is kept, of the files only the last few."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._parsed = functools.lru_cache(maxsize=_KEPT)(self._read)
        self._around: dict[tuple[str, int], Around | None] = {}

    def around(self, file: str, line: int) -> Around | None:
        """Return what is around a line of a file that a code object names; None if it can't be read or was changed."""
        key = (file, line)
        if key not in self._around:
            known = self._parsed(file)
            self._around[key] = None if known is None else around(known.tree, line, known.flags)
        return self._around[key]

    def loops(self, file: str, line: int) -> tuple[SourceLoop, ...] | None:
        """Return the loops around a line, outermost first; None as above."""
        found = self.around(file, line)
        return None if found is None else found.loops

    def names_ahead(self, file: str, line: int) -> Ahead:
        """Return what a file names in the code ahead of a line, also in functions of it that are named there.

        What runs ahead of a line: the outermost loop of its function around it, or what is behind it in that function.
        """
        known = self._parsed(file)
        return known.named.names_ahead(line) if known is not None else Ahead()

    def _read(self, file: str) -> _Parsed | None:
        with suppress(OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            if file == _COMMAND:
                text: str | bytes | None = command_of(procfs.command_line(self._pid))
            else:
                text = target_files.read_since_start(self._pid, file, _LARGEST) if file.endswith(".py") else None
            return _Parsed(ast.parse(text)) if text is not None else None
        return None
