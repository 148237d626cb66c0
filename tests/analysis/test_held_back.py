"""Processes that are held back from outside: frozen, throttled, out of memory, in uninterruptible sleep, traced."""

from __future__ import annotations

from typing import Any

import pytest

from livedbg.analysis import VerdictState
from livedbg.model import EdgeKind, ThreadState
from livedbg.model import events as ev
from livedbg.model.entities import Resource, Thread
from livedbg.model.facts import GroupFacts
from tests.analysis.world import SECOND, World


def grouped(*pids: int, **facts: Any) -> World:
    """Processes in one control group."""
    world = World()
    group = Resource(id="cgroup:box/pod", kind="cgroup", name="control group /pod", facts=GroupFacts(**facts))
    world.store.apply(ev.ResourcesSeen(resources=(group,), **world.stamp()))
    for pid in pids:
        world.edge(EdgeKind.PART_OF, world.process(pid), group.id)
    return world


def test_frozen_processes_are_one_stall_with_its_remedy() -> None:
    world = grouped(1, 2, frozen_by="/sys/fs/cgroup/a b/cgroup.freeze")
    finding = world.found("frozen")
    assert finding.sentence == (
        "Process 1 (prog1) and 1 other are frozen by control group /pod: nothing runs until it is thawed."
    )
    assert finding.next[0].startswith("echo 0 > '/sys/fs/cgroup/a b/cgroup.freeze'")
    assert world.diagnosis().verdict.state is VerdictState.STALLED
    assert world.finding("throttled") is None
    world.exits("process:box/1")
    assert world.found("frozen").roots == ("process:box/2",)


def test_a_throttled_process_is_no_stall() -> None:
    world = grouped(1, throttled=0.9, cores=0.5, throttled_by="/g/cpu.max", cpu_stat="/g/cpu.stat")
    world.thread(1, waits_in="read of pipe 3")
    assert world.diagnosis().verdict.state is VerdictState.UNKNOWN
    world.now_ns += SECOND
    world.thread(1, state=ThreadState.RUNNING, cpu_ns=SECOND)
    found = world.later().diagnosis().verdict
    assert found.state is VerdictState.RUNNING
    assert "may use 0.5 cores, and was out of CPU time in about 90% of the periods" in found.sentence
    assert world.found("throttled").evidence[0].place == "/g/cpu.stat"


@pytest.mark.parametrize(
    ("facts", "state", "words"),
    [
        ({"under_oom": True}, VerdictState.STALLED, "may not end a task"),
        ({"memory_stalled": 0.6}, VerdictState.UNKNOWN, "waited for memory in about 60% of the last 10 s"),
        ({"killed": 2}, None, "has killed 2 tasks of control group /pod"),
    ],
)
def test_what_a_lack_of_memory_amounts_to(facts: dict[str, Any], state: VerdictState | None, words: str) -> None:
    world = grouped(1, memory_file="/pod/memory.max", memory_limit=1 << 30, memory_used=1.0, **facts)
    finding = world.found("memory-limit")
    assert words in finding.sentence
    assert "(100% of 1.0 GiB used)" in finding.sentence
    assert finding.state is state


def asleep(
    seconds: float,
    *,
    tid: int = 1,
    syscall: str | None = "fsync",
    channel: str = "folio_wait_bit",
    state: ThreadState = ThreadState.DISK,
    last_ran: bool = False,
) -> World:
    """A thread that has slept in the kernel for so long."""
    world = World()
    world.process(1)
    world.thread(1, waits_in="poll of 2 descriptors")
    began = world.now_ns
    thread = Thread(
        id=f"thread:box/1/{tid}",
        process="process:box/1",
        tid=tid,
        state=state,
        wait_channel=channel,
        syscall=syscall,
        waits_in=f"{syscall} of /data/x" if syscall else "page fault",
        last_ran_mono_ns=began if last_ran else None,
    )
    world.threads[thread.id] = thread
    world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    return world.later(int(seconds * SECOND))


def test_a_main_thread_in_uninterruptible_sleep_for_long_is_a_stall() -> None:
    world = asleep(12)
    finding = world.found("uninterruptible-sleep")
    assert "has been in uninterruptible sleep in fsync of /data/x for 12 s or more (folio_wait_bit)" in finding.sentence
    assert world.diagnosis().verdict.state is VerdictState.STALLED
    assert asleep(12, syscall=None, channel="folio_wait_bit", last_ran=True).finding("uninterruptible-sleep")


@pytest.mark.parametrize(
    "world",
    [
        asleep(8),  # a slow disk
        asleep(12, state=ThreadState.WAITING),
        asleep(60, syscall="vfork", channel="kernel_clone"),
        asleep(60, syscall="clone", channel=""),  # posix_spawn
        asleep(60, channel="coredump_task_exit"),
        asleep(60, channel="__refrigerator"),
        asleep(60, syscall=None),  # since when isn't known
    ],
)
def test_other_sleeps_in_the_kernel_are_none(world: World) -> None:
    assert world.finding("uninterruptible-sleep") is None


def test_a_helper_thread_in_such_a_sleep_stalls_nobody_unless_somebody_waits_for_it() -> None:
    world = asleep(12, tid=2)
    assert world.found("uninterruptible-sleep").state is None
    world.waits("thread:box/1/1", "thread:box/1/2")
    assert world.found("uninterruptible-sleep").state is VerdictState.STALLED


def test_a_sleep_in_which_a_thread_runs_now_and_then_is_none() -> None:
    world = asleep(8)
    old = world.threads["thread:box/1/1"]
    world.thread(1, state=ThreadState.DISK, waits_in=old.waits_in, cpu_ns=1_000_000)
    assert world.later(8 * SECOND).finding("uninterruptible-sleep") is None


def test_a_program_that_is_traced_and_runs_on_is_not_stopped() -> None:
    world = World()
    world.process(1, ThreadState.TRACED, notes=("traced by 77",))
    world.thread(1, state=ThreadState.TRACED, waits_in="stopped by its tracer")
    world.now_ns += SECOND
    world.thread(1, state=ThreadState.TRACED, waits_in="stopped by its tracer", cpu_ns=1000)
    assert world.finding("traced-process") is None
    assert world.later(SECOND).found("traced-process").state is VerdictState.STALLED


def test_one_thread_that_a_debugger_has_stopped_stalls_those_that_wait_for_it() -> None:
    world = World()
    world.process(1, ThreadState.WAITING)
    world.thread(1, waits_in="pthread_join")
    world.thread(2, state=ThreadState.TRACED, waits_in="stopped by its tracer")
    assert world.later(8 * SECOND).finding("traced-process") is None  # a catchpoint that holds it
    assert world.later(4 * SECOND).found("traced-process").state is None
    world.waits("thread:box/1/1", "thread:box/1/2")
    found = world.found("traced-process")
    assert found.state is VerdictState.STALLED
    assert "thread 2 is stopped by a debugger for 12 s or more; 1 thread waits for it." in found.sentence.lower()


def test_the_group_that_has_the_limit_is_named_and_not_the_one_that_is_held_back() -> None:
    for file, name in (("/sys/fs/cgroup/pod/cpu.max", "control group /pod"), ("/g/cpu.max", "control group /g")):
        world = grouped(1, throttled=0.9, cores=0.5, throttled_by=file, cpu_stat="/g/cpu.stat")
        assert f"throttled: {name} may use" in world.found("throttled").sentence
