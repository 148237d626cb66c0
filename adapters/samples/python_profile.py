"""A profile of Python functions where the kernel takes no samples: the interpreter's memory is read now and then.

A thread counts when it can run and has used CPU time since the last look; what it calls outside of Python counts for
the Python line that called it.

Invariants:
    samples_python_profile.P1. A thread that waits when it is looked at has no sample, whatever it has used since.
    samples_python_profile.P2. Looking takes at most a tenth of a core.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from livedbg.adapters.samples.python_frames import PythonFrames
from livedbg.cpython.call_frames import PyFrames
from livedbg.linux import procfs
from livedbg.model import ThreadState

_REFRESH_S: Final = 0.25
_REST: Final = 9  # times the CPU time of a look that the pause after it lasts, at least


class PythonSample(NamedTuple):
    """One.

    Attributes:
        thread: whose.
        mono_ns: when.
        cpu_ns: CPU time that it represents.
        python: its frames; None where they could not be read, or it runs no Python.
    """

    thread: str
    mono_ns: int
    cpu_ns: int
    python: PyFrames | None


class PythonProfile:
    """Looks at threads until it is stopped.

    Args:
        threads: tid -> its process and its identifier; may be replaced at any time.
        give: takes the samples of each look, in this thread.
    """

    def __init__(self, threads: dict[int, tuple[int, str]], give: Callable[[list[PythonSample]], object]) -> None:
        self.threads = threads
        self._give = give
        self._stop = threading.Event()
        self._python = PythonFrames()
        self._used_ns: dict[int, int] = {}

    def stop(self) -> None:
        """End `run` soon. From any thread."""
        self._stop.set()

    def run(self, seconds: float, period_s: float) -> bool:
        """Look for some time.

        Args:
            seconds: how long.
            period_s: between two looks, at least.

        Returns:
            Whether there is an interpreter that can be read; it ends at once where there is none.
        """
        end_s = time.monotonic() + seconds
        refresh_s = 0.0
        while (now_s := time.monotonic()) < end_s and not self._stop.is_set():
            before_s = time.thread_time()
            if now_s >= refresh_s:
                self._python.refresh({pid for pid, _ in self.threads.values()})
                refresh_s = now_s + _REFRESH_S
                if not self._python.readable:
                    return False
            if seen := self._look():
                self._give(seen)
            self._stop.wait(max(period_s, _REST * (time.thread_time() - before_s)))  # P2
        return True

    def _look(self) -> list[PythonSample]:
        seen: list[PythonSample] = []
        used_ns: dict[int, int] = {}
        for tid, (pid, thread) in self.threads.items():
            with contextlib.suppress(OSError, ValueError):
                used_ns[tid] = _used_ns(pid, tid)
                ran_ns = used_ns[tid] - self._used_ns.get(tid, used_ns[tid])
                if ran_ns > 0 and procfs.read_stat(pid, tid).state is ThreadState.RUNNING:  # P1
                    places = self._python.places(pid, tid)
                    python = self._python.named(pid, places) if places else None
                    seen.append(PythonSample(thread, time.monotonic_ns(), ran_ns, python))
        self._used_ns = used_ns
        return seen


def _used_ns(pid: int, tid: int) -> int:
    """CPU time of a thread.

    Raises:
        OSError: it has ended.
        ValueError: the kernel does not count it.
    """
    return procfs.parse_schedstat(procfs.read_file(f"/proc/{pid}/task/{tid}/schedstat")).cpu_ns
