"""The last record of a log whose program ends: it is not held back for a line that never comes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.logfiles import LogAdapter, feed
from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.adapters.proc import ProcAdapter
from livedbg.model import LogSource
from livedbg.model.events import Stamp
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.session import Session

LAST = [
    "Traceback (most recent call last):",
    '  File "m.py", line 1, in <module>',
    "ValueError: no",
    "and the last words",
]


@pytest.mark.parametrize("number", range(3))
async def test_what_a_program_writes_as_it_ends_is_read(tmp_path: Path, number: int) -> None:
    captured = tmp_path / "captured"
    program = f"print('begun', flush=True); input(); print({chr(10).join(LAST)!r}, flush=True)"
    with captured.open("w") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdin=asyncio.subprocess.PIPE, stdout=out, stderr=asyncio.subprocess.DEVNULL
        )
    texts: list[str] = []

    def take(update: Any) -> None:
        texts[:] = [line for record in update.snapshot.recent_logs for line in record.text.split("\n")]

    target = TargetProcess(process.pid, stdout=captured)
    session = Session(Request(host="box", processes=(target,)), [ProcAdapter(), LogAdapter()], take)
    running = asyncio.create_task(session.run())
    await asyncio.sleep(0)
    await asyncio.wait_for(session.settled.wait(), 100)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    await process.wait()
    await asyncio.wait_for(running, 100)
    assert texts[-len(LAST) :] == LAST


def test_a_record_is_not_complete_while_a_line_that_may_belong_to_it_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(feed.time, "monotonic", lambda: now[0])
    log = tmp_path / "a.log"
    log.write_text('Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueErr')
    one = feed.SourceFeed(LogSource(id="log:a", name="a.log"), log, Decoding([]))
    stamp = Stamp(mono_ns=1, wall_ns=1)
    assert one.poll()
    records = one.step(stamp)
    now[0] += 1.0
    records += one.settle(stamp)
    assert records == []
    with log.open("a") as file:
        file.write("or: x\nnext li")
    assert one.poll()
    records += one.step(stamp)
    now[0] += 5.0
    records += one.settle(stamp)
    assert [record.text.split("\n")[-1] for record in records] == ["ValueError: x", "next li"]
    now[0] += 1.0
    assert one.settle(stamp) == []
