"""How a command ends: by a signal, which is not lost and lets its clean-up run, or at its time limit.

The limit counts from the start of the command, and holds whatever does not answer.

Invariants:
    time_limit.T1. After its limit a command waits for nothing but a moment of clean-up: helper programs that it started
        and that do not end are killed, and threads that do not end are left behind.
    time_limit.T2. A guard of stopped threads is never killed, nor a debugger that is attached: what they hold is
        released by the guard, also after livedbg has ended.
    time_limit.T3. A limit that nobody named does not count the time in which livedbg could run and got no CPU: on a box
        on its knees there would be no answer, and that is where one is wanted. It is four times as long at most.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Final, Self

from livedbg.commands.command_clock import clock
from livedbg.commands.output import warn
from livedbg.linux.procfs import child_pids, parse_schedstat, read_file, thread_ids
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView
from livedbg.session.session import EventSink
from livedbg.touch.guard_process import is_guard

LOOK_S: Final = 30.0
"""The limit of a command that looks once, where none is named."""
_LONGER: Final = 4
_CLEAN_UP_S: Final = 0.5
_DETACH_S: Final = 5.0  # to remove probes and to detach a debugger
_PRINT_S: Final = 1.0  # of a limit, for what comes after the look
_PRINT_SHARE: Final = 0.1
_LEFT_BEHIND_S: Final = 1.0


class TimeLimit:
    """When a command has to end.

    Args:
        seconds: after its start; None: no limit.
        probes: it may set probes, or attach a debugger: removing them takes longer than other clean-up.
        patient: it is the default limit (T3).

    Attributes:
        hurried: after `stop`: the limit left a session less time than it may need to detach.
    """

    def __init__(
        self, seconds: float | None, *, probes: bool = False, attaches: bool = False, patient: bool = False
    ) -> None:
        self._end_s = None if seconds is None else clock.began_s + seconds
        self._longest_s = 0.0 if seconds is None or not patient else (_LONGER - 1) * seconds
        self._print_s = 0.0 if seconds is None else min(_PRINT_S, _PRINT_SHARE * seconds)
        self._moment_s = _DETACH_S if probes or attaches else _CLEAN_UP_S
        self._may_kill = not attaches
        self._before: frozenset[int] = frozenset()
        self.hurried = False

    @classmethod
    def of_look(cls, seconds: float | None, *, beside_s: float = 0.0, probes: bool = False) -> Self:
        """Return the limit of a command that looks once, given or default, plus `beside_s`, its own duration."""
        named = LOOK_S if seconds is None else seconds
        return cls(named + beside_s, probes=probes, patient=seconds is None)

    @property
    def left_s(self) -> float | None:
        """Seconds left, 0 when it is over; None without a limit."""
        if self._end_s is None:
            return None
        longer_s = min(self._longest_s, queued_s()) if self._longest_s else 0.0
        return max(0.0, self._end_s + longer_s - time.monotonic())

    @property
    def took_s(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - clock.began_s

    @property
    def look_s(self) -> float | None:
        """Seconds left for the look: without the time for printing and clean-up."""
        left_s = self.left_s
        return None if left_s is None else max(0.0, left_s - self._print_s)

    def settled(self, view: LiveView) -> bool:
        """Wait for the first full look of a session; return whether it came in time."""
        while not view.wait_settled(look_s := self.look_s or 0.0):
            if not look_s:
                return False
        return True

    def within(self, seconds: float) -> float:
        """Return a time, cut at the limit."""
        left_s = self.left_s
        return seconds if left_s is None else min(seconds, left_s)

    def begin(self) -> None:
        """Begin a session: child processes from now on are its helper programs."""
        self._before = frozenset(child_pids(os.getpid()))

    def stop(self, view: LiveView) -> None:
        """Stop a session, within the limit and a moment for clean-up (T1)."""
        left_s = self.left_s
        if left_s is None:
            view.stop()
            return
        self.hurried = left_s < _DETACH_S
        view.stop(max(_CLEAN_UP_S, left_s))
        if view.stuck:
            if self._may_kill:
                self._kill_helpers()
            view.stop(self._moment_s)
        if view.stuck:
            threading.Thread(target=_leave, daemon=True).start()

    def _kill_helpers(self) -> None:
        for pid in set(child_pids(os.getpid())) - self._before:
            if not is_guard(pid):  # T2
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def queued_s() -> float:
    """Return how long threads of ours waited for a CPU so far; 0 if the kernel doesn't count it."""
    queued_ns = 0
    for tid in thread_ids(os.getpid()):
        with contextlib.suppress(OSError, ValueError):
            queued_ns += parse_schedstat(read_file(f"/proc/self/task/{tid}/schedstat")).queued_ns
    return queued_ns / 1e9


def _leave() -> None:
    """End the process even if a thread that does not end would keep it."""
    main = threading.main_thread()
    main.join()
    time.sleep(_LEFT_BEHIND_S)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(clock.code)


_QUITTING_S: Final = 120.0  # after a signal, on a busy machine
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

    If that takes longer than `_QUITTING_S`, all threads' stacks are printed on standard error and the process ends: a
    guard (livedbg.touch) resumes stopped threads, and the next livedbg removes probes that are left.

    A signal that comes while Python runs a callback of its own (of a weak reference, say) raises where exceptions are
    only printed: it is sent again.
    """

    def quit_now(number: int, frame: FrameType | None) -> None:
        if sys.__stderr__ is not None:  # else it is closed
            with contextlib.suppress(ValueError, OSError):  # as here
                faulthandler.dump_traceback_later(_QUITTING_S, exit=True, file=sys.__stderr__)
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
