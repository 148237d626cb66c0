"""Signals at the worst moments: nothing stays locked, and the end comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import cast

import pytest

from livedbg.cli import main
from livedbg.commands.signals import Quit, quit_on_signals, signals_held, started
from livedbg.session.live import Latch, LiveView
from tests.conftest import eventually

HANGS = """
import os, signal, time
import livedbg.commands.signals as signals
signals._QUITTING_S = 0.3

def clean_up_that_never_ends():
    time.sleep(600)

with signals.quit_on_signals():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        clean_up_that_never_ends()
"""


class View:
    """A view that gets a signal as it begins."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.done: list[str] = []
        self.stuck = stuck

    def start(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        self.done.append("started")

    def stop(self) -> None:
        self.done.append("stopped")


def test_a_session_that_begins_as_a_signal_comes_is_whole_and_stopped() -> None:
    view = View()
    with (
        pytest.raises(Quit) as ended,
        quit_on_signals(),
        started(cast("LiveView", view)),
    ):
        view.done.append("went on")
    assert ended.value.code == 128 + signal.SIGTERM and view.done == ["started", "stopped"]


def test_what_does_not_let_go_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for stuck in (False, True):
        with pytest.raises(Quit), quit_on_signals(), started(cast("LiveView", View(stuck=stuck))):
            pass
        assert ("did not stop in time" in capsys.readouterr().err) is stuck


def test_a_signal_ends_a_command_whose_standard_error_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stderr__", None)
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(Quit) as ended, quit_on_signals():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_where_all_exceptions_are_caught_is_not_lost(number: signal.Signals) -> None:
    """As where the code of a system runs (systems.Y2)."""
    with pytest.raises(Quit), quit_on_signals():
        try:
            signal.raise_signal(number)
        except Exception as error:
            raise AssertionError from error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_comes_in_a_callback_of_python_is_not_lost(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    class Dies:
        def __del__(self) -> None:
            signal.raise_signal(number)

    with pytest.raises((Quit, KeyboardInterrupt)), quit_on_signals():
        one = Dies()
        del one  # what its handler raises is printed, and forgotten
        eventually(lambda: False)
    assert capsys.readouterr().err == ""


def test_other_exceptions_of_callbacks_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dies:
        def __del__(self) -> None:
            raise ValueError("of its own")

    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: printed.append(unraisable.exc_value))
    with quit_on_signals():
        one = Dies()
        del one
    assert [str(error) for error in printed] == ["of its own"]


def test_a_clean_up_that_never_ends_is_ended_and_says_where_it_stood() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], check=False, capture_output=True, text=True, timeout=250)
    assert done.returncode == 1 and "in clean_up_that_never_ends" in done.stderr


def test_other_threads_hold_no_signals() -> None:
    went: list[bool] = []

    def run() -> None:
        with signals_held():
            went.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert went == [True]


def test_a_latch_is_set_although_a_signal_ended_a_wait_for_it() -> None:
    latch = Latch()
    assert not latch.wait(0) and not latch.is_set()

    def quit_now(*_: object) -> None:
        raise KeyError

    old = signal.signal(signal.SIGALRM, quit_now)
    try:
        with pytest.raises(KeyError):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            latch.wait(250)
    finally:
        signal.signal(signal.SIGALRM, old)
    setter = threading.Thread(target=latch.set)
    setter.start()
    assert latch.wait(250) and latch.wait() and latch.is_set()
    latch.set()
    setter.join()


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt(), 130), (Quit(signal.SIGTERM), 143)])
def test_a_signal_while_a_class_is_made_is_a_signal(
    raised: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(_arguments: object) -> int:
        raise RuntimeError("Error calling __set_name__") from raised

    monkeypatch.setattr("livedbg.cli._run", made)
    assert main(["ps"]) == code


def test_another_error_of_ours_is_not_taken_for_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_arguments: object) -> int:
        raise RuntimeError("no such thing")

    monkeypatch.setattr("livedbg.cli._run", fails)
    with pytest.raises(RuntimeError, match="no such thing"):
        main(["ps"])
