"""Signals that end a command: its clean-up runs, and none is lost."""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final

from livedbg.commands.output import warn
from livedbg.commands.time_limit import TimeLimit
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView
from livedbg.session.session import EventSink

_CLEAN_UP_S: Final = 120.0  # after a signal, on a busy machine
_AGAIN_S: Final = 0.1  # until a signal that was lost is sent again


class Quit(SystemExit):
    """Raised by SIGTERM and SIGHUP in a headless command.

    It is no Exception: the handler may run at any line, also where the exceptions of systems are caught.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


def hung_up(error: BaseException | None) -> bool:
    """Return whether a command ends because its terminal is gone: by SIGHUP, or EIO on a write."""
    if isinstance(error, OSError):
        return error.errno == errno.EIO
    return isinstance(error, Quit) and error.number == signal.SIGHUP


@contextlib.contextmanager
def quit_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a headless command as Ctrl-C does, so that its clean-up runs.

    If that takes longer than `_CLEAN_UP_S`, all threads' stacks are printed on standard error and the process ends: a
    guard (livedbg.touch) resumes stopped threads, and the next livedbg removes probes that are left.

    A signal that comes while Python runs a callback of its own (of a weak reference, say) raises where exceptions are
    only printed: it is sent again.
    """

    def quit_now(number: int, frame: FrameType | None) -> None:
        if sys.__stderr__ is not None:  # else it is closed
            with contextlib.suppress(ValueError, OSError):  # as here
                faulthandler.dump_traceback_later(_CLEAN_UP_S, exit=True, file=sys.__stderr__)
        raise Quit(number)

    def send_again(unraisable: sys.UnraisableHookArgs) -> None:
        number = _number_of(unraisable.exc_value)
        if number is None:
            report(unraisable)
        else:
            again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()

    old = {number: signal.signal(number, quit_now) for number in (signal.SIGTERM, signal.SIGHUP)}
    report, sys.unraisablehook = sys.unraisablehook, send_again
    try:
        yield
    finally:
        sys.unraisablehook = report
        faulthandler.cancel_dump_traceback_later()
        for number, handler in old.items():
            signal.signal(number, handler)


def _number_of(error: BaseException | None) -> int | None:
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    return error.number if isinstance(error, Quit) else None


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Delay the effect of SIGINT, SIGTERM and SIGHUP to the end of the block.

    Does nothing on other threads than the main one, which get no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old = {number: signal.signal(number, lambda sent, _frame: came.append(sent)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    for sent in came:
        then = old[signal.Signals(sent)]
        if callable(then):
            then(sent, None)
        else:
            signal.raise_signal(sent)


@contextlib.contextmanager
def running(
    request: Request, *, title: str | None = None, sink: EventSink | None = None, limit: TimeLimit | None = None
) -> Iterator[LiveView]:
    """Run a live session, stopped at the end whatever happens."""
    with started(LiveView(request, title=title, sink=sink), limit) as view:
        yield view


@contextlib.contextmanager
def started(view: LiveView, limit: TimeLimit | None = None) -> Iterator[LiveView]:
    """Run a session that was made already, stopped at the end whatever happens, within `limit` if given."""
    limit = TimeLimit(None) if limit is None else limit
    limit.begin()
    try:
        with signals_held():  # a signal amid the start of a thread can leave one of its locks taken
            view.start()
        yield view
    finally:
        limit.stop(view)
        if view.stuck and not limit.hurried:
            warn("A source did not stop in time and was abandoned.", "please report this as a bug")
