"""Cycles of waits are confirmed before they are reported: threads that ran meanwhile were not deadlocked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.proc.cycles import to_confirm
from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.threads import ThreadReader
from livedbg.adapters.proc.watch import ProcessWatch
from livedbg.model import EdgeKey, EdgeKind
from livedbg.model.events import EdgesReplaced
from tests.conftest import Target, eventually

WAITS, HOLDS = EdgeKind.WAITS_FOR, EdgeKind.HOLDS


@pytest.mark.invariant("proc_cycles.R1")
def test_R1_only_threads_on_cycles_and_behind_them_are_looked_at_again() -> None:
    ring = [
        EdgeKey(WAITS, "thread:h/1/1", "mutex:h/1/0x1"),
        EdgeKey(HOLDS, "thread:h/1/2", "mutex:h/1/0x1"),
        EdgeKey(WAITS, "thread:h/1/2", "mutex:h/1/0x2"),
    ]
    behind = EdgeKey(WAITS, "thread:h/1/3", "mutex:h/1/0x1")
    apart = EdgeKey(WAITS, "thread:h/1/4", "mutex:h/1/0x3")
    held = EdgeKey(HOLDS, "thread:h/1/5", "mutex:h/1/0x3")
    assert to_confirm([*ring, behind, apart, held], {}) == set()
    closed = EdgeKey(HOLDS, "thread:h/1/1", "mutex:h/1/0x2")
    assert to_confirm([*ring, behind, apart, held, closed], {}) == {f"thread:h/1/{tid}" for tid in (1, 2, 3)}
    itself = [EdgeKey(WAITS, "thread:h/1/1", "mutex:h/1/0x1"), EdgeKey(HOLDS, "thread:h/1/1", "mutex:h/1/0x1")]
    assert to_confirm(itself, {}) == {"thread:h/1/1"}
    pipes = [
        EdgeKey(WAITS, "thread:h/1/1", "pipe:h/7"),
        EdgeKey(HOLDS, "process:h/2", "pipe:h/7"),
        EdgeKey(WAITS, "thread:h/2/2", "pipe:h/8"),
        EdgeKey(HOLDS, "process:h/1", "pipe:h/8"),
    ]
    assert to_confirm(pipes, {"process:h/1": ["thread:h/1/1"]}) == set()
    both = {"process:h/1": ["thread:h/1/1"], "process:h/2": ["thread:h/2/2"]}
    assert to_confirm(pipes, both) == {"thread:h/1/1", "thread:h/2/2"}


@pytest.mark.invariant("proc_cycles.R1")
def test_R1_a_thread_that_ran_since_it_was_sampled_waits_for_nothing(
    spawn: Callable[..., Target], build_target: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = spawn([build_target("hang_cases", "-std=c++17"), "self-deadlock"])
    watch = ProcessWatch(Scene("box"), target.pid)
    wanted: set[str] = set()
    try:

        def is_stuck() -> bool:
            watch.sample()
            wanted.update(to_confirm(watch.edges, {}))
            return bool(wanted)

        eventually(is_stuck)
        (me,) = wanted
        assert watch.confirm({me}) == []
        monkeypatch.setattr(ThreadReader, "still_waits", lambda self, tid: False)
        assert watch.confirm({"thread:box/1/1"}) == []
        (event,) = [event for event in watch.confirm({me}) if isinstance(event, EdgesReplaced)]
        assert event.edges == () and not watch.edges
        assert [event for event in watch.sample() if isinstance(event, EdgesReplaced) and event.edges]
    finally:
        watch.close()


def test_a_thread_that_waits_again_has_moved(spawn: Callable[..., Target]) -> None:
    echo = "import sys\nprint('READY', flush=True)\nfor line in sys.stdin: print(line, end='', flush=True)"
    target = spawn([sys.executable, "-c", echo], wait_for="READY")
    reader = ThreadReader(target.pid)
    try:

        def waits() -> bool:
            reader.sample()
            return reader.still_waits(target.pid)

        eventually(waits)
        target.stdin.write(b"again\n")
        target.stdin.flush()
        assert target.line(60) == "again"
        assert not reader.still_waits(target.pid)
        eventually(waits)
        assert not reader.still_waits(1)
    finally:
        reader.close()
