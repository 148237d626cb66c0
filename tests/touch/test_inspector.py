"""Inspecting a stopped thread within a time limit."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from livedbg.gdbmi import GdbEngine, GdbTimeout
from livedbg.touch.inspector import Inspector, StoppedAt


class SlowGdb(GdbEngine):
    """A gdb that knows one frame, and that never comes to an answer about what is in `hangs`."""

    def __init__(self, hangs: str) -> None:
        super().__init__("/no/such/gdb")
        self.hangs = hangs
        self.asked: dict[str, float] = {}
        self.until_s = 0.0

    async def python(self, expression: str, limit_s: float = 10.0) -> Any:
        function = expression.partition("(")[0]
        self.asked[function] = limit_s
        assert time.monotonic() + limit_s <= self.until_s + 0.2
        if function == self.hangs:
            raise GdbTimeout(f"gdb did not answer in {limit_s} s")
        if function == "livedbg_counters":
            return {"7": []}
        if function == "livedbg_frames":
            return {"7": ([(0x1000, "main", "/x/main.cpp", 3)], True)}
        return [(None, ["a=1", "b=2"])]


@pytest.mark.parametrize(("hangs", "variables"), [("", ("a=1", "b=2")), ("livedbg_variables", ())])
@pytest.mark.invariant("inspector.V1")
async def test_V1_variables_that_are_not_read_in_time_are_left_out(hangs: str, variables: tuple[str, ...]) -> None:
    gdb = SlowGdb(hangs)
    for limit_s in (5.0, 1.0, 0.3):
        gdb.until_s = time.monotonic() + limit_s
        found = await Inspector(gdb, os.getpid()).frames(StoppedAt(7, (), 0), limit_s)
        assert [(frame.function, frame.local_variables) for frame in found.frames] == [("main", variables)]
        assert max(gdb.asked.values()) <= limit_s and len(gdb.asked) == 3


@pytest.mark.invariant("inspector.V1")
async def test_V1_frames_that_are_not_read_in_time_end_it() -> None:
    gdb = SlowGdb("livedbg_frames")
    gdb.until_s = time.monotonic() + 1.0
    with pytest.raises(GdbTimeout):
        await Inspector(gdb, os.getpid()).frames(StoppedAt(7, (), 0), 1.0)
