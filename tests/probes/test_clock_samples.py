"""Samples of running threads by the kernel's clock: of which threads, in what memory, by whom."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.linux import procfs
from livedbg.linux.registers import SP
from livedbg.probes import clock_samples
from livedbg.probes.clock_samples import ClockSamples, refused, refused_here
from livedbg.probes.perf_event import NoPerf
from tests.conftest import Target, eventually, settled

MS = 1_000_000

needs_samples = pytest.mark.skipif(refused_here() is not None, reason=str(refused_here()))

AS_NOBODY = """
import os, subprocess
from livedbg.probes.clock_samples import ClockSamples
from livedbg.probes.perf_event import NoPerf
os.setgroups([]); os.setgid(65534); os.setuid(65534)
quiet = subprocess.DEVNULL
program = subprocess.Popen(["/bin/sh", "-c", "echo; while :; do :; done"], stdout=subprocess.PIPE, stderr=quiet)
try:
    program.stdout.readline()
    with ClockSamples() as clocks:
        clocks.follow({program.pid: 1_000_000})
        while not (found := clocks.read()):
            pass
    print("samples of it alone", {sample.tid for sample in found} == {program.pid})
except NoPerf as error:
    print("refused", error.errno)
finally:
    program.kill()
"""


@pytest.fixture
def spinners(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Callable[[int], tuple[int, list[int]]]:
    """Start a program with so many threads that spin: its pid, and the threads; the last one is blocked."""

    def start(count: int) -> tuple[int, list[int]]:
        target = spawn([build_target("spinners"), str(count)])
        tids = [int(word) for word in target.words[1:]]
        settled(target.pid, but=tids[:-1])
        return target.pid, tids

    return start


def perf_files() -> int:
    """How many perf events this process has open."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing
            found += "perf_event" in str(link.readlink())
    return found


@needs_samples
@pytest.mark.invariant("clock_samples.C1")
def test_C1_only_threads_that_are_followed_are_sampled_while_they_run(
    spinners: Callable[[int], tuple[int, list[int]]],
) -> None:
    pid, (first, second, blocked) = spinners(2)
    before = perf_files()
    counters = procfs.status_fields(pid, blocked)["voluntary_ctxt_switches"]
    with ClockSamples() as clocks:
        clocks.follow({first: MS, blocked: MS, 2**22 - 1: MS})
        assert clocks.threads == {first, blocked}  # the third is none
        seen = []
        eventually(lambda: seen.extend(clocks.read()) or len(seen) > 5)  # type: ignore[func-returns-value]
        assert {(sample.pid, sample.tid) for sample in seen} == {(pid, first)}
        assert all(sample.stack and sample.registers[SP] for sample in seen)
        clocks.follow({second: MS})
        assert clocks.threads == {second}
        seen.clear()
        eventually(lambda: seen.extend(clocks.read()) or bool(seen))  # type: ignore[func-returns-value]
        assert {sample.tid for sample in seen} == {second}
        clocks.follow({second: 1000 * MS})  # another period is another clock
        assert clocks.threads == {second}
    assert perf_files() == before
    assert procfs.status_fields(pid, blocked)["voluntary_ctxt_switches"] == counters
    assert procfs.status_fields(pid, first)["TracerPid"] == "0"


@needs_samples
def test_a_sample_wakes_who_waits_and_says_how_long_its_thread_had_run(
    spinners: Callable[[int], tuple[int, list[int]]],
) -> None:
    _, (first, _) = spinners(1)
    with ClockSamples(wake=True) as clocks:
        clocks.follow({first: MS})
        eventually(lambda: clocks.wait(1.0) == [first])
        samples = clocks.read()
        assert samples and clocks.period_ns(first) == MS
        ran_ns = [sample.ran_ns for sample in samples]
        assert ran_ns == sorted(ran_ns) and 0 < ran_ns[-1] <= clocks.ran_ns(first)
        with pytest.raises(ProcessLookupError):
            clocks.ran_ns(os.getpid())


@needs_samples
@pytest.mark.invariant("clock_samples.C2", "clock_samples.C3")
def test_C2_C3_what_the_ring_has_no_room_for_is_counted_and_threads_are_bounded(
    spinners: Callable[[int], tuple[int, list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (first, second, _) = spinners(2)
    monkeypatch.setattr(clock_samples, "THREADS", 1)
    with ClockSamples() as clocks:
        clocks.follow({first: MS, second: MS})
        assert clocks.threads == {first}
        seen, most = 0, 0

        def lost() -> bool:
            nonlocal seen, most
            for _ in range(100_000):
                pass  # meanwhile the ring gets full
            found = len(clocks.read())
            seen, most = seen + found, max(most, found)
            return clocks.take_lost()[first] > 0

        eventually(lost)
    assert seen and most * clock_samples.STACK_BYTES <= 64 << 10


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
@needs_samples
def test_somebody_without_rights_samples_processes_of_their_own_where_the_kernel_allows_it() -> None:
    level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    done = subprocess.run([sys.executable, "-c", AS_NOBODY], capture_output=True, text=True, timeout=200, check=False)
    if level > 2:
        assert done.stdout == f"refused {errno.EACCES}\n", done.stderr
    else:
        assert done.stdout == "samples of it alone True\n", done.stderr


@pytest.mark.parametrize(
    ("code", "level", "word", "told"),
    [
        (errno.EACCES, "3", "samples-refused", "sysctl kernel.perf_event_paranoid=2"),
        (errno.EPERM, "2", "samples-refused", "--cap-add=PERFMON"),
        (errno.EPERM, "", "samples-refused", "--cap-add=PERFMON"),
        (errno.ENOENT, "2", "samples-missing", "--glance"),
        (errno.EMFILE, "2", "samples-files", "ulimit -n"),
    ],
)
def test_a_refusal_says_how_to_allow_samples(
    code: int, level: str, word: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: str) -> bytes:
        if not level:
            raise FileNotFoundError(path)
        return level.encode()

    monkeypatch.setattr(clock_samples, "read_file", read)
    why = refused(NoPerf(code, os.strerror(code)))
    assert why.code == word and told in why.remedy and why.sentence.startswith("No native stacks of running threads")


def test_a_machine_whose_samples_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_samples, "supported", lambda: False)
    why = refused_here()
    assert why is not None and why.code == "samples-missing"


@needs_samples
def test_no_more_open_files_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_samples, "room_for_files", lambda count: False)
    with ClockSamples() as clocks, pytest.raises(NoPerf):
        clocks.follow({os.getpid(): MS})
