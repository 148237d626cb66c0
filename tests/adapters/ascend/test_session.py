"""The adapter in a real session, with the adapter that reads logs."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.ascend.adapter import AscendAdapter
from livedbg.adapters.ascend.decoder import AscendDecoder
from livedbg.adapters.ascend.model import AscendModel
from livedbg.adapters.logfiles import LogAdapter
from livedbg.analysis import VerdictState
from livedbg.session.adapter import Request
from livedbg.session.session import Session
from livedbg.session.view import Update
from tests.waiting import awaited

T = "task:ascend/"


async def _watch(request: Request, until: Callable[[Update], bool]) -> Update:
    updates: list[Update] = []
    session = Session(request, [LogAdapter(), AscendAdapter()], updates.append)
    running = asyncio.create_task(session.run())
    try:
        await awaited(lambda: running.done() or (updates and until(updates[-1])), told=lambda: updates[-1:])
    finally:
        if not running.done():
            session.stop()
        await running
    return updates[-1]


@pytest.mark.parametrize(
    ("folder", "state", "roots"),
    [
        ("01_healthy_trb", VerdictState.EXITED, ()),
        ("01_healthy_hbg", VerdictState.EXITED, ()),
        ("02_hang_kernel/live_gdb", VerdictState.UNKNOWN, (T + "r1t2",)),
        ("02_hang_kernel/timeout_debug", VerdictState.STALLED, (T + "r1t2",)),
        ("02_hang_kernel/timeout_v0", VerdictState.STALLED, (T + "r1t2",)),
        ("05_hang_ring_full", VerdictState.STALLED, (T + "r1t0",)),
        ("06_hang_tensor_wait/live_gdb", VerdictState.UNKNOWN, (T + "r0t0",)),
        ("06_hang_tensor_wait/timeout_debug", VerdictState.STALLED, (T + "r0t0",)),
        ("07_crash_throw", VerdictState.CRASHED, None),
        ("08_fatal_explicit", VerdictState.CRASHED, (T + "orchestrator",)),
        ("09_dep_good", VerdictState.EXITED, ()),
        ("09_dep_lost", VerdictState.DIVERGED, (T + "r0t1", T + "r0t0")),
        ("12_june2026_v0_era/hang_v0", VerdictState.STALLED, (T + "r1t2",)),
        ("12_june2026_v0_era/hang_debug", VerdictState.STALLED, (T + "r1t2",)),
    ],
)
async def test_one_look_at_a_folder(
    recorded: Path, tmp_path: Path, folder: str, state: VerdictState, roots: tuple[str, ...] | None
) -> None:
    target = tmp_path / "run"
    shutil.copytree(recorded / folder, target)
    update = await _watch(Request(host="box", logs=(str(target),), once=True), lambda _update: False)
    assert update.diagnosis.verdict.state is state
    if state is VerdictState.UNKNOWN:
        assert "where the log ends: hung, or died: no exit status" in update.diagnosis.verdict.sentence
    if roots is not None:
        assert update.diagnosis.verdict.roots == roots


def _is_told(update: Update) -> bool:
    """All that is told of the hang; the line that ends it is not the last of what the log says of it."""
    hung, verdict = update.snapshot.tasks.get(T + "r1t2"), update.diagnosis.verdict
    linked = any(T + "r1t2" in record.links for record in update.snapshot.recent_logs)
    found = verdict.state is VerdictState.STALLED and verdict.roots == (T + "r1t2",)
    return found and linked and hung is not None and hung.kernel == "MUL"


async def test_a_hang_as_it_happens(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "livedbg.adapters.ascend.demo.player", str(tmp_path), "4"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as player:  # noqa: ASYNC220
        try:
            update = await _watch(Request(host="box", logs=(str(tmp_path),)), _is_told)
        finally:
            player.kill()
    assert _is_told(update), update.diagnosis.verdict


def test_a_session_in_which_no_log_is_read_waits_for_none() -> None:
    """`report PID` with a folder in which there is none."""
    model = AscendModel()
    decoder = AscendDecoder(model)
    assert not model.settled
    decoder.over()
    assert model.settled
