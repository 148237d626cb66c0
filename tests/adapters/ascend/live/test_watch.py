"""Whole sessions on stand-ins: what a user sees of a live scheduler, and what is said where it can't be seen."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.model import SourceHealth, TaskState
from livedbg.model.snapshot import CounterKey
from livedbg.session.view import Update
from tests.adapters.ascend.live.conftest import Simulator
from tests.adapters.ascend.replay import dispatched
from tests.adapters.ascend.sessions import watching
from tests.conftest import Target

Start = Callable[..., Simulator]
T = "task:ascend/"


async def test_a_scheduler_is_followed_while_it_works_and_when_it_dies(simulator: Start) -> None:
    target = simulator()
    async with watching(target.pid) as watched:
        await watched.until(lambda update: bool(update.snapshot.processes))
        target.tell("submit 0 0", "submit 1 1 0.0", "run 8 0.0")
        await watched.until(lambda u: u.snapshot.tasks.keys() >= {f"{T}r0t0", f"{T}r1t0"})
        target.tell("done 0.0", "run 9 1.0")

        def went_on(update: Update) -> bool:
            before, after = (update.snapshot.tasks[f"{T}{name}"].state for name in ("r0t0", "r1t0"))
            core = update.snapshot.resources["core:ascend/9"].attributes.get("task")
            return (before, after, core) == (TaskState.COMPLETED, TaskState.RUNNING, f"{T}r1t0")

        await watched.until(went_on)
        target.tell("enqueue", "enqueue")
        queued = CounterKey("run:ascend/main", "in ready queues")
        await watched.until(lambda u: (there := u.snapshot.counters.get(queued)) is not None and there.value == 2)
        target.begin("fast")
        await watched.until(lambda u: len(u.snapshot.tasks) > 30)
        target.target.process.kill()  # in the middle of it
        target.target.process.wait(60)
        update = await watched.until(lambda u: u.snapshot.processes[f"process:box/{target.pid}"].exited)
        assert not any(
            s.health is SourceHealth.FAILED for s in update.snapshot.statuses.values() if s.source == "ascend"
        )


async def test_two_schedulers_are_kept_apart(simulator: Start) -> None:
    first, second = simulator(), simulator("polling")
    for target in (first, second):
        target.tell("submit 0 0", "submit 0 1 0.0")
    first.tell("run 8 0.0")
    second.tell("run 9 0.0", "done 0.0", "run 9 0.1")
    async with watching(first.pid, second.pid) as watched:

        def both(update: Update) -> bool:
            return sum(task.state is TaskState.RUNNING for task in update.snapshot.tasks.values()) == 2

        tasks = (await watched.until(both)).snapshot.tasks
    running = {name for name, task in tasks.items() if task.state is TaskState.RUNNING}
    assert running in (
        {f"{T}r0t0", f"{T}pid{second.pid}/r0t1"},
        {f"{T}r0t1", f"{T}pid{first.pid}/r0t0"},
    )


async def test_chips_that_share_a_log_are_told_apart(simulator: Start, tmp_path: Path) -> None:
    """The log says that task 0 was given to two cores; memory says which chip's task 0 each is."""
    chips = [simulator(), simulator()]
    log = tmp_path / "err.log"
    lines = [f"[chip_process pid={chip.pid} dev={number}] ready" for number, chip in enumerate(chips)]
    for number, chip in enumerate(chips):
        chip.tell("submit 0 2", f"run {8 + number} 0.0", "submitted")
        lines.append(dispatched(0, 8 + number))
    log.write_text("\n".join(lines) + "\n")
    async with watching(*(chip.pid for chip in chips), logs=(str(log),)) as watched:

        def apart(update: Update) -> bool:
            tasks, said = update.snapshot.tasks, update.snapshot.diagnostics
            names = {f"{T}dev{number}/r0t0": (f"core:ascend/dev{number}/{8 + number}",) for number in range(2)}
            placed = all(name in tasks and tasks[name].where == where for name, where in names.items())
            states = {
                name: said[name].entities for name in ("ascend/run-state", "ascend/dev1/run-state") if name in said
            }
            return placed and states == {"ascend/run-state": (), "ascend/dev1/run-state": (f"{T}dev1/r0t0",)}

        await watched.until(apart)


DISPATCHED = dispatched(0, 8) + "\n"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("early", [True, False])
async def test_the_log_of_a_process_and_its_memory_are_one_job(
    simulator: Start, tmp_path: Path, named: bool, early: bool
) -> None:
    """Also where the process writes other logs, and the user named the one in which the runtime logs."""
    log, other = tmp_path / "job.err", tmp_path / "other.log"
    target = simulator("ringbuffer", f"2>{log} 3>{other}")
    target.tell("submit 0 2", "submit 0 0 0.0", "run 8 0.0", "submitted")
    other.write_text("something else\n")
    log.write_text(DISPATCHED if early else "nothing of the runtime\n")

    def read(update: Update) -> bool:
        tasks = update.snapshot.tasks
        return f"{T}r0t1" in tasks and (not early or _from_the_log(update))

    async with watching(target.pid, logs=(str(log),) if named else ()) as watched:
        await watched.until(read)
        if not early:
            with log.open("a") as file:
                file.write(DISPATCHED)
        update = await watched.until(_from_the_log)
    assert set(update.snapshot.tasks) == {f"{T}r0t0", f"{T}r0t1"}


def _from_the_log(update: Update) -> bool:
    """The line has been read, and speaks of the task that memory shows."""
    return any(f"{T}r0t0" in record.links for record in update.snapshot.recent_logs)


async def test_the_log_of_another_run_is_another_job(simulator: Start, tmp_path: Path) -> None:
    log, old = tmp_path / "job.err", tmp_path / "old" / "job.err"
    old.parent.mkdir()
    old.write_text(DISPATCHED.replace("task 0", "task 7"))
    target = simulator("ringbuffer", f"2>{log}")
    target.tell("submit 0 2", "run 8 0.0", "submitted")
    log.write_text(DISPATCHED)
    async with watching(target.pid, logs=(str(old),)) as watched:
        update = await watched.until(lambda u: len(u.snapshot.tasks) > 1)
    jobs = {name.rpartition("/")[2]: name.rpartition("/")[0] for name in update.snapshot.tasks}
    assert jobs.keys() == {"r0t0", "r0t7"}
    assert jobs["r0t0"] != jobs["r0t7"]


async def test_fields_that_are_missing_are_named(simulator: Start) -> None:
    target = simulator("lacks")
    target.tell("submit 0 2", "submit 0 0 0.0")
    async with watching(target.pid) as watched:
        said = await watched.status(target.pid, "live-fields")
        assert said.health is SourceHealth.DEGRADED
        assert "sched_ctx_.core_exec_states_ (which core runs what)" in said.sentence
        assert "kernel_id (which kernel a task runs)" in said.sentence
        update = await watched.until(lambda u: f"{T}r0t1" in u.snapshot.tasks)
    assert update.snapshot.tasks[f"{T}r0t1"].fanin_left == 1


async def test_a_library_without_debug_information(simulator: Start) -> None:
    target = simulator("no_types")
    async with watching(target.pid) as watched:
        said = await watched.status(target.pid, "live-layout")
    assert said.health is SourceHealth.FAILED
    assert "the scheduler's types" in said.sentence and "-g" in said.remedy


async def test_a_stripped_library(simulator: Start, spawn: Callable[..., Target], tmp_path: Path) -> None:
    program = tmp_path / "aicpu_sim_Ab12Cd"
    shutil.copy(simulator("stripped").program, program)
    target = spawn([program])
    async with watching(target.pid) as watched:
        said = await watched.status(target.pid, "live-stripped")
    assert said.sentence.startswith("aicpu_sim_Ab12Cd of process")
    assert "no symbols" in said.sentence and "not stripped" in said.remedy


async def test_another_program_is_left_alone(simulator: Start) -> None:
    target = simulator("bare")
    async with watching(target.pid) as watched:
        await watched.until(lambda _: bool(watched.ascend._live._finder._keys))  # it has looked through its files
        await watched.until(lambda u: bool(u.snapshot.threads))
        assert not [s for s in watched.updates[-1].snapshot.statuses.values() if s.code.startswith("live")]


async def test_without_a_gdb_that_is_said(simulator: Start) -> None:
    target = simulator()
    target.tell("submit 0 2")
    async with watching(target.pid, gdb="/nowhere/gdb") as watched:
        said = await watched.status(target.pid, "live-no-gdb")
    assert "there is none" in said.sentence and "install gdb" in said.remedy
