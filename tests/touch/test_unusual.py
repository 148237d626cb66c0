"""Targets that are not as targets should be: each is touched in every way, with a clear answer, and none is hurt."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from livedbg.linux.procfs import child_pids, process_ids, read_stat, thread_ids
from livedbg.model import ThreadState
from livedbg.model.errors import LivedbgError, TargetDenied, TargetGone, TargetUnsuitable
from livedbg.session.tools import find_gdb
from livedbg.touch.attach import Attachment
from tests.cli.conftest import Said, livedbg
from tests.conftest import eventually
from tests.probes.refused import refused
from tests.touch.health import COUNTERS, changed_code, counters, counts_on, family_untouched

NOBODY = 65534
NEVER = int(Path("/proc/sys/kernel/pid_max").read_text())
TREE = ("heartbeat", "thrown", "forks", "execs", "spawns", "threads", "child")
UNSHARED = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
FILTERED = ("heartbeat", "first", "second")
needs_probes = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="starts programs as other users: run as root")


@contextlib.asynccontextmanager
async def attachment(pid: int) -> Any:
    """A gdb that is set up for a process, and not attached yet."""
    gdb = find_gdb()
    assert gdb is not None
    made = Attachment(gdb, pid)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


async def touch(pid: int, turns: int = 1, patience_s: float = 100) -> None:
    """Attach, hold a thread, let go."""
    async with attachment(pid) as made:
        for turn in range(turns):
            await made.attach(patience_s)
            async with made.hold(pid, patience_s) as held:
                frames = await made.engine.command(f"-stack-list-frames --thread {held.number}", 60)
                assert frames.payload["stack"], turn
            await made.detach()


def glanced(pid: int) -> Said:
    return livedbg("stacks", pid, "--glance")


def caught(pid: int, *words: str) -> Said:
    return livedbg("catch", pid, "std::runtime_error", "--count", "1", "--timeout", "120", *words)


def is_as_before(pid: int, counted: Path, layout: tuple[str, ...] = COUNTERS) -> None:
    """Fails unless a target runs on as if nobody had touched it."""
    assert counts_on(counted, layout, layout=layout)
    eventually(lambda: family_untouched(pid))
    assert changed_code(pid) == []


def states(pid: int) -> set[ThreadState]:
    """In which states the threads of a process are."""
    found = set()
    for tid in thread_ids(pid):
        with contextlib.suppress(OSError):  # it has ended
            found.add(read_stat(pid, tid).state)
    return found


def is_kernel_thread(pid: int) -> bool:
    """There is none in a PID namespace of its own."""
    try:
        return read_stat(pid).kernel_thread
    except OSError:
        return False


@needs_probes
async def test_a_process_that_somebody_else_traces(thrower: Any, spawn: Any, build_target: Any) -> None:
    tracer = spawn([build_target("tracer"), str(thrower.pid)])
    with pytest.raises(TargetUnsuitable, match=f"already traced by process {tracer.pid}"):
        await touch(thrower.pid)
    said = caught(thrower.pid, "--stop")
    assert said.code == 3 and f"already traced by process {tracer.pid}" in said.err and "try: " in said.err
    assert glanced(thrower.pid).code == 0
    assert caught(thrower.pid).code == 0  # who listens needs no ptrace
    os.kill(tracer.pid, signal.SIGKILL)
    is_as_before(thrower.pid, thrower.counted)


@needs_probes
async def test_a_process_that_is_stopped_stays_so(thrower: Any) -> None:
    os.kill(thrower.pid, signal.SIGSTOP)
    eventually(lambda: read_stat(thrower.pid).state is ThreadState.STOPPED)
    with pytest.raises(TargetUnsuitable, match="is stopped"):
        await touch(thrower.pid)
    said = caught(thrower.pid, "--stop")
    assert said.code == 3 and "is stopped" in said.err and f"kill -CONT {thrower.pid}" in said.err
    assert glanced(thrower.pid).code == 0
    assert livedbg("catch", thrower.pid, "std::runtime_error", "--timeout", "1").code == 4
    eventually(lambda: states(thrower.pid) == {ThreadState.STOPPED})
    os.kill(thrower.pid, signal.SIGCONT)
    is_as_before(thrower.pid, thrower.counted)


@needs_probes
async def test_a_process_under_a_filter_that_kills(build_target: Any, spawn: Any, tmp_path: Path) -> None:
    counted = tmp_path / "counters"
    target = spawn([build_target("seccomped"), counted])
    await touch(target.pid, 2)
    assert glanced(target.pid).code == 0
    assert caught(target.pid).code == 0
    assert caught(target.pid, "--stop").code == 0
    is_as_before(target.pid, counted, FILTERED)


@needs_probes
@needs_root
async def test_a_process_in_other_namespaces(build_target: Any, spawn: Any, tmp_path: Path) -> None:
    counted = tmp_path / "counters"
    outer = spawn([*UNSHARED, build_target("thrower"), counted, "3", "2000", "1"])
    (pid,) = child_pids(outer.pid)
    assert os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no path
    await touch(pid, 2)
    said = glanced(pid)
    assert said.code == 0 and "main" in said.out
    said = caught(pid)
    assert said.code == 0 and ("std::runtime_error" in said.out or "shop::SoldOut" in said.out)
    assert caught(pid, "--stop").code == 0
    is_as_before(pid, counted)


@needs_probes
@needs_root
def test_process_1_of_a_container_is_touched_from_inside_and_gets_no_children_of_ours(
    build_target: Any, spawn: Any, tmp_path: Path
) -> None:
    counted = tmp_path / "counters"
    outer = spawn([*UNSHARED, build_target("thrower"), counted, "3", "2000"])
    (pid,) = child_pids(outer.pid)
    inside = ["nsenter", "--target", str(pid), "--user", "--pid", "--mount", "--preserve-credentials"]
    assert livedbg("stacks", 1, "--glance", prefix=inside).code == 0
    said = livedbg("catch", 1, "std::runtime_error", "--stop", "--count", "1", "--timeout", "90", prefix=inside)
    assert said.code == 0 and "stopped for" in said.err
    assert child_pids(pid) == []
    is_as_before(pid, counted, COUNTERS[:-1])


@needs_probes
async def test_thousands_of_threads_and_children_that_come_and_go(
    build_target: Any, spawn: Any, tmp_path: Path
) -> None:
    counted = tmp_path / "counters"
    target = spawn([build_target("tree"), counted, "25000"])  # no faster than gdb lists threads on a busy machine

    def born() -> int:
        return sum(counters(counted, TREE)[name] for name in ("threads", "forks", "execs", "spawns"))

    before = born()
    await touch(target.pid, 3)
    assert glanced(target.pid).code == 0
    assert caught(target.pid).code == 0
    assert caught(target.pid, "--stop").code == 0
    eventually(lambda: born() > before + 1_000)
    is_as_before(target.pid, counted, TREE)


@needs_probes
async def test_a_process_that_ends_at_any_moment(build_target: Any, spawn: Any, tmp_path: Path) -> None:
    chance = random.Random(5)

    @contextlib.contextmanager
    def ending(after_s: float) -> Iterator[int]:
        target = spawn([build_target("thrower"), tmp_path / "counters", "3", "2000", "1"])
        timer = threading.Timer(after_s, target.process.kill)
        timer.start()
        try:
            yield target.pid
        finally:
            timer.join()
            target.process.wait(60)

    for _ in range(6):
        with ending(chance.uniform(0.05, 0.6)) as pid, contextlib.suppress(LivedbgError):
            await touch(pid, 1000, patience_s=20)  # gdb may wait in vain for one that was killed
    with ending(chance.uniform(0.2, 1.0)) as pid:
        assert glanced(pid).code in (0, 3)
    with ending(chance.uniform(0.2, 1.0)) as pid:
        assert livedbg("catch", pid, "no::such", "--timeout", "90").code in (0, 3)
    with ending(chance.uniform(0.2, 2.0)) as pid:
        assert livedbg("catch", pid, "no::such", "--timeout", "90", "--stop").code in (0, 3)


async def test_what_is_no_process_any_more_or_never_was(spawn: Any) -> None:
    parent = spawn(
        [
            sys.executable,
            "-c",
            "import os\nif not (p := os.fork()): os._exit(0)\nprint('READY', p, flush=True)\ninput()",
        ]
    )
    zombie = int(parent.words[0])
    eventually(lambda: read_stat(zombie).state is ThreadState.ZOMBIE)
    cases: list[tuple[int, type[LivedbgError], str]] = [(zombie, TargetUnsuitable, "zombie")]
    cases += [(pid, TargetUnsuitable, "kernel thread") for pid in process_ids() if is_kernel_thread(pid)][:1]
    cases.append((NEVER, TargetGone, "no process"))  # one that was may be somebody else's by now
    for pid, kind, words in cases:
        with pytest.raises(kind, match=words):
            await touch(pid)
        for said in (glanced(pid), caught(pid), caught(pid, "--stop")):
            assert said.code in (0, 3) and said.err.strip(), said
            assert words in said.err or "has ended" in said.err, said.err


@needs_root
async def test_a_process_of_somebody_else_without_rights(thrower: Any) -> None:
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    for words in (
        ("stacks", thrower.pid, "--glance"),
        ("catch", thrower.pid, "std::runtime_error", "--count", "1", "--timeout", "90"),
        ("catch", thrower.pid, "std::runtime_error", "--stop", "--timeout", "90"),
    ):
        said = livedbg(*words, prefix=as_nobody, env={"HOME": "/tmp"})
        if "No module named" in said.err or "Permission denied" in said.err:
            pytest.skip("this Python's folder can't be read by other users")
        assert said.code in (0, 3) and "belongs to user root" in said.err and "sudo" in said.err, said
    is_as_before(thrower.pid, thrower.counted)


@needs_root
async def test_a_kernel_that_forbids_gdb_to_trace(
    thrower: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own look at the rights is left out: it is the kernel's answer to gdb that is looked at."""
    monkeypatch.setattr("livedbg.touch.attach.access_problem", lambda pid: None)
    wrapper = tmp_path / "gdb"
    wrapper.write_text(f'#!/bin/sh\nexec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups {find_gdb()} "$@"\n')
    wrapper.chmod(0o755)
    made = Attachment(str(wrapper), thrower.pid)
    await made.start()
    with pytest.raises(TargetDenied, match="does not let gdb attach"):
        await made.attach(100)
    await made.close()
    is_as_before(thrower.pid, thrower.counted)
