"""Live sessions for front ends: the session on an event loop in a thread of its own.

`Latch` is a flag that is set once; a signal handler that raises during a wait does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from livedbg.model import LogSource
from livedbg.model.events import Event
from livedbg.model.foreign_code import foreign, is_foreign
from livedbg.model.intents import Intent
from livedbg.session.adapter import Adapter, Request
from livedbg.session.out_of_time import without_an_answer
from livedbg.session.registry import SLEEPERS, adapter_class, adapter_names, system_of
from livedbg.session.session import EventSink, Session
from livedbg.session.systems import System, note_problem, systems
from livedbg.session.view import NOTHING_YET, Subscribers, Timeline, Update
from livedbg.session.waking import Sleeper
from livedbg.text.secrets import mask_texts

if TYPE_CHECKING:
    from livedbg.logs.reader import LogReader

_SLICE_S: Final = 0.5


class Latch:
    """A threading.Event that is never cleared, and whose `set` never blocks.

    An Event's lock is acquired and released by Python code (threading.Condition): when a signal's handler raises in the
    main thread in between, it stays locked, and the thread that sets the Event then waits for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Set the latch; only one thread may call this. The second call does nothing."""
        if not self._is_set:
            self._is_set = True
            self._gate.release()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the latch is set; return False on timeout.

        It wakes now and then: the kernel may give a signal to another thread, and the main thread then runs its handler
        only once it has left the lock.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            left = _SLICE_S if end is None else min(_SLICE_S, end - time.monotonic())
            if self._gate.acquire(timeout=max(0.0, left)):
                self._gate.release()  # for whoever waits too
            elif left < _SLICE_S:
                break
        return self._is_set


NICE: Final = 10
"""Niceness (setpriority(2)) of the thread of a session that goes on, its workers, gdb and py-spy: on a busy box the
target goes first, and the screen before the sampling. One that looks once is over soon (commands.first_in_line)."""
_STOP_S: Final = 45.0  # adapters may take 10 s to detach (livedbg.session.session), threads of theirs longer


def adapters_for(request: Request) -> tuple[list[Adapter], list[Sleeper]]:
    """Return the adapters of a session with this request, and those that sleep (session/waking.py).

    An adapter that can't be made is a problem of its system.
    """
    asleep = {system.name for system in systems() if system.on_signs and not _asked_for(system, request)}
    if request.processes:
        asleep |= {name for name in SLEEPERS if not any(option.startswith(name) for option in request.options)}
    made: list[Adapter] = []
    sleeping: list[Sleeper] = []
    for name in adapter_names(once=request.once):
        if (system := system_of(name)) in asleep:
            sleeping.append(Sleeper(system, partial(_made, name, request)))
        elif (adapter := _made(name, request)) is not None:
            made.append(adapter)
    return made, sleeping


def _asked_for(system: System, request: Request) -> bool:
    return bool(request.logs) or any(request.asked(service) is not None for service in system.services)


def _made(name: str, request: Request) -> Adapter | None:
    cls = adapter_class(name)
    if cls is None:
        return None
    if not is_foreign(cls.__module__):
        return cls() if cls.applies(request) else None
    try:
        with foreign():
            return cls() if cls.applies(request) else None
    except Exception as error:  # systems.Y2
        note_problem(system_of(name), f"its adapter {name} can't be made", error)
    return None


class LiveView:
    """A running session as a livedbg.session.view.SessionView.

    Args:
        title: for the header; made from the request if None.
        sink: gets all events in order (a recorder); called on the session's thread.
        adapters: the adapters to run, instead of all that apply.
    """

    timeline: Timeline | None = None

    def __init__(
        self,
        request: Request,
        *,
        title: str | None = None,
        sink: EventSink | None = None,
        adapters: Sequence[Adapter] | None = None,
    ) -> None:
        self._title = title
        self._latest = NOTHING_YET
        self._subscribers = Subscribers()
        self._settled = Latch()
        self._ended = Latch()
        running, sleeping = adapters_for(request) if adapters is None else (list(adapters), [])
        self._session = Session(request, running, self._take, sink, sleeping)
        self.request = self._session.request
        self._thread = threading.Thread(target=self._main, name="livedbg-session", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._up = Latch()
        self._logs: LogReader | None = None

    @property
    def mode(self) -> str:
        """Return the mode for the header: whether intrusive actions are forbidden."""
        return "read-only" if self.request.read_only else "observe"

    @property
    def title(self) -> str:
        if self._title is not None:
            return self._title
        parts = []
        for target in self.request.processes:
            known = self._latest.snapshot.processes.get(f"process:{self.request.host}/{target.pid}")
            command = " ".join(known.command) if known is not None and known.command else ""
            parts.append(f"{self.request.host}:{target.pid} {command}".rstrip())
        return " · ".join([*parts, *self.request.logs])

    @property
    def logs(self) -> LogReader:
        """Return random access to the logs that the session found."""
        if self._logs is None:
            from livedbg.logs.files import FileLogReader
            from livedbg.session.filereaders import known_log_formats

            self._logs = FileLogReader(self._source, known_log_formats(), mask_texts if self.request.redact else tuple)
        return self._logs

    def start(self) -> None:
        self._thread.start()
        self._up.wait()

    def stop(self, limit_s: float = _STOP_S) -> None:
        """Detach from everything; return when that is done, or after `limit_s` (check `stuck`)."""
        loop = self._loop
        if loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop ended in between
                loop.call_soon_threadsafe(self._session.stop)
            self._thread.join(limit_s)

    @property
    def stuck(self) -> bool:
        """Return whether something did not detach in `stop`."""
        return self._thread.is_alive()

    def keyframe(self) -> list[Event]:
        """Return the events that replace all earlier ones; only for the sink, while it is called."""
        return self._session.keyframe()

    def latest(self) -> Update:
        return self._latest

    def subscribe(self, callback: Callable[[Update], None]) -> Callable[[], None]:
        """Call `callback` on the session's thread with every update from now on."""
        return self._subscribers.add(callback)

    def send(self, intent: Intent) -> None:
        loop = self._loop
        if loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop ended in between
                loop.call_soon_threadsafe(self._session.send, intent)

    def wait_settled(self, timeout_s: float) -> bool:
        """Wait until `latest()` has every adapter's first full sample; return False after `timeout_s`."""
        return self._settled.wait(timeout_s)

    def out_of_time(self, limit_s: float) -> Update:
        """Return the state so far, with what is missing, after a time limit; waits at most `limit_s` for the session.

        If the session does not answer in that time, the newest state, without what is missing.
        """
        loop, published = self._loop, Latch()

        def publish() -> None:
            self._session.out_of_time()
            published.set()

        if loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop ended in between
                loop.call_soon_threadsafe(publish)
        answered = published.wait(limit_s)
        return self._latest if answered else without_an_answer(self._latest, self.request)

    def wait_ended(self, timeout_s: float | None = None) -> bool:
        return self._ended.wait(timeout_s)

    def _source(self, source: str) -> LogSource | None:
        return self._latest.snapshot.log_sources.get(source)

    def _take(self, update: Update) -> None:
        self._latest = update
        self._subscribers.call(update)

    def _main(self) -> None:
        if not self.request.once:  # else it is over soon
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)  # and of all that it starts
        if not os.environ.get("LIVEDBG_DEBUG"):  # a child that ended while it was killed: no news for a screen
            logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        try:
            with asyncio.Runner() as runner:
                runner.run(self._run())
        finally:
            self._up.set()
            self._settled.set()
            self._ended.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_report_bug)
        self._loop = loop
        running = asyncio.create_task(self._session.run())
        await asyncio.sleep(0)  # the session has made its events when `start` returns
        self._up.set()
        settled = asyncio.create_task(self._session.settled.wait())
        settled.add_done_callback(lambda task: None if task.cancelled() else self._settled.set())
        try:
            await running
        finally:
            settled.cancel()


def _report_bug(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if os.environ.get("LIVEDBG_DEBUG") and isinstance(error, BaseException):
        traceback.print_exception(error)
