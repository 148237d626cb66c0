"""Signals of real programs, reported by the kernel's trace event."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.exceptions import signal_tracer
from livedbg.model import ExceptionHit
from livedbg.model.catchpoints import CatchpointState, Moment, patterns_of
from livedbg.model.errors import UsageError
from livedbg.probes.perf import PerfEvents, Sample
from livedbg.probes.tracefs import NoTracefs, TraceEvent, kernel_event
from tests.adapters.exceptions.catching import Tracing, functions, tell
from tests.cli.zygote import run_livedbg
from tests.conftest import Target, eventually
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")

NULL = "address not mapped (SEGV_MAPERR), at address 0x8; no handler: fatal"
Build = Callable[..., Path]
Spawn = Callable[..., Target]


@pytest.fixture
def faulty(build_target: Build, spawn: Spawn) -> Target:
    return spawn([build_target("signals")])


def last_words(tracing: Tracing, target: Target, command: str) -> ExceptionHit:
    """The one hit of a command that ends the program."""
    target.stdin.write(command.encode() + b"\n")
    target.process.wait(60)
    (hit,) = tracing.hits_after(1)
    return hit


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "null",
            ("SIGSEGV", NULL, "demo::read_through"),
        ),
        (
            "thread null",
            ("SIGSEGV", NULL, "demo::read_through"),
        ),
        ("write", ("SIGSEGV", "access not allowed at that address (SEGV_ACCERR)", "demo::write_through")),
        ("divide", ("SIGFPE", "integer division by zero (FPE_INTDIV)", "demo::divide")),
        ("illegal", ("SIGILL", "illegal operand, or an instruction that this processor lacks", "demo::illegal")),
        ("trap", ("SIGTRAP", "breakpoint instruction", "demo::trap")),
        ("abort", ("SIGABRT", "sent to the thread, as abort and raise do (SI_TKILL); no handler: fatal", "abort")),
        ("bus", ("SIGBUS", "no memory behind that address", "demo::bus")),
        ("seccomp", ("SIGSYS", "a system call that its seccomp filter forbids (SYS_SECCOMP)", "demo::forbidden")),
    ],
)
def test_a_fatal_signal_has_its_cause_and_its_stack(
    faulty: Target, trace: Callable[..., Tracing], command: str, expected: tuple[str, str, str]
) -> None:
    name, words, stack = expected
    tracing = trace(faulty.pid)
    tracing.catch("signals")
    assert tracing.points["C1"].state is CatchpointState.ARMED
    hit = last_words(tracing, faulty, command)
    assert hit.type == name
    assert words in hit.message and "fatal" in hit.message
    assert any(stack in function for function in functions(hit)), functions(hit)
    eventually(lambda: tracing.points["C1"].ending == f"was killed by {name}")
    in_thread = hit.thread != f"thread:box/{faulty.pid}/{faulty.pid}"
    assert in_thread == command.startswith("thread")


def test_one_signal_by_its_name(faulty: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(faulty.pid)
    tracing.catch("SIGUSR1")
    assert tracing.points["C1"].moment is Moment.SIGNAL
    tell(faulty, f"handled {int(signal.SIGUSR2)}")
    tell(faulty, f"handled {int(signal.SIGUSR1)}")
    (hit,) = tracing.hits_after(1)
    assert hit.type == "SIGUSR1" and "handled, by a function in signals" in hit.message


def test_sent_from_outside(faulty: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(faulty.pid)
    tracing.catch("signals")
    os.kill(faulty.pid, signal.SIGSEGV)
    faulty.process.wait(60)
    (hit,) = tracing.hits_after(1)
    own = f"process {os.getpid()} ("
    assert hit.type == "SIGSEGV" and hit.message.startswith(f"sent by kill (SI_USER), by {own}")
    assert hit.message.endswith("no handler: fatal")
    assert functions(hit)[-1] == "main"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_who_ended_it(faulty: Target, trace: Callable[..., Tracing], number: signal.Signals) -> None:
    """Without a handler these reach no thread as themselves."""
    tracing = trace(faulty.pid)
    tracing.catch(number.name)
    os.kill(faulty.pid, number)
    faulty.process.wait(60)
    (hit,) = tracing.hits_after(1)
    assert hit.type == number.name and f"by process {os.getpid()} (" in hit.message and "fatal" in hit.message
    assert functions(hit)[-1] == "main"
    eventually(lambda: tracing.points["C1"].ending == f"was killed by {number.name}")


@pytest.mark.invariant("signal_tracer.S1")
def test_S1_where_senders_can_not_be_traced_the_signals_are(
    faulty: Target, trace: Callable[..., Tracing], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused_here(system: str, name: str) -> TraceEvent:
        if name == "signal_generate":
            raise NoTracefs(errno.EACCES, f"{system}:{name} is not for us")
        return kernel_event(system, name)

    monkeypatch.setattr(signal_tracer, "kernel_event", refused_here)
    tracing = trace(faulty.pid)
    tracing.catch("SIGSEGV")
    assert tracing.points["C1"].state is CatchpointState.ARMED
    os.kill(faulty.pid, signal.SIGSEGV)
    faulty.process.wait(60)
    (hit,) = tracing.hits_after(1)
    assert hit.type == "SIGSEGV" and hit.message == "sent by kill (SI_USER); no handler: fatal"


@pytest.mark.invariant("signal_tracer.G3")
def test_G3_of_page_faults_only_those_near_0_are_traced(
    build_target: Build, spawn: Spawn, trace: Callable[..., Tracing], monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, at_null = (spawn([build_target("signals")]) for _ in range(2))
    samples: list[Sample] = []
    read = PerfEvents.read

    def noted(self: PerfEvents) -> list[Sample]:
        found = read(self)
        samples.extend(sample for sample in found if sample.pid in (elsewhere.pid, at_null.pid))
        return found

    monkeypatch.setattr(PerfEvents, "read", noted)
    tracing = trace(elsewhere.pid)
    tracing.catch("SIGSEGV")
    tell(elsewhere, "guarded 5")
    tracing.hits_after(5)
    assert len(samples) >= 5 and {sample.source for sample in samples} == {0}
    tracing = trace(at_null.pid)
    tracing.catch("SIGSEGV")
    assert ", at address 0x8;" in last_words(tracing, at_null, "null").message
    address = kernel_event("exceptions", "page_fault_user").fields["address"]
    assert [address.read(sample.raw) for sample in samples if sample.source == 1] == [8]


def test_an_end_by_exit_is_no_signal(spawn: Spawn, trace: Callable[..., Tracing]) -> None:
    """Its other threads get SIGKILL; and what it waited for by sigwait is not delivered either."""
    code = (
        "import signal, threading, time; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n"
        "print('READY', flush=True); signal.sigwait([signal.SIGTERM])"
    )
    target = spawn([sys.executable, "-c", code])
    tracing = trace(target.pid)
    tracing.catch("SIGKILL")
    tracing.catch("SIGTERM")
    os.kill(target.pid, signal.SIGTERM)
    target.process.wait(60)
    eventually(lambda: tracing.points["C2"].ending == "exited with status 0")
    eventually(lambda: tracing.points["C1"].ending == "exited with status 0")
    tracing.stop()  # all was reported
    assert not tracing.hits and tracing.points["C1"].seen == 0


def test_a_handled_one_is_told_from_a_fatal_one(faulty: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(faulty.pid)
    tracing.catch("signals")
    tell(faulty, "guarded 5")
    hits = tracing.hits_after(5)
    assert {hit.type for hit in hits} == {"SIGSEGV"} and sum(hit.count for hit in hits) == 5
    assert all("handled, by a function in signals" in hit.message for hit in hits)
    assert all(functions(hit)[0].startswith("demo::write_through") for hit in hits)
    assert faulty.process.poll() is None


@pytest.mark.invariant("signal_tracer.G2")
def test_G2_what_the_kernel_sorts_out_is_not_heard(faulty: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(faulty.pid)
    tracing.catch("signals")
    tell(faulty, f"handled {int(signal.SIGTRAP)}")  # with others: only where it is fatal
    tell(faulty, f"handled {int(signal.SIGUSR1)}")
    tell(faulty, f"handled {int(signal.SIGFPE)}")
    tracing.hits_after(1)
    tracing.stop()
    assert [hit.type for hit in tracing.hits] == ["SIGFPE"]


@pytest.mark.parametrize("how", ["fork", "exec"])
@pytest.mark.invariant("signal_tracer.G1")
def test_G1_children(faulty: Target, trace: Callable[..., Tracing], how: str) -> None:
    tracing = trace(faulty.pid)
    tracing.catch("signals", follow=True)
    tell(faulty, f"{how} null")
    (hit,) = tracing.hits_after(1)
    assert hit.type == "SIGSEGV" and hit.process != tracing.process
    assert functions(hit)[0].startswith("demo::read_through"), functions(hit)


def test_python(spawn: Spawn, trace: Callable[..., Tracing]) -> None:
    code = (
        "import ctypes, faulthandler, sys; faulthandler.enable(open('/dev/null', 'w'))\n"
        "print('READY', flush=True); input(); ctypes.string_at(8)"
    )
    target = spawn([sys.executable, "-c", code])
    tracing = trace(target.pid)
    tracing.catch("signals")
    target.stdin.write(b"\n")
    target.process.wait(60)
    hits = tracing.hits_after(2)
    assert [hit.message.rpartition("; ")[2].split(",")[0] for hit in hits] == ["handled", "no handler: fatal"]
    assert {hit.type for hit in hits} == {"SIGSEGV"} and "at address 0x8" in hits[0].message
    eventually(lambda: tracing.points["C1"].ending.startswith("was killed by SIGSEGV"))


def test_without_rights_it_says_what_to_do(build_target: Build, spawn: Spawn) -> None:
    target = spawn([build_target("signals")], user=65534)
    catch = [sys.executable, "-m", "livedbg", "catch", str(target.pid), "signals", "--timeout", "90"]
    nobody = ["setpriv", "--reuid=65534", "--clear-groups", *catch]
    done = subprocess.run(nobody, capture_output=True, text=True, timeout=250, check=False, env={"HOME": "/tmp"})
    assert done.returncode not in {0, 4}
    assert "not allowed" in done.stderr and "sudo" in done.stderr


def test_launched_and_dead_at_once(build_target: Build) -> None:
    """Armed before the program's first instruction; it lives for a millisecond."""
    program = build_target("signals")
    done = run_livedbg(["launch", "--catch", "signals", "--headless", "--", program, "divide"], 250, text=True)
    said = done.stdout + done.stderr
    assert "SIGFPE: integer division by zero (FPE_INTDIV); no handler: fatal" in said
    assert "demo::divide" in said and "main at" in said


def test_a_stack_that_is_used_up(faulty: Target, trace: Callable[..., Tracing]) -> None:
    tracing = trace(faulty.pid)
    tracing.catch("signals")
    hit = last_words(tracing, faulty, "overflow")
    assert hit.type == "SIGSEGV" and functions(hit)[0].startswith("demo::overflow")
    assert hit.partial  # what was copied of the stack is not all of it


def test_names_of_signals() -> None:
    moment, patterns = patterns_of("SIGSEGV")
    assert moment is Moment.SIGNAL and [pattern.text for pattern in patterns] == ["SIGSEGV"]
    with pytest.raises(UsageError, match="no signal SIGNONE"):
        patterns_of("SIGNONE")
    assert patterns_of("Signal")[0] is None
