"""Whole sessions that tests watch, and reports that they read: of processes, logs, or both."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from livedbg.adapters.ascend.adapter import AscendAdapter
from livedbg.adapters.logfiles import LogAdapter
from livedbg.adapters.proc import ProcAdapter
from livedbg.model import SourceStatus
from livedbg.model.snapshot import StatusKey
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.session import Session
from livedbg.session.view import Update
from tests.cli.zygote import run_livedbg
from tests.waiting import awaited


class Watched:
    """A session, and what it has told."""

    def __init__(self, request: Request) -> None:
        self.updates: list[Update] = []
        self.ascend = AscendAdapter()
        processes = [ProcAdapter()] if request.processes else []
        self.session = Session(request, [*processes, LogAdapter(), self.ascend], self.updates.append)

    async def until(self, condition: Callable[[Update], bool]) -> Update:
        return await awaited(
            lambda: next(filter(condition, self.updates[-1:]), None),
            told=lambda: [(update.diagnosis.verdict, update.snapshot.statuses) for update in self.updates[-1:]],
        )

    async def status(self, pid: int, code: str) -> SourceStatus:
        key = StatusKey("ascend", f"process:box/{pid}", code)
        return (await self.until(lambda update: key in update.snapshot.statuses)).snapshot.statuses[key]


@contextlib.asynccontextmanager
async def watching(*pids: int, gdb: str | None = None, logs: tuple[str, ...] = ()) -> AsyncIterator[Watched]:
    targets = tuple(TargetProcess(pid) for pid in pids)
    watched = Watched(Request(host="box", processes=targets, logs=logs, gdb=gdb, stacks="none"))
    running = asyncio.create_task(watched.session.run())
    try:
        yield watched
    finally:
        watched.session.stop()
        await asyncio.wait_for(running, 60)


def report(folder: Path) -> tuple[int, dict[str, Any]]:
    """The exit code and the document of `livedbg report --logs FOLDER --json`."""
    done = run_livedbg(["report", "--logs", folder, "--json"], 100, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)
