"""Stops of running threads: what they give, and that they hurt nobody (invariants L and T)."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livedbg.linux import memory, procfs, ptrace
from livedbg.model import ThreadState
from livedbg.session.launch import launch
from livedbg.session.tools import find_gdb
from livedbg.touch.glance import Glanced, _Work, glance
from livedbg.unwind.capture import StackReader
from livedbg.unwind.unwinder import Unwinder
from livedbg.unwind.unwound import Unwound
from tests.adapters.glance.conftest import Spinners, goes_on, look, look_at_all, untouched
from tests.conftest import Target, eventually
from tests.touch.health import guards
from tests.waiting import Bound

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="starts programs as other users: run as root")


async def unwound(found: Glanced) -> dict[int, Unwound]:
    unwinder = Unwinder(find_gdb() or "", found.pid)
    await unwinder.start()
    try:
        return await unwinder.unwind(found.capture, 100)
    finally:
        await unwinder.close()


def functions(stack: Unwound) -> list[str]:
    return [frame.function.partition("(")[0] for frame in stack.frames]


@pytest.mark.parametrize("count", [3, 24])
async def test_threads_that_run_have_whole_stacks_down_to_their_start(
    count: int, spinners: Callable[..., Spinners]
) -> None:
    target = spinners(count)
    found = look_at_all(target.pid)
    assert {copy.tid for copy in found.copies} == set(procfs.thread_ids(target.pid))
    assert set(target.running) >= set(found.stops_ns) and min(found.stops_ns.values()) > 0
    goes_on(target.pid, target.running)
    stacks = await unwound(found)
    for number, tid in enumerate(target.running):
        names = functions(stacks[tid])
        spins = ("spin_in_alpha", "demo::Kernel<long>::spin_in_beta", "spin_in_gamma")[number % 3]
        place = names.index(spins)
        assert names[place + 1 : place + 2 + number % 5] == ["descend"] * (1 + number % 5)
        assert stacks[tid].whole, (tid, names)


async def test_a_thread_in_the_vdso_has_a_whole_stack(spawn: Callable[..., Target]) -> None:
    program = "import time\nprint('READY', flush=True)\nwhile True: time.monotonic_ns()"
    target = spawn([sys.executable, "-c", program])
    looks: list[Glanced] = []

    def in_vdso() -> bool:
        looks.append(look_at_all(target.pid))
        (copy,) = looks[-1].copies
        vdso = next(mapping for mapping in looks[-1].capture.mappings if mapping.path == "[vdso]")
        return vdso.start <= copy.pc < vdso.end

    eventually(in_vdso)
    stacks = await unwound(looks[-1])
    assert stacks[target.pid].whole, stacks
    assert "[vdso]" in {frame.module for frame in stacks[target.pid].frames}


def test_L1_no_stop_for_blocked_threads_and_no_EINTR_in_them(spinners: Callable[..., Spinners]) -> None:
    target = spinners(2)
    switches = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")

    def of_blocked() -> list[str]:
        return [procfs.status_fields(target.pid, target.blocked)[name] for name in switches]

    before = of_blocked()
    for _ in range(10):
        found = look(target.pid)
        assert set(found.stops_ns) <= set(target.running)
        assert target.blocked in {copy.tid for copy in found.copies}
    assert of_blocked() == before
    assert target.counts()[2] == 0


@pytest.mark.invariant("glance.L1", "glance.L4")
def test_L1_L4_one_thread_at_a_time_is_stopped_and_under_a_guard(
    spinners: Callable[..., Spinners], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = spinners(4)
    traced: list[int] = []
    guarded: list[bool] = []
    registers = ptrace.registers

    def while_stopped(tid: int) -> tuple[int, ...]:
        tids = procfs.thread_ids(target.pid)
        traced.append(sum(procfs.status_fields(target.pid, one)["TracerPid"] != "0" for one in tids))
        guarded.append(bool(guards(target.pid)))
        return registers(tid)

    monkeypatch.setattr(ptrace, "registers", while_stopped)
    glances = [threading.Thread(target=look_at_all, args=(target.pid,)) for _ in range(2)]
    for one in glances:
        one.start()
    for one in glances:
        one.join(100)
    assert len(traced) >= 8 and set(traced) == {1} and all(guarded)
    eventually(lambda: guards(target.pid) == [])


@pytest.mark.invariant("glance.L5")
def test_L5_a_stop_is_measured_also_where_the_copy_fails(
    spinners: Callable[..., Spinners], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_words: object) -> int:
        raise OSError(errno.EFAULT, "Bad address")

    target = spinners(3)
    monkeypatch.setattr(memory, "read_into", unreadable)
    found = look(target.pid)
    late = {tid for tid, refusal in found.skipped.items() if refusal.code == "no-cpu"}  # on a full machine
    assert set(found.skipped) >= set(target.running)
    assert set(found.stops_ns) == set(target.running) - late and all(found.stops_ns.values())
    monkeypatch.undo()
    goes_on(target.pid, target.running)


@pytest.mark.invariant("ptrace.T2")
def test_T2_no_signal_is_lost(spinners: Callable[..., Spinners]) -> None:
    target = spinners(1, signals=True)
    begun = target.counts()[1]
    stops = sum(len(glance(target.pid, target.running).stops_ns) for _ in range(60))
    assert stops
    # each is sent once the one before was handled: one that is lost would be the last
    eventually(lambda: target.counts()[1] > begun)
    handled = target.counts()[1]
    eventually(lambda: target.counts()[1] > handled + 100)
    sent, handled, _ = target.counts()
    assert handled <= sent <= handled + 1
    goes_on(target.pid, target.running)


DRIVER = """
import sys
from livedbg.linux import procfs
from livedbg.touch.glance import glance
pid = int(sys.argv[1])
print("READY", flush=True)
while True:
    glance(pid, procfs.thread_ids(pid))
"""


@pytest.mark.invariant("glance.L2")
def test_L2_a_tracer_that_is_killed_at_any_moment_leaves_nothing_behind(
    spinners: Callable[..., Spinners], spawn: Callable[..., Target]
) -> None:
    target = spinners(3)
    chance = random.Random(2)
    for _ in range(10):
        driver = spawn([sys.executable, "-c", DRIVER, str(target.pid)])
        time.sleep(chance.uniform(0.0, 0.03))
        driver.process.kill()
        driver.process.wait(60)
        eventually(lambda: untouched(target.pid))
    goes_on(target.pid, target.running)


@pytest.mark.parametrize("how", ["killed", "exits"])
@pytest.mark.invariant("ptrace.T1")
def test_T1_a_target_that_ends_meanwhile_keeps_its_exit_status(how: str, spawn: Callable[..., Target]) -> None:
    program = (
        "import os, sys, threading\n"
        "def spin():\n  while True: pass\n"
        "[threading.Thread(target=spin, daemon=True).start() for _ in range(3)]\n"
        "print('READY', flush=True)\n"
        "sys.stdin.readline()\n"
        "os._exit(7)\n"
    )
    for turn in range(4):
        enough = turn + 1
        target = spawn([sys.executable, "-c", program])  # a child of this process, as `livedbg launch` has one
        ended = threading.Event()
        looks: list[Glanced | OSError] = []

        def watch(
            pid: int = target.pid, ended: threading.Event = ended, looks: list[Glanced | OSError] = looks
        ) -> None:
            while not ended.is_set():
                try:
                    looks.append(look(pid))
                except OSError as error:
                    looks.append(error)

        pidfd = os.pidfd_open(target.pid)
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            eventually(lambda looks=looks, enough=enough: len(looks) >= enough)  # type: ignore[misc]
            if how == "killed":
                target.process.kill()
            else:
                target.stdin.write(b"\n")
            ended_by_itself = select.poll()
            ended_by_itself.register(pidfd, select.POLLIN)
            assert ended_by_itself.poll(100_000)
            assert target.process.wait(60) == (-signal.SIGKILL if how == "killed" else 7)
        finally:
            ended.set()
            watcher.join(100)
            os.close(pidfd)
        assert not watcher.is_alive()


def test_a_command_that_livedbg_started_is_not_taken_for_ended(tmp_path: Path) -> None:
    enough = tmp_path / "enough"
    program = f"import os\nwhile not os.path.exists({str(enough)!r}): pass\nraise SystemExit(5)"
    child = launch([sys.executable, "-c", program], tmp_path)
    codes: list[int | None] = []
    waiter = threading.Thread(target=lambda: codes.append(child.wait()))
    waiter.start()
    stops = 0
    bound = Bound()
    try:
        while waiter.is_alive():
            if stops > 20 or bound.problem():
                enough.touch()
            with contextlib.suppress(OSError):
                stops += len(look(child.pid).stops_ns)
    finally:
        enough.touch()
    assert stops > 0 and codes == [5] and child.exit_code == 5


@contextmanager
def traced_by(argv: list[str], pid: int) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tracer:
        try:
            eventually(lambda: procfs.status_fields(pid)["TracerPid"] == str(tracer.pid))
            yield tracer
        finally:
            tracer.kill()


TRACER = """
import sys
from livedbg.linux import procfs, ptrace
for tid in procfs.thread_ids(int(sys.argv[1])):
    ptrace.seize(tid)
sys.stdin.read()
"""


def test_a_thread_that_another_tracer_has_is_skipped_and_the_tracer_named(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", "print('READY', flush=True)\nwhile True: pass"])
    with traced_by([sys.executable, "-c", TRACER, str(target.pid)], target.pid) as tracer:
        found = look(target.pid)
        refusal = found.skipped[target.pid]
        assert (refusal.code, found.stops_ns) == ("traced", {})
        assert "by python" in refusal.sentence and f"pid {tracer.pid}" in refusal.sentence and refusal.remedy
    goes_on(target.pid, [target.pid])


def test_a_target_that_gdb_holds_is_copied_as_it_stands_and_not_woken(spinners: Callable[..., Spinners]) -> None:
    target = spinners(2)
    with traced_by([find_gdb() or "", "-nx", "-q", "-p", str(target.pid)], target.pid):
        held = [target.pid, *target.running]
        eventually(lambda: all(procfs.read_stat(target.pid, tid).state is ThreadState.TRACED for tid in held))
        found = look(target.pid)
        assert found.stops_ns == {} and {copy.tid for copy in found.copies} >= set(held)
        assert all(procfs.read_stat(target.pid, tid).state is ThreadState.TRACED for tid in held)
        os.kill(target.pid, signal.SIGKILL)


def states(pid: int) -> set[ThreadState]:
    return {procfs.read_stat(pid, tid).state for tid in procfs.thread_ids(pid)}


def test_a_target_that_job_control_stopped_stays_so(spinners: Callable[..., Spinners]) -> None:
    target = spinners(2)
    os.kill(target.pid, signal.SIGSTOP)
    eventually(lambda: states(target.pid) == {ThreadState.STOPPED})
    found = look(target.pid)
    assert found.stops_ns == {}
    assert states(target.pid) == {ThreadState.STOPPED}
    os.kill(target.pid, signal.SIGCONT)
    goes_on(target.pid, target.running)


def test_stops_of_job_control_and_glances_at_the_same_time(spinners: Callable[..., Spinners]) -> None:
    target = spinners(2)
    for _ in range(20):
        watcher = threading.Thread(target=look, args=(target.pid,))
        watcher.start()
        os.kill(target.pid, signal.SIGSTOP)
        watcher.join(100)
        eventually(lambda: states(target.pid) == {ThreadState.STOPPED})
        os.kill(target.pid, signal.SIGCONT)
        eventually(lambda: untouched(target.pid))
    goes_on(target.pid, target.running)


@pytest.mark.invariant("glance.L3")
def test_L3_a_thread_that_can_not_stop_is_let_go(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    target = spawn([build_target("vforks")])
    eventually(lambda: procfs.read_stat(target.pid).state is ThreadState.DISK)
    assert look(target.pid).stops_ns == {}
    found = Glanced(target.pid)
    work = _Work(StackReader(target.pid), found, math.inf, lambda: False)
    sure: list[bool] = []
    tracer = threading.Thread(target=lambda: sure.append(work._stop(target.pid)))  # as if it had run a moment ago
    tracer.start()
    tracer.join(100)
    work.wait_released()
    assert (sure, found.skipped[target.pid].code) == ([False], "uninterruptible")
    assert untouched(target.pid) and procfs.read_stat(target.pid).state is ThreadState.DISK
    os.kill(int(target.words[0]), signal.SIGKILL)
    assert target.line() == "ON"


def test_a_thread_that_has_gone_is_skipped(spinners: Callable[..., Spinners]) -> None:
    target = spinners(1)
    found: list[Glanced] = []

    def seen() -> bool:
        found.append(glance(target.pid, [999_999_999, *target.running]))
        return len(found[-1].copies) == 1

    eventually(seen)
    assert {look.skipped[999_999_999].code for look in found} == {"ended"}
    target.target.kill()
    with pytest.raises(OSError, match="No such"):
        look(target.pid)


def test_it_ends_when_it_is_told_to_and_at_its_time_limit(spinners: Callable[..., Spinners]) -> None:
    target = spinners(4)
    stops: deque[int] = deque()
    found = glance(target.pid, target.running, lambda: len(stops) == stops.append(1) or len(stops) > 3)
    codes = {refusal.code for refusal in found.skipped.values()}
    assert len(found.stops_ns) < 4 and codes - {"no-cpu"} == {"late"}
    assert {refusal.code for refusal in glance(target.pid, target.running, limit_s=0).skipped.values()} == {"late"}
    goes_on(target.pid, target.running)


LOOK_AS_NOBODY = """
import os, sys
from livedbg.touch.glance import glance
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    glance(int(sys.argv[1]), [int(sys.argv[1])])
except PermissionError as error:
    print("PermissionError", error.errno)
"""


@needs_root
def test_a_process_of_another_user_is_refused(spinners: Callable[..., Spinners]) -> None:
    target = spinners(1)
    argv = [sys.executable, "-c", LOOK_AS_NOBODY, str(target.pid)]
    assert subprocess.check_output(argv, text=True, timeout=100) == "PermissionError 13\n"
    goes_on(target.pid, target.running)


@needs_root
def test_without_privileges_it_works_on_ones_own(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    target = Spinners(spawn([*as_nobody, build_target("spinners"), "2"]))
    program = """
import sys
from livedbg.touch.glance import glance
while True:
    found = glance(int(sys.argv[1]), list(map(int, sys.argv[2:])))
    if not any(refusal.code == "no-cpu" for refusal in found.skipped.values()):
        break
print(len(found.stops_ns), len(found.copies), found.skipped)
"""
    argv = [*as_nobody, sys.executable, "-c", program, *map(str, [target.pid, *target.running])]
    assert subprocess.check_output(argv, text=True, timeout=100) == "2 2 {}\n"
    goes_on(target.pid, target.running)
