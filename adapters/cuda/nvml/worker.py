"""One thread for calls that may never come back.

NVML blocks in the driver, for seconds where a GPU has trouble and for good where it hangs. So its calls run in a
daemon thread of their own: the session waits for an answer for a limited time, and neither it nor the end of the
program waits for the thread. Only time in which the call blocks counts: on a busy host it waits for a CPU.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from livedbg.linux import procfs
from livedbg.model import ThreadState

_STEPS: Final = 4  # samples of the thread within a time limit
_MOST: Final = 5  # time limits after which a call that gets on is given up too

T = TypeVar("T")


class _Job(Generic[T]):
    """A call and where its answer goes."""

    def __init__(self, call: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self.answer: asyncio.Future[T] = loop.create_future()

    def run(self, over: Callable[[], None]) -> None:
        """Make the call (in the worker's thread).

        Args:
            over: called before the answer is delivered: who has it may ask again at once.
        """
        try:
            result = self._call()
        except BaseException as error:
            over()
            self._deliver(self._failed, error)
        else:
            over()
            self._deliver(self._done, result)

    def _deliver(self, how: Callable[..., None], what: object) -> None:
        try:
            self._loop.call_soon_threadsafe(how, what)
        except RuntimeError:
            return  # the session has ended meanwhile

    def _done(self, result: T) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def _failed(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Worker:
    """Makes one call after the other.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_Job[object] | None] = queue.SimpleQueue()
        self._busy = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a call has not come back."""
        return self._busy.is_set()

    async def ask(self, call: Callable[[], T], limit_s: float) -> T:
        """The answer of a call.

        Raises:
            TimeoutError: the call made no progress for so long, or an earlier call has not returned.
        """
        if self.busy:
            raise TimeoutError
        job = _Job(call, asyncio.get_running_loop())
        self._busy.set()
        self._jobs.put(job)  # type: ignore[arg-type] # a queue of jobs of any type
        try:
            still = 0
            for _ in range(_MOST * _STEPS):
                ran_ns = self._cpu_ns()
                if (await asyncio.wait([job.answer], timeout=limit_s / _STEPS))[0]:
                    return job.answer.result()
                still = 0 if self._gets_on(ran_ns) else still + 1
                if still == _STEPS:
                    break
            raise TimeoutError
        finally:
            job.answer.cancel()

    def _gets_on(self, ran_ns: int) -> bool:
        """Whether the thread has run since, or waits for a CPU: on a busy box not the driver holds it up."""
        tid = self._thread.native_id
        assert tid is not None
        return self._cpu_ns() > ran_ns or procfs.read_stat(os.getpid(), tid).state is ThreadState.RUNNING

    def _cpu_ns(self) -> int:
        assert self._thread.ident is not None
        return time.clock_gettime_ns(time.pthread_getcpuclockid(self._thread.ident))

    def close(self) -> None:
        """Let the thread end when its call is over; not waited for."""
        self._jobs.put(None)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job.run(self._busy.clear)
