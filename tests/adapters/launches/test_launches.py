"""Launches traced in a real process, on stand-ins for CUDA's libraries."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from livedbg.adapters.cuda.commands.launches import _lines
from livedbg.adapters.cuda.launch_functions import CUDA_LAUNCHES, FUNCTIONS, LOOKUPS
from livedbg.adapters.launches import LaunchesAdapter
from livedbg.adapters.launches.tracer import Budget, Detail, LaunchTracer, Traced
from livedbg.adapters.launches.trails import LAST, MOST, Trails
from livedbg.adapters.proc import ProcAdapter
from livedbg.commands.launch_tracing import trace_launches
from livedbg.commands.signals import started
from livedbg.linux import memory
from livedbg.model import SourceStatus, ids
from livedbg.model.launches import LaunchTrail
from livedbg.probes.launch_calls import LaunchCall, LaunchFunctions, all_functions, is_nested
from livedbg.probes.perf import PerfEvents
from livedbg.probes.places import Found, find_places
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.text.sanitize import clean_line
from tests.adapters.launches.commands import LISTENS, LONG_S, beside
from tests.conftest import Target, eventually
from tests.probes.definitions import definitions
from tests.probes.refused import refused

needs_probes = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")
pytestmark = pytest.mark.timeout(1400)  # the deadlines of a test together


class Tracing:
    """A tracer, and what it has reported."""

    def __init__(self, pid: int, share: float = 1.0) -> None:
        self.traced: list[Traced] = []
        self.tracer = LaunchTracer(pid, share, CUDA_LAUNCHES, self.traced.append)
        self.tracer.start()

    def calls(self, function: str = "") -> list[LaunchCall]:
        return [call for traced in list(self.traced) for call in traced.calls if function in ("", call.function)]


@needs_probes
@pytest.mark.invariant("launches_tracer.I1")
def test_each_form_of_launch_is_read(launcher: Target) -> None:
    tracing = Tracing(launcher.pid)
    launcher.stdin.write(b"runtime 3 100\nconfig 3 100\ndriver 3 100\ngraph 3 100\n")
    wanted = {"cudaLaunchKernel": 3, "cudaLaunchKernelExC": 3, "cuLaunchKernel": 6, "cuGraphLaunch": 3}
    try:
        eventually(lambda: all(len(tracing.calls(name)) >= count for name, count in wanted.items()))
    finally:
        tracing.tracer.stop()
    assert {name: len(tracing.calls(name)) for name in wanted} == wanted
    runtime, config = tracing.calls("cudaLaunchKernel")[0], tracing.calls("cudaLaunchKernelExC")[0]
    driver = [call for call in tracing.calls("cuLaunchKernel") if call.grid == (64, 1, 1)]
    graph = tracing.calls("cuGraphLaunch")[0]
    assert (runtime.grid, runtime.block, runtime.shared_bytes, runtime.stream) == ((7, 2, 1), (128, 1, 1), 4096, 0x55)
    assert (config.grid, config.block, config.shared_bytes, config.stream) == ((3, 4, 5), (32, 8, 2), 512, 0x66)
    assert len(driver) == 3
    assert (driver[0].block, driver[0].shared_bytes, driver[0].stream) == ((256, 2, 4), 1024, 0x77)
    assert (graph.grid, graph.handle, graph.stream) == (None, 0x1234, 0x88)
    assert len({call.tid for call in tracing.calls()}) == 4


@needs_probes
def test_trails_name_kernels_and_count_a_launch_once(launcher: Target) -> None:
    trails: dict[str, LaunchTrail] = {}
    kept = Trails("box", launcher.pid, lambda mono_ns: mono_ns)

    def take(traced: Traced) -> None:
        kept.add(traced.calls, 0.5, time.monotonic_ns())
        trails.update((trail.thread, trail) for trail in kept.changed())

    tracer = LaunchTracer(launcher.pid, 1.0, CUDA_LAUNCHES, take)
    tracer.start()
    launcher.stdin.write(b"runtime 30 100\nconfig 5 100\ndriver 5 100\n")
    try:
        eventually(lambda: sum(trail.count for trail in list(trails.values())) >= 40)
        eventually(lambda: all(trail.last[-1].kernel for trail in list(trails.values())))
        eventually(lambda: not any(trail.rate_per_s for trail in list(trails.values())))  # all are done
    finally:
        tracer.stop()
    by_kernel = {trail.last[-1].kernel: trail for trail in trails.values()}
    assert set(by_kernel) == {"moe::gate_kernel(float*)", "scale_kernel", "triton_fused_softmax_0d1d"}
    assert [by_kernel[name].count for name in sorted(by_kernel, key=str)] == [30, 5, 5]
    gate = by_kernel["moe::gate_kernel(float*)"]
    assert len(gate.last) == LAST and [one.mono_ns for one in gate.last] == sorted(one.mono_ns for one in gate.last)
    assert ids.parse(gate.thread).parts[1] == str(launcher.pid)


@needs_probes
def test_a_library_that_is_loaded_later_is_heard(
    build_target: Callable[..., Path], spawn: Callable[..., Target], libraries: tuple[str, str]
) -> None:
    target = spawn([build_target("cuda_launcher")])
    tracing = Tracing(target.pid)
    try:
        assert tracing.tracer.files == ()
        target.stdin.write(f"load:{libraries[0]} 0 0\n".encode())
        assert target.line() == "loaded"
        eventually(lambda: any("libcuda" in file for file in tracing.tracer.files))
        target.stdin.write(b"driver 100000 50\n")
        eventually(lambda: len(tracing.calls("cuLaunchKernel")) > 3)
    finally:
        tracing.tracer.stop()


class Changing(Budget):
    """Samples each call and only counts them by turns."""

    changes = 0

    def saw(self, rate_per_s: float, now_s: float) -> Detail:
        self.changes += 1
        self.detail = (Detail.COUNT, Detail.EACH)[self.changes % 2]
        return self.detail


@needs_probes
@pytest.mark.parametrize("team", ["driver", "runtime"])
@pytest.mark.invariant("launches_tracer.C1")
def test_C1_a_change_between_samples_and_tallies_counts_each_call_once(
    launcher: Target, monkeypatch: pytest.MonkeyPatch, team: str
) -> None:
    monkeypatch.setattr("livedbg.adapters.launches.tracer.Budget", Changing)
    tracing = Tracing(launcher.pid)
    rounds = 0
    try:
        while not {(Detail.COUNT, 2), (Detail.EACH, 2)} <= set(numbered(tracing.traced)):
            launcher.stdin.write(f"{team} 200 500\n".encode())
            assert launcher.line().startswith(f"done {team}")
            rounds += 1
        calls = 200 * rounds * (2 if team == "runtime" else 1)  # of the runtime's calls each makes one of the driver
        eventually(lambda: tracing.traced[-1].total >= calls)
    finally:
        tracing.tracer.stop()
    assert tracing.traced[-1].total == calls and tracing.traced[-1].lost == 0
    assert 0 < len(tracing.calls()) < calls  # it was both


def numbered(traced: Sequence[Traced]) -> Iterator[tuple[Detail, int]]:
    """How closely it was listened, with how many times so far."""
    times = Counter[Detail]()
    for one in list(traced):
        times[one.detail] += 1
        yield one.detail, times[one.detail]


@needs_probes
def test_a_tracer_that_fails_says_so(launcher: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    tracing = Tracing(launcher.pid)
    try:
        monkeypatch.setattr(PerfEvents, "read", Mock(side_effect=OSError("no ring")))
        eventually(lambda: bool(tracing.tracer.counts.failure))
        eventually(lambda: bool(tracing.traced))
    finally:
        tracing.tracer.stop()
    assert tracing.tracer.counts.failure == "OSError: no ring"


@needs_probes
@pytest.mark.invariant("launches_tracer.I2", "launches_tracer.I3")
def test_I2_a_flood_is_not_traced_and_that_is_said(launcher: Target) -> None:
    places, _ = find_places(launcher.pid, FUNCTIONS)
    told: list[tuple[Traced, bool]] = []
    tracer = LaunchTracer(
        launcher.pid,
        0.0001,
        CUDA_LAUNCHES,
        lambda traced: told.append((traced, has_traps(launcher.pid, places))),
    )  # in the tracer's own thread: what is told and what stands in the target are of one moment
    tracer.start()
    try:
        assert has_traps(launcher.pid, places)
        launcher.stdin.write(b"driver 1000000000000000 0\n")
        eventually(lambda: any(traced.detail is Detail.OFF for traced, _ in list(told)))
    finally:
        tracer.stop()
    off = [(traced, traps) for traced, traps in told if traced.detail is Detail.OFF]  # not even counted
    assert all(traced.to_count > 0.0001 and traced.rate_per_s > 0 and not traps for traced, traps in off)
    rings = max(1 << 20, os.cpu_count() * (64 << 10))  # type: ignore[operator]  # the least that there can be
    assert all(len(traced.calls) * 100 <= 3 * rings for traced, _ in told)  # I3: two reads, and one as it is disarmed


def has_traps(pid: int, places: Sequence[Found]) -> bool:
    """Whether a function that launches begins otherwise in a process than in its file."""
    return any(memory.read(pid, place.address, 1) != code(place) for place in places)


def code(found: Found) -> bytes:
    """The first byte of a function in its file."""
    with Path(found.file).open("rb") as file:
        file.seek(found.place.offset)
        return file.read(1)


@needs_probes
def test_what_listens_is_gone_afterwards(launcher: Target) -> None:
    before = definitions()
    tracing = Tracing(launcher.pid)
    assert definitions() - before
    tracing.tracer.stop()
    assert definitions() <= before
    launcher.stdin.write(b"driver 3 1000\n")
    assert launcher.line().startswith("done driver")


@needs_probes
def test_the_command_ends_at_ctrl_c_with_what_there_is(launcher: Target) -> None:
    argv = ("launches", str(launcher.pid), "--for", "600", "--budget", "100", "--last", "2")
    with beside(*argv) as text, beside(*argv, "--json") as lines:
        for command in (text, lines):
            command.until_said(LISTENS)
        launcher.stdin.write(b"runtime 60 100\n")
        assert launcher.line().startswith("done runtime")
        for command in (text, lines):
            command.interrupt()
        printed, (said,) = text.end(0), map(json.loads, lines.end(0).splitlines())
    assert "runtime: 60 launches, " in printed and "a second recently" in printed and printed.count(" s ago ") == 2
    assert "moe::gate_kernel(float*) <<<(7,2,1), (128,1,1), 4096 B shared>>>  stream 0x55" in printed
    assert said["count"] == 60 and len(said["last"]) == 2 and said["last"][0]["grid"] == [7, 2, 1]


@needs_probes
def test_the_command_ends_after_its_time(launcher: Target) -> None:
    with beside("launches", str(launcher.pid), "--for", "0.6") as command:
        assert command.end(0) == "No launches in 0.6 s.\n"


@needs_probes
def test_the_command_claims_no_rate_that_it_does_not_see(launcher: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a second try: a thread that gets no CPU meanwhile launches nothing, and each launch is traced again."""
    monkeypatch.setattr("livedbg.adapters.launches.tracer._FIRST_PAUSE_S", 3600.0)
    launcher.stdin.write(b"driver 1000000000000000 0\n")
    request = Request(host="box", processes=(TargetProcess(launcher.pid),), tree=False, stacks="none")
    with started(LiveView(request, adapters=[ProcAdapter(), LaunchesAdapter()])) as view:
        trace_launches(view, [f"process:box/{launcher.pid}"], 0.001)
        eventually(lambda: any(map(is_off, view.latest().snapshot.statuses.values())))
    snapshot = view.latest().snapshot
    (trail,) = snapshot.launches.values()
    printed = "\n".join(_lines(snapshot, trail))
    assert "before there were too many to trace each one" in printed and "recently" not in printed


def is_off(status: SourceStatus) -> bool:
    """Whether it is said that there are too many launches even to count them."""
    return status.source == "launches" and "Launches are not traced for now: at " in status.sentence


def test_the_command_says_what_forbids_it(launcher: Target, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "livedbg", "launches", str(launcher.pid)]
    (tmp_path / "livedbg").mkdir()
    (tmp_path / "livedbg" / "config.toml").write_text("read_only = true\n")
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=LONG_S, check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2 and "read_only" in done.stderr


def _call(function: str, **changes: object) -> LaunchCall:
    call = LaunchCall(function, 1, 1, 100, stack=0x7000, handle=5, grid=(1, 1, 1), block=(2, 1, 1))
    call = call._replace(by_runtime=function.startswith("cuda"))
    return call._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.invariant("launch_calls.K1")
def test_K1_only_the_drivers_call_inside_the_runtimes_is_the_same_launch() -> None:
    outer = _call("cudaLaunchKernel")
    assert is_nested(outer, _call("cuLaunchKernel", stack=0x6F00))
    assert not is_nested(outer, _call("cuLaunchKernel", stack=0x7000))  # beside it: the program's own
    assert not is_nested(outer, _call("cuLaunchKernel", stack=0x6F00, grid=(9, 1, 1)))
    assert not is_nested(outer, _call("cudaLaunchKernel", stack=0x6F00))


@pytest.mark.invariant("trails.T1", "trails.N1")
def test_T1_N1_memory_is_bounded_and_doubtful_names_are_left_out() -> None:
    trails = Trails("box", 1, lambda mono_ns: mono_ns)
    lookup = LaunchCall(LOOKUPS[0], 1, 1, 90, stack=0x7000, handle=0x10, name=b"a\x1b[31m", is_lookup=True)
    trails.add([lookup, lookup._replace(name=b"b", mono_ns=91)], 1.0, 95)  # two into one place: whose is it?
    trails.add([_call("cuLaunchKernel", tid=tid) for tid in range(MOST + 50)], 1.0, 99)
    seen = list(trails.changed())
    assert len(seen) == MOST
    assert all(trail.last[0].kernel is None for trail in seen)


@pytest.mark.invariant("trails.T2")
def test_T2_a_rate_that_nobody_looks_at_is_not_0() -> None:
    trails = Trails("box", 1, lambda mono_ns: mono_ns)
    calls = [_call("cuLaunchKernel", mono_ns=100 + n) for n in range(50)]
    trails.add(calls, 0.5, 200)
    (before,) = trails.changed()
    assert before.seen and before.rate_per_s == 100
    trails.add(calls, 0.25, 300, seen=False)  # the last ones before they are too many
    trails.add([], 0.5, 400, seen=False)
    (blind,) = trails.changed()
    assert not blind.seen and blind.rate_per_s == 200
    assert list(trails.changed()) == []
    trails.add([], 0.5, 500)
    (after,) = trails.changed()
    assert after.seen and after.rate_per_s == 0


@pytest.mark.invariant("launches.D1")
def test_D1_a_launch_is_frozen_and_its_names_are_sanitised() -> None:
    handle = ctypes.c_uint64(5)
    trails = Trails("box", os.getpid(), lambda mono_ns: mono_ns)
    lookup = LaunchCall(LOOKUPS[0], os.getpid(), 1, 90, stack=0x7000, handle=ctypes.addressof(handle),
                        name=b"a\x1b[31m\nb", is_lookup=True)  # fmt: skip
    trails.add([lookup], 1.0, 95)
    trails.add([_call("cuLaunchKernel", pid=os.getpid(), tid=1, handle=5)], 1.0, 99)
    (trail,) = trails.changed()
    (launch,) = trail.last
    assert launch.kernel is not None and launch.kernel == clean_line("a\x1b[31m\nb")
    assert "\x1b" not in launch.kernel and "\n" not in launch.kernel
    for value, name in ((launch, "kernel"), (trail, "last")):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(value, name, None)


def test_functions_of_several_runtimes_are_traced_together() -> None:
    def call(function: str, sample: object, read: object) -> LaunchCall:
        return _call(f"other {function}")

    other = LaunchFunctions({"cuLaunchKernel": ("x=%di:x64",), "myLaunch": ("f=%di:x64",)}, frozenset(), call)
    both = all_functions((CUDA_LAUNCHES, other))
    assert set(both.arguments) == {*CUDA_LAUNCHES.arguments, "myLaunch"}
    assert both.arguments["cuLaunchKernel"] == CUDA_LAUNCHES.arguments["cuLaunchKernel"]
    assert both.lookups == CUDA_LAUNCHES.lookups
    assert both.call("myLaunch", Mock(), {}).function == "other myLaunch"
    assert all_functions(()).arguments == {}
