"""What a thread did in the last minute, in its sheet and in that of its process."""

from __future__ import annotations

from livedbg.model import Frame, Process, Thread
from livedbg.model import events as ev
from livedbg.model.launches import ProfileSlice, SampledStack
from livedbg.panels.details import details
from livedbg.panels.draw_context import DrawContext
from livedbg.session.view import Update
from livedbg.state.store import Store

PROCESS, FIRST, SECOND = "process:box/7", "thread:box/7/7", "thread:box/7/8"
S = 1_000_000_000


def slice_of(thread: str, at_s: int, function: str, samples: int) -> ProfileSlice:
    frames = (Frame(function, f"/src/{function}.cpp", 12, "a.out"), Frame("main", "/src/main.cpp", 3, "a.out"))
    stacks = (SampledStack(frames, samples * S, samples),)
    return ProfileSlice(thread=thread, start_mono_ns=at_s * S, end_mono_ns=at_s * S, stacks=stacks)


def sheet_of(entity: str) -> list[str]:
    store = Store()
    stamp: ev.Stamp = {"host": "box", "mono_ns": 100 * S, "wall_ns": 100 * S}
    store.apply(ev.ProcessSeen(process=Process(id=PROCESS, host="box", pid=7), **stamp))
    threads = tuple(Thread(id=name, process=PROCESS, tid=tid) for name, tid in ((FIRST, 7), (SECOND, 8)))
    store.apply(ev.ThreadsSeen(threads=threads, **stamp))
    slices = (slice_of(FIRST, 10, "old", 9), slice_of(FIRST, 60, "hot", 3), slice_of(FIRST, 70, "cold", 1))
    store.apply(ev.SamplesSeen(slices=(*slices, slice_of(SECOND, 90, "other", 4)), **stamp))
    _, lines = details(entity)(DrawContext(Update(store.snapshot())))
    return [f"{line.lead} {line.text}" if line.lead else line.text for line in lines]


def test_the_sheet_of_a_thread_has_what_it_did_in_the_last_minute() -> None:
    lines = sheet_of(FIRST)
    start = lines.index("last minute 4 samples of running threads: own and total share")
    assert lines[start + 1 : start + 4] == [
        " 75.0%  75.0%  hot  hot.cpp:12",
        " 25.0%  25.0%  cold  cold.cpp:12",
        "  0.0% 100.0%  main  main.cpp:3",
    ]
    assert not any("  old" in line or "other" in line for line in lines)


def test_the_sheet_of_a_process_has_all_of_its_threads() -> None:
    lines = sheet_of(PROCESS)
    assert "last minute 8 samples of running threads: own and total share" in lines
    assert any("other" in line and "50.0%" in line for line in lines)
