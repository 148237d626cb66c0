"""The life of a tracer: probes are armed, read in a thread of their own, and removed.

Invariants:
    tracer.F1. Whatever goes wrong in a tracer's thread is reported (`Counts.failure`), and its events are closed.
"""

from __future__ import annotations

import os
import select
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

from livedbg.linux import procfs
from livedbg.text.sanitize import clean_line


@dataclass(slots=True)
class Counts:
    """Counters of a tracer.

    Attributes:
        seen: all calls, wanted or not; where the kernel filters types, some may count twice as that begins.
        left_out: files with a function for which no debug register was left.
        failure: why the tracer has ended by itself, or "".
    """

    seen: int = 0
    lost: int = 0
    unread: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failure: str = ""


class Tracer(ABC):
    """Traces a process: after `start` its thread reads until `stop`."""

    def __init__(self, name: str = "livedbg-trace") -> None:
        self.counts = Counts()
        self._awake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def files(self) -> tuple[str, ...]:
        """The files in which functions are traced, as the process has them."""
        return ()

    def start(self) -> None:
        """Arm and read the probes. Blocks for some milliseconds, or tenths of a second.

        Raises:
            FunctionNotFound: no file of the process has such a function.
            OSError: the process is gone, or the kernel or our rights don't allow it (NoPerf, NoTracefs).
        """
        try:
            self._arm()
        except BaseException:
            self._disarm()
            os.close(self._awake)
            raise
        self._thread.start()

    def stop(self) -> None:
        """Remove the probes; returns when that is done."""
        self._over.set()
        if self._thread.ident is not None:
            os.eventfd_write(self._awake, 1)
            self._thread.join()
            os.close(self._awake)

    def _run(self) -> None:
        try:
            self._trace()
        except Exception as error:
            self.counts.failure = clean_line(f"{type(error).__name__}: {error}", 300)
        finally:
            self._disarm()
            if self.counts.failure:
                self._failed()

    def _wait(self, timeout_s: float, files: Iterable[int] = ()) -> None:
        """Wait for the end, for samples (readable `files`), or for some time."""
        poll = select.poll()
        for file in (self._awake, *files):
            poll.register(file, select.POLLIN)
        poll.poll(1000 * timeout_s)

    @abstractmethod
    def _arm(self) -> None:
        """Arm the probes. Raises as `start` does."""

    @abstractmethod
    def _trace(self) -> None:
        """Read the probes, in the thread, until `_over` is set; `_wait` returns then."""

    @abstractmethod
    def _disarm(self) -> None:
        """Close all that was opened."""

    def _failed(self) -> None:  # noqa: B027 - most have nothing to do then
        """Called in the thread after a failure, when all is closed."""


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """A process and, with `follow`, its descendants."""

    pid: int
    follow: bool = False

    def pids(self) -> list[int]:
        """Return the present processes; the first is the process itself."""
        found = [self.pid]
        if self.follow:
            for parent in found:
                found += [child for child in procfs.child_pids(parent) if child not in found]
        return found

    def threads(self) -> list[int]:
        """Return the threads of all of them."""
        tids: list[int] = []
        for pid in self.pids():
            try:
                tids += procfs.thread_ids(pid)
            except OSError:
                continue  # it has ended
        return tids
