"""Ending a command ends what it started, in whatever groups and sessions."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from pathlib import Path

import pytest

from livedbg.linux.family import Family, begun, exited, let_go
from livedbg.linux.procfs import process_exists, read_stat
from livedbg.model import ThreadState
from livedbg.session.launch import launch
from tests.conftest import eventually

JOB = "sleep 600 & echo $! >>{pids}"


def alive(pid: int) -> bool:
    """Whether it is there, and no zombie that nobody has waited for yet."""
    try:
        return read_stat(pid).state is not ThreadState.ZOMBIE
    except OSError:
        return False


@pytest.mark.parametrize(
    "script",
    [
        f"{JOB}; wait",
        f"set -m; {JOB}; {JOB}; sleep 600",  # each job in a group of its own
        f"setsid bash -c '{JOB}; wait' & wait",  # a worker in a session of its own
        f"trap '' TERM; (trap '' TERM; {JOB}; sleep 600); sleep 600",  # heeds no SIGTERM
    ],
    ids=["plain", "job-control", "own-session", "stubborn"],
)
@pytest.mark.invariant("launch.C2")
def test_C2_nothing_is_left(tmp_path: Path, script: str) -> None:
    pids = tmp_path / "pids"
    child = launch(["bash", "-c", script.format(pids=pids)], tmp_path)
    try:
        wanted = script.count("$!")
        eventually(lambda: pids.exists() and len(pids.read_text().split()) == wanted)
        started = [child.pid, *map(int, pids.read_text().split())]
        assert all(map(alive, started))
    finally:
        child.end(grace_s=1.0)
    assert not [pid for pid in started if alive(pid)]


@pytest.mark.invariant("launch.C2")
def test_C2_also_where_the_command_has_ended_by_itself(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    child = launch(["bash", "-c", f"set -m; {JOB.format(pids=pids)}"], tmp_path)
    assert child.wait(100) == 0
    (left,) = map(int, pids.read_text().split())
    assert alive(left)
    child.end()
    assert not alive(left)


@pytest.mark.invariant("family.F1")
def test_F1_another_that_has_the_leader_s_number_is_left_alone(tmp_path: Path) -> None:
    child = launch(["sleep", "600"], tmp_path)
    try:
        start = child.target.start_ticks
        assert start is not None
        other, same = Family(child.pid, start - 1), Family(child.pid, start)
        assert other.scan() == 0 and same.scan() == 1 and same.scan() == 0
        assert not same.wait(0)
        same.close()
    finally:
        child.end()
    assert not process_exists(child.pid)


@pytest.mark.invariant("family.F1")
def test_F1_the_children_of_one_that_has_a_member_s_number_later_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    child = launch(["bash", "-c", f"{JOB.format(pids=pids)}; wait; sleep 600"], tmp_path)
    family, stranger = Family(child.pid, child.target.start_ticks), os.getpid()
    try:
        eventually(lambda: pids.exists() and bool(pids.read_text().split()))
        (member,) = map(int, pids.read_text().split())
        assert family.scan() >= 2
        os.kill(member, 9)
        eventually(lambda: not process_exists(member))
        with monkeypatch.context() as patched:
            patched.setattr("livedbg.linux.family.child_pids", lambda pid: [stranger] if pid == member else [])
            assert family.scan() <= 1 and stranger not in family._held  # the shell's next sleep, perhaps
    finally:
        family.close()
        child.end()


def has_left(pid: int, session: int) -> bool:
    """Whether the parent of a process is none of a session any more."""
    try:
        return os.getsid(read_stat(pid).ppid) != session
    except ProcessLookupError:  # it is just going
        return False


@pytest.mark.invariant("family.F2")
def test_F2_a_daemon_that_has_left_is_none_of_them(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"(setsid bash -c '{JOB.format(pids=pids)}; wait' &); sleep 600"
    child = launch(["bash", "-c", script], tmp_path)
    daemon = 0
    try:
        eventually(lambda: pids.exists() and bool(pids.read_text().split()))
        (daemon,) = map(int, pids.read_text().split())
        eventually(lambda: has_left(os.getsid(daemon), child.pid))
        child.end()
        assert alive(daemon)
    finally:
        child.end()
        if daemon:
            os.killpg(os.getsid(daemon), 9)


@pytest.mark.invariant("family.F3")
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8])
def test_F3_a_process_whose_start_is_cancelled_is_ended(turns: int, tmp_path: Path) -> None:
    async def cancel() -> None:
        words = ("sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600")
        starting = asyncio.ensure_future(begun(*words, stdin=asyncio.subprocess.PIPE))
        for _ in range(turns):
            await asyncio.sleep(0)
        if not starting.done():
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            return
        process = starting.result()
        process.kill()
        await exited(process)
        let_go(process)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(cancel())
        gc.collect()
    if (tmp_path / "pid").exists() and (text := (tmp_path / "pid").read_text()):
        assert not process_exists(int(text))
