"""Threads of real programs that stand at what they throw, for a look, and go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.adapters.exceptions import StoppingAdapter, stopper
from livedbg.linux.procfs import child_pids, read_stat, status_fields, thread_ids
from livedbg.model import ExceptionHit, ThreadState
from livedbg.model.catchpoints import Catchpoint, CatchpointState, Moment
from livedbg.model.intents import Catch, Resume, Uncatch
from tests.adapters.exceptions.catching import Tracing, take_time
from tests.conftest import TARGETS, Target, eventually
from tests.cpython.interpreters import interpreters, label
from tests.probes.refused import refused
from tests.touch.health import changed_code, untouched

Build = Callable[..., Path]
Spawn = Callable[..., Target]

HOLD_S = 600.0
"""Longer than any wait of these tests: a thread that is let go too early is no answer."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow gdb is no reason to look at no thread here."""
    take_time(monkeypatch)


class Watch(Tracing):
    """A session that stops threads of one process."""

    def __init__(self, pid: int, *, read_only: bool = False) -> None:
        self.pid = pid
        super().__init__(pid, StoppingAdapter(), read_only=read_only)

    def catch(self, pattern: str, **options: object) -> Catchpoint:  # type: ignore[override]
        """Set a catchpoint; returns when it is armed, or has failed."""
        known = set(self.points)
        self.view.send(Catch(process=self.process, pattern=pattern, stop=True, **options))  # type: ignore[arg-type]
        settled: list[Catchpoint] = []

        def is_settled() -> bool:
            settled[:] = [
                p for p in self.points.values() if p.id not in known and p.state is not CatchpointState.ARMING
            ]
            return bool(settled)

        eventually(is_settled)
        return settled[0]

    @property
    def point(self) -> Catchpoint:
        (found,) = self.points.values()
        return found

    def saw(self, count: int) -> list[ExceptionHit]:
        """The hits once so many threads have stood and gone on."""
        eventually(lambda: sum(hit.count for hit in self.hits) >= count and all(hit.paused_ms for hit in self.hits))
        return self.hits

    def is_done(self) -> bool:
        return self.point.state in (CatchpointState.DONE, CatchpointState.FAILED)


@pytest.fixture
def watch() -> Iterator[Callable[..., Watch]]:
    made: list[Watch] = []

    def start(pid: int, **options: bool) -> Watch:
        made.append(Watch(pid, **options))
        return made[-1]

    yield start
    for one in made:
        one.view.stop()


def tell(target: Target, command: str) -> None:
    assert target.process.stdin is not None
    target.process.stdin.write(command.encode() + b"\n")


def answer(target: Target) -> int:
    """How many exceptions the program has caught after its next command."""
    assert target.process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(target.process.stdout.fileno(), 1)
        assert byte, "the program has ended"
        line += byte
    return int(line.split()[-1])


def is_as_before(target: Target) -> bool:
    return untouched(target.pid) and changed_code(target.pid) == [] and target.process.poll() is None


def test_a_throw_is_seen_with_variables_and_source_and_the_target_goes_on(
    thrower: Target, watch: Callable[..., Watch], engine: str
) -> None:
    before = set(child_pids(os.getpid()))
    session = watch(thrower.pid)
    assert session.catch("std::runtime_error", count=1).state is CatchpointState.ARMED
    tell(thrower, "runtime said so")
    assert answer(thrower) == 1
    (hit,) = session.saw(1)
    assert (hit.type, hit.message, hit.count) == ("std::runtime_error", "said so", 1)
    assert [frame.function for frame in hit.stack][:3] == ["__cxa_throw", "innermost", "outer"]
    assert hit.stack[-1].function == "main" and not hit.partial
    innermost = hit.stack[1]
    assert 'kind="runtime"' in innermost.local_variables and 'text="said so"' in innermost.local_variables
    assert innermost.file is not None and innermost.file.endswith("throws.cpp") and innermost.line is not None
    assert "throw std::runtime_error(text)" in innermost.source[innermost.line - innermost.source_from]
    eventually(session.is_done)
    assert session.point.engine == "gdb"
    touches = session.view.latest().snapshot.intrusions
    assert [touch.what for touch in touches] == ["attach", "stop"]
    assert all(touch.paused_ns > 0 and touch.measured for touch in touches)
    eventually(lambda: is_as_before(thrower))
    tell(thrower, "runtime again")
    assert answer(thrower) == 2
    session.view.stop()
    eventually(lambda: set(child_pids(os.getpid())) <= before)  # no gdb and no guard


def test_a_thread_that_is_born_later_stands_too(thrower: Target, watch: Callable[..., Watch], engine: str) -> None:
    session = watch(thrower.pid)
    session.catch("demo::Broken", count=1)

    def thrown() -> bool:
        tell(thrower, "thread broken in a new thread")
        answer(thrower)
        return bool(session.hits)

    eventually(thrown)  # one that throws in its first moment may go by
    (hit,) = session.saw(1)
    assert hit.thread != f"thread:box/{thrower.pid}/{thrower.pid}" and hit.stack[1].function == "innermost"


@pytest.mark.invariant("stopper.J5")
def test_J5_types_that_nobody_wants_are_left_to_the_kernel(thrower: Target, watch: Callable[..., Watch]) -> None:
    if refused():
        pytest.skip(refused())
    session = watch(thrower.pid)
    session.catch("std::runtime_error", count=1)
    tell(thrower, "flood logic 2000 5000")
    assert answer(thrower) == 2000
    assert session.point.state is CatchpointState.ARMED
    tell(thrower, "runtime said so")
    answer(thrower)
    session.saw(1)
    eventually(session.is_done)
    assert 1 <= session.point.seen < 200


@pytest.mark.invariant("stopper.J5")
def test_J5_it_ends_by_itself_where_types_that_nobody_wants_come_often(
    thrower: Target, watch: Callable[..., Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopper, "_UNWANTED_MOST", 1)
    monkeypatch.setattr(stopper, "_UNWANTED_S", 600.0)  # a stop on a busy machine may take more than a second
    monkeypatch.setattr(stopper, "_LEARN", 1000)
    session = watch(thrower.pid)
    session.catch("std::runtime_error")
    tell(thrower, "flood logic 200 100")
    assert answer(thrower) == 200
    eventually(lambda: session.point.state is CatchpointState.FAILED)
    assert "that do not match" in session.point.note and session.point.remedy
    eventually(lambda: is_as_before(thrower))


def test_only_with_a_text_in_the_message(thrower: Target, watch: Callable[..., Watch]) -> None:
    session = watch(thrower.pid)
    session.catch("std::exception", message="wanted", count=1)
    for text in ("other", "this is wanted", "other"):
        tell(thrower, f"runtime {text}")
        answer(thrower)
    (hit,) = session.saw(1)
    assert hit.message == "this is wanted"


def test_a_function_is_stopped_at_with_its_arguments(thrower: Target, watch: Callable[..., Watch]) -> None:
    session = watch(thrower.pid)
    session.catch("outer", moment=Moment.CALL, count=1)
    tell(thrower, "int 42")
    assert answer(thrower) == 1
    (hit,) = session.saw(1)
    assert hit.type == "_Z5outerRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES6_"
    assert [frame.function for frame in hit.stack] == ["outer", "run", "main"]


@pytest.mark.invariant("stopper.J2")
def test_J2_a_held_thread_stands_until_it_is_let_go(thrower: Target, watch: Callable[..., Watch], engine: str) -> None:
    session = watch(thrower.pid)
    session.catch("std::runtime_error", hold_s=HOLD_S)
    tell(thrower, "runtime said so")
    eventually(lambda: session.point.stopped_thread is not None)
    point = session.point
    assert point.stopped_thread == f"thread:box/{thrower.pid}/{thrower.pid}" and point.until_wall_ns is not None
    assert read_stat(thrower.pid, thrower.pid).state is ThreadState.TRACED
    assert session.hits[0].stack[1].local_variables
    session.view.send(Resume(catchpoint=point.id))
    assert answer(thrower) == 1
    session.saw(1)
    eventually(lambda: session.point.stopped_thread is None)


@pytest.mark.invariant("stopper.J2")
def test_J2_a_held_thread_goes_on_when_its_time_is_over(thrower: Target, watch: Callable[..., Watch]) -> None:
    session = watch(thrower.pid)
    session.catch("std::runtime_error", hold_s=0.5)
    tell(thrower, "runtime said so")
    assert answer(thrower) == 1
    (hit,) = session.saw(1)
    assert hit.paused_ms >= 500


def test_a_catchpoint_that_is_taken_out_lets_its_thread_go(thrower: Target, watch: Callable[..., Watch]) -> None:
    session = watch(thrower.pid)
    session.catch("std::runtime_error", hold_s=HOLD_S)
    tell(thrower, "runtime said so")
    eventually(lambda: session.point.stopped_thread is not None)
    session.view.send(Uncatch(catchpoint=session.point.id))
    assert answer(thrower) == 1
    eventually(session.is_done)
    eventually(lambda: is_as_before(thrower))


def test_the_end_of_the_session_lets_a_thread_go(thrower: Target, watch: Callable[..., Watch]) -> None:
    session = watch(thrower.pid)
    session.catch("std::runtime_error", hold_s=HOLD_S)
    tell(thrower, "runtime said so")
    eventually(lambda: session.point.stopped_thread is not None)
    session.view.stop()
    assert answer(thrower) == 1
    eventually(lambda: is_as_before(thrower))


@pytest.mark.invariant("stop_signal.K1")
def test_K1_a_gdb_that_is_killed_leaves_the_thread_going(
    thrower: Target, watch: Callable[..., Watch], engine: str
) -> None:
    session = watch(thrower.pid)
    session.catch("std::runtime_error", hold_s=HOLD_S)
    tell(thrower, "runtime said so")
    eventually(lambda: session.point.stopped_thread is not None)
    os.kill(int(status_fields(thrower.pid)["TracerPid"]), signal.SIGKILL)
    assert answer(thrower) == 1
    eventually(lambda: session.point.state is CatchpointState.FAILED)
    assert session.point.note == f"gdb has exited, so livedbg detached from process {thrower.pid}."
    assert session.point.remedy
    eventually(lambda: is_as_before(thrower))
    tell(thrower, "flood runtime 100 1000")
    assert answer(thrower) == 101


@pytest.mark.invariant("stopper.J1")
def test_J1_what_others_throw_meanwhile_goes_on_and_is_counted(
    build_target: Build, spawn: Spawn, watch: Callable[..., Watch], tmp_path: Path
) -> None:
    target = spawn([build_target("thrower"), tmp_path / "counters", "3", "2000", "0"])
    session = watch(target.pid)
    session.catch("any", hold_s=HOLD_S)
    eventually(lambda: session.point.stopped_thread is not None)
    stopped, passed = session.point.stopped_thread, session.point.seen
    assert stopped is not None
    eventually(lambda: session.point.seen >= passed + 5)
    assert session.point.stopped_thread == stopped and [hit.count for hit in session.hits] == [1]
    tid = int(stopped.rpartition("/")[2])
    assert read_stat(target.pid, tid).state is ThreadState.TRACED

    others, seen_running = set(thread_ids(target.pid)) - {tid}, set[int]()

    def each_other_runs() -> bool:  # at one time or another: each of them stops again at its next throw
        seen_running.update(o for o in others if read_stat(target.pid, o).state is not ThreadState.TRACED)
        return seen_running == others

    eventually(each_other_runs)
    session.view.send(Resume(catchpoint=session.point.id))
    eventually(lambda: sum(hit.count for hit in session.hits) >= 2)  # equal ones are one hit with a count


def test_threads_that_throw_at_once_stand_one_at_a_time(
    build_target: Build, spawn: Spawn, watch: Callable[..., Watch], tmp_path: Path
) -> None:
    target = spawn([build_target("thrower"), tmp_path / "counters", "3", "2000", "1"])
    session = watch(target.pid)
    session.catch("any", count=5)
    session.saw(5)
    eventually(session.is_done)
    point = session.point
    assert point.state is CatchpointState.DONE and point.hits >= 5 and point.seen >= point.hits
    eventually(lambda: untouched(target.pid))
    assert changed_code(target.pid) == []


def test_a_signal_of_somebody_else_is_no_stop(thrower: Target, watch: Callable[..., Watch]) -> None:
    session = watch(thrower.pid)
    session.catch("std::runtime_error")
    for _ in range(5):
        os.kill(thrower.pid, signal.SIGURG)
    tell(thrower, "int 1")
    assert answer(thrower) == 1
    tell(thrower, "runtime said so")
    assert answer(thrower) == 2
    (hit,) = session.saw(1)
    assert (hit.type, hit.count) == ("std::runtime_error", 1)


def test_a_target_that_handles_all_harmless_signals_is_refused(spawn: Spawn, watch: Callable[..., Watch]) -> None:
    code = (
        "import signal, time; f = lambda *a: None; signal.signal(signal.SIGURG, f); signal.signal(signal.SIGWINCH, f);"
        "print('READY', flush=True); time.sleep(1000)"
    )
    target = spawn([sys.executable, "-c", code])
    session = watch(target.pid)
    point = session.catch("any")
    assert point.state is CatchpointState.FAILED and "SIGURG and SIGWINCH" in point.note
    assert point.remedy == "catch without --stop"
    assert untouched(target.pid)


def test_what_can_not_be_attached_to_says_why(thrower: Target, watch: Callable[..., Watch]) -> None:
    tracer = subprocess.Popen(
        ["gdb", "-nx", "-q", "-p", str(thrower.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: status_fields(thrower.pid)["TracerPid"] == str(tracer.pid))
        point = watch(thrower.pid).catch("any")
        assert point.state is CatchpointState.FAILED
        assert f"already traced by process {tracer.pid}" in point.note and point.remedy == (
            f"stop the tracer first: kill {tracer.pid}"
        )
    finally:
        tracer.kill()
        tracer.communicate()


def test_one_gdb_stops_for_one_catchpoint_at_a_time_and_is_kept_for_the_next(
    thrower: Target, watch: Callable[..., Watch]
) -> None:
    session = watch(thrower.pid)
    first = session.catch("std::runtime_error")
    gdb = status_fields(thrower.pid)["TracerPid"]
    second = session.catch("std::logic_error")
    assert second.state is CatchpointState.FAILED and second.remedy == "remove that catchpoint"
    assert second.note == f"Threads of process {thrower.pid} already stop for std::runtime_error."
    session.view.send(Uncatch(catchpoint=first.id))
    eventually(lambda: session.points[first.id].state is CatchpointState.DONE)
    assert status_fields(thrower.pid)["TracerPid"] == "0"
    assert session.catch("std::logic_error", count=1).state is CatchpointState.ARMED
    assert status_fields(thrower.pid)["TracerPid"] == gdb
    tell(thrower, "logic said so")
    assert answer(thrower) == 1
    (hit,) = session.saw(1)
    assert hit.stack[1].function == "innermost" and hit.stack[1].local_variables


def test_a_rethrow_tells_no_type_and_is_stopped_at_all_the_same(thrower: Target, watch: Callable[..., Watch]) -> None:
    session = watch(thrower.pid)
    point = session.catch("any", moment=Moment.RETHROW, count=1)
    assert (point.state, point.moment) == (CatchpointState.ARMED, Moment.RETHROW)
    tell(thrower, "rethrow it")
    assert answer(thrower) == 1
    (hit,) = session.saw(1)
    assert [frame.function for frame in hit.stack][:2] == ["__cxa_rethrow", "outer"]


def test_read_only_means_no_stop(thrower: Target, watch: Callable[..., Watch]) -> None:
    session = watch(thrower.pid, read_only=True)
    session.view.send(Catch(process=session.process, pattern="any", stop=True))
    eventually(lambda: any("--stop stops a thread" in notice for notice in session.notices))
    assert untouched(thrower.pid)


def test_a_target_that_ends_while_it_is_watched(thrower: Target, watch: Callable[..., Watch]) -> None:
    session = watch(thrower.pid)
    session.catch("std::runtime_error", hold_s=HOLD_S)
    tell(thrower, "runtime said so")
    eventually(lambda: session.point.stopped_thread is not None)
    thrower.process.kill()
    threading.Thread(target=thrower.process.wait, daemon=True).start()
    eventually(session.is_done)
    assert session.hits[0].stack


@pytest.mark.parametrize("python", interpreters("3.12", "3.13"), ids=label)
def test_python_frames_beneath_have_their_places_and_source(
    python: str, build_target: Build, spawn: Spawn, watch: Callable[..., Watch]
) -> None:
    library = build_target("beneath", "-shared", "-fPIC", output="libbeneath.so")
    target = spawn([python, TARGETS / "py_beneath.py", library])
    session = watch(target.pid)
    session.catch("std::runtime_error", count=1)
    tell(target, "free")
    (hit,) = session.saw(1)
    names = [frame.function for frame in hit.stack]
    assert names.index("throw_here") < names.index("innermost") < names.index("caller")
    assert not any("_PyEval_EvalFrameDefault" in name for name in names)
    innermost = hit.stack[names.index("innermost")]
    assert innermost.language == "python" and innermost.line is not None
    assert innermost.source[innermost.line - innermost.source_from].strip() == "library.throw_here(turns, stays)"
    assert answer(target) == 1
