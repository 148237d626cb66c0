"""Lines of source in stacks: those of the user's place only, and no stack is lost for them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from livedbg.model import Frame, LoopWay, Stack
from livedbg.session import sources
from livedbg.session.sources import StackSources
from livedbg.touch.source import SourceLines, read_source

PID = os.getpid()


def a_stack(*frames: Frame) -> Stack:
    return Stack(thread=f"thread:box/{PID}/{PID}", frames=frames, taken_mono_ns=1, source="py-spy", layer="python")


def python(file: Path | str, line: int, function: str = "step") -> Frame:
    return Frame(function, file=str(file), line=line, language="python")


@pytest.mark.invariant("sources.Y2")
async def test_Y2_the_place_of_the_thread_gets_its_source(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("".join(f"line {number}\n" for number in range(1, 21)))
    os.utime(path, (1, 1))
    inside = python("/usr/lib/python3.11/threading.py", 320, "wait")
    stack = a_stack(inside, python(path, 10), python(path, 3, "main"))
    (found,) = await StackSources().added(PID, [stack])
    assert found.frames[1].source == tuple(f"line {number}" for number in range(7, 14))
    assert (found.frames[1].source_from, found.frames[1].source_note) == (7, "")
    assert (found.frames[0], found.frames[2]) == (stack.frames[0], stack.frames[2])


@pytest.mark.invariant("sources.Y2")
async def test_Y2_how_a_loop_goes_on_is_told_of_the_place_and_of_the_innermost_frame(tmp_path: Path) -> None:
    user, library = tmp_path / "train.py", tmp_path / "site-packages" / "lib" / "lock.py"
    library.parent.mkdir(parents=True)
    user.write_text("def f():\n    while True:\n        g()\n")
    library.write_text("def g():\n    while not free():\n        sleep(1)\n")
    for path in (user, library):
        os.utime(path, (1, 1))
    stack = a_stack(python(library, 3), python(user, 3), python(user, 3))
    (found,) = await StackSources().added(PID, [stack])
    assert [frame.loop for frame in found.frames] == [LoopWay.POLLS, LoopWay.RESTS, LoopWay.UNKNOWN]
    assert [bool(frame.source) for frame in found.frames] == [False, True, False]


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        ("while True:\n        f()", LoopWay.RESTS),
        ("while not ready:\n        f()", LoopWay.POLLS),
        ("if ready:\n        f()", LoopWay.ENDS),
        ("while True:\n      if ready: \n         f()", LoopWay.UNKNOWN),
    ],
)
async def test_who_calls_a_loop_that_ends_may_poll(tmp_path: Path, caller: str, expected: LoopWay) -> None:
    user = tmp_path / "train.py"
    user.write_text(f"def f():\n    for x in y:\n        sleep(1)\ndef g():\n    {caller}\n")
    os.utime(user, (1, 1))
    line = next(n for n, text in enumerate(user.read_text().splitlines(), 1) if n > 1 and "f()" in text)
    (found,) = await StackSources().added(PID, [a_stack(python(user, 3), python(user, line, "g"))])
    assert found.frames[0].loop is expected


async def test_reasons_are_given(tmp_path: Path) -> None:
    path = tmp_path / "new.py"
    path.write_text("x = 1\n" * 9)
    os.utime(path, (2**32, 2**32))
    places = [(path, 5), (path, 99), (tmp_path / "gone.py", 3), ("<string>", 1)]
    found = await StackSources().added(PID, [a_stack(python(*place)) for place in places])
    notes = [stack.frames[0].source_note for stack in found]
    assert found[0].frames[0].source and "was changed after the process started" in notes[0]
    assert "has no line 99" in notes[1] and "is not on this host" in notes[2] and "no source file" in notes[3]


def test_a_relative_path_is_of_the_folder_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here.py").write_text("a = 1\n")
    monkeypatch.chdir(tmp_path)
    assert read_source(PID, "here.py", 1).lines == ("a = 1",)
    (tmp_path / "shadow").write_text("secret\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "shadow")
    assert read_source(PID, "link.py", 1) == SourceLines(note="link.py is no source file")


@pytest.mark.invariant("sources.Y1")
async def test_Y1_a_file_system_that_does_not_answer_costs_no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    asked: list[str] = []

    def hangs(pid: int, name: str, line: int) -> SourceLines:
        asked.append(name)
        answers.wait()
        return SourceLines()

    monkeypatch.setattr(sources, "read_source", hangs)
    monkeypatch.setattr(sources, "_PATIENCE_S", 0.01)
    stack, reader = a_stack(python("/nfs/train.py", 10)), StackSources()
    try:
        for _ in range(3):
            assert await reader.added(PID, [stack]) == (stack,)
    finally:
        answers.set()
    assert len(asked) <= 1, "it is not asked again"
