"""Inspecting a stopped thread within a time limit."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbTimeout
from livedbg.touch import inspector
from livedbg.touch.inspector import Inspector, StoppedAt
from livedbg.unwind import unwound


class SlowGdb(GdbEngine):
    """A gdb that knows one frame, takes 0.05 s for an answer, and never comes to one about what is in `hangs`."""

    def __init__(self, hangs: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("/no/such/gdb")
        self.hangs = hangs
        self.asked: dict[str, float] = {}
        self.now_s = 100.0
        self.until_s = 0.0
        for module in (inspector, unwound):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    async def python(self, expression: str, limit_s: float = 10.0) -> Any:
        function = expression.partition("(")[0]
        self.asked[function] = limit_s
        assert self.now_s + limit_s <= self.until_s + 0.01
        self.now_s += 0.05
        if function == self.hangs:
            raise GdbTimeout(f"gdb did not answer in {limit_s} s")
        if function == "livedbg_counters":
            return {"7": []}
        if function == "livedbg_frames":
            return {"7": ([(0x1000, "main", "/x/main.cpp", 3)], True)}
        return [(None, ["a=1", "b=2"])]


@pytest.mark.parametrize(("hangs", "variables"), [("", ("a=1", "b=2")), ("livedbg_variables", ())])
@pytest.mark.invariant("inspector.V1")
async def test_V1_variables_that_are_not_read_in_time_are_left_out(
    hangs: str, variables: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    gdb = SlowGdb(hangs, monkeypatch)
    for limit_s in (5.0, 1.0, 0.3):
        gdb.until_s = gdb.now_s + limit_s
        found = await Inspector(gdb, os.getpid()).frames(StoppedAt(7, (), 0), limit_s)
        assert [(frame.function, frame.local_variables) for frame in found.frames] == [("main", variables)]
        assert max(gdb.asked.values()) <= limit_s and len(gdb.asked) == 3


@pytest.mark.invariant("inspector.V1")
async def test_V1_frames_that_are_not_read_in_time_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gdb = SlowGdb("livedbg_frames", monkeypatch)
    gdb.until_s = gdb.now_s + 1.0
    with pytest.raises(GdbTimeout):
        await Inspector(gdb, os.getpid()).frames(StoppedAt(7, (), 0), 1.0)
