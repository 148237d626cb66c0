"""Positions of real `for` loops, read from processes that run them, on every interpreter that is here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from livedbg.cpython.for_loops import ForLoop, ForLoopReader
from livedbg.cpython.interpreter import find_interpreter
from livedbg.cpython.loop_source import Sources
from livedbg.cpython.objects import Code
from livedbg.cpython.threads import ThreadReader
from tests.conftest import TARGETS, Target, eventually
from tests.cpython.interpreters import interpreters, label

PROGRAM = TARGETS / "py_for_loops.py"
MANY = 10**12
PYTHONS = pytest.mark.parametrize("python", interpreters("3.12", "3.13"), ids=label)


class Reading:
    """Reads the loops of a program's only thread."""

    def __init__(self, target: Target) -> None:
        interpreter = find_interpreter(target.pid)
        assert interpreter is not None
        self._reader = ThreadReader(target.pid, interpreter)
        (self._state,) = self._reader.states().values()
        self._sources = Sources(target.pid)

    def loops(self) -> tuple[ForLoop, ...]:
        return ForLoopReader(self._reader).loops(self._state)

    def steps(self) -> tuple[Code, tuple[int, ...]] | None:
        return ForLoopReader(self._reader).steps(self._state, self._sources.loops)


@PYTHONS
@pytest.mark.parametrize(
    ("word", "total"),
    [
        ("by_range", MANY),
        ("by_step", MANY // 5),
        ("by_list", 20_000_000),
        ("by_zip", MANY),
        ("by_generator", MANY),
        ("by_enumerate", MANY),
        ("by_enumerated_list", 20_000_000),
        ("by_dict", 4_000_000),
        ("by_map", MANY),
        ("by_filter", MANY),
        ("by_slice", MANY),
        ("by_reversed", 20_000_000),
    ],
)
def test_the_position_rises(python: str, word: str, total: int, spawn: Callable[..., Target]) -> None:
    reading = Reading(spawn([python, str(PROGRAM), word]))
    seen: list[ForLoop] = []

    def rose() -> bool:
        seen.extend(loop for loop in reading.loops()[:1] if loop.code.name == "over")
        return len(seen) > 1 and seen[-1].position > seen[0].position

    eventually(rose)
    assert {loop.iterator for loop in seen} == {seen[0].iterator}
    assert [loop.position for loop in seen] == sorted(loop.position for loop in seen)
    assert all(loop.total is not None and abs(loop.total - total) <= 2 for loop in seen)


@PYTHONS
def test_a_range_that_falls(python: str, spawn: Callable[..., Target]) -> None:
    reading = Reading(spawn([python, str(PROGRAM), "downwards"]))
    eventually(lambda: len(reading.loops()) > 0)
    first = reading.loops()[0]
    eventually(lambda: reading.loops()[0].position > first.position)
    assert first.total is not None and first.total - first.position > 0


@PYTHONS
def test_loops_are_given_outermost_first(python: str, spawn: Callable[..., Target]) -> None:
    reading = Reading(spawn([python, str(PROGRAM), "nested"]))
    found: list[ForLoop] = []

    def both() -> bool:
        found[:] = reading.loops()
        return len(found) == 2

    eventually(both)
    assert [loop.code.name for loop in found] == ["nested", "over"]
    assert [loop.total for loop in found] == [100_000, 20_000]


@pytest.mark.parametrize("word", ["counts_while_it_polls", "numbers_its_polls", "polls_a_flag"])
def test_a_loop_without_an_end_is_none(word: str, spawn: Callable[..., Target]) -> None:
    """But for the outer one of those that poll inside: it stands still."""
    reading = Reading(spawn([interpreters()[0], str(PROGRAM), word]))
    found = [reading.loops() for _ in range(50)]
    assert {tuple(loop.position for loop in loops) for loops in found} <= {(), (1,)}


@PYTHONS
@pytest.mark.invariant("for_loops.E3")
@pytest.mark.parametrize("word", ["by_dict", "nested", "computes_until_a_time", "computes_short_jobs"])
def test_who_computes_in_steady_loops_makes_steps(python: str, word: str, spawn: Callable[..., Target]) -> None:
    reading = Reading(spawn([python, str(PROGRAM), word]))
    seen: set[tuple[int, ...]] = set()

    def moved() -> bool:
        found = reading.steps()
        seen.update(() if found is None else (found[1],))
        return len(seen) > 2

    eventually(moved)


@pytest.mark.invariant("for_loops.E3")
@pytest.mark.parametrize(
    "word",
    [
        "counts_what_comes",
        "counts_what_comes_after_it",
        "polls_a_cycle",
        "polls_for_jobs",
        "polls_a_flag",
        "polls_a_short_list",
        "counts_its_polls",
        "counts_while_it_polls",
        "numbers_its_polls",
        "polls_in_an_event_loop",
    ],
)
def test_who_may_wait_in_its_loops_makes_none(word: str, spawn: Callable[..., Target]) -> None:
    reading = Reading(spawn([interpreters()[0], str(PROGRAM), word]))
    assert {reading.steps() for _ in range(200)} == {None}
