"""Real processes in real control groups that hold them back. Where none can be made, these tests are skipped."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.threads import ThreadNumbers, ThreadSample
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.wait_reader import WaitReader
from livedbg.analysis import VerdictState
from livedbg.linux.abi import native_abi
from livedbg.linux.cgroups import parse_mounts
from livedbg.linux.live_environment import detect_libc
from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import BlockedSyscall
from livedbg.model import ThreadState
from livedbg.model.snapshot import Snapshot
from livedbg.session.rulebook import diagnose
from tests.conftest import eventually, seen_when
from tests.waiting import until

Joined = tuple[int, Path]


@pytest.fixture
def join() -> Iterator[Callable[[str, str], Joined]]:
    """Starts a shell that runs a script in a new group of a controller ("": of version 2)."""
    made: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(controller: str, script: str) -> Joined:
        mounts = parse_mounts(Path("/proc/self/mountinfo").read_bytes())
        points = [m.point for m in mounts if controller in m.controllers or not (controller or m.controllers)]
        if not points:
            pytest.skip(f"no control groups of {controller or 'version 2'} are mounted here")
        place = Path(points[0]) / f"livedbg-test-{os.getpid()}"
        try:
            place.mkdir()
        except OSError as error:
            pytest.skip(f"no control group can be made here: {error}")
        process = subprocess.Popen(
            ["/bin/sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        made.append((process, place))
        (place / "cgroup.procs").write_text(str(process.pid))
        return process.pid, place

    yield start
    for process, place in made:
        for file, text in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            if (place / file).exists():
                (place / file).write_text(text)
        process.kill()
        process.wait(60)
        eventually(lambda place=place: not (place / "cgroup.procs").read_text())
        place.rmdir()


@pytest.mark.parametrize(
    ("controller", "file", "freeze"), [("freezer", "freezer.state", "FROZEN"), ("", "cgroup.freeze", "1")]
)
def test_a_frozen_process_is_named_with_the_file_that_thaws_it(
    controller: str, file: str, freeze: str, join: Callable[..., Joined], observe: Callable[..., Snapshot]
) -> None:
    pid, place = join(controller, "while :; do :; done")
    if not (place / file).exists():
        pytest.skip(f"this kernel has no {file}")
    assert diagnose(observe(pid)).verdict.state is not VerdictState.STALLED
    (place / file).write_text(freeze)
    found = seen_when(lambda found: found.verdict.state is VerdictState.STALLED, lambda: diagnose(observe(pid)))
    assert "frozen by control group /livedbg-test-" in found.verdict.sentence
    chief = next(iter(found.findings.values()))
    assert chief.rule == "frozen"
    assert str(place / file) in chief.next[0]
    (thread,) = [thread for thread in observe(pid).threads.values() if thread.tid == pid]
    assert thread.waits_in == "a freeze of its control group"


def test_a_throttled_process_runs_and_its_limit_is_named(
    join: Callable[..., Joined], observe: Callable[..., Snapshot]
) -> None:
    pid, place = join("cpu", "while :; do :; done")
    if not (place / "cpu.cfs_quota_us").exists():
        pytest.skip("this kernel has no limits of CPU time")
    assert not diagnose(observe(pid)).findings
    (place / "cpu.cfs_period_us").write_text("20000")
    (place / "cpu.cfs_quota_us").write_text("1000")
    found = until(lambda: [f for f in diagnose(observe(pid)).findings.values() if f.rule == "throttled"])
    assert "may use 0.05 cores" in found[0].sentence
    assert str(place / "cpu.cfs_quota_us") in found[0].next[0]
    assert diagnose(observe(pid)).verdict.state in (VerdictState.RUNNING, VerdictState.UNKNOWN)


@pytest.mark.parametrize(
    ("slept", "frozen", "readable", "text"),
    [
        ((ThreadState.DISK, "__refrigerator"), False, False, "a freeze of its control group"),
        ((ThreadState.WAITING, "get_signal"), True, True, "a freeze of its control group"),
        ((ThreadState.DISK, "folio_wait_bit"), False, True, "page fault"),
        ((ThreadState.WAITING, "get_signal"), False, False, "page fault or frozen (its control group can't be read)"),
        ((ThreadState.WAITING, "get_signal"), False, True, None),
    ],
)
def test_a_sleep_in_no_system_call_is_a_freeze_or_a_page_fault_or_not_known(
    slept: tuple[ThreadState, str], frozen: bool, readable: bool, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, abi, scene = os.getpid(), native_abi(), Scene("box")
    assert abi is not None
    monkeypatch.setattr(scene.groups, "frozen", lambda _: frozen)
    monkeypatch.setattr(scene.groups, "readable", lambda _: readable)
    reader = WaitReader(ProcessView(scene, me, abi, detect_libc(me, parse_maps(me)), ThreadNumbers(me)))
    sample = ThreadSample(me, "x", slept[0], 0, 1, BlockedSyscall(-1, (), 0, 0), slept[1])
    assert reader.sample([sample])[me].waits_in == text
