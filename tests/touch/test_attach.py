"""Attaching to real programs: what it does to them, what it refuses, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from livedbg.gdbmi.errors import GdbCommandError, GdbGone, GdbTimeout
from livedbg.linux.procfs import process_exists, read_stat, status_fields
from livedbg.model import ThreadState
from livedbg.model.errors import TargetGone, TargetUnsuitable
from livedbg.session.tools import find_gdb
from livedbg.touch import attach as module
from livedbg.touch.attach import Attachment
from livedbg.touch.guard_process import Guard
from tests.conftest import eventually
from tests.touch.health import changed_code, counts_on, guards, untouched

Make = Callable[..., Awaitable[Attachment]]


@pytest.fixture
async def make() -> Any:
    """Attachments that are closed at the end."""
    made: list[Attachment] = []
    gdb = find_gdb()
    assert gdb is not None, "the tests need gdb: make test installs it"

    async def start(pid: int, lost: Callable[[str], None] | None = None) -> Attachment:
        attachment = Attachment(gdb, pid, lost)
        made.append(attachment)
        await attachment.start()
        return attachment

    yield start
    for attachment in made:
        await attachment.close()


def tracer(pid: int) -> int:
    return int(status_fields(pid)["TracerPid"])


@pytest.mark.invariant("attach.A2")
async def test_A2_the_target_counts_on_while_attached_and_is_as_before_after_the_detach(
    thrower: Any, make: Make
) -> None:
    attachment = await make(thrower.pid)
    for _ in range(2):
        cost = await attachment.attach(100)
        assert cost.threads >= 5
        assert cost.stopped_ns > 0
        assert tracer(thrower.pid) == attachment.engine.pid
        assert counts_on(thrower.counted)
        guard = attachment.guard_pid
        assert guard is not None
        await attachment.detach()
        assert tracer(thrower.pid) == 0
        assert counts_on(thrower.counted)
        eventually(lambda: untouched(thrower.pid))
        assert changed_code(thrower.pid) == []
        assert not process_exists(guard)


@pytest.mark.invariant("attach.A1")
async def test_A1_a_guard_watches_from_before_the_first_touch_until_after_the_last(
    thrower: Any, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, bool]] = []
    start, release = Guard.start, Guard.release

    async def started(*numbers: int) -> Guard:
        guard = await start(*numbers)
        seen.append(("guarded", tracer(thrower.pid) != 0))
        return guard

    async def released(guard: Guard) -> bool:
        seen.append(("released", tracer(thrower.pid) != 0))
        assert process_exists(guard.pid)
        return await release(guard)

    monkeypatch.setattr(Guard, "start", started)
    monkeypatch.setattr(Guard, "release", released)
    attachment = await make(thrower.pid)
    assert seen == []
    await attachment.attach(100)
    assert tracer(thrower.pid) == attachment.engine.pid and guards(thrower.pid)
    await attachment.detach()
    assert seen == [("guarded", False), ("released", False)]


async def test_a_held_thread_stands_and_the_others_go_on(thrower: Any, make: Make) -> None:
    attachment = await make(thrower.pid)
    await attachment.attach(100)
    async with attachment.hold(thrower.pid, 200) as held:
        assert read_stat(thrower.pid, thrower.pid).state is ThreadState.TRACED
        frames = await attachment.engine.command(f"-stack-list-frames --thread {held.number}", 60)
        assert frames.payload["stack"]
        assert counts_on(thrower.counted, ("runtime_error", "sold_out", "forks"))
    assert counts_on(thrower.counted)


@pytest.mark.invariant("attach.A3")
async def test_A3_a_held_thread_goes_on_when_its_time_is_over(thrower: Any, make: Make) -> None:
    attachment = await make(thrower.pid)
    await attachment.attach(100)
    limit_s = 0.5  # which a busy box may take to stop it: then it gets more
    while True:
        try:
            async with attachment.hold(thrower.pid, limit_s) as held:
                while read_stat(thrower.pid, thrower.pid).state is ThreadState.TRACED:
                    await attachment.engine.command("-data-list-register-names", 60)  # lets the loop run
                assert counts_on(thrower.counted)
                with pytest.raises(GdbCommandError):
                    await attachment.engine.command(f"-stack-list-frames --thread {held.number}", 60)
            return
        except GdbTimeout as error:
            assert "did not stop within" in error.message and limit_s < 30, error
            limit_s *= 4


@pytest.mark.invariant("attach.A5")
async def test_A5_a_thread_that_is_stopped_by_a_stop_signal_is_resumed_when_its_time_is_over(
    spawn: Any, make: Make
) -> None:
    target = spawn([sys.executable, "-c", "print('READY', flush=True)\nwhile True: pass"])
    stopped: list[str] = []
    attachment = await make(target.pid)
    await attachment.attach(100)
    await attachment.stop_at_signal(signal.SIGURG, stopped.append, 0.5)
    os.kill(target.pid, signal.SIGURG)
    while not stopped:
        await attachment.engine.command("-data-list-register-names", 60)
    while read_stat(target.pid).state is ThreadState.TRACED:
        await attachment.engine.command("-data-list-register-names", 60)  # lets the loop run
    assert len(stopped) == 1 and tracer(target.pid) == attachment.engine.pid


@pytest.mark.parametrize("deaf", [False, True], ids=["ends at SIGTERM", "is killed"])
@pytest.mark.invariant("attach.A6")
async def test_A6_a_gdb_that_does_not_answer_is_ended(
    thrower: Any, make: Make, monkeypatch: pytest.MonkeyPatch, deaf: bool
) -> None:
    monkeypatch.setattr(module, "_DETACH_S", 0.2)
    monkeypatch.setattr(module, "_TERM_S", 0.5 if deaf else 100.0)
    attachment = await make(thrower.pid)
    await attachment.attach(100)
    gdb = attachment.engine.pid
    assert gdb is not None
    os.kill(gdb, signal.SIGSTOP)
    if deaf:
        monkeypatch.setattr(module, "os", SimpleNamespace(kill=lambda *_words: None))
    await attachment.detach()
    assert not attachment.attached and not process_exists(gdb)
    assert counts_on(thrower.counted)
    eventually(lambda: untouched(thrower.pid))


async def test_signals_reach_the_target_while_attached(spawn: Any, make: Make) -> None:
    code = """
import os, signal, time
for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGALRM):
    signal.signal(number, lambda n, frame: os.write(1, b"GOT %d\\n" % n))  # print is not reentrant
print("READY", flush=True)
while True:
    time.sleep(0.01)
"""
    target = spawn([sys.executable, "-c", code])
    attachment = await make(target.pid)
    await attachment.attach(100)
    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGALRM):
        os.kill(target.pid, number)
        assert target.line() == f"GOT {int(number)}"


@pytest.mark.invariant("attach.A4")
async def test_A4_without_its_guard_the_target_is_let_go(thrower: Any, make: Make) -> None:
    said: list[str] = []
    attachment = await make(thrower.pid, said.append)
    await attachment.attach(100)
    assert attachment.guard_pid is not None
    os.kill(attachment.guard_pid, signal.SIGKILL)
    while tracer(thrower.pid):
        await attachment.engine.command("-data-list-register-names", 60)
    assert said == [f"The guard has exited, so livedbg detached from process {thrower.pid}."]
    assert counts_on(thrower.counted)
    await attachment.attach(100)  # with a new one
    assert tracer(thrower.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
@pytest.mark.invariant("guard.W1", "guard.W4")
async def test_W1_W4_the_guard_lets_a_held_thread_go_on_when_gdb_is_gone(
    thrower: Any, make: Make, number: signal.Signals
) -> None:
    attachment = await make(thrower.pid)
    await attachment.attach(100)
    gdb = attachment.engine.pid
    assert gdb is not None
    with pytest.raises(GdbGone):
        async with attachment.hold(thrower.pid, 200):
            os.kill(gdb, number)
            while True:
                await attachment.engine.command("-data-list-register-names", 60)
    assert counts_on(thrower.counted)
    eventually(lambda: untouched(thrower.pid))
    assert changed_code(thrower.pid) == []


async def test_a_guard_that_dies_with_gdb_is_replaced(thrower: Any, make: Make) -> None:
    attachment = await make(thrower.pid)
    await attachment.attach(100)
    with pytest.raises(GdbGone):
        async with attachment.hold(thrower.pid, 200):
            for pid in (attachment.guard_pid, attachment.engine.pid):
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
            while True:
                await attachment.engine.command("-data-list-register-names", 60)
    await attachment.close()
    assert counts_on(thrower.counted)
    eventually(lambda: untouched(thrower.pid))


async def test_a_target_that_ends_while_attached_is_noticed(thrower: Any, make: Make) -> None:
    said: list[str] = []
    attachment = await make(thrower.pid, said.append)
    await attachment.attach(100)
    os.kill(thrower.pid, signal.SIGKILL)
    while not said:
        await attachment.engine.command("-data-list-register-names", 60)
    assert said[0] == f"Process {thrower.pid} has ended."
    with pytest.raises((TargetGone, TargetUnsuitable)):
        await attachment.attach(100)


async def test_what_cant_be_attached_to_is_refused_untouched(thrower: Any, make: Make) -> None:
    first, second = await make(thrower.pid), await make(thrower.pid)
    await first.attach(100)
    with pytest.raises(TargetUnsuitable, match=f"already traced by process {first.engine.pid}"):
        await second.attach(100)
    await first.detach()
    os.kill(thrower.pid, signal.SIGSTOP)
    eventually(lambda: read_stat(thrower.pid).state is ThreadState.STOPPED)
    with pytest.raises(TargetUnsuitable, match="is stopped"):
        await second.attach(100)
    assert read_stat(thrower.pid).state is ThreadState.STOPPED
    os.kill(thrower.pid, signal.SIGCONT)
    dead = await make(thrower.pid)
    await dead.close()
    with pytest.raises(GdbGone):
        await dead.attach(100)
    thrower.kill()
    with pytest.raises(TargetGone):
        await second.attach(100)
