"""The signals that a process handles."""

from __future__ import annotations

import os
import signal

import pytest

from livedbg.linux.procfs import handled_signals, signal_name


@pytest.mark.invariant("handled_signals.H1")
def test_H1_the_programs_own_handlers_are_seen_and_those_for_faults_are_not() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGSYS)}
    try:
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.signal(signal.SIGSYS, lambda *_: None)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        found = handled_signals(os.getpid())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert signal.SIGUSR1 in found
    assert not {signal.SIGSYS, signal.SIGUSR2, 32, 33, 34} & set(found)


def test_signals_without_a_name_have_their_number() -> None:
    assert (signal_name(signal.SIGTERM), signal_name(40), signal_name(32)) == ("SIGTERM", "SIGRTMIN+6", "signal 32")


def test_a_process_that_is_gone() -> None:
    with pytest.raises(OSError):
        handled_signals(1 << 30)
