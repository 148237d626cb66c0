"""Core dumps of live processes: ordered by the pipe that the process reads, waited for, entered in the ledger."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from livedbg.adapters.cuda.cudagdb.adapter import CudaGdbAdapter
from livedbg.adapters.cuda.cudagdb.dump_files import find_dump_pipe
from livedbg.adapters.cuda.cudagdb.dump_request import send_request
from livedbg.adapters.proc import ProcAdapter
from livedbg.analysis.rules.base import Settings
from livedbg.commands.signals import started
from livedbg.model.errors import SourceError, TargetUnsuitable
from livedbg.model.intents import DumpDevice, Refresh
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.replay import last_update
from tests.adapters.cuda.cudagdb.sessions import hang
from tests.adapters.cuda.cudagdb.tables import Session
from tests.cli.conftest import Said, livedbg
from tests.conftest import Target, eventually

Spawn = Callable[..., Target]
Play = Callable[[Session | str], str]
Device = Callable[..., Said]

DUMPER = Path(__file__).with_name("dumper.py")
ASKABLE = {
    "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
    "CUDA_COREDUMP_GENERATION_FLAGS": "skip_abort,skip_global_memory",
}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order stays a single byte, however late it is read."""
    monkeypatch.setattr("livedbg.adapters.cuda.cudagdb.dump_request._PATIENCE_S", 100.0)


def clock_from(begun: Callable[[], bool]) -> SimpleNamespace:
    """Time that begins when something has."""
    first_ns = late_ns = time.monotonic_ns()

    def monotonic_ns() -> int:
        nonlocal late_ns
        now_ns = time.monotonic_ns()
        if not begun():
            late_ns = now_ns
        return now_ns - late_ns + first_ns

    return SimpleNamespace(monotonic_ns=monotonic_ns, monotonic=time.monotonic, time_ns=time.time_ns)


def job(spawn: Spawn, folder: Path, core: Path, *words: str, **variables: str) -> Target:
    """A process that takes orders, working in `folder`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    return spawn([sys.executable, DUMPER, core, *words], env={**clean, **variables}, cwd=folder)


@contextmanager
def watching(target: Target, gdb: str, *, read_only: bool = False) -> Iterator[tuple[LiveView, CudaGdbAdapter]]:
    """A session that watches a job with that cuda-gdb, and its adapter."""
    process, adapter = TargetProcess(target.pid), CudaGdbAdapter()
    request = Request(host="box", processes=(process,), stacks="none", gdb=gdb, read_only=read_only)
    with started(LiveView(request, adapters=[ProcAdapter(), adapter])) as view:
        yield view, adapter


def ready(view: LiveView) -> None:
    """Wait until it is seen that the job takes orders."""
    eventually(lambda: any(s.code == "dump-ready" for s in view.latest().snapshot.statuses.values()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where jobs work."""
    made = tmp_path / "job"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"CUDA_COREDUMP_PIPE": "pipe-%h-%p", "CUDA_COREDUMP_FILE": "gpu-%h-%p.core"},
        {"CUDA_COREDUMP_PIPE": "corepipe_%h_%p", "CUDA_COREDUMP_FILE": "core.cuda.%h.%p"},
    ],
    ids=["defaults", "named", "as other drivers name it"],
)
@pytest.mark.invariant("dump_request.U1", "dump_request.U2")
def test_a_dump_is_asked_for_read_and_entered(
    spawn: Spawn, player: Play, device: Device, folder: Path, *, gpu_core: Path, variables: dict[str, str]
) -> None:
    target = job(spawn, folder, gpu_core, **ASKABLE, **variables)
    recording = folder / "device.livedbg"
    said = device(target.pid, "--dump", "--gdb", player("hang"), "-o", recording)
    assert said.code == 0, said.everything
    assert said.out.startswith("All 64 warps of kernel 0 spin<<<(16,1,1),(128,1,1)>>> are at spin.cu:12")
    assert re.search(r"gpu dump: process:\S+ paused for at most \d+\.\d\d s", said.err)
    assert target.line() == "ORDERED 1"  # a byte was enough
    snapshot = last_update(recording)[0].snapshot
    (touch,) = snapshot.intrusions
    assert (touch.what, touch.stops, touch.measured) == ("gpu dump", 1, True) and touch.paused_ns > 0
    (state,) = snapshot.devices.values()
    assert state.source == "dump on request" and Path(state.path).parent.samefile(folder)
    assert [path for path in folder.iterdir() if path.is_fifo()] == [folder / Path(target.words[0]).name]


@pytest.mark.invariant("dump_request.U3")
def test_the_dump_is_waited_for_until_it_is_whole(spawn: Spawn, device: Device, folder: Path, gpu_core: Path) -> None:
    target = job(spawn, folder, gpu_core, "slow", **ASKABLE)
    said = device(target.pid, "--dump-only")
    assert said.code == 0, said.everything
    assert Path(said.out.strip()).read_bytes() == gpu_core.read_bytes()


@pytest.mark.invariant("dump_request.U3")
def test_a_second_dump_says_what_has_not_moved(
    spawn: Spawn, player: Play, device: Device, folder: Path, gpu_core: Path
) -> None:
    target = job(spawn, folder, gpu_core, **ASKABLE)
    said = device(target.pid, "--dump", "--again", "1.1", "--gdb", player("hang"))
    assert said.code == 0 and re.search(r"unchanged: a sample [\d.]+ m?s earlier had it at the same place", said.out)
    assert len(list(folder.glob("*.nvcudmp"))) == 2 and said.err.count("paused for") == 2


def test_a_kernel_that_stands_still_for_long_is_a_stall(
    spawn: Spawn, player: Play, device: Device, folder: Path, *, gpu_core: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedbg.adapters.cuda.commands.device.Settings", lambda: Settings(task_stall_s=0.5))
    target = job(spawn, folder, gpu_core, **ASKABLE)
    assert device(target.pid, "--dump", "--again", "1.1", "--gdb", player("hang")).code == 10


@pytest.mark.parametrize(
    "words",
    [
        ("--again", "1"),
        ("--dump-only", "--again", "1"),
        ("--attach", "--again", "1"),
        ("--may-abort",),
        ("--dump-only", "--json"),
    ],
    ids=" ".join,
)
def test_what_would_have_no_effect_is_refused(device: Device, words: tuple[str, ...]) -> None:
    said = device(os.getpid(), *words)
    assert said.code == 2 and "try:" in said.err and "is intrusive" not in said.err


@pytest.mark.invariant("dump_request.U2")
def test_a_driver_that_reads_by_blocks_gets_its_megabyte(
    spawn: Spawn, device: Device, folder: Path, gpu_core: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedbg.adapters.cuda.cudagdb.dump_request._PATIENCE_S", 0.5)
    target = job(spawn, folder, gpu_core, "blocks", **ASKABLE)
    said = device(target.pid, "--dump-only")
    assert said.code == 0 and target.line() == f"ORDERED {1 << 20}"


def test_a_driver_that_closes_its_pipe_as_it_takes_the_order_is_waited_for(
    spawn: Spawn, device: Device, folder: Path, gpu_core: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedbg.adapters.cuda.cudagdb.dump_request._PATIENCE_S", 0.5)
    target = job(spawn, folder, gpu_core, "closes", **ASKABLE)
    said = device(target.pid, "--dump-only")
    assert said.code == 0 and "paused for at most" in said.err, said.everything


@pytest.mark.invariant("dump_request.U2")
def test_orders_that_were_never_read_are_told(spawn: Spawn, device: Device, folder: Path, gpu_core: Path) -> None:
    target = job(spawn, folder, gpu_core, "deaf", **ASKABLE)
    pipe = os.open(folder / Path(target.words[0]).name, os.O_WRONLY | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(pipe, bytes(4096))
    os.close(pipe)
    said = device(target.pid, "--dump-only")
    assert said.code == 3 and "has not read earlier orders" in said.err and "paused for" not in said.err


@pytest.mark.invariant("dump_pipe.Q1", "dump_request.U1")
async def test_Q1_another_pipe_that_has_the_descriptor_by_then_gets_nothing(tmp_path: Path) -> None:
    named, other = tmp_path / "corepipe.cuda.box.1", tmp_path / "other"
    for path in (named, other):
        os.mkfifo(path)
    pipe, others = os.open(named, os.O_RDWR), os.open(other, os.O_RDWR | os.O_NONBLOCK)
    try:
        place = find_dump_pipe(os.getpid())
        os.dup2(others, place.descriptor)
        with pytest.raises(TargetUnsuitable, match="no longer reads"):
            await send_request(place, limit_s=0.1)
        with pytest.raises(BlockingIOError):
            os.read(others, 1)
    finally:
        os.close(pipe)
        os.close(others)


@pytest.mark.parametrize(("word", "sentence"), [("never", r"wrote no dump within [\d.]+ s"), ("cut", "still writing")])
@pytest.mark.invariant("dump_request.U3")
def test_a_dump_that_does_not_come_is_said_and_entered(
    spawn: Spawn, device: Device, folder: Path, *, gpu_core: Path, word: str, sentence: str, monkeypatch: Any
) -> None:
    target = job(spawn, folder, gpu_core, word, **ASKABLE)
    time_of_dump = clock_from(lambda: word == "never" or any(folder.glob("*.nvcudmp")))
    monkeypatch.setattr("livedbg.adapters.cuda.cudagdb.dump_request.time", time_of_dump)
    said = device(target.pid, "--dump-only", "--timeout", "1")
    assert (said.code, said.out) == (3, "") and re.search(sentence, said.err) and "try:" in said.err
    assert re.search(r"paused for [1-9]\d*\.\d+ s", said.err)  # not measured, and not left out


def test_a_process_that_ends_after_its_dump_is_read_all_the_same(
    spawn: Spawn, player: Play, device: Device, folder: Path, gpu_core: Path
) -> None:
    target = job(spawn, folder, gpu_core, "abort", CUDA_ENABLE_USER_TRIGGERED_COREDUMP="1")
    refused = device(target.pid, "--dump", "--gdb", player("hang"))
    assert refused.code == 2 and "may abort" in refused.err and "--may-abort" in refused.err
    assert not list(folder.glob("*.nvcudmp"))
    said = device(target.pid, "--dump", "--may-abort", "--gdb", player("hang"))
    assert said.code == 0 and "has ended after the dump" in said.out, said.everything


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({}, "CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1 was not set"),
        ({**ASKABLE, "CUDA_COREDUMP_FILE": "| gzip > x.gz"}, "hands its dump to a command"),
    ],
    ids=["not enabled", "to a command"],
)
@pytest.mark.invariant("dump_request.U1")
def test_what_takes_no_order_is_refused_with_the_recipe(
    spawn: Spawn, device: Device, folder: Path, *, gpu_core: Path, variables: dict[str, str], sentence: str
) -> None:
    target = job(spawn, folder, gpu_core, **variables)
    before = sorted(folder.iterdir())
    said = device(target.pid, "--dump-only")
    assert said.code == 3 and sentence in said.err and "paused for" not in said.err
    assert variables or "--recipe cuda-user-coredump" in said.err
    assert sorted(folder.iterdir()) == before  # and nothing was made


def test_a_launcher_points_to_the_process_below_it_that_does(
    spawn: Spawn, device: Device, folder: Path, gpu_core: Path
) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    launch = f"import subprocess, sys; subprocess.run([sys.executable, {str(DUMPER)!r}, {str(gpu_core)!r}])"
    target = spawn([sys.executable, "-c", launch], env={**clean, **ASKABLE}, cwd=folder)
    said = device(target.pid, "--dump-only")
    below = re.search(r"its child process (\d+) does", said.err)
    assert said.code == 3 and below is not None, said.err
    assert device(below[1], "--dump-only").code == 0


def test_a_fifo_of_another_name_is_left_alone(spawn: Spawn, device: Device, folder: Path, gpu_core: Path) -> None:
    os.mkfifo(folder / "corepipe.cuda.box.1")  # of that name, but nobody reads it
    target = job(spawn, folder, gpu_core)
    assert device(target.pid, "--dump-only").code == 3


def test_touches_are_asked_for_and_can_be_forbidden(spawn: Spawn, device: Device, folder: Path, gpu_core: Path) -> None:
    target = job(spawn, folder, gpu_core, **ASKABLE)
    plain = device(target.pid)
    assert plain.code == 2 and "is intrusive" in plain.err and "--dump" in plain.err
    for way in ("--dump", "--attach"):
        said = device(target.pid, way, "--read-only")
        assert said.code == 2 and "--read-only forbids" in said.err
    both = device(target.pid, "--dump", "--attach")
    assert both.code == 2 and "exclude each other" in both.err
    assert not list(folder.glob("*.nvcudmp"))


def test_the_app_s_intent_takes_a_dump_and_says_what_stands(
    spawn: Spawn, player: Play, folder: Path, gpu_core: Path
) -> None:
    target = job(spawn, folder, gpu_core, **ASKABLE)
    process = f"process:box/{target.pid}"
    with watching(target, player("hang")) as (view, _):
        ready(view)
        assert not view.latest().snapshot.intrusions
        view.send(DumpDevice(process=process))
        eventually(lambda: process in view.latest().snapshot.devices)
        snapshot = view.latest().snapshot
    assert snapshot.devices[process].kernels[0].warps == 64
    assert [touch.what for touch in snapshot.intrusions] == ["gpu dump"]


@pytest.mark.parametrize("read_only", [False, True], ids=["without an intent", "forbidden"])
@pytest.mark.invariant("cudagdb_adapter.G1")
def test_G1_no_dump_is_ordered_unasked_or_forbidden(
    spawn: Spawn, player: Play, folder: Path, gpu_core: Path, read_only: bool
) -> None:
    target = job(spawn, folder, gpu_core, **ASKABLE, CUDA_ENABLE_COREDUMP_ON_EXCEPTION="1")
    notices, looks = list[str](), list[str]()
    with watching(target, player("hang"), read_only=read_only) as (view, adapter):
        view.subscribe(lambda update: notices.append(update.notice) if update.notice else None)
        ready(view)
        if read_only:
            view.send(DumpDevice(process=f"process:box/{target.pid}"))
            eventually(lambda: bool(notices))
        else:  # some more looks at the process
            (watch,) = (watch for watch in adapter._watches.values() if watch is not None)
            whole = watch.find
            watch.find = lambda: (looks.append("look"), whole())[1]  # type: ignore[method-assign]
            for number in range(3):
                view.send(Refresh())
                eventually(lambda least=number: len(looks) > least)
        assert not view.latest().snapshot.intrusions
    assert all("--read-only forbids" in notice for notice in notices)
    assert not list(folder.glob("*.nvcudmp"))
    pipe = os.open(folder / Path(target.words[0]).name, os.O_RDWR | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        os.read(pipe, 1)
    os.close(pipe)


@pytest.mark.invariant("cudagdb_adapter.G2")
def test_G2_a_dump_that_can_t_be_read_stands_in_the_ledger(
    spawn: Spawn, player: Play, folder: Path, gpu_core: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreadable(*_words: object) -> None:
        raise SourceError("This dump can't be read.", "", "unreadable")

    monkeypatch.setattr("livedbg.adapters.cuda.cudagdb.adapter.read_dump", unreadable)
    target = job(spawn, folder, gpu_core, **ASKABLE)
    notices: list[str] = []
    with watching(target, player("hang")) as (view, _):
        view.subscribe(lambda update: notices.append(update.notice) if update.notice else None)
        ready(view)
        view.send(DumpDevice(process=f"process:box/{target.pid}"))
        eventually(lambda: notices == ["This dump can't be read."])
        eventually(lambda: [touch.what for touch in view.latest().snapshot.intrusions] == ["gpu dump"])


@pytest.mark.parametrize("aborts", [False, True], ids=["goes on", "aborts"])
def test_a_dump_that_the_job_writes_by_itself_is_read_without_a_touch(
    spawn: Spawn, player: Play, folder: Path, gpu_core: Path, aborts: bool
) -> None:
    named = {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_COREDUMP_FILE": "gpu.core"}
    target = job(spawn, folder, gpu_core, "slow", *(["abort"] if aborts else []), **named)
    with watching(target, player("illegal-address")) as (view, adapter):
        eventually(lambda: any(adapter._watches.values()))  # what is there by then is none of its dumps
        target.stdin.write(b"\n")
        eventually(lambda: bool(view.latest().snapshot.devices))
        update = view.latest()
    assert not update.snapshot.intrusions
    (state,) = update.snapshot.devices.values()
    assert state.faults[0].code == 14 and state.source == "core dump"
    assert [hit.type for hit in update.snapshot.exceptions.values()] == ["CUDA_EXCEPTION_14"]
    assert "CUDA exception 14, Warp Illegal Address" in update.diagnosis.verdict.sentence


def test_a_recording_that_is_there_is_not_replaced_and_nothing_is_touched_for_it(
    spawn: Spawn, device: Device, folder: Path, gpu_core: Path
) -> None:
    target = job(spawn, folder, gpu_core, **ASKABLE)
    said = device(target.pid, "--dump", "-o", gpu_core)
    assert said.code == 2 and "already exists" in said.err and not list(folder.glob("*.nvcudmp"))


def test_a_report_of_a_recorded_core_says_what_stood_there(device: Device, player: Play, gpu_core: Path) -> None:
    recording = gpu_core.with_name("core.livedbg")
    assert device(gpu_core, "--gdb", player("hang"), "-o", recording).code == 0
    update, _damage = last_update(recording)
    assert update.diagnosis.verdict.sentence.startswith("All 64 warps of kernel 0 spin<<<")


def test_json_is_one_object(player: Play, gpu_core: Path) -> None:
    said = livedbg("device", gpu_core, "--json", "--gdb", player(hang(4)))
    assert said.code == 0 and json.loads(said.out)["kernels"][0]["name"] == "spin"
