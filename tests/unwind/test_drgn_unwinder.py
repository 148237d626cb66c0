"""Stacks by drgn: what they hold, and what happens when their process ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from livedbg.linux import procfs
from livedbg.linux.maps import parse_maps
from livedbg.unwind import helper_process
from livedbg.unwind.capture import Capture, ThreadCopy
from livedbg.unwind.helper_process import HelperProcess, UnwinderGone, UnwindTimeout
from livedbg.unwind.pool import DrgnUnwinder, UnwinderPool
from livedbg.unwind.wire import Copied, Request, WireMapping, write_stacks
from tests.conftest import Target, eventually, settled
from tests.unwind.conftest import copied


def of(pool: UnwinderPool) -> HelperProcess:
    """The unwinding process."""
    assert pool._helper is not None and pool._helper.process is not None
    return pool._helper.process


async def until_busy(pool: UnwinderPool) -> None:
    """Wait until it was asked for something."""
    await asyncio.to_thread(eventually, lambda: of(pool).busy)


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def ended(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


@pytest.mark.invariant("unwind_pool.D1")
async def test_D1_no_copy_is_left(
    waiting: Target, pool: UnwinderPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedbg.unwind.copies._place", lambda: tmp_path)
    unwinder = await pool.of(waiting.pid)
    assert len(await unwinder.unwind(copied(waiting.pid), 100)) == 9
    os.kill(of(pool).pid or 0, signal.SIGSTOP)  # so it can't be in time
    with pytest.raises(UnwindTimeout):
        await unwinder.unwind(copied(waiting.pid), 0.0)
    assert names_in(tmp_path) == []


@pytest.mark.invariant("helper_process.P1")
async def test_P1_one_that_does_not_answer_is_killed_and_the_next_one_works(
    waiting: Target, pool: UnwinderPool
) -> None:
    unwinder = await pool.of(waiting.pid)
    await unwinder.unwind(copied(waiting.pid), 100)
    first = of(pool).pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    with pytest.raises(UnwindTimeout):
        await unwinder.unwind(copied(waiting.pid), 0.1)
    eventually(lambda: ended(first))
    assert len(await unwinder.unwind(copied(waiting.pid), 100)) == 9
    assert of(pool).pid != first and unwinder.notes == []


@pytest.mark.invariant("helper_process.P2")
async def test_P2_who_comes_meanwhile_waits(waiting: Target, pool: UnwinderPool) -> None:
    tids = sorted(procfs.thread_ids(waiting.pid))[:3]
    unwinder = await pool.of(waiting.pid)
    whole = copied(waiting.pid)
    apart = [Capture(whole.pid, tuple(t for t in whole.threads if t.tid == tid), (), whole.mappings) for tid in tids]
    found = await asyncio.gather(*(unwinder.unwind(one, 100) for one in apart))
    assert [list(stacks) for stacks in found] == [[tid] for tid in tids]
    async with of(pool)._lock:
        with pytest.raises(UnwindTimeout):
            await unwinder.unwind(whole, 0.1)


@pytest.mark.invariant("unwind_pool.D2")
async def test_D2_one_that_is_killed_is_replaced_once_then_gdb_unwinds(waiting: Target, pool: UnwinderPool) -> None:
    unwinder = await pool.of(waiting.pid)
    first = await unwinder.unwind(copied(waiting.pid), 100)
    for _ in range(2):
        os.kill(of(pool).pid or 0, signal.SIGSTOP)
        working = asyncio.create_task(unwinder.unwind(copied(waiting.pid), 200))
        await until_busy(pool)
        os.kill(of(pool).pid or 0, signal.SIGKILL)
        again = await working
        assert again.keys() == first.keys()
        assert "SIGKILL" in unwinder.notes[0].sentence
    assert pool._helper is not None and pool._helper.given_up
    assert isinstance(unwinder, DrgnUnwinder) and "gdb unwinds instead" in unwinder.notes[0].sentence
    assert pool._unwinders[waiting.pid].alive


@pytest.mark.invariant("unwind_pool.D2")
async def test_D2_after_a_crash_without_debug_information(waiting: Target, pool: UnwinderPool) -> None:
    unwinder = await pool.of(waiting.pid)
    first = await unwinder.unwind(copied(waiting.pid), 100)
    assert any(frame.line for stack in first.values() for frame in stack.frames)
    os.kill(of(pool).pid or 0, signal.SIGSTOP)
    working = asyncio.create_task(unwinder.unwind(copied(waiting.pid), 200))
    await until_busy(pool)
    os.kill(of(pool).pid or 0, signal.SIGBUS)
    os.kill(of(pool).pid or 0, signal.SIGCONT)
    again = await working
    assert not any(frame.line for stack in again.values() for frame in stack.frames)
    names = {frame.function for stack in again.values() for frame in stack.frames}
    assert {"take_gate()", "descend(int, int)", "demo::Queue<long>::pop(long)"} <= names
    assert "no-debug-information" in {note.code for note in unwinder.notes}


@pytest.mark.invariant("unwind_pool.D3")
async def test_D3_symbols_of_the_program_before_an_exec_name_no_frame(
    build_target: Callable[..., Path], spawn: Callable[..., Target], pool: UnwinderPool
) -> None:
    programs = [  # both lie at the same addresses
        build_target("execs", "-no-pie", f"-DWAIT={name}_waits", f"-DCALL={name}_calls", output=f"execs-{name}")
        for name in ("first", "second")
    ]
    target = spawn(programs)
    for name in ("first", "second"):
        settled(target.pid)
        (stack,) = (await (await pool.of(target.pid)).unwind(copied(target.pid), 100)).values()
        seen = [(frame.function, frame.module) for frame in stack.frames]
        program = f"execs-{name}"
        assert seen[1:] == [(f"{name}_waits", program), (f"{name}_calls", program), ("main", program)]
        assert target.process.stdin is not None
        os.write(target.process.stdin.fileno(), b"x")
        assert "READY" in target.line()


async def test_without_drgn_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_process, "_PROGRAM", "pass")  # that says nothing, and ends
    with pytest.raises(UnwinderGone, match="livedbg-unwind has ended"):
        await HelperProcess().start()


async def test_stacks_that_are_cut_short_are_an_error_and_end_nothing(waiting: Target, pool: UnwinderPool) -> None:
    await pool.warm(waiting.pid)
    request = Request(waiting.pid, "/dev/null", [], [Copied(1, 0, 8, (0,) * 27)])
    assert (await of(pool).ask(request, 100)).error
    unwinder = await pool.of(waiting.pid)
    assert len(await unwinder.unwind(copied(waiting.pid), 100)) == 9


@pytest.mark.invariant("drgn_stacks.D1")
async def test_D1_only_files_that_a_frame_lies_in_are_opened(spawn: Callable[..., Target], tmp_path: Path) -> None:
    pytest.importorskip("drgn")
    from livedbg.unwind.drgn_files import Programs
    from livedbg.unwind.drgn_stacks import answer
    from livedbg.unwind.modules import Modules
    from livedbg.unwind.places import Places

    program = "import os, ssl, sqlite3; print('READY', flush=True); os.read(os.pipe()[0], 1)"
    target = spawn([sys.executable, "-c", program])
    settled(target.pid)
    whole = copied(target.pid)
    assert "libssl" in " ".join(mapping.path for mapping in whole.mappings)
    write_stacks(tmp_path / "stacks", whole.threads)
    places = Places()
    (thread,) = whole.threads
    mappings = [WireMapping.of(mapping) for mapping in whole.mappings]
    copy = Copied(thread.tid, thread.low, thread.low + len(thread.stack), thread.registers)
    reply = answer(Request(target.pid, str(tmp_path / "stacks"), mappings, [copy]), places, Programs())
    modules = Modules(target.pid, whole.mappings)
    lying_in = {modules.name_at(frame.pc) for frame in reply.frames}
    assert reply.stacks[0].whole and {file.tables[-1].name for file in places._files.values()} == lying_in


@pytest.mark.invariant("drgn_stacks.D3")
async def test_D3_a_stack_that_is_cut_off_is_not_whole(waiting: Target, pool: UnwinderPool) -> None:
    unwinder = await pool.of(waiting.pid)
    whole = copied(waiting.pid)
    everything = await unwinder.unwind(whole, 100)
    assert all(stack.whole for stack in everything.values())
    short = tuple(ThreadCopy(t.tid, t.registers, t.low, t.stack[:256]) for t in whole.threads)
    cut = await unwinder.unwind(Capture(whole.pid, short, (), whole.mappings), 100)
    assert not any(stack.whole for tid, stack in cut.items() if len(stack.frames) < len(everything[tid].frames))
    assert any(not stack.whole for stack in cut.values())


@pytest.mark.invariant("helper.H1")
def test_H1_it_ends_with_its_session() -> None:
    pytest.importorskip("drgn")
    program = (
        "import asyncio; from livedbg.unwind.helper_process import HelperProcess\n"
        "async def main():\n"
        "    helper = HelperProcess(); await helper.start(); print(helper.pid, flush=True)\n"
        "    await asyncio.sleep(1000)\n"
        "asyncio.run(main())"
    )
    argv = [sys.executable, "-c", program]
    session = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert session.stdout is not None
    helper = int(session.stdout.readline())
    assert Path(f"/proc/{helper}/comm").read_text() == "livedbg-unwind\n"
    os.kill(helper, signal.SIGSTOP)  # it does not read its input either
    session.kill()
    session.wait(100)
    session.stdout.close()
    eventually(lambda: ended(helper))


@pytest.mark.invariant("helper.H2")
async def test_H2_its_memory_is_bounded(waiting: Target, pool: UnwinderPool) -> None:
    await pool.warm(waiting.pid)
    pid = of(pool).pid
    limits = procfs.read_file(f"/proc/{pid}/limits").decode().splitlines()
    assert {int(line[26:].split()[0]) <= 2 << 30 for line in limits if line.startswith("Max data size")} == {True}
    assert int(procfs.read_file(f"/proc/{pid}/oom_score_adj")) >= 500


async def test_a_path_that_is_no_text_goes_over_the_wire(
    build_target: Callable[..., Path], spawn: Callable[..., Target], pool: UnwinderPool, tmp_path: Path
) -> None:
    program = tmp_path / os.fsdecode(b"f\xfflder") / "stacks"
    program.parent.mkdir()
    shutil.copy(build_target("stacks", "-O2", output="stacks-O2"), program)
    target = spawn([program, "2"])
    settled(target.pid)
    mapping = next(m for m in parse_maps(target.pid) if m.path == str(program))
    assert WireMapping.of(mapping).mapping() == mapping
    found = await (await pool.of(target.pid)).unwind(copied(target.pid), 100)
    assert "take_gate" in {frame.function for stack in found.values() for frame in stack.frames}
