"""How the loops around a line of C or C++ go on, by their source.

What is said of Python's loops in livedbg.cpython.loop_source holds here too; the source is parsed by tree-sitter.

Invariants:
    c_loops.K1. A loop waits for nothing if its condition and all its ways out are true for ever, compare a number
        that only its own arithmetic changes, and in each round, or the time, ask a flag (of an atomic type, or a bool
        of this file, with a name like `stop`), whether a queue had one more item, or whether what was read is the
        end, or several of these. Else it polls. One that `exit` or a coroutine leaves does neither.
    c_loops.K2. A line counts only if each round comes to it: not under `if`, `switch` or `catch`.
    c_loops.K3. A loop that only goes on with a sleep or a wait that a signal broke (`while (nanosleep(&left, &left))`)
        is none, nor is one that does nothing but wait for a condition variable: that is how one waits for it.
    c_loops.K4. It works if it waits for nothing, and takes an item from a queue in each round, at the line or behind
        it, if the line waits for that; or if each round begins with the wait. It may also end when that queue is
        empty, or by any bool of this file. A wait with a time limit in a loop that waits for nothing is a pause.
    c_loops.K5. That something could not be read, or not be written, is no news that somebody may wait for: a way out
        under `!read_line(file)` or `write(...) < 0` is no poll, also by a function of this file that writes, or that
        reads and has such a name. Nor is `exit` under such a condition. But what has been read may be news.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from livedbg.linux import target_files
from livedbg.model import LoopWay
from livedbg.text.patterns import lazy_re

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_SUFFIXES: Final = frozenset(
    {".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".inl", ".ipp", ".cu", ".cuh"}
)
_LOOPS: Final = frozenset({"while_statement", "for_statement", "for_range_loop", "do_statement"})
_FUNCTIONS: Final = frozenset({"function_definition", "lambda_expression", "class_specifier", "struct_specifier"})
_BRANCHES: Final = frozenset({"if_statement", "switch_statement", "catch_clause", "case_statement", "else_clause"})
_INSIDE: Final = frozenset({"compound_statement", "try_statement", "labeled_statement", *_LOOPS})
_FLAG: Final = lazy_re(
    r"(?:g|m|s|k|is|should|must|keep)?_*(?:stop(?:ped|ping|_?requested)?|shut_?down|shutting_?down|quit|exit(?:ing)?"
    r"|terminate[d]?|running|going)(?:_?(?:flag|requested|now))?_*",
    re.IGNORECASE,
)
_TAKES: Final = frozenset({"pop", "take", "recv", "receive", "dequeue", "wait_and_pop", "read"})
"""With arguments, or into a variable: what a call without them returns may be a flag."""

_LIMITED: Final = frozenset({"wait_for", "wait_until", "pthread_cond_timedwait", "cnd_timedwait"})

_READS: Final = frozenset({"read", "recv", "recvfrom", "recvmsg", "fread", "fgets", "getline", "accept", "mq_receive"})
_READER: Final = lazy_re(r"(?:try_?)?(?:read|recv|receive|get_?line|next|fetch|take|pop)", re.IGNORECASE)
_OF_STATE: Final = lazy_re(r"stat(?:e|us)|flag|ready|done|busy|alive|running|pending|empty|count", re.IGNORECASE)
"""Names of functions that return what has come, and of those whose answer may be waited for."""

_POLLS: Final = frozenset({"select", "pselect", "poll", "ppoll", "epoll_wait", "epoll_pwait"})
_WRITES: Final = frozenset(
    {
        *("write", "send", "sendto", "sendmsg", "writev", "fwrite", "fputs", "fputc", "fprintf", "printf", "fflush"),
        *("mq_send", "sem_post", "dprintf", "flush"),
    }
)
_NOTHING: Final = ("0", "-1", "NULL", "nullptr")
_AT_MOST: Final = ("==", "<=", "<")
_JOBS: Final = frozenset({"pop", "pop_front", "pop_back", "dequeue", "take"})
_WAITS: Final = frozenset({"wait", "pthread_cond_wait", "cnd_wait"})
_BRACKETS: Final = ("condition_clause", "parenthesized_expression")
_EXITS: Final = frozenset({"exit", "_exit", "abort", "quick_exit", "terminate"})
_OUT: Final = frozenset({"break_statement", "return_statement", "goto_statement"})
_ORDERS: Final = ("<", ">", "<=", ">=")
_CLOCKS: Final = frozenset({"now", "time", "clock", "difftime", "omp_get_wtime", "MPI_Wtime", "elapsed"})
_SIZES: Final = frozenset({"size", "length", "ssize", "rows", "cols", "numel", "strlen"})
_UNITS: Final = frozenset(
    {"hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds", "count", "time_since_epoch"}
)
_LARGEST: Final = 1 << 20


class CSources:
    """The C and C++ sources of one process; each is read once."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._roots: dict[str, Node | None] = {}

    def way(self, file: str, line: int) -> LoopWay | None:
        """Return how the loops around a line go on; None without a loop, UNKNOWN without the source as it was built."""
        if file not in self._roots:
            self._roots[file] = None
            if Path(file).suffix.lower() in _SUFFIXES:
                with suppress(OSError, ValueError, ImportError):  # a platform without tree-sitter's wheels
                    text = target_files.read_since_start(self._pid, file, _LARGEST)
                    self._roots[file] = _parser().parse(text).root_node if text is not None else None
        root = self._roots[file]
        with suppress(RecursionError):  # an expression as deep as nobody writes it
            return _way_of(root, line) if root is not None else LoopWay.UNKNOWN
        return LoopWay.UNKNOWN


@cache
def _parser() -> Parser:
    import tree_sitter_cpp
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cpp.language()))


def _way_of(root: Node, line: int) -> LoopWay | None:
    loops: list[Node] = []
    node: Node | None = root
    while node is not None:
        if node.type in _FUNCTIONS:
            loops.clear()
        elif node.type in _LOOPS and not _sleeps_on(node):
            loops.append(node)
        within = (one for one in node.named_children if one.start_point[0] < line <= one.end_point[0] + 1)
        node = next(within, None)
    ways = [_way(loop, line, root) for loop in loops]
    order = (LoopWay.POLLS, LoopWay.UNKNOWN, LoopWay.PAUSES, LoopWay.WORKS, LoopWay.RESTS, LoopWay.ENDS)
    return next((way for way in order if way in ways), None)


def _called(node: Node | None) -> set[str]:
    calls = (one for one in _nodes(node) if one.type == "call_expression") if node is not None else ()
    return {_name(one.child_by_field_name("function")) for one in calls}


def _sleeps_on(loop: Node) -> bool:
    """Return whether a loop only goes on with a sleep that a signal broke, or with a wait (K3)."""
    body = loop.child_by_field_name("body")
    block = body is not None and body.type == "compound_statement"
    only = body.named_children[0] if body is not None and block and body.named_child_count == 1 else body
    waits = only is not None and only.type == "expression_statement" and not _called(only).isdisjoint(_WAITS)
    asked = _called(loop.child_by_field_name("condition"))
    return waits or "sem_wait" in asked or any("sleep" in name for name in asked)


def _way(loop: Node, line: int, root: Node) -> LoopWay:
    inside = list(_nodes(loop))
    body, test = loop.child_by_field_name("body"), loop.child_by_field_name("condition")
    exits = _ways_out(body, exits=True) if body is not None else ()
    if any(one.type.startswith("co_") for one in inside) or not all(_fails(one, root) for one in exits):
        return LoopWay.UNKNOWN
    own = _own(inside) & set(_changed_each_round(loop, inside))
    goes_on = LoopWay.ENDS if loop.type == "for_range_loop" else _goes_on(test, own, root)
    goes_on = LoopWay.RESTS if goes_on is None and _takes(test) else goes_on
    if goes_on is None or body is None:
        return LoopWay.POLLS
    each, taken = list(_each_round(body)), set(_taken(inside))
    pops = [one.start_point[0] for one in each if not _called(one).isdisjoint(_JOBS)]
    head = () if loop.type == "do_statement" else map(loop.child_by_field_name, ("condition", "update", "right"))
    each += [one for one in head if one is not None]
    here = [one for one in each if one.start_point[0] < line <= one.end_point[0] + 1]
    waits = any(not _called(one).isdisjoint(_WAITS | _JOBS | {"sem_wait"}) for one in here)
    begins = waits and _begins_with(body, line)
    takes = goes_on is LoopWay.RESTS and waits and (begins or bool(pops))
    for way_out in map(_bare, _ways_out(body)):
        at_end = _fails(way_out, root, taken) or (way_out is not None and _takes(_denied(way_out)))
        if not (at_end or (takes and _is_closed(way_out, root)) or (way_out and _is_told(way_out, own, root))):
            return LoopWay.POLLS
    if not here:
        return LoopWay.UNKNOWN
    if goes_on is LoopWay.RESTS and any(not _called(one).isdisjoint(_LIMITED) for one in here):
        return LoopWay.PAUSES
    return LoopWay.WORKS if takes and (begins or line <= min(pops) + 1) else goes_on


def _begins_with(body: Node, line: int) -> bool:
    """Return whether a line is the first that a round does, but for declarations, of a lock for instance."""
    does = (one for one in body.named_children if one.type not in ("declaration", "comment"))
    first = next(does, None)
    return first is not None and first.start_point[0] < line <= first.end_point[0] + 1


def _fails(test: Node | None, root: Node, taken: Container[str] = ()) -> bool:
    """Return whether a condition asks whether something could not be read or written (K5).

    Args:
        taken: the variables that get what a call has read.
    """
    test = _bare(test)
    if test is None:
        return False
    if test.type == "binary_expression" and (joined := _text(test.child_by_field_name("operator"))) in ("&&", "||"):
        sides = [_fails(test.child_by_field_name(side), root, taken) for side in ("left", "right")]
        return any(sides) if joined == "&&" else all(sides)
    denied = _denied(test)
    asked = _bare(denied if denied is not None else test.child_by_field_name("left"))
    if asked is None or asked.type != "call_expression":
        return _is_end(test, taken)
    moves = _moves(asked, root)
    if denied is not None or moves == "writes":
        return bool(moves)
    at_most = _text(test.child_by_field_name("operator")) in _AT_MOST
    return bool(moves) and at_most and _text(test.child_by_field_name("right")) in _NOTHING


def _moves(call: Node, root: Node) -> str:
    """Return whether a call `reads` or only `writes`, itself or in a function of the file; "" for others."""
    name = _name(call.child_by_field_name("function"))
    calls = {name}
    own = name not in _READS | _WRITES
    if own:
        named = (one for one in _definitions(root) if _declares(one, name))
        calls = set().union(*(_called(one.child_by_field_name("body")) for one in named))
    if calls.isdisjoint(_READS):
        return "writes" if not calls.isdisjoint(_WRITES) else ""
    return "reads" if not own or (_READER.match(name) and not _OF_STATE.search(name)) else ""


def _definitions(node: Node) -> Iterator[Node]:
    """Yield the functions of a file, also those of classes and namespaces."""
    if node.type == "function_definition":
        yield node
    elif not node.type.endswith(("_statement", "_expression", "declarator")):
        for one in node.named_children:
            yield from _definitions(one)


def _declares(function: Node, name: str) -> bool:
    declarator = function.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    return declarator is not None and _name(declarator.child_by_field_name("declarator")) == name


def _is_closed(test: Node | None, root: Node) -> bool:
    """Return whether a condition asks whether a queue is empty, or a bool of this file, or both (K4)."""
    test = _bare(test)
    if test is not None and test.type == "binary_expression":
        both = _text(test.child_by_field_name("operator")) in ("&&", "||")
        return both and all(_is_closed(test.child_by_field_name(side), root) for side in ("left", "right"))
    if test is not None and test.type == "call_expression":
        return _called(test) == {"empty"}
    name = _own_name(_denied(test) or test)
    return bool(name) and _is_bool(name, root)


def _taken(inside: list[Node]) -> Iterator[str]:
    """Yield the variables that get what a call has read."""
    for node in inside:
        name, value = "", None
        if node.type == "init_declarator":
            name, value = _text(node.child_by_field_name("declarator")), node.child_by_field_name("value")
        elif node.type == "assignment_expression":
            name, value = _text(node.child_by_field_name("left")), node.child_by_field_name("right")
        if (
            value is not None
            and value.type == "call_expression"
            and not _called(value).isdisjoint(_READS | _JOBS | _POLLS)
        ):
            yield name.lstrip("*")


def _is_end(test: Node, taken: Container[str]) -> bool:
    """Return whether a condition asks whether what was read or taken is the end: `n <= 0`, `!line`, `job.size == 0`."""
    if test.type == "binary_expression":
        left, right = test.child_by_field_name("left"), test.child_by_field_name("right")
        of = left.child_by_field_name("argument") if left is not None and left.type == "field_expression" else left
        less = _text(test.child_by_field_name("operator")) in _AT_MOST  # `n > 0`: something has come
        return less and _text(of) in taken and _text(right) in _NOTHING
    return _text(_denied(test)) in taken


def _is_told(test: Node | None, own: set[str], root: Node) -> bool:
    """Return whether a way out is taken only if somebody told the loop to stop, or at its own end."""
    test = _bare(test)
    if test is not None and test.type == "binary_expression" and _text(test.child_by_field_name("operator")) == "&&":
        return any(_is_told(test.child_by_field_name(side), own, root) for side in ("left", "right"))
    return _goes_on(test, own, root) is not None


def _goes_on(test: Node | None, own: set[str], root: Node) -> LoopWay | None:
    """Return RESTS for a condition that is true until somebody tells it to stop, ENDS for a count, else None (K1)."""
    test = _bare(test)
    if test is None or _text(test) in ("true", "1"):
        return LoopWay.RESTS
    if test.type == "binary_expression" and _text(test.child_by_field_name("operator")) in _ORDERS:
        sides = [test.child_by_field_name("left"), test.child_by_field_name("right")]
        names = [name for side in sides if side is not None for name in _summands(side)]
        calls = {_name(one.child_by_field_name("function")) for one in _nodes(test) if one.type == "call_expression"}
        of_time = not calls.isdisjoint(_CLOCKS) and calls <= _CLOCKS | _UNITS
        return LoopWay.ENDS if of_time or (calls <= _SIZES and not own.isdisjoint(names)) else None
    if test.type == "binary_expression" and _text(test.child_by_field_name("operator")) in ("&&", "||"):
        ways = [_goes_on(test.child_by_field_name(side), own, root) for side in ("left", "right")]
        return None if None in ways else LoopWay.RESTS if LoopWay.RESTS in ways else LoopWay.ENDS
    return LoopWay.RESTS if _is_flag(_bare(_denied(test) or test), root) else None


def _summands(side: Node) -> Iterator[str]:
    """Yield the variables of a sum: `i` of `i`, and of `i + 1`."""
    side = _bare(side) or side
    if side.type == "identifier":
        yield _text(side)
    elif side.type == "binary_expression" and _text(side.child_by_field_name("operator")) in ("+", "-"):
        for one in side.named_children:
            yield from _summands(one)


def _takes(test: Node | None) -> bool:
    """Return whether a condition takes an item from a queue."""
    called, given = _bare(test), False
    if called is not None and called.type == "declaration":  # of the item
        called, given = called.child_by_field_name("value"), True
    if called is None or called.type != "call_expression":
        return False
    arguments = called.child_by_field_name("arguments")
    given = given or (arguments is not None and arguments.named_child_count > 0)
    return given and _name(called.child_by_field_name("function")) in _TAKES


def _is_flag(node: Node | None, root: Node) -> bool:
    if node is None:
        return False
    if node.type == "call_expression":
        called = node.child_by_field_name("function")
        if called is None or called.type != "field_expression":
            return False
        asked, of = _name(called), called.child_by_field_name("argument")
        return asked == "stop_requested" or (asked in ("load", "test") and _FLAG.fullmatch(_own_name(of)) is not None)
    name = _own_name(node)
    if not name or _FLAG.fullmatch(name) is None:
        return False
    return _is_bool(name, root)


def _is_bool(name: str, root: Node) -> bool:
    declared = rf"\b(?:bool|atomic_bool|atomic<bool>|sig_atomic_t)\s[^;(){{}}]{{0,200}}?\b{re.escape(name)}\b"
    return re.search(declared, _text(root)) is not None


def _own_name(node: Node | None) -> str:
    """Return the name of a variable, or of a member of this object; "" for others."""
    if node is None or node.type == "identifier":
        return _text(node)
    of = node.child_by_field_name("argument") if node.type == "field_expression" else None
    return _name(node) if of is not None and of.type == "this" else ""


def _changed_each_round(loop: Node, inside: list[Node]) -> Iterator[str]:
    """Yield the variables that each round changes: what only a branch counts may wait for its condition."""
    body = loop.child_by_field_name("body")
    block = body is not None and body.type == "compound_statement"
    parts = body.named_children if body is not None and block else [body]
    skipped = any(one.type == "continue_statement" for one in inside)
    simple = () if skipped else (one for one in parts if one is not None and one.type == "expression_statement")
    for part in (loop.child_by_field_name("update"), *simple):
        for node in _in_turn(part) if part is not None else ():
            field = {"update_expression": "argument", "assignment_expression": "left"}.get(node.type)
            if field is not None:
                yield _text(node.child_by_field_name(field))


def _in_turn(node: Node) -> Iterator[Node]:
    """Yield the expressions of a statement that are computed one after the other, whatever each gives."""
    if node.type in ("expression_statement", "comma_expression", "parenthesized_expression"):
        for one in node.named_children:
            yield from _in_turn(one)
    else:
        yield node


def _own(inside: list[Node]) -> set[str]:
    """Return the variables that nothing but the loop's own arithmetic changes in it."""
    changed, by_itself = Counter[str](), Counter[str]()
    for node in inside:
        if node.type in ("update_expression", "pointer_expression"):
            name, arithmetic = _text(node.child_by_field_name("argument")), node.type == "update_expression"
        elif node.type == "assignment_expression":
            name, value = _text(node.child_by_field_name("left")), node.child_by_field_name("right")
            computed = value is not None and all(one.type != "call_expression" for one in _nodes(value))
            arithmetic = computed and _text(node.child_by_field_name("operator")) != "="
        else:
            continue
        changed[name] += 1
        by_itself[name] += arithmetic
    return {name for name, times in by_itself.items() if times == changed[name]}


def _ways_out(
    node: Node, test: Node | None = None, *, nested: bool = False, exits: bool = False
) -> Iterator[Node | None]:
    """Yield for each way out of a loop, or for each end of the program, the condition right around it, or None."""
    for one in node.named_children:
        if _leaves(one, nested, exits):
            yield test
        elif one.type == "if_statement":
            condition = one.child_by_field_name("condition")
            branch, other = one.child_by_field_name("consequence"), one.child_by_field_name("alternative")
            if branch is not None:
                yield from _of_branch(branch, condition, nested=nested, exits=exits)
            if other is not None:
                yield from _of_branch(other, None, nested=nested, exits=exits)
        elif one.type not in _FUNCTIONS:
            inner = nested or one.type in _LOOPS or one.type == "switch_statement"
            yield from _ways_out(one, nested=inner, exits=exits)


def _of_branch(branch: Node, test: Node | None, *, nested: bool, exits: bool) -> Iterator[Node | None]:
    if _leaves(branch, nested, exits):
        yield test
    elif branch.type not in _OUT:
        yield from _ways_out(branch, test, nested=nested, exits=exits)


def _leaves(node: Node, nested: bool, exits: bool) -> bool:
    if exits:
        return node.type == "expression_statement" and not _called(node).isdisjoint(_EXITS)
    return node.type in _OUT and (node.type != "break_statement" or not nested)


def _each_round(node: Node) -> Iterator[Node]:
    """Yield the simple statements that each round of a loop comes to (K2)."""
    if node.type in _LOOPS:
        body, condition = node.child_by_field_name("body"), node.child_by_field_name("condition")
        yield from (condition,) if condition is not None else ()
        yield from _each_round(body) if body is not None else ()
    elif node.type in _INSIDE:
        for one in node.named_children:
            yield from _each_round(one)
    elif node.type == "if_statement" and (condition := node.child_by_field_name("condition")) is not None:
        branch = node.child_by_field_name("consequence")
        beside = branch is not None and branch.start_point[0] == condition.end_point[0]
        if not beside or _called(condition) or not _called(branch):
            yield condition  # else what its line calls is in the branch
    elif node.type not in _BRANCHES:
        yield node


def _nodes(node: Node) -> Iterator[Node]:
    """Yield a node and all inside of it, without nested functions."""
    yield node
    for one in node.named_children:
        if one.type not in _FUNCTIONS:
            yield from _nodes(one)


def _bare(node: Node | None) -> Node | None:
    """Return an expression without brackets around it."""
    while (
        node is not None
        and node.type in ("condition_clause", "parenthesized_expression")
        and node.named_child_count == 1
    ):
        node = node.named_children[0]
    return node


def _denied(node: Node | None) -> Node | None:
    """Return what `!` stands before; None for other expressions."""
    if (
        node is None
        or node.type != "unary_expression"
        or _text(node.child_by_field_name("operator")) not in ("!", "not")
    ):
        return None
    return node.child_by_field_name("argument")


def _name(node: Node | None) -> str:
    """Return the last part of a name: `pop` of `queue_.pop` and of `std::exit`."""
    return re.split(r"::|\.|->", _text(node))[-1]


def _text(node: Node | None) -> str:
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""
