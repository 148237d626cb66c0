"""Python frames of a call: when a stack is called whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from livedbg.cpython import call_frames
from livedbg.cpython.call_frames import _MOST, CallFrames, PyFrames
from livedbg.cpython.layout import layout_of
from livedbg.cpython.objects import ObjectReader
from livedbg.linux import memory
from livedbg.model import Frame

STATE, FIRST, STEP = 0x7F00_0000_0000, 0x7F00_0001_0000, 0x1000


class Interpreter:
    """A thread that is so many frames deep; those with a number are `f1` (the outermost), `f2`, …"""

    def __init__(self, deep: int, monkeypatch: pytest.MonkeyPatch) -> None:
        layout = layout_of((3, 12), b"")
        assert layout is not None
        self.at = layout.frame
        self.deep = deep
        self.instructions: dict[int, int] = {}
        self.unreadable: set[int] = set()
        monkeypatch.setattr(memory, "read", self.read)
        monkeypatch.setattr(call_frames, "_KEPT_NS", 1 << 62)  # the reader of this test is never replaced
        objects: Any = ObjectReader(1, layout)
        monkeypatch.setattr(objects, "word", lambda _address: self.address(self.deep))
        self.calls = CallFrames(objects)
        monkeypatch.setattr(self.calls, "_frame", lambda code, _at: self.frame(code))

    @staticmethod
    def address(number: int) -> int:
        return FIRST + number * STEP if number else 0

    def code(self, number: int) -> int:
        return self.address(number) + 0x800

    def instruction(self, number: int) -> int:
        return self.instructions.get(number, 64)

    def frame(self, code: int) -> Frame | None:
        return Frame(function=f"f{(code - FIRST) // STEP}", language="python") if code else None

    def read(self, _pid: int, address: int, size: int) -> bytes:
        number = (address - FIRST) // STEP
        if number in self.unreadable:
            raise OSError
        head = bytearray(size)
        for place, word in (
            (self.at.code, self.code(number)),
            (self.at.instruction, self.instruction(number)),
            (self.at.previous, self.address(number - 1)),
        ):
            head[place : place + 8] = word.to_bytes(8, "little")
        return bytes(head)

    def fetched(self, depth: int) -> Mapping[str, int | bytes]:
        """What the kernel reads at a call: the innermost frames."""
        values = {"state": STATE}
        for place in range(depth):
            number = self.deep - place
            values |= {f"code{place}": self.code(number), f"at{place}": self.instruction(number)}
        return {**values, "last": self.address(self.deep - depth + 1), "behind": self.address(self.deep - depth)}


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield lambda deep: Interpreter(deep, monkeypatch)


def names(found: PyFrames) -> list[str]:
    return [frame.function for frame in found.frames]


@pytest.mark.invariant("call_frames.T1")
def test_T1_a_stack_is_whole_where_the_last_frame_that_was_fetched_is_still_there(interpreter: Any) -> None:
    one = interpreter(20)
    found = one.calls.of(one.fetched(8))
    assert found.whole and names(found) == [f"f{number}" for number in range(20, 0, -1)]


@pytest.mark.invariant("call_frames.T1")
def test_T1_a_stack_is_not_whole_where_its_thread_has_gone_on(interpreter: Any) -> None:
    one = interpreter(20)
    values = one.fetched(8)
    one.instructions[13] = 66  # the last that was fetched is at another instruction by now
    assert not one.calls.of(values).whole
    two = interpreter(20)
    values = two.fetched(8)
    two.deep = 5  # it has returned
    assert not two.calls.of(values).whole


@pytest.mark.invariant("call_frames.T1")
def test_T1_a_stack_is_not_whole_where_frames_are_missing(interpreter: Any) -> None:
    one = interpreter(20)
    one.unreadable.add(4)
    found = one.calls.of(one.fetched(8))
    assert not found.whole and names(found)[-1] == "f5"
    deep = interpreter(_MOST + 100)
    found = deep.calls.of(deep.fetched(8))
    assert not found.whole and len(found.frames) == _MOST + 8
    assert not deep.calls.now(STATE, stopped=True).whole
    small = interpreter(_MOST)
    assert small.calls.now(STATE, stopped=True).whole and not small.calls.now(STATE).whole


@pytest.mark.invariant("tracefs.F2")
def test_F2_what_is_behind_a_frame_that_is_not_there_is_of_another_call(interpreter: Any) -> None:
    one = interpreter(2)
    values = {**one.fetched(4), "code2": 0, "code3": one.code(9), "behind": one.address(8)}
    assert names(one.calls.of(values)) == ["f2", "f1"]
