"""Launches as a sign of progress: they stop, and that is said; with what is done at an asynchronous error."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.commands.launch_tracing import trace_launches
from livedbg.commands.signals import running
from livedbg.model import Frame, Severity, Stack, ThreadState
from livedbg.model import events as ev
from livedbg.model.launches import CALLS, TRACED, TRACED_TO, Launch, LaunchTrail
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.hostinfo import host_name
from livedbg.session.live import LiveView
from tests.adapters.cuda.fixture_logs import fixture
from tests.adapters.launches.commands import LISTENS, Beside, beside
from tests.analysis.world import SECOND, World
from tests.conftest import Target, eventually
from tests.probes.refused import refused

needs_probes = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")
pytestmark = pytest.mark.timeout(1400)  # the deadlines of a test together


class Launching(World):
    """Process 1, whose thread 11 has launched 100 times a second for 20 s while it was listened to."""

    def __init__(self, waits_in: str | None = "pause", state: ThreadState = ThreadState.WAITING) -> None:
        super().__init__()
        self.of = self.process(1)
        self.launcher = self.thread(11, "launcher", waits_in=waits_in, state=state)
        self.total = 0
        self.counts(TRACED, 1)
        for _ in range(40):
            self.launches(50)
            self.later(SECOND // 2)

    def counts(self, name: str, value: float) -> None:
        self.store.apply(ev.CounterSeen(entity=self.of, name=name, value=value, **self.stamp()))

    def launches(self, count: int) -> None:
        self.total += count
        self.counts(CALLS, self.total)
        launch = Launch(function="cudaLaunchKernel", kernel="gate", mono_ns=self.now_ns, wall_ns=self.now_ns)
        trail = LaunchTrail(thread=self.launcher, process=self.of, count=self.total, last=(launch,))
        self.store.apply(ev.LaunchesSeen(trails=(trail,), **self.stamp()))

    def stands_in(self, *functions: str) -> Launching:
        frames = tuple(map(Frame, functions))
        stack = Stack(thread=self.launcher, frames=frames, taken_mono_ns=self.now_ns, source="no stop")
        self.store.apply(ev.StacksSeen(stacks=(stack,), **self.stamp()))
        return self

    def silent(self, seconds: int) -> Launching:
        for _ in range(seconds):
            self.later(SECOND)
        return self


def test_a_thread_that_waits_for_the_gpu_since_launches_stopped_is_a_stall() -> None:
    world = Launching().stands_in("ioctl", "cudaStreamSynchronize").silent(43)
    finding = world.found("launches-stopped")
    assert finding.sentence == (
        "Process 1 (prog1) has launched nothing on a GPU for 44 s; before that there were launch calls, 103 a second "
        "in the mean. Thread 11 (launcher) waits for the GPU in cudaStreamSynchronize. Launched last (newest first): "
        "gate."
    )
    assert (finding.state, finding.severity, finding.inferred) == (VerdictState.STALLED, Severity.WARNING, True)
    assert finding.entities == (world.of, world.launcher)
    assert world.diagnosis().verdict.state is VerdictState.STALLED


def test_without_a_thread_that_waits_for_the_gpu_it_may_be_done() -> None:
    world = Launching().stands_in("pause").silent(43)
    finding = world.found("launches-stopped")
    assert finding.state is VerdictState.UNKNOWN and "it may be done with it" in finding.sentence
    assert world.diagnosis().verdict.state is VerdictState.UNKNOWN


def test_a_thread_that_computes_or_spins_decides_nothing() -> None:
    world = Launching(state=ThreadState.RUNNING, waits_in=None)
    for second in range(43):
        world.now_ns += SECOND
        world.thread(11, "launcher", waits_in=None, state=ThreadState.RUNNING, cpu_ns=second * SECOND)
    finding = world.found("launches-stopped")
    assert finding.state is None and "it computes, or it waits for the GPU by spinning" in finding.sentence
    assert world.diagnosis().verdict.state is VerdictState.RUNNING


def test_what_is_no_stop() -> None:
    stale = Launching().stands_in("cudaStreamSynchronize")
    stale.later()
    stale.launches(50)
    assert stale.silent(43).found("launches-stopped").state is VerdictState.UNKNOWN  # of a wait before

    short = Launching().stands_in("cudaStreamSynchronize").silent(5)
    assert short.finding("launches-stopped") is None

    seldom = Launching().stands_in("cudaStreamSynchronize")  # from now on a launch each 40 s
    for _ in range(40):
        seldom.silent(40).launches(1)
    assert seldom.silent(43).finding("launches-stopped") is None

    over = Launching().stands_in("cudaStreamSynchronize").silent(43)
    over.exits(over.of, 0)
    assert over.finding("launches-stopped") is None

    server = Launching().stands_in("accept")
    server.waits(server.launcher, server.resource("socket:box/99", listening=True))
    assert server.silent(43).finding("launches-stopped") is None

    sleeper = Launching(waits_in="sleep")
    sleeper.thread(11, "launcher", waits_in="sleep", timed=True)
    assert sleeper.silent(43).finding("launches-stopped") is None


@pytest.mark.invariant("launch_rates.L1")
def test_L1_time_in_which_nobody_listened_does_not_count() -> None:
    world = Launching().stands_in("cudaStreamSynchronize")
    world.counts(TRACED, 0)  # the rate is too high
    assert world.silent(60).finding("launches-stopped") is None
    world.counts(TRACED, 1)
    assert world.silent(9).finding("launches-stopped") is None
    assert "nothing on a GPU for 12 s" in world.silent(3).found("launches-stopped").sentence


@pytest.mark.invariant("launch_rates.L1")
def test_L1_silence_lasts_as_long_as_was_listened() -> None:
    """The listener's thread was held up: it may have launched meanwhile."""
    world = Launching().stands_in("cudaStreamSynchronize")
    world.counts(TRACED_TO, world.now_ns / SECOND + 8)
    assert world.silent(43).finding("launches-stopped") is None
    world.counts(TRACED_TO, world.now_ns / SECOND - 20)
    assert "nothing on a GPU for 24 s" in world.found("launches-stopped").sentence


@pytest.fixture
def started(
    build_target: Callable[..., Path], spawn: Callable[..., Target], libraries: tuple[str, str], tmp_path: Path
) -> Target:
    """A process that launches as it is told; its standard error is a file, as a job's is."""
    program = " ".join(map(str, (build_target("cuda_launcher"), *libraries)))
    return spawn(["sh", "-c", f"exec {program} 2>{tmp_path / 'err.log'}"], wait_for="READY")


@needs_probes
def test_a_process_and_a_thread_that_wait_for_their_stream_are_a_stall(started: Target, launcher: Target) -> None:
    """It launches 20 times a second, then waits for its stream for ever; of another process one thread does."""
    with watched(started) as alone, watched(launcher) as one_of_two:
        for watch in (alone, one_of_two):
            watch.until_said(LISTENS)
        launcher.stdin.write(b"driver 1000000 20\nhang 60 20\n")
        started.stdin.write(b"hang 60 20\n")
        found, of_thread = stall(alone.end(10)), stall(one_of_two.end(10))
    assert found["rule"] == "launches-stopped" and "has launched nothing on a GPU for " in found["sentence"]
    assert "(hang) waits for the GPU in cudaStreamSynchronize" in found["sentence"]
    assert "moe::gate_kernel(float*)" in found["sentence"]
    assert of_thread["rule"] == "thread-launches-stopped" and "go on launching" in of_thread["sentence"]
    assert "(hang) has launched nothing on a GPU for " in of_thread["sentence"]
    assert "waits for it in cudaStreamSynchronize" in of_thread["sentence"]
    assert of_thread["sentence"].endswith("Launched last (newest first): moe::gate_kernel(float*).")


def watched(target: Target) -> AbstractContextManager[Beside]:
    """`livedbg watch --launches` until it stalls."""
    return beside("watch", str(target.pid), "--launches", "--json", "--until", "stalled", "--timeout", "240")


def stall(out: str) -> dict[str, str]:
    """The finding that says so."""
    (found,) = (one for one in map(json.loads, out.splitlines()) if one["state"] == "stalled" and "rule" in one)
    return dict(found)


@needs_probes
def test_an_asynchronous_error_names_what_was_launched_last(started: Target, tmp_path: Path) -> None:
    """It prints PyTorch's block after it has launched, as a job does that has such an error."""
    block = tmp_path / "block.txt"
    block.write_bytes(fixture("illegal"))
    request = Request(host=host_name(), processes=(TargetProcess(started.pid),), stacks="none")
    with running(request) as view:
        trace_launches(view, [f"process:{request.host}/{started.pid}"], 1.0)
        started.stdin.write(b"runtime 50 100\nconfig 3 10\n")
        eventually(lambda: {"moe::gate_kernel(float*)", "scale_kernel"} <= kernels(view))
        started.stdin.write(f"block:{block} 0 0\n".encode())
        eventually(lambda: "cuda-fault" in {one.rule for one in view.latest().diagnosis.findings.values()})
        found = view.latest().diagnosis
    (fault,) = (finding for finding in found.findings.values() if finding.rule == "cuda-fault")
    assert "Kernels run asynchronously: one that was launched earlier made the error" in fault.sentence
    assert "Launched last before it (newest first): " in fault.sentence
    assert {"moe::gate_kernel(float*)", "scale_kernel"} & set(
        fault.sentence.partition("first): ")[2].split(". ")[0].split(", ")
    )
    assert {"cudaLaunchKernel", "cudaLaunchKernelExC"} & {proof.source.partition(" ")[0] for proof in fault.evidence}
    assert found.verdict.state is VerdictState.UNKNOWN and fault.inferred  # the process lives


def kernels(view: LiveView) -> set[str | None]:
    """The newest kernel of each thread."""
    return {trail.last[-1].kernel for trail in view.latest().snapshot.launches.values() if trail.last}
