"""A stack that overflowed is told from other faults, by the stack pointer."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import cast

import pytest

from livedbg.adapters.exceptions.signal_meaning import is_fatal
from livedbg.linux.maps import Mapping
from livedbg.linux.registers import SP
from livedbg.probes.overflows import Overflows, stack_end, stack_overflow
from livedbg.probes.perf import STACK_COPY_BYTES, NoPerf, PerfEvents, Source
from livedbg.probes.perf_records import Sample

_LIMIT = 8 << 20
_END = 0x7FFF_0000_0000


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livedbg.probes.overflows._stack_limit", lambda _pid: _LIMIT)


def _mapping(start: int, end: int, permissions: str, path: str = "") -> Mapping:
    return Mapping(start, end, permissions, 0, "00:00", 0, path, False)


def _at(pointer: int, stack: bytes = b"") -> Sample:
    registers = [0] * 40
    registers[SP] = pointer
    return Sample(source=0, pid=1, tid=1, mono_ns=1, raw=b"", registers=tuple(registers), stack=stack)


@pytest.mark.parametrize(
    ("used", "overflow"),
    [(_LIMIT - 64, True), (_LIMIT + 9000, True), (_LIMIT // 2, False), (-4096, False), (1 << 40, False)],
)
def test_the_main_thread_has_used_up_its_limit(used: int, overflow: bool) -> None:
    stack = _mapping(_END - 0x21000, _END, "rw-p", "[stack]")
    assert stack_overflow(_at(_END - used), [stack]) == (used if overflow else 0)
    assert stack_overflow(_at(_END - used), [], _END) == (used if overflow else 0)


@pytest.mark.parametrize(("stack", "overflow"), [(b"", True), (bytes(64), False)])
def test_near_its_limit_only_a_stack_without_a_page_has_overflowed(stack: bytes, overflow: bool) -> None:
    used = _LIMIT - 20_000  # the end may be known too low by the environment's size
    assert stack_overflow(_at(_END - used, stack), [], _END) == (used if overflow else 0)


_MIB = 1 << 20


def _grown(*pointers: int) -> Overflows:
    """A thread whose stack was seen to grow to each of these."""
    overflows = Overflows(1)
    overflows._events = cast(PerfEvents, SimpleNamespace(read=lambda: [_at(one, b"calls") for one in pointers]))
    overflows.update()
    return overflows


@pytest.mark.invariant("overflows.O1")
@pytest.mark.parametrize(
    ("grown", "last", "seen"),
    [
        (_END - 7 * _MIB, b"", b"calls"),
        (_END - 7 * _MIB, b"its own", b"its own"),
        (_END - 3 * _MIB, b"", b""),  # of the upper half: long before
        (_END - 9 * _MIB, b"", b""),  # below: another stack
    ],
)
def test_a_stack_that_shows_nothing_is_as_it_was_seen_last(grown: int, last: bytes, seen: bytes) -> None:
    sample = _at(_END - 8 * _MIB, last)
    assert _grown(_END - _MIB, grown).seen(sample, 8 * _MIB).stack == seen


@pytest.mark.invariant("overflows.O1")
@pytest.mark.parametrize(("begun_ns", "seen"), [(2, b""), (0, b"calls")])
def test_what_a_program_filled_is_not_shown_for_the_next_one(begun_ns: int, seen: bytes) -> None:
    overflows = _grown(_END - _MIB, _END - 7 * _MIB)
    overflows.begun(_at(_END - 64)._replace(mono_ns=begun_ns))
    assert overflows.seen(_at(_END - 8 * _MIB), 8 * _MIB).stack == seen


@pytest.mark.invariant("overflows.O3")
@pytest.mark.parametrize(
    ("used", "below", "forbidden", "stack", "overflow"),
    [
        (4 * _MIB, 300_000, True, b"", 4 * _MIB),
        (4 * _MIB, 300_000, False, b"", 0),  # nothing is mapped there: not its guard
        (4 * _MIB, 300_000, True, b"there", 0),  # its stack is readable
        (4 * _MIB, 2 * _MIB, True, b"", 0),  # too far from where it was seen
        (600_000, 300_000, True, b"", 0),  # a large array that is not used yet
    ],
)
def test_another_thread_fell_into_its_guard(
    used: int, below: int, forbidden: bool, stack: bytes, overflow: int
) -> None:
    pointer = 0x5000_0000
    overflows = _grown(pointer + used, pointer + below)
    assert overflows.of(_at(pointer, stack), [], forbidden=forbidden) == overflow
    assert not Overflows(1).of(_at(pointer, stack), [], forbidden=forbidden)


@pytest.mark.invariant("overflows.O2")
def test_where_page_faults_may_not_be_sampled_the_main_stack_is_known_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_source: Source, _tid: int, _cpu: int, **_options: object) -> int:
        raise NoPerf

    monkeypatch.setattr("livedbg.probes.perf.open_for_ring", refuse)
    overflows = Overflows(1)
    overflows.start(lambda: [os.getpid()], follow=True)
    stack = _mapping(_END - 0x21000, _END, "rw-p", "[stack]")
    assert overflows.filenos == () and overflows.of(_at(_END - _LIMIT), [stack], forbidden=False) == _LIMIT


@pytest.mark.parametrize(("copied", "end"), [(0, 0x1000), (5000, 0x1000 + 5000), (STACK_COPY_BYTES, 0)])
def test_the_end_of_a_stack_is_where_its_copy_ends(copied: int, end: int) -> None:
    assert stack_end(_at(0x1000, bytes(copied))) == end


@pytest.mark.parametrize(("pointer", "used"), [(0x10F00, 0x40100), (0x11040, 0x3FFC0), (0x13000, 0), (0x60000, 0)])
def test_another_thread_is_at_its_guard(pointer: int, used: int) -> None:
    mappings = [_mapping(0x10000, 0x11000, "---p"), _mapping(0x11000, 0x51000, "rw-p")]
    assert stack_overflow(_at(pointer), mappings) == used


def test_a_signal_ends_a_process_that_has_no_handler_for_it() -> None:
    assert is_fatal(11, 0) and not is_fatal(11, 0x1234) and not is_fatal(17, 0) and not is_fatal(19, 0)
