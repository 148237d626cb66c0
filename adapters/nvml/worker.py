"""One thread for calls that may never come back.

NVML blocks in the driver, for seconds where a GPU has trouble and for good where it hangs. So its calls run in a
daemon thread of their own: the session waits for an answer for a limited time, and neither it nor the end of the
program waits for the thread.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Worker"]

T = TypeVar("T")


class _Job(Generic[T]):
    """A call and where its answer goes."""

    def __init__(self, call: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self.answer: asyncio.Future[T] = loop.create_future()

    def run(self) -> None:
        """Make the call (in the worker's thread)."""
        try:
            result = self._call()
        except BaseException as error:
            self._tell(self._failed, error)
        else:
            self._tell(self._done, result)

    def _tell(self, how: Callable[..., None], what: object) -> None:
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
            TimeoutError: it has not come back in time, or an earlier call still has not.
        """
        if self.busy:
            raise TimeoutError
        job = _Job(call, asyncio.get_running_loop())
        self._busy.set()
        self._jobs.put(job)  # type: ignore[arg-type] # a queue of jobs of any type
        return await asyncio.wait_for(job.answer, limit_s)

    def close(self) -> None:
        """Let the thread end when its call is over; not waited for."""
        self._jobs.put(None)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job.run()
            self._busy.clear()
