"""Samples of workers: whom they are taken of, and for how long."""

from __future__ import annotations

import asyncio
import subprocess
from types import SimpleNamespace
from typing import Any, cast

import pytest

from livedbg.adapters.iree.live import loops
from livedbg.adapters.iree.live.libraries import Libraries
from livedbg.adapters.iree.live.loops import Loops
from livedbg.session.adapter import Context


@pytest.mark.invariant("iree_loops.Q2")
def test_Q2_a_thread_that_sleeps_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_FOR_S", 1e9)
    context: Any = SimpleNamespace(request=SimpleNamespace(options={}, host="box"), emit=lambda *_: None)
    with subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as target:
        try:
            look = Loops(target.pid).look(cast("Context", context), {target.pid: "thread:x"}, Libraries(target.pid).at)
            assert asyncio.run(asyncio.wait_for(look, 100)) == {}
        finally:
            target.kill()
