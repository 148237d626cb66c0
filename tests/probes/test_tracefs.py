"""Definitions of trace events: what they change, and what is left of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.probes import tracefs
from livedbg.probes.perf import TRACEPOINT, PerfEvents, Source
from livedbg.probes.tracefs import TraceEvents
from tests.conftest import Target
from tests.probes.calls import call, code_of, define, start_caller
from tests.probes.refused import refused

needs_probes = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")

ROOT = Path(__file__).parents[2]
DEFINES = """
import os, time
from livedbg.probes.tracefs import TraceEvents
from tests.probes.calls import define
trace = TraceEvents()
print(define(trace, os.getpid()).name, flush=True)
time.sleep(1000)
"""


@needs_probes
@pytest.mark.invariant("tracefs.X1")
def test_X1_the_trap_is_there_only_while_somebody_counts(spawn: Callable[..., Target]) -> None:
    target, (thread, _) = start_caller(spawn)
    before = code_of(target.pid)
    with TraceEvents() as trace:
        event = define(trace, target.pid)
        call(target, 0, 1)
        assert code_of(target.pid) == before
        with PerfEvents([Source(TRACEPOINT, event.number)]) as events:
            events.add(thread)
            call(target, 0, 1)
            assert code_of(target.pid) != before
        assert code_of(target.pid) == before
    call(target, 0, 1)


@needs_probes
@pytest.mark.invariant("tracefs.X2")
def test_X2_what_a_killed_one_left_is_taken_out_by_the_next(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DEFINES],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as child:
        assert child.stdout is not None
        name = child.stdout.readline().decode().strip()
        with TraceEvents() as trace:
            assert name in trace.defined()  # it lives
            child.kill()
            child.wait(60)
    with TraceEvents() as trace:
        assert name and name not in trace.defined()


@needs_probes
@pytest.mark.invariant("tracefs.X2")
def test_X2_what_was_still_counted_at_the_end_is_taken_out_by_the_next(spawn: Callable[..., Target]) -> None:
    target, (thread, _) = start_caller(spawn)
    with TraceEvents() as trace:
        event = define(trace, target.pid)
        events = PerfEvents([Source(TRACEPOINT, event.number)])
        events.add(thread)
    with TraceEvents() as trace:
        assert event.name in trace.defined()  # the kernel refuses
    events.close()
    with TraceEvents() as trace:
        assert event.name not in trace.defined()


@needs_probes
@pytest.mark.invariant("tracefs.X3")
def test_X3_where_it_is_not_mounted_a_mount_is_made_that_nobody_else_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracefs, "_PLACES", ("/nowhere",))
    mounts = tracefs_mounts()
    with TraceEvents() as trace:
        name = define(trace, os.getpid()).name
        assert name in trace.defined()
        assert tracefs_mounts() == mounts
        assert Path(f"/proc/self/fd/{trace._folder}").readlink() == Path("/")


def tracefs_mounts() -> list[str]:
    """The mounts of tracefs that this process sees; others may come and go by other programs."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - tracefs " in line]


@pytest.mark.invariant("tracefs.X3")
def test_X3_where_it_is_mounted_that_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uprobe_events").touch()
    monkeypatch.setattr(tracefs, "_PLACES", ("/nowhere", str(tmp_path)))
    with TraceEvents() as trace:
        assert Path(f"/proc/self/fd/{trace._folder}").readlink() == tmp_path
