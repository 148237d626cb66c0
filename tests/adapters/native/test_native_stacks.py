"""Native stacks of real programs, against what a gdb that does attach says of them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.native import NativeAdapter, adapter
from livedbg.adapters.native.adapter import Watched
from livedbg.adapters.proc import ProcAdapter
from livedbg.adapters.python import PythonAdapter
from livedbg.gdbmi.errors import GdbGone, GdbTimeout
from livedbg.linux import procfs
from livedbg.linux.ending import has_ended
from livedbg.model import SourceHealth, Stack
from livedbg.model.intents import WantStacks
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.pacing import Limit
from livedbg.session.tools import find_gdb
from livedbg.unwind import walk
from livedbg.unwind.capture import Capture, capture
from livedbg.unwind.helper_process import usable
from livedbg.unwind.pool import UnwinderPool
from livedbg.unwind.unwinder import Unwinder, write_core
from livedbg.unwind.unwound import Unwound
from tests.conftest import TARGETS, Target, eventually, seen_when, settled

GDB = find_gdb() or ""
BUILDS = {"O0": ("-O0",), "O2": ("-O2",), "O2-no-frame-pointer-stripped": ("-O2", "-s", "-rdynamic")}
_THREAD = re.compile(r"^Thread \d+ \(.*LWP (\d+)", re.MULTILINE)
_FRAME = re.compile(r"^#\d+ +(?:0x[0-9a-f]+ in )?(.+?) \(", re.MULTILINE)


def by_attaching(pid: int) -> dict[int, list[str]]:
    """tid -> function names, innermost first, of a gdb that attaches to (and stops) the process."""
    done = subprocess.run(
        [GDB, "-nx", "-batch", "-p", str(pid), "-ex", "set print frame-arguments none", "-ex", "thread apply all bt"],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    parts = _THREAD.split(done.stdout)[1:]
    return {int(tid): _FRAME.findall(text) for tid, text in zip(parts[::2], parts[1::2], strict=True)}


def bare(name: str) -> str:
    """A function without its arguments and symbol version, as both print it."""
    return re.sub(r"@@.*", "", name)


async def unwind(pid: int) -> tuple[dict[int, Unwound], Unwinder]:
    unwinder = Unwinder(GDB, pid)
    await unwinder.start()
    try:
        return await unwinder.unwind(capture(pid, procfs.thread_ids(pid)), 100), unwinder
    finally:
        await unwinder.close()


def short(name: str) -> str:
    """A function without its scope and arguments."""
    return re.sub(r"<.*>", "", bare(name)).partition("(")[0].rpartition("::")[2]


@pytest.mark.parametrize("build", BUILDS)
async def test_64_threads_have_the_stacks_that_an_attached_gdb_sees(
    build: str, build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    target = spawn([build_target("stacks", *BUILDS[build], output=f"stacks-{build}"), "64"])
    settled(target.pid)
    ours, unwinder = await unwind(target.pid)
    theirs = by_attaching(target.pid)
    assert set(ours) == set(theirs) and len(ours) == 65
    if usable():
        settled(target.pid)  # gdb has stopped all of them: each runs once until it waits again
        await by_drgn(target.pid, theirs, stripped="stripped" in build)
    for tid, unwound in ours.items():
        assert unwound.whole, (tid, unwound)
        assert [bare(frame.function) for frame in unwound.frames if not frame.function.startswith("0x")] == [
            bare(name) for name in theirs[tid] if name != "??"
        ]
        assert all(frame.module for frame in unwound.frames if frame.address)
    if "stripped" not in build:
        first = {frame.function.partition("(")[0] for unwound in ours.values() for frame in unwound.frames}
        assert {"take_gate", "wait_for_credit", "wait_for_events", "demo::Queue<long>::pop", "descend"} <= first
        assert all(frame.line for u in ours.values() for frame in u.frames if frame.function.startswith("descend"))
    assert unwinder.loaded


OWN = {"take_gate", "wait_for_credit", "wait_for_events", "pop", "dispatch", "descend", "main"}


async def by_drgn(pid: int, theirs: dict[int, list[str]], *, stripped: bool) -> None:
    """Assert that drgn gives the same functions of the program, with columns and the names that .dynsym has.

    Of the C library gdb invents frames for calls that replaced their caller.
    """
    pool = UnwinderPool(None)
    try:
        ours = await (await pool.of(pid)).unwind(capture(pid, procfs.thread_ids(pid)), 100)
    finally:
        await pool.close()
    assert set(ours) == set(theirs)
    for tid, unwound in ours.items():
        assert unwound.whole, (tid, unwound)
        named = [short(frame.function) for frame in unwound.frames if not frame.inlined]
        assert [name for name in named if name in OWN] == [short(n) for n in theirs[tid] if short(n) in OWN]
        assert all(frame.module for frame in unwound.frames)
    frames = [frame for unwound in ours.values() for frame in unwound.frames]
    first = {frame.function.partition("(")[0] for frame in frames if not frame.inlined}
    assert {"take_gate", "wait_for_credit", "wait_for_events", "demo::Queue<long>::pop", "descend"} <= first
    if not stripped:
        assert "demo::Queue<long>::pop" in {frame.function for frame in frames}
        assert all(frame.line and frame.column for frame in frames if frame.function == "descend")


@pytest.fixture
def waiting(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Target:
    """Eight threads that wait."""
    target = spawn([build_target("stacks", *BUILDS["O2"], output="stacks-O2"), "8"])
    settled(target.pid)
    return target


def switches(pid: int) -> dict[str, list[str]]:
    """What a stop, a wake or a tracer would change."""
    wanted = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", "TracerPid", "State")
    return {
        str(tid): [procfs.status_fields(pid, tid)[name] for name in wanted] for tid in sorted(procfs.thread_ids(pid))
    }


@pytest.mark.invariant("unwinder.U1")
async def test_U1_the_target_is_not_touched(waiting: Target) -> None:
    before = switches(waiting.pid)
    ours, unwinder = await unwind(waiting.pid)
    assert len(ours) == 9
    assert switches(waiting.pid) == before
    assert unwinder.pid == waiting.pid


@pytest.mark.invariant("unwinder.U4")
async def test_U4_symbols_of_the_program_before_an_exec_name_no_frame(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    programs = [  # both lie at the same addresses
        build_target("execs", "-no-pie", f"-DWAIT={name}_waits", f"-DCALL={name}_calls", output=f"execs-{name}")
        for name in ("first", "second")
    ]
    target = spawn(programs)
    unwinder = Unwinder(GDB, target.pid)
    await unwinder.start()
    try:
        for name in ("first", "second"):
            settled(target.pid)
            (stack,) = (await unwinder.unwind(capture(target.pid, [target.pid]), 100)).values()
            seen = [(frame.function, frame.module) for frame in stack.frames]
            program = f"execs-{name}"
            assert seen[1:] == [(f"{name}_waits", program), (f"{name}_calls", program), ("main", program)]
            os.write(target.process.stdin.fileno(), b"x")
            assert "READY" in target.line()
    finally:
        await unwinder.close()


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.invariant("unwinder.U3")
async def test_U3_who_comes_meanwhile_waits(waiting: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores: list[int] = []

    def written(core: Path, *of: Any) -> None:
        write_core(core, *of)
        cores.append(len(names_in(tmp_path)))

    monkeypatch.setattr("livedbg.unwind.unwinder.write_core", written)
    monkeypatch.setattr("livedbg.unwind.copies._place", lambda: tmp_path)
    tids = sorted(procfs.thread_ids(waiting.pid))[:3]
    unwinder = Unwinder(GDB, waiting.pid)
    await unwinder.start()
    try:
        found = await asyncio.gather(*(unwinder.unwind(capture(waiting.pid, [tid]), 100) for tid in tids))
    finally:
        await unwinder.close()
    assert [list(stacks) for stacks in found] == [[tid] for tid in tids]
    assert cores == [1, 1, 1]


@pytest.mark.invariant("unwinder.U2")
async def test_U2_no_core_is_left(waiting: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def folder(**options: object) -> str:  # one of our own: others leave and make theirs meanwhile
        made.append(tmp_path / f"livedbg-{len(made)}")
        made[-1].mkdir(mode=0o700)
        return str(made[-1])

    monkeypatch.setattr("livedbg.unwind.copies.tempfile.mkdtemp", folder)
    await unwind(waiting.pid)
    unwinder = Unwinder(GDB, waiting.pid)
    await unwinder.start()
    pid = unwinder._engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # so it can't be in time
    with pytest.raises(GdbTimeout):
        await unwinder.unwind(capture(waiting.pid, procfs.thread_ids(waiting.pid)), 0.0)
    os.kill(pid, signal.SIGCONT)
    await unwinder.close()
    assert (len(made), names_in(tmp_path)) == (2, [])


async def test_a_gdb_that_is_killed_in_the_middle_is_said_and_the_next_one_works(waiting: Target) -> None:
    unwinder = Unwinder(GDB, waiting.pid)
    await unwinder.start()
    working = asyncio.create_task(unwinder.unwind(capture(waiting.pid, procfs.thread_ids(waiting.pid)), 100))
    await asyncio.sleep(0)
    pid = unwinder._engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(GdbGone):
        await working
    await unwinder.close()
    assert not unwinder.alive
    ours, _ = await unwind(waiting.pid)
    assert len(ours) == 9


@pytest.mark.invariant("capture.K1")
def test_K1_a_thread_that_runs_or_has_gone_gives_no_copy(spawn: Callable[..., Target]) -> None:
    busy = spawn([sys.executable, "-c", "print('READY', flush=True)\nwhile True: pass"])
    looked: list[Capture] = []

    def runs() -> bool:
        looked.append(capture(busy.pid, [busy.pid, 999_999_999]))
        return looked[-1].threads == () and looked[-1].moving == (busy.pid, 999_999_999)

    eventually(runs)
    assert looked[-1].mappings


def test_what_is_no_longer_there_is_an_os_error(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", "print('READY', flush=True)"])
    target.process.wait(60)
    with pytest.raises(OSError, match="No such"):
        capture(target.pid, [target.pid])


@contextmanager
def watching(pid: int, *, gdb: str | None = None) -> Iterator[LiveView]:
    request = Request(host="box", processes=(TargetProcess(pid),), gdb=gdb)
    view = LiveView(request, adapters=[ProcAdapter(), PythonAdapter(), NativeAdapter()])
    view.start()
    try:
        yield view
    finally:
        view.stop()


def until(view: LiveView, true: Callable[[Snapshot], bool]) -> Snapshot:
    return seen_when(true, lambda: view.latest().snapshot, 200)


def functions(stack: Stack) -> list[str]:
    return [frame.function for frame in stack.frames]


def test_a_thread_that_python_called_into_c_has_one_merged_stack(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, TARGETS / "py_in_c.py"])
    settled(target.pid)
    thread = f"thread:box/{target.pid}/{target.pid}"
    with watching(target.pid) as view:
        snapshot = until(view, lambda s: thread in s.stacks and s.stacks[thread].layer == "merged")
    found = functions(snapshot.stacks[thread])
    places = [
        next(at for at, name in enumerate(found) if word in name)
        for word in ("read", "on_compare", "qsort", "sort_in_c", "<module>")
    ]
    assert places == sorted(places), found
    assert found[-1] == "<module>" and not any("_PyEval" in name for name in found)
    assert any(frame.language == "native" for frame in snapshot.stacks[thread].frames[: places[1]])


@pytest.mark.invariant("walk.U1")
def test_torch_loads_only_the_files_that_stacks_lie_in(spawn: Callable[..., Target]) -> None:
    pytest.importorskip("torch", reason="torch is a test dependency: make test installs it")
    program = "import os, torch; torch.ones(9) + 1; print('READY', flush=True); os.read(os.pipe()[0], 1)"
    target = spawn([sys.executable, "-c", program])
    settled(target.pid)
    mapped = {Path(m.path).name for m in capture(target.pid, []).mappings if m.executable and m.path.startswith("/")}
    assert any(name.startswith("libtorch_cpu") for name in mapped)
    ours, unwinder = asyncio.run(unwind(target.pid))
    lying_in = {frame.module for unwound in ours.values() for frame in unwound.frames}
    assert set(unwinder.loaded) <= lying_in
    assert not any(name.startswith("libtorch_cpu") for name in unwinder.loaded)
    assert any("read" in frame.function for frame in ours[target.pid].frames[:2])


def test_without_gdb_everything_else_works_and_it_says_so(waiting: Target) -> None:
    with watching(waiting.pid, gdb="/no/such/gdb") as view:
        snapshot = until(view, lambda s: bool(s.edges) and any(t.source == "native" for t in s.statuses.values()))
    (status,) = (t for t in snapshot.statuses.values() if t.source == "native")
    assert (status.health, status.code) == (SourceHealth.FAILED, "gdb-missing")
    assert "/no/such/gdb" in status.sentence and "install gdb" in (status.remedy or "")
    assert not snapshot.stacks


def test_a_gdb_that_was_too_late_is_asked_again(waiting: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_LIMIT", Limit(cpu=0.5, wall=0.2, least_s=0.1))
    unwind = Unwinder.unwind
    limits: list[float] = []

    async def first_too_late(self: Unwinder, copied: Capture, limit_s: float, **_: bool) -> dict[int, Unwound]:
        limits.append(limit_s)
        if len(limits) == 1:
            raise GdbTimeout("gdb did not answer.", "", "gdb-timeout")
        return await unwind(self, copied, limit_s)

    def done(snapshot: Snapshot) -> bool:  # what was said is taken back
        said = [t.health for t in snapshot.statuses.values() if t.code == "gdb-timeout"]
        return len(snapshot.stacks) == 9 and said == [SourceHealth.OK]

    monkeypatch.setattr(Unwinder, "unwind", first_too_late)
    with watching(waiting.pid, gdb=GDB) as view:
        until(view, done)
    assert len(limits) == 2


def test_a_process_that_ended_meanwhile_is_no_trouble_of_its_stacks(
    waiting: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    async def too_late(self: Unwinder, copied: Capture, limit_s: float, **_: bool) -> dict[int, Unwound]:
        os.kill(waiting.pid, signal.SIGKILL)
        await asyncio.to_thread(eventually, lambda: has_ended(waiting.pid))
        asked.set()
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Unwinder, "unwind", too_late)
    with watching(waiting.pid, gdb=GDB) as view:
        snapshot = until(view, lambda s: asked.is_set() and all(one.exited for one in s.processes.values()))
    assert not [status for status in snapshot.statuses.values() if status.source == "native"]


async def test_a_name_that_gdb_can_not_demangle_costs_the_names_of_that_file_alone(
    build_target: Callable[..., Path], spawn: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "_CPU_S", 0.5)
    target = spawn([build_target("endless_name", "-rdynamic")])
    settled(target.pid)
    ours, unwinder = await unwind(target.pid)
    (said,) = unwinder.too_slow
    assert "symbols of endless_name" in said
    (stack,) = ours.values()
    assert "pause" in stack.frames[0].function and stack.frames[0].module != "endless_name"


def test_a_gdb_that_lets_us_wait_is_named(waiting: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_SILENT_S", 0.05)
    named = threading.Event()

    async def silent(self: Unwinder, copied: Capture, limit_s: float, **_: bool) -> dict[int, Unwound]:
        await asyncio.to_thread(named.wait, 100)
        return {}

    def said(snapshot: Snapshot) -> set[SourceHealth]:
        return {t.health for t in snapshot.statuses.values() if t.code == "gdb-slow" and GDB in t.sentence}

    monkeypatch.setattr(Unwinder, "unwind", silent)
    with watching(waiting.pid, gdb=GDB) as view:
        until(view, lambda s: SourceHealth.DEGRADED in said(s))
        named.set()
        until(view, lambda s: {t.health for t in s.statuses.values() if t.code == "gdb-slow"} == {SourceHealth.OK})


def test_stacks_that_are_asked_for_are_taken_anew(waiting: Target) -> None:
    with watching(waiting.pid) as view:
        first = until(view, lambda s: len(s.stacks) == 9)
        thread, stack = next(iter(first.stacks.items()))
        view.send(WantStacks(process=f"process:box/{waiting.pid}", threads=(thread,), native=True))
        again = until(view, lambda s: s.stacks[thread].taken_mono_ns > stack.taken_mono_ns)
    assert functions(again.stacks[thread]) == functions(stack)
    assert [t for t in again.stacks if again.stacks[t].taken_mono_ns > first.stacks[t].taken_mono_ns] == [thread]


@pytest.mark.parametrize(
    ("now_s", "lasting", "long", "worth"),
    [
        (5.0, True, True, False),  # the last capture was just before
        (9.0, True, False, False),
        (9.0, True, True, True),  # it was costly, but this may soon be a stall
        (30.0, True, False, True),
        (30.0, False, False, False),
        (60.0, False, False, True),
    ],
)
def test_what_a_costly_capture_puts_off(now_s: float, lasting: bool, long: bool, worth: bool) -> None:
    watched = Watched(next_s=30.0, brief_s=60.0, long_s=8.0)
    assert watched.worth(now_s, lasting=lasting, long=long) is worth
