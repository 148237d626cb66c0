"""A process that writes as nvFuser does, looked at while it writes: states that change, a trace that stops."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livedbg.adapters.nvfuser.dumps.trace import TraceReader, is_trace
from livedbg.analysis.diagnosis import Diagnosis
from livedbg.commands.signals import running
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from tests.cli.conftest import livedbg
from tests.conftest import Target, eventually, settled

_HERE = Path(__file__).parents[2] / "fixtures/nvfuser"
_PROGRAM = """
import os, sys
trace = open(os.environ["NVFUSER_TRACE"], "wb", buffering=0)
trace.write(open(sys.argv[1], "rb").read().replace(b'"pid": 4711', b'"pid": %d' % os.getpid()))
print("READY", flush=True)
for line in sys.stdin:
    if line.startswith("die"):
        os.kill(os.getpid(), 9)
    if line.startswith("spin"):
        print("spins", flush=True)
        while True:
            pass
    ended = b'{ "name": "executor_utils::Nvrtc::LoadPTX", "ph": "E", "pid": %d, "tid": 2639680064, "ts": 400000 },\\n'
    trace.write(ended % os.getpid())
    print("done", flush=True)
"""


@pytest.fixture
def traced(tmp_path: Path, spawn: Callable[..., Target], monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setenv("NVFUSER_TRACE", str(tmp_path / "trace.json"))
    return spawn([sys.executable, "-c", _PROGRAM, str(_HERE / "trace_hang.json")])


@contextmanager
def watching(target: Target) -> Iterator[LiveView]:
    request = Request(host="box", processes=(TargetProcess(target.pid),), stacks="none", interval_s=0.1)
    with running(request) as view:
        yield view


def passes(view: LiveView) -> list[tuple[str, str]]:
    tasks = view.latest().snapshot.tasks
    return [(str(t.state), t.kernel or "") for name, t in tasks.items() if name.startswith("task:nvfuser/trace/")]


def test_a_trace_is_followed_as_it_grows(traced: Target) -> None:
    with watching(traced) as view:
        eventually(lambda: passes(view) == [("running", "executor_utils::Nvrtc::LoadPTX")])
        (key,) = [key for key in view.latest().snapshot.counters if key.entity.startswith("task:nvfuser/trace/")]
        before = view.latest().snapshot.counters[key].value
        traced.stdin.write(b"go\n")
        eventually(lambda: passes(view) == [("running", "executor_utils::NVRTC")])
        assert view.latest().snapshot.counters[key].value == before + 1


def test_the_pass_that_a_process_died_in(traced: Target) -> None:
    with watching(traced) as view:
        eventually(lambda: passes(view) != [])
        traced.stdin.write(b"die\n")
        assert view.wait_ended(100)
        (found,) = [f for f in view.latest().diagnosis.findings.values() if f.rule == "nvfuser-trace-stopped"]
    assert not found.inferred and "LoadPTX" in found.sentence and "by signal 9" in found.sentence
    assert view.latest().diagnosis.verdict.state == "crashed"


def test_the_pass_that_a_living_process_does_not_leave(traced: Target, tmp_path: Path) -> None:
    settled(traced.pid)
    trace = tmp_path / "trace.json"
    long_ago = trace.stat().st_mtime - 60
    os.utime(trace, (long_ago, long_ago))
    said = livedbg("report", traced.pid, "--json", "--no-native", "--timeout", 90)
    document = json.loads(said.out)
    found = next(one for one in document["findings"] if one["rule"] == "nvfuser-trace-stopped")
    assert said.code == 10 and "its process is alive" in found["sentence"]
    assert f"livedbg stacks {traced.pid} --native" in found["next"][0]


def test_a_pass_that_takes_long_while_the_process_computes_is_no_stall(traced: Target, tmp_path: Path) -> None:
    traced.stdin.write(b"spin\n")
    traced.line()
    long_ago = (tmp_path / "trace.json").stat().st_mtime - 60
    os.utime(tmp_path / "trace.json", (long_ago, long_ago))

    seen: list[Diagnosis] = []

    def computes() -> bool:
        seen.append(view.latest().diagnosis)
        return [f.rule for f in seen[-1].findings.values() if "computing" in f.sentence] == ["nvfuser-under-way"]

    with watching(traced) as view:
        eventually(computes)
    found = seen[-1].findings.values()
    assert any("has been in nvFuser's pass executor_utils::Nvrtc::LoadPTX" in one.sentence for one in found)
    assert seen[-1].verdict.state == "unknown"  # it computes, or spins: nothing else shows


def test_states_change_as_the_log_grows(tmp_path: Path) -> None:
    lines = (_HERE / "run_error.log").read_text().splitlines(keepends=True)
    log = tmp_path / "train.log"

    def states() -> dict[str, str]:
        return {t.name: str(t.state) for t in view.latest().snapshot.tasks.values()}

    with log.open("w") as file, running(Request(host="box", logs=(str(log),))) as view:
        file.writelines(lines[:238])
        file.flush()
        eventually(lambda: states() == {"g2": "running", "g0": "submitted", "g1": "running"})
        file.writelines(lines[238:254])
        file.flush()
        eventually(lambda: states() == {"g2": "running", "g0": "submitted", "g1": "ready"})
        file.writelines(lines[254:])
        file.flush()
        eventually(lambda: states() == {"g2": "completed", "g0": "failed", "g1": "ready"})
        (failed,) = [t for t in view.latest().snapshot.tasks.values() if t.name == "g0"]
        assert failed.since_wall_ns is not None  # it was seen as it came


@pytest.mark.invariant("trace.T1")
def test_a_trace_in_pieces_of_any_size() -> None:
    data = (_HERE / "trace_hang.json").read_bytes()
    assert is_trace(data) and is_trace(data[777:])
    for step in (1, 13, 4096, len(data)):
        reader = TraceReader()
        for at in range(0, len(data), step):
            reader.feed(data[at : at + step])
        (thread,) = reader.threads.values()
        assert [one.name for one in thread.open][-2:] == ["executor_utils::NVRTC", "executor_utils::Nvrtc::LoadPTX"]
        assert (thread.open[-1].begun_us, reader.ended) == (292423, False)


@pytest.mark.invariant("trace.T1")
def test_a_trace_without_its_beginning_is_read() -> None:
    data = (_HERE / "trace_hang.json").read_bytes()
    reader = TraceReader()
    reader.feed(b"\x00\xff" * 1000 + data[data.index(b'"ph": "E"') - 60 :])
    (thread,) = reader.threads.values()
    assert thread.open[-1].name == "executor_utils::Nvrtc::LoadPTX"
    noise = TraceReader()
    noise.feed(os.urandom(1 << 20))
    assert not noise.threads and not is_trace(b'{"traceEvents": [{"ph": "X", "cat": "cpu_op"}]}')


@pytest.mark.invariant("trace.T2")
def test_T2_memory_depends_on_threads_and_depth_not_on_length() -> None:
    def kept(events: int) -> int:
        reader = TraceReader()
        reader.feed(b'{ "name": "outer", "ph": "B", "pid": 1, "tid": 2, "ts": 1 }\n')
        for number in range(events):
            for kind in (b"B", b"E"):
                at = 1_000_000 + number
                reader.feed(b'{ "name": "pass %d", "ph": "%b", "pid": 1, "tid": 2, "ts": %d }\n' % (at, kind, at))
        thread = reader.threads[1, 2]
        assert thread.events == 2 * events + 1 and [one.name for one in thread.open] == ["outer"]
        return len(pickle.dumps(reader))

    assert kept(40_000) <= kept(5_000) + 100
