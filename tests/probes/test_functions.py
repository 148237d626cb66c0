"""Probe events on functions of real programs, and the life of what reads them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.probes import functions, rings
from livedbg.probes.functions import FunctionProbes, NotTraceable, Probed
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found
from livedbg.probes.tracer import ProcessTree, Tracer
from tests.adapters.exceptions.catching import tell
from tests.conftest import Target, eventually
from tests.probes.refused import refused

needs_probes = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")

THROW = "__cxa_throw"


@pytest.fixture
def thrower(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Target:
    """A program that throws what it is told to."""
    return spawn([build_target("throws")])


@pytest.fixture
def probes_on() -> Iterator[Callable[..., FunctionProbes]]:
    """Probes on the throws of a process; closed with the test."""
    made: list[FunctionProbes] = []

    def make(pid: int, *, follow: bool = False, **options: object) -> FunctionProbes:
        probes = FunctionProbes(
            ProcessTree(pid, follow), [THROW], lambda _: ("type_info=%si:x64",), stack_bytes=8, **options
        )  # type: ignore[arg-type]
        made.append(probes)
        assert probes.find()
        probes.arm()
        return probes

    yield make
    for probes in made:
        probes.close()


@needs_probes
@pytest.mark.invariant("functions.P1")
def test_P1_threads_and_followed_children_that_are_born_later(
    thrower: Target, probes_on: Callable[..., FunctionProbes]
) -> None:
    alone, followed = probes_on(thrower.pid), probes_on(thrower.pid, follow=True)
    tell(thrower, "thread runtime here")
    tell(thrower, "fork runtime here")
    calls, all_calls = alone.read(), followed.read()
    assert len(calls) == 1 and calls[0][0].tid != thrower.pid == calls[0][0].pid
    assert len(all_calls) == 2 and all_calls[1][0].pid not in (thrower.pid, os.getpid())


@needs_probes
@pytest.mark.invariant("functions.P2")
def test_P2_arming_anew_repeats_no_call_and_misses_none(
    monkeypatch: pytest.MonkeyPatch, thrower: Target, probes_on: Callable[..., FunctionProbes]
) -> None:
    monkeypatch.setattr(rings, "_budget", rings._Budget())  # until all is closed: `probes_on` comes after it
    monkeypatch.setattr(rings._budget, "_left", 1 << 40)
    cpus = os.cpu_count() or 1
    probes = probes_on(thrower.pid, ring_bytes=cpus << 20)  # room for a flood in each, however late it is read
    calls: list[tuple[Sample, Probed]] = []
    turns, thrown = 0, 0
    while turns < 3:  # to arm anew may take longer than one flood on a busy machine
        throws = threading.Thread(target=tell, args=(thrower, "flood logic 600 1000"))
        throws.start()
        thrown += 600
        while throws.is_alive():
            probes.arm("type_info != 1" if turns % 2 else "")
            turns += 1
            calls += probes.read()
        throws.join()
        calls += probes.read()
    assert probes.lost == 0
    assert len(calls) == thrown
    assert [sample.mono_ns for sample, _ in calls] == sorted({sample.mono_ns for sample, _ in calls})


@needs_probes
def test_the_kernel_filters_and_nothing_is_sampled_once_disarmed(
    thrower: Target, probes_on: Callable[..., FunctionProbes]
) -> None:
    probes = probes_on(thrower.pid)
    tell(thrower, "logic first")
    ((sample, probed),) = probes.read()
    probes.arm(f"type_info != {probed.event.fields['type_info'].read(sample.raw)}")
    tell(thrower, "logic again")
    tell(thrower, "runtime another")
    assert len(probes.read()) == 1
    assert probes.armed
    probes.disarm()
    tell(thrower, "runtime unseen")
    assert not probes.armed and probes.read() == []


@needs_probes
def test_what_is_not_known_at_a_place_is_refused_with_its_reason(thrower: Target) -> None:
    def unknown(found: Found) -> tuple[str, ...]:
        raise NotTraceable(f"{found.name} of another world")

    probes = FunctionProbes(ProcessTree(thrower.pid), [THROW], unknown, stack_bytes=8)
    try:
        assert not probes.find()
        assert probes.unread == [str(refusal) for refusal in probes.refused] == [f"{THROW} of another world"]
        assert not probes.find()  # its files are searched once
        probes.forget()
        assert not probes.find() and len(probes.refused) == 2
    finally:
        probes.close()


def test_a_process_that_has_ended_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoEvents:
        def close(self) -> None:
            """There are none."""

    monkeypatch.setattr(functions, "TraceEvents", NoEvents)
    with pytest.raises(OSError):
        FunctionProbes(ProcessTree(2**22 + 1), [THROW], lambda _: (), stack_bytes=8).find()
    assert ProcessTree(2**22 + 1, follow=True).threads() == []
    assert os.getpid() in ProcessTree(os.getppid(), follow=True).pids()


class Waiting(Tracer):
    """A tracer that waits, until it is to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = threading.Event()
        self.steps: list[str] = []

    def _arm(self) -> None:
        self.steps.append("armed")

    def _trace(self) -> None:
        while not self._over.is_set():
            self._wait(0.01)
            if self.fails.is_set():
                raise OSError("no ring\x1b[31m")

    def _disarm(self) -> None:
        self.steps.append("disarmed")

    def _failed(self) -> None:
        self.steps.append("failed")


@pytest.mark.invariant("tracer.F1")
def test_F1_a_failure_is_reported_when_all_is_closed() -> None:
    tracer = Waiting()
    tracer.start()
    tracer.fails.set()
    eventually(lambda: tracer.steps[-1] == "failed")
    assert tracer.steps == ["armed", "disarmed", "failed"]
    assert tracer.counts.failure.startswith("OSError: no ring") and "\x1b" not in tracer.counts.failure
    tracer.stop()


def test_a_stop_does_not_wait_for_samples_and_closes_all() -> None:
    tracer = Waiting()
    tracer.start()
    tracer.stop()
    assert tracer.steps == ["armed", "disarmed"] and tracer.counts.failure == ""


class Refused(Waiting):
    """One that can't be armed."""

    def _arm(self) -> None:
        raise LookupError("there is none")


def test_what_can_not_be_armed_is_closed() -> None:
    tracer = Refused()
    with pytest.raises(LookupError):
        tracer.start()
    assert tracer.steps == ["disarmed"]
    tracer.stop()
