"""What all listeners have in common: their thread, what they count, and what they hand on.

Invariants:
    E1. Whatever goes wrong in a listener's thread is said (`Counts.failure`), and its events are given back.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from livedbg.adapters.exceptions.calls import Call
from livedbg.adapters.exceptions.python_frames import PyFrames
from livedbg.linux import procfs
from livedbg.probes.perf import Sample
from livedbg.text.sanitize import clean_line

__all__ = ["Counts", "Heard", "Hearing", "Nowhere", "family", "threads_of"]


class Nowhere(LookupError):
    """The process has no such function in any file that can be read."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A call that somebody wants to know of.

    Attributes:
        python: the Python frames that it is in or under; None where there are none.
    """

    sample: Sample
    call: Call
    python: PyFrames | None = None


@dataclass(slots=True)
class Counts:
    """What was heard so far.

    Attributes:
        seen: all calls, wanted or not; where types are sorted out by the kernel, some may count twice as that begins.
        lost: calls that the kernel could not hand over.
        unread: files that could not be searched.
        left_out: files with a function for which no debug register was left.
        failure: why the listener has ended by itself; "" while it has not.
    """

    seen: int = 0
    lost: int = 0
    unread: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failure: str = ""


class Hearing(ABC):
    """A listener: `start` it, and its thread hears until `stop`."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._awake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="livedbg-listen", daemon=True)

    @property
    def files(self) -> tuple[str, ...]:
        """The files in which functions are listened to, as the process has them."""
        return ()

    def start(self) -> None:
        """Set what is listened to, and listen. Blocks for some milliseconds, or tenths of a second.

        Raises:
            Nowhere: no file of the process has such a function.
            OSError: the process is gone, or the kernel or our rights don't allow it (NoPerf, NoTracefs).
        """
        try:
            self._set()
        except BaseException:
            self._close()
            os.close(self._awake)
            raise
        self._thread.start()

    def stop(self) -> None:
        """Take out what was set; returns when that is done."""
        self._over.set()
        if self._thread.ident is not None:
            os.eventfd_write(self._awake, 1)
            self._thread.join()
            os.close(self._awake)

    def _run(self) -> None:
        try:
            self._listen()
        except Exception as error:
            self.counts.failure = clean_line(f"{type(error).__name__}: {error}", 300)
        finally:
            self._close()

    @abstractmethod
    def _set(self) -> None:
        """Set what is listened to. Raises as `start` does."""

    @abstractmethod
    def _listen(self) -> None:
        """Hear, in the thread, until `_over` is set; `_awake` is readable then."""

    @abstractmethod
    def _close(self) -> None:
        """Give back all that was set."""


def family(pid: int, follow: bool) -> list[int]:
    """A process, and where they are followed, the children that it has now, with theirs."""
    found = [pid]
    if follow:
        for parent in found:
            found += [child for child in procfs.child_pids(parent) if child not in found]
    return found


def threads_of(pid: int, follow: bool) -> list[int]:
    """The threads of a process and, where they are followed, of its children."""
    tids: list[int] = []
    for one in family(pid, follow):
        try:
            tids += procfs.thread_ids(one)
        except OSError:
            continue  # it has ended
    return tids
