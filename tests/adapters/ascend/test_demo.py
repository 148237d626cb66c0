"""The recorded hang that `livedbg demo ascend` plays."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from livedbg.adapters.ascend.demo.player import LOG_NAME, play
from livedbg.model import EdgeState, TaskState
from livedbg.model.errors import UsageError
from tests.adapters.ascend.replay import findings, replay_folder


def test_what_it_shows(tmp_path: Path) -> None:
    play(tmp_path / "run", speed=0)
    now = {"host": "box", "mono_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}
    snapshot = replay_folder(tmp_path / "run", stamp=now)  # type: ignore[arg-type]
    found = findings(snapshot)
    assert set(found) == {"ascend-stall"}
    assert found["ascend-stall"].entities == ("task:ascend/r1t2", "core:ascend/8")
    assert snapshot.tasks["task:ascend/r1t2"].kernel == "MUL"
    since = snapshot.tasks["task:ascend/r1t2"].since_wall_ns
    assert since is not None and 0 <= now["wall_ns"] - since < 3600 * 10**9
    pending = [e.key[1:] for e in snapshot.edges.values() if e.state is EdgeState.PENDING and e.kind == "depends_on"]
    assert pending == [("task:ascend/r1t3", "task:ascend/r1t2")]
    done = [t.name for t in snapshot.tasks.values() if t.state is TaskState.COMPLETED]
    assert set(done) >= {"r0t0", "r1t0", "r1t1"}


def test_the_player_stays_as_the_hung_process_does(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "livedbg.adapters.ascend.demo.player", str(tmp_path), "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as player:
        try:
            assert player.stdout is not None and player.stdout.readline() == "READY\n"
            assert player.poll() is None
            assert f"pid={player.pid} " in (tmp_path / LOG_NAME).read_text()
            assert (tmp_path / "dfx" / "deps.json").exists()
        finally:
            player.kill()


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        play(tmp_path, speed=-1)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError):
        play(tmp_path / "file" / "below")
