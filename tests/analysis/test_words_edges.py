"""Names, times and evidence in sentences; who waits for any of several; logs whose errors nobody understands."""

from __future__ import annotations

import msgspec
import pytest

from livedbg.analysis import VerdictState
from livedbg.analysis.blocking import blocking_of
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.place_names import line_of
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import name_of, thread_evidence
from livedbg.model import Frame, LogSource, Process, Severity, TaskState, Thread, ThreadState
from livedbg.model import events as ev
from tests.analysis.world import World

MAIN = "thread:box/1/1"


def test_everything_has_a_name() -> None:
    world = World()
    worker = Process(id="process:box/1", host="box", pid=1, command=("/opt/bin/serve", "--port", "80"))
    world.store.apply(ev.ProcessSeen(process=worker, **world.stamp()))
    bare = Process(id="process:box/2", host="box", pid=2)
    world.store.apply(ev.ProcessSeen(process=bare, **world.stamp()))
    world.thread(1, "main")
    world.thread(2)
    world.resource("gil:box/1/0x20", "locked")
    world.resource("mutex:box/1/0x10", "locked")
    pipe = world.resource("pipe:box/9")
    nameless = msgspec.structs.replace(world.snapshot().resources[pipe], name="")
    world.store.apply(ev.ResourcesSeen(resources=(nameless,), **world.stamp()))
    world.task("g0", TaskState.RUNNING, 0)
    world.task("g1", TaskState.RUNNING, 0, kernel="")
    snapshot = world.snapshot()
    assert [name_of(entity, snapshot) for entity in snapshot.threads] == ["thread 1 (main)", "thread 2"]
    assert [name_of(entity, snapshot) for entity in snapshot.processes] == ["process 1 (serve)", "process 2"]
    assert [name_of(entity, snapshot) for entity in snapshot.resources] == ["the GIL", "mutex 0x10", "pipe 9"]
    assert [name_of(entity, snapshot) for entity in snapshot.tasks] == ["task g0 K", "task g1"]
    assert name_of("sem:box/1/0x5", snapshot) == "sem 0x5"


@pytest.mark.parametrize(
    ("waits_in", "syscall", "words"),
    [
        ("sem_wait", "futex", "waiting in sem_wait, used"),
        (None, "futex", "waiting in futex, used"),
        ("sem_wait", None, "waiting in sem_wait, used"),
        (None, None, "waiting, used"),
    ],
)
def test_where_a_thread_is_as_evidence(waits_in: str | None, syscall: str | None, words: str) -> None:
    world = World()
    thread = Thread(
        id=MAIN, process="process:box/1", tid=1, state=ThreadState.WAITING, waits_in=waits_in, syscall=syscall
    )
    world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    proof = thread_evidence(thread, RuleInput(world.snapshot(), GraphKeeper().graph_of(world.snapshot())))
    assert proof.text.startswith(words)
    assert (proof.source, proof.at_wall_ns) == ("/proc/1/task/1", world.stamp()["wall_ns"])


@pytest.mark.parametrize(
    ("file", "line", "words"),
    [("/x/train.py", 9, "train.py:9"), ("train.py", 9, "train.py:9"), ("/x/train.py", None, ""), (None, 9, "")],
)
def test_a_place_has_a_file_and_a_line(file: str | None, line: int | None, words: str) -> None:
    assert line_of(Frame(function="f", file=file, line=line)) == words


def test_only_who_waits_for_any_of_several_goes_on_with_one() -> None:
    world = World()
    world.process(1)
    polls, reads = world.thread(1), world.thread(2)
    world.waits(polls, "pipe:box/8", "pipe:box/9")
    world.waits(reads, "pipe:box/8")
    found = blocking_of(world.snapshot())
    assert found.any_of == {(polls, "pipe:box/8"), (polls, "pipe:box/9")}
    assert (reads, "pipe:box/8") in found.pairs


def test_a_time_limit_ends_a_wait_but_for_that_of_the_gil_which_is_asked_for_again() -> None:
    world = World()
    world.process(1)
    for tid, target in ((1, "gil:box/1/0x1"), (2, "mutex:box/1/0x2")):
        world.waits(world.thread(tid), target, timed=True)
    assert blocking_of(world.snapshot()).timed == {"thread:box/1/2"}


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ((), VerdictState.UNKNOWN),  # a log alone
        ((None,), None),  # it lives
        ((0,), None),
        ((3,), VerdictState.UNKNOWN),
        ((0, 3), VerdictState.UNKNOWN),
        ((0, 0), None),
    ],
)
def test_error_lines_tell_nothing_sure_where_nobody_is_alive_and_nothing_ended_well(
    ends: tuple[int | None, ...], state: VerdictState | None
) -> None:
    world = World()
    for pid, status in enumerate(ends, 1):
        process = world.process(pid)
        if status is not None:
            world.exits(process, status)
    for name, errors in (("quiet.log", 0), ("all.log", 2)):
        source = LogSource(id=f"log:box/{name}", name=name, errors=errors, last_error="E")
        world.store.apply(ev.LogSourceSeen(source=source, **world.stamp()))
    [found] = [f for f in world.diagnosis().findings.values() if f.rule == "error-lines"]
    assert found.state is state
    assert found.severity is (Severity.WARNING if state else Severity.INFO)
    assert found.sentence.startswith("2 error lines")
    assert ("or those of others" in found.sentence) is (state is None)


@pytest.mark.parametrize(
    ("errors", "first", "unread", "words"),
    [
        (1, 7012, 0, "1 error line that livedbg does not understand, at a.log:7012: E."),
        (2, None, 0, "2 error lines that livedbg does not understand, the first at a.log: E."),
        (0, None, 3 << 20, "3.0 MiB of a.log were not read for errors: too many lines look like one."),
        (
            *(20_000, 1, 3 << 20),
            "At least 20,000 error lines that livedbg does not understand, the first at a.log:1: "
            "E. 3.0 MiB of a.log were not read for errors: too many lines look like one.",
        ),
        (0, None, 0, None),
    ],
)
def test_how_many_error_lines_there_are_and_where(
    errors: int, first: int | None, unread: int, words: str | None
) -> None:
    world = World()
    source = LogSource(
        id="log:box/a.log",
        name="a.log",
        errors=errors,
        first_error_line=first,
        last_error="E" if errors else "",
        unread=unread,
    )
    world.store.apply(ev.LogSourceSeen(source=source, **world.stamp()))
    diagnosis = world.diagnosis()
    found = [f for f in diagnosis.findings.values() if f.rule == "error-lines"]
    assert [f.sentence for f in found] == ([words] if words else [])
    assert diagnosis.verdict.state is VerdictState.UNKNOWN
    assert (diagnosis.verdict.sentence == words) == bool(words)


def test_a_reason_is_given_once_and_the_next_one_too() -> None:
    world = World()
    world.process(1)
    for sentence in ("gdb isn't installed.", "gdb isn't installed.", "The C library is not known."):
        world.status(sentence)
    status = next(iter(world.snapshot().statuses.values()))
    for source, sentence in (("proc", status.sentence), ("perf", status.sentence), ("native", "No access.")):
        twin = msgspec.structs.replace(status, source=source, sentence=sentence)
        world.store.apply(ev.StatusSeen(status=twin, **world.stamp()))
    said = [f.sentence for f in world.diagnosis().findings.values() if f.rule == "cant-see"]
    assert sorted(said) == sorted({s.sentence for s in world.snapshot().statuses.values()})
