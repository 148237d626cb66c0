"""Stop signals: what they do to threads that nobody traces, and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.linux.procfs import status_fields
from livedbg.probes.perf import TRACEPOINT, PerfEvents, Source
from livedbg.probes.stop_signal import StopSignals, harmless_signal
from livedbg.probes.tracefs import TraceEvents, kernel_event
from tests.conftest import Target, eventually
from tests.probes.calls import call, code_of, define, start_caller
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")

ROOT = Path(__file__).parents[2]
ARMS = """
import signal, sys, time
from livedbg.linux.procfs import status_fields
from livedbg.probes.perf import TRACEPOINT, Source
from livedbg.probes.stop_signal import StopSignals
from livedbg.probes.tracefs import TraceEvents
from tests.probes.calls import define
pid, tid = map(int, sys.argv[1:])
signals = StopSignals([Source(TRACEPOINT, define(TraceEvents(), pid).number)], signal.SIGURG)
signals.add(tid)
print("armed", flush=True)
time.sleep(1000)
"""


@pytest.mark.invariant("stop_signal.K2")
def test_K2_the_traps_go_with_a_process_that_is_killed(spawn: Callable[..., Target]) -> None:
    target, (thread, _) = start_caller(spawn)
    before = code_of(target.pid)
    with subprocess.Popen(
        [sys.executable, "-c", ARMS, str(target.pid), str(thread)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"armed\n"
        call(target, 0, 1)
        assert code_of(target.pid) != before
        child.kill()
    eventually(lambda: code_of(target.pid) == before)
    call(target, 0, 1)


@pytest.mark.parametrize("handles", [False, True])
@pytest.mark.invariant("stop_signal.K3")
def test_K3_a_thread_that_is_not_traced_gets_no_signal(spawn: Callable[..., Target], handles: bool) -> None:
    """One that has a handler shows that the signals are sent: to those `harmless_signal` gives another one."""
    target, (thread, _) = start_caller(spawn, handles=handles)
    assert harmless_signal(target.pid) == (signal.SIGWINCH if handles else signal.SIGURG)
    delivered = Source(TRACEPOINT, kernel_event("signal", "signal_deliver").number)
    with TraceEvents() as trace, PerfEvents([delivered]) as events:
        signals = StopSignals([Source(TRACEPOINT, define(trace, target.pid).number)], signal.SIGURG)
        try:
            signals.add(thread)
            events.add(thread)
            call(target, 0, 5)
        finally:
            signals.close()
        assert bool(events.read()) == handles
    assert int(status_fields(target.pid, thread)["SigPnd"], 16) == 0
