"""A look by an attached debugger: a real gdb attaches and lets go; what cuda-gdb would say of the device is played."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.cuda.cudagdb.core_dump import sample_attached
from livedbg.adapters.cuda.cudagdb.engine import Queries
from livedbg.adapters.cuda.cudagdb.sample import DeviceSample, sample_devices
from livedbg.gdbmi.engine import GdbEngine
from livedbg.linux.procfs import read_stat, status_fields, thread_ids
from livedbg.model import Intrusion, ThreadState
from livedbg.session.replay import last_update
from livedbg.touch.guard_process import Guard
from tests.adapters.cuda.cudagdb.sessions import hang
from tests.adapters.cuda.cudagdb.tables import Session
from tests.cli.conftest import livedbg
from tests.conftest import Target, eventually

PROXY = Path(__file__).with_name("proxy.py")


def real_gdb(session: Session, folder: Path) -> str:
    """A program `cuda-gdb` that is a real gdb but for the session's answers."""
    script, program = folder / "session.txt", folder / "cuda-gdb"
    session.answers = [(c, said) for c, said in session.answers if "target cudacore" not in c]
    script.write_text("".join(f">>> {c}\n" + "".join(f"{line}\n" for line in said) for c, said in session.answers))
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {PROXY} {script} "$@"\n')
    program.chmod(0o755)
    return str(program)


def free(pid: int) -> bool:
    """Whether nobody traces it and all of its threads can run."""
    states = [read_stat(pid, tid).state for tid in thread_ids(pid)]
    return status_fields(pid)["TracerPid"] == "0" and not {ThreadState.STOPPED, ThreadState.TRACED} & set(states)


@pytest.mark.invariant("cuda_gdb_attach.H2")
def test_it_attaches_looks_and_lets_go(
    spawn: Callable[..., Target], build_target: Callable[..., Path], tmp_path: Path
) -> None:
    target = spawn([build_target("spinners"), "2"])
    recording = tmp_path / "device.livedbg"
    said = livedbg("device", target.pid, "--attach", "--gdb", real_gdb(hang(4), tmp_path), "-o", recording)
    assert said.code == 0, said.everything
    assert said.out.startswith("All 16 warps of kernel 0 spin<<<(4,1,1),(128,1,1)>>> are at spin.cu:12")
    assert re.search(r"cuda-gdb attach: process:\S+ paused for at most \d+\.\d\d s", said.err)
    eventually(lambda: free(target.pid))
    snapshot = last_update(recording)[0].snapshot
    (touch,) = snapshot.intrusions
    assert touch.what == "cuda-gdb attach" and touch.measured and touch.paused_ns > 0
    assert [state.source for state in snapshot.devices.values()] == ["attach"]


@pytest.mark.invariant("cuda_gdb_attach.H2")
def test_a_debugger_that_dies_in_the_midst_leaves_the_target_running(
    spawn: Callable[..., Target], build_target: Callable[..., Path], tmp_path: Path
) -> None:
    target = spawn([build_target("spinners"), "2"])
    session = hang(4)
    session.answers = [(c, ["!die"] if c == "-cuda-info-kernels" else said) for c, said in session.answers]
    said = livedbg("device", target.pid, "--attach", "--gdb", real_gdb(session, tmp_path))
    assert "paused for" in said.err
    assert said.code == 0 and "exited before it had reported everything" in said.out, said.everything
    eventually(lambda: free(target.pid))


@pytest.mark.invariant("cuda_gdb_attach.H2")
async def test_an_end_that_is_interrupted_stands_in_the_ledger_too(
    spawn: Callable[..., Target], build_target: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(_engine: GdbEngine) -> None:
        raise asyncio.CancelledError

    target = spawn([build_target("spinners"), "1"])
    monkeypatch.setattr("livedbg.adapters.cuda.cudagdb.core_dump._detach", interrupted)
    touches: list[Intrusion] = []
    with pytest.raises(asyncio.CancelledError):
        await sample_attached(real_gdb(hang(4), tmp_path), target.pid, "process:box/1", touches.append)
    assert [touch.what for touch in touches] == ["cuda-gdb attach"]
    await asyncio.to_thread(eventually, lambda: free(target.pid))


@pytest.mark.invariant("cuda_gdb_attach.H1")
async def test_H1_a_guard_watches_from_before_the_attach_until_after_the_detach(
    spawn: Callable[..., Target], build_target: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = spawn([build_target("spinners"), "1"])
    seen: list[tuple[str, bool]] = []
    start, release = Guard.start, Guard.release

    def note(when: str) -> None:
        seen.append((when, status_fields(target.pid)["TracerPid"] != "0"))

    async def started(pid: int, start_ticks: int, gdb: int) -> Guard:
        guard = await start(pid, start_ticks, gdb)
        note("guarded")
        return guard

    async def looked(queries: Queries, said: str) -> DeviceSample:
        note("sample")
        return await sample_devices(queries, said)

    async def released(guard: Guard) -> bool:
        note("release")
        assert guard.alive
        return await release(guard)

    monkeypatch.setattr(Guard, "start", started)
    monkeypatch.setattr(Guard, "release", released)
    monkeypatch.setattr("livedbg.adapters.cuda.cudagdb.core_dump.sample_devices", looked)
    await sample_attached(real_gdb(hang(4), tmp_path), target.pid, "process:box/1", lambda _touch: None)
    assert seen == [("guarded", False), ("sample", True), ("release", False)]


def test_a_process_that_another_debugger_holds_is_refused_untouched(
    spawn: Callable[..., Target], build_target: Callable[..., Path], tmp_path: Path
) -> None:
    target = spawn([build_target("spinners"), "1"])
    holder = spawn(
        ["gdb", "-q", "-nx", "-batch", "-p", str(target.pid), "-ex", "echo READY\\n", "-ex", "shell sleep 600"]
    )
    said = livedbg("device", target.pid, "--attach", "--gdb", real_gdb(hang(4), tmp_path))
    holder.kill()
    assert said.code == 3 and f"already traced by process {holder.pid}" in said.err and "paused for" not in said.err
