"""Python frames of running threads, read from the interpreter's memory as soon as a sample has arrived.

Invariants:
    samples_python.Y1. Python frames go with a sample only if its thread has run for at most `NEAR_NS` since: later
        ones are of other functions.
"""

from __future__ import annotations

from typing import Final

from livedbg.cpython.call_frames import CallFrames, PyFrames, PyPlace
from livedbg.cpython.for_loops import ForLoop, ForLoopReader
from livedbg.cpython.interpreter import find_interpreter
from livedbg.cpython.loop_source import Sources
from livedbg.cpython.objects import Code, ObjectReader
from livedbg.cpython.probe_arguments import own_tid
from livedbg.cpython.threads import ThreadReader
from livedbg.linux import procfs
from livedbg.model import Frame
from livedbg.state.stacks import interpreters_own, merge_frames, runs_python
from livedbg.unwind.unwound import Unwound

NEAR_NS: Final = 500_000
"""CPU time of a thread between its sample and the read of its frames, at most."""

UNREAD: Final = Frame("(Python, not read in time)", language="python")
"""The frame that is shown for Python frames of a sample that were read too late."""

PYTHON: Final = Frame("(Python)", language="python")
"""The frame that is shown for Python frames that nobody read."""


class PythonFrames:
    """Reads the Python frames of threads of several processes. Not thread-safe."""

    def __init__(self) -> None:
        self._readers: dict[int, tuple[ThreadReader, CallFrames, ForLoopReader] | None] = {}
        self._states: dict[int, dict[int, int]] = {}
        self._sources: dict[int, Sources] = {}

    @property
    def readable(self) -> bool:
        """True if some process has a readable interpreter."""
        return any(reader is not None for reader in self._readers.values())

    def refresh(self, pids: set[int]) -> None:
        """Find the interpreters of processes, and their threads."""
        for pid in self._readers.keys() - pids:
            del self._readers[pid]
            self._sources.pop(pid, None)
        for pid in pids:
            self._states.pop(pid, None)
            try:
                reader = self._readers.get(pid) or self._found(pid)
                self._readers[pid] = reader
                if reader is not None:
                    self._states[pid] = reader[0].states()
            except OSError:  # it has ended, or may not be read
                self._readers[pid] = None

    def places(self, pid: int, tid: int) -> tuple[PyPlace, ...]:
        """Return where the frames of a thread are now; empty if it runs no Python."""
        reader, state = self._readers.get(pid), self._states.get(pid, {}).get(own_tid(pid, tid))
        return reader[1].places(state) if reader is not None and state is not None else ()

    def loops(self, pid: int, tid: int) -> tuple[ForLoop, ...]:
        """Return the `for` loops that a thread is in, outermost first.

        Raises:
            OSError: the process is gone.
        """
        reader, state = self._readers.get(pid), self._states.get(pid, {}).get(own_tid(pid, tid))
        return reader[2].loops(state) if reader is not None and state is not None else ()

    def ending_loops(self, pid: int, tid: int, *, asleep: bool) -> dict[int, tuple[ForLoop, ...]] | None:
        """Return the loops of a thread that only their own end ends (ForLoopReader.ending).

        None if it was to be `asleep`, and ran meanwhile.

        Raises:
            OSError: the process is gone.
        """
        reader, state = self._readers.get(pid), self._states.get(pid, {}).get(own_tid(pid, tid))
        if reader is None or state is None:
            return {}
        before = procfs.read_file(f"/proc/{pid}/task/{tid}/schedstat")
        loops = reader[2].ending(state, self._sources.setdefault(pid, Sources(pid)).loops)
        return loops if procfs.read_file(f"/proc/{pid}/task/{tid}/schedstat") == before or not asleep else None

    def steps(self, pid: int, tid: int) -> tuple[Code, tuple[int, ...]] | None:
        """Return the innermost function of a thread in steady loops, and where it is (ForLoopReader.steps).

        Raises:
            OSError: the process is gone.
        """
        reader, state = self._readers.get(pid), self._states.get(pid, {}).get(own_tid(pid, tid))
        if reader is None or state is None:
            return None
        return reader[2].steps(state, self._sources.setdefault(pid, Sources(pid)).loops)

    def named(self, pid: int, places: tuple[PyPlace, ...]) -> PyFrames | None:
        """Return the frames at places read a moment ago; None if one of them was no frame."""
        reader = self._readers.get(pid)
        found = reader[1].named(places) if reader is not None else None
        return found if found is not None and found.whole else None

    @staticmethod
    def _found(pid: int) -> tuple[ThreadReader, CallFrames, ForLoopReader] | None:
        interpreter = find_interpreter(pid)
        if interpreter is None or interpreter.layout is None or interpreter.runtime is None:
            return None
        reader = ThreadReader(pid, interpreter)
        return reader, CallFrames(ObjectReader(pid, interpreter.layout)), ForLoopReader(reader)


def with_python(native: Unwound | None, python: PyFrames | None, unread: Frame = UNREAD) -> tuple[Frame, ...]:
    """Merge a sample's native and Python stack: Python functions replace the interpreter's own frames.

    Args:
        native: None if it could not be unwound.
        python: None if there are no Python frames, or they were read too late.
        unread: the frame shown for unknown Python frames.
    """
    if native is None:
        return python.frames if python is not None else ()
    if not runs_python(native.frames):
        if python is None or native.whole:  # a thread that has left Python
            return native.frames
        return merge_frames(python.frames, interpreters_own(native.frames), python.runs)
    meant = python if python is not None else PyFrames((unread,), whole=False)
    return merge_frames(meant.frames, interpreters_own(native.frames), meant.runs)
