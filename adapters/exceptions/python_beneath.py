"""The Python frames that lie beneath a call of native code, such as a throw.

The kernel reads the frames of the thread that took the GIL last. A thread that gave the GIL up before it called native
code (as torch's operators do) is still that one, unless another has taken it since; then its frames are read from
memory just after the call.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from livedbg.adapters.exceptions.bounded import Newest
from livedbg.adapters.exceptions.python_frames import CallFrames, PyFrames, words_of
from livedbg.adapters.exceptions.python_probe import beneath_arguments, same_thread
from livedbg.adapters.python.interpreter import Interpreter, find_interpreter
from livedbg.adapters.python.objects import ObjectReader
from livedbg.adapters.python.threads import ThreadReader
from livedbg.linux.perf import Sample

__all__ = ["PythonBeneath"]

_PROCESSES: Final = 256
_THREADS: Final = 1024
_AGAIN_NS: Final = 50_000_000  # a thread's frames are read from memory no more often


class PythonBeneath:
    """Finds them.

    Args:
        pid: the process; those that it starts have their frames read too, where they are forks of it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._interpreter: Interpreter | None = None
        self._frames: Newest[int, tuple[ThreadReader, CallFrames]] = Newest(_PROCESSES)
        self._late: Newest[tuple[int, int], tuple[int, PyFrames | None]] = Newest(_THREADS)

    def arguments(self) -> tuple[str, ...]:
        """What the kernel is to read at a call; () where there is no Python that it can be read of."""
        try:
            interpreter = find_interpreter(self._pid)
            if interpreter is None or interpreter.layout is None or interpreter.runtime is None:
                return ()
            gils = ThreadReader(self._pid, interpreter).gils()
        except OSError:
            return ()
        if not gils:  # free-threaded, or not begun
            return ()
        self._interpreter = interpreter
        return beneath_arguments(interpreter.layout, gils[0].address)

    def words(self, sample: Sample, values: Mapping[str, int | bytes]) -> tuple[int, ...]:
        """What tells the Python frames of a call from those of others, as far as the kernel read them."""
        return words_of(values) if same_thread(sample, values.get("tid")) else ()

    def of(self, sample: Sample, values: Mapping[str, int | bytes]) -> PyFrames | None:
        """The frames, and whether they are whole and were so at the call; None where there are none."""
        if self._interpreter is None:
            return None
        known = self._frames.get(sample.pid)
        if known is None:
            reader = ThreadReader(sample.pid, self._interpreter)
            known = reader, CallFrames(ObjectReader(sample.pid, reader.layout))
            self._frames[sample.pid] = known
        reader, frames = known
        if same_thread(sample, values.get("tid")):
            return frames.of(values) if words_of(values) else None
        return self._read_late(sample, reader, frames)

    def _read_late(self, sample: Sample, reader: ThreadReader, frames: CallFrames) -> PyFrames | None:
        key = sample.pid, sample.tid
        read_ns, found = self._late.get(key, (0, None))
        now_ns = time.monotonic_ns()
        if now_ns - read_ns > _AGAIN_NS:
            try:
                states = reader.states()
            except OSError:
                states = {}
            state = next((state for tid, state in states.items() if same_thread(sample, tid)), None)
            found = frames.now(state) if state is not None else None
            self._late[key] = now_ns, found
        return found
