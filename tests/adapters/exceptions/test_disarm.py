"""A catchpoint that is taken out reports what it has traced, also while its last stack is not there yet."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from livedbg.adapters.exceptions.catchpoint import TracingCatchpoint
from livedbg.model.catchpoints import Catchpoint, CatchpointState


async def test_the_end_of_a_session_does_not_wait_for_the_stack_that_the_last_hit_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`catch --count 2` was waiting for gdb when its time was over: the two hits were lost."""
    said: list[object] = []
    monkeypatch.setattr(TracingCatchpoint, "_count_in", lambda self, kind, traced: said.append(traced))
    monkeypatch.setattr(TracingCatchpoint, "_emit_hits", lambda self: said.append("emitted"))
    monkeypatch.setattr(TracingCatchpoint, "_changes", lambda self, tracer: {})
    monkeypatch.setattr(TracingCatchpoint, "_put", lambda self, **changes: said.append(changes["state"]))
    stub = cast("Any", SimpleNamespace(count=0, files=(), request=SimpleNamespace(host="box"), stop=lambda: None))
    catchpoint = Catchpoint(id="C1", process="process:box/1", pattern="x", engine="probes")
    point = TracingCatchpoint(catchpoint, [], stub, stub, None)
    point._tracer = stub
    point._unwinding = asyncio.create_task(asyncio.sleep(1000))
    point._waiting = cast("Any", {"place": [("kind", "hit 1"), ("kind", "hit 2")]})
    patient = asyncio.create_task(point.disarm())
    while point._disarmed is None:  # noqa: ASYNC110 - it is no event
        await asyncio.sleep(0)
    assert not said
    await point.disarm(patience_s=0.0)
    assert said == ["hit 1", "hit 2", "emitted", CatchpointState.DONE]
    point._unwinding.cancel()
    await patient
    assert len(said) == 4
