"""How far the loops of a Python thread have come, read from the iterators and counters in its frames.

A `for` loop keeps its iterator on the value stack of its frame until it ends. The iterators of built-in types have
their position inside, so that it can be read while the loop goes on.
Sources: CPython Objects/{rangeobject,iterobject,listobject,tupleobject,setobject,dictobject,enumobject,genobject}.c,
Python/bltinmodule.c (zip, map, filter) and Modules/itertoolsmodule.c of 3.11 to 3.14.

A reading proves nothing: the slot may be left from an earlier loop, and the memory may have changed while it was read.
Only several readings of the same iterator, one after the other, do.

Invariants:
    for_loops.E1. Of a thread that naps, and of the tasks of its event loop, only loops count that nothing but their own
        end ends, and none that is inside of another one: of a loop that polls, or that goes on for ever. Python's own
        library is left out. Where the source can't be read, or may have changed since the process began, no loop
        counts.
    for_loops.E2. A task of an event loop counts only if something is called at its end, other than the method of a set:
        what goes on beside a program, and nobody awaits, says nothing about it.
    for_loops.E3. A thread makes steps if each loop that it is in is steady (loop_source.X7), and the end of each `for`
        loop is known: a loop over a cycle, or a generator, may poll. So may the tasks of an event loop.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from livedbg.cpython.call_frames import FrameLocals
from livedbg.cpython.event_loops import EventLoops, LoopTask, callbacks, read_loops
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.loop_modules import LoopModules
from livedbg.cpython.loop_source import STANDARD_LIBRARY, SourceLoop
from livedbg.cpython.objects import Code, ObjectReader, is_pointer
from livedbg.cpython.threads import PyFrame, ThreadReader
from livedbg.linux import memory

_INNER_FRAMES: Final = 3  # generators inside generators that are followed
_MOST_OBJECTS: Final = 10_000  # of the value stacks of a thread: more are damaged memory
_MOST_TASKS: Final = 64  # of an event loop of which the loops are read
_RUNS_LOOP: Final = ".run_forever"
_SIZE_AT: Final = 16  # ob_size of a list or a tuple, length of a str
_ENDLESS: Final = 1 << 62

_SEQUENCES: Final = frozenset(  # index at 16, what is walked at 24
    {"list_iterator", "tuple_iterator", "str_iterator", "str_ascii_iterator", "bytes_iterator", "bytearray_iterator"}
)
_ENDLESS_BY_DESIGN: Final = frozenset({"itertools.repeat", "itertools.count", "callable_iterator"})
"""A loop over one of these polls, or runs until it is stopped."""

_RANGE, _ENUMERATE, _SET, _GENERATOR = "range_iterator", "enumerate", "set_iterator", "generator"
_REVERSED, _SLICE, _FILTER = "list_reverseiterator", "itertools.islice", "filter"
_DICTS: Final = frozenset({"dict_keyiterator", "dict_valueiterator", "dict_itemiterator"})
_TUPLES: Final = {"zip": 1, "map": 0}
"""Which word, from 16 on, has the tuple of iterators that another one walks."""

LoopsAt: TypeAlias = Callable[[str, int], Sequence[SourceLoop] | None]
"""The loops around a line of a file, outermost first; None if the file can't be read."""


class ForLoop(NamedTuple):
    """A loop that a thread is in.

    Attributes:
        code: of the function that has the loop.
        iterator: address of the iterator; of a `while` loop, an odd number that names its counter.
        position: rises by 1 with each iteration.
        total: the position at its end; None if the iterator does not know it.
    """

    code: Code
    iterator: int
    position: int
    total: int | None


class ForLoopReader:
    """Reads the loops of the threads of one process.

    Args:
        reader: reads its frames.
    """

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._objects: ObjectReader = reader.objects
        self._left = 0
        self._heap = HeapReader(reader.objects)
        self._locals = FrameLocals(self._heap)
        self._modules = LoopModules(self._heap)

    def loops(self, state: int) -> tuple[ForLoop, ...]:
        """Return the loops that a thread is in, outermost first.

        Args:
            state: address of its PyThreadState.

        Raises:
            OSError: the process is gone.
        """
        if self._reader.layout.free_threaded:  # objects have another head there
            return ()
        self._left = _MOST_OBJECTS
        frames = self._reader.frames_of([state])[state]
        found = [loop for frame in reversed(frames) for loop in self._of_frame(frame)]
        return tuple({loop.iterator: loop for loop in reversed(found)}.values())[::-1]  # of equal ones, the outermost

    def ending(self, state: int, source: LoopsAt) -> dict[int, tuple[ForLoop, ...]]:
        """Return the loops of a thread that only their own end ends, outermost first (E1).

        Those of the thread itself have the key 0, those of each task of its event loop the task's address.

        Args:
            source: returns the loops around a line of a file.

        Raises:
            OSError: the process is gone.
        """
        if self._reader.layout.free_threaded:
            return {}
        self._left = _MOST_OBJECTS
        frames = self._reader.frames_of([state])[state]
        found = {0: self._ending([(frame, frame.code.line(frame.offset)) for frame in reversed(frames)], source)}
        if any(frame.code.name.endswith(_RUNS_LOOP) for frame in frames):
            found |= {task.address: self._of_task(task, source) for task in self._tasks(state)}
        return {key: loops for key, loops in found.items() if loops}

    def steps(self, state: int, source: LoopsAt) -> tuple[Code, tuple[int, ...]] | None:
        """Return the innermost function of a thread in a steady loop, and where it is; None if it may wait (E3).

        Args:
            source: returns the loops around a line of a file.

        Raises:
            OSError: the process is gone.
        """
        if self._reader.layout.free_threaded:
            return None
        self._left = _MOST_OBJECTS
        frames = self._reader.frames_of([state])[state]
        if not frames or any(frame.code.name.endswith(_RUNS_LOOP) for frame in frames):
            return None
        places = [frames[0].code.address, frames[0].offset]
        within: Code | None = None
        for frame, loop, read in self._around([(one, one.code.line(one.offset)) for one in reversed(frames)], source):
            if loop is None or not loop.steady or (loop.is_for and all(one.total is None for one in read)):
                return None
            within = frame.code
            places += (one.position for one in read)
        return None if within is None else (within, tuple(places))

    def _tasks(self, state: int) -> list[LoopTask]:
        """Return the tasks of the event loop that a thread runs; none if there are many."""
        ident = self._objects.word(state + self._reader.layout.thread.ident)
        for interpreter in self._reader.interpreters():
            names = self._modules.names(interpreter)
            read = read_loops(self._heap, names, _MOST_TASKS) if names else EventLoops()
            mine = {loop.address for loop in read.loops.values() if loop.thread == ident}
            if mine and not read.cut:
                return [task for task in read.tasks if task.loop in mine and self._is_awaited(task)]
        return []

    def _is_awaited(self, task: LoopTask) -> bool:
        kinds = (
            (self._heap.type_name(one), self._heap.type_name(self._heap.bound_to(one)))
            for one in callbacks(self._heap, task.address)
        )
        return any(kind != ("builtin_function_or_method", "set") for kind in kinds)

    def _of_task(self, task: LoopTask, source: LoopsAt) -> tuple[ForLoop, ...]:
        frames = [one for one in reversed(task.chain.frames) if one.slots]  # it ends with what it awaits
        return self._ending([(PyFrame(one.code, 0, one.slots, len(one.slots) - 1), one.line) for one in frames], source)

    def _ending(self, frames: Sequence[tuple[PyFrame, int]], source: LoopsAt) -> tuple[ForLoop, ...]:
        found: list[ForLoop] = []
        for _, loop, read in self._around(frames, source):
            if loop is None or not loop.ends:
                break
            found += read
        return tuple(found)

    def _around(
        self, frames: Sequence[tuple[PyFrame, int]], source: LoopsAt
    ) -> Iterator[tuple[PyFrame, SourceLoop | None, list[ForLoop]]]:
        """Yield each loop that frames are in, outermost first, with what is read of it; None without a source."""
        for frame, line in frames:
            if STANDARD_LIBRARY.search(frame.code.file):
                continue
            around = source(frame.code.file, line)
            if around is None:
                yield frame, None, []
                return
            read = self._of_frame(frame) if around else []
            if len(read) != sum(loop.is_for for loop in around):
                read = []  # not known which is which
            for number, loop in enumerate(around):
                if loop.is_for:
                    yield frame, loop, read[:1]
                    read = read[1:]
                else:
                    key = frame.code.address + 2 * number + 1
                    yield frame, loop, self._counted(frame, loop, key) if loop.counter else []

    def _counted(self, frame: PyFrame, loop: SourceLoop, key: int) -> list[ForLoop]:
        """Return a `while` loop with the value of its counter; nothing if that can't be read."""
        values = self._locals.of(frame, {loop.counter, str(loop.bound)})
        position = self._heap.integer(values.get(loop.counter, 0))
        total = loop.bound if isinstance(loop.bound, int) else self._heap.integer(values.get(loop.bound, 0))
        if position is None:
            return []
        sign = -1 if loop.falls else 1
        return [ForLoop(frame.code, key, sign * position, None if total is None else sign * total)]

    def _of_frame(self, frame: PyFrame, depth: int = 0, consumer: Code | None = None) -> list[ForLoop]:
        found: list[ForLoop] = []
        pointers = [slot for slot in frame.stack if is_pointer(slot)][: self._left]
        self._left -= len(pointers)
        for pointer, head in zip(pointers, self._objects.heads(pointers), strict=True):
            if head is not None:
                found += self._of_iterator(consumer or frame.code, pointer, head, depth)
        return found

    def _of_iterator(self, code: Code, address: int, head: bytes, depth: int) -> list[ForLoop]:
        kind = self._objects.type_name(head)
        words = first, second, third, fourth = struct.unpack_from("<qqqq", head, 16)
        if kind == _RANGE:
            if self._reader.layout.version < (3, 12):  # index, start, step, length
                return [ForLoop(code, address, first, fourth)]
            if second == 0 or not 0 <= third < _ENDLESS:  # the next value, step, iterations to go
                return []
            position = first // second if second > 0 and first >= 0 else -third
            return [ForLoop(code, address, position, position + third)]
        if kind in _SEQUENCES:
            return [ForLoop(code, address, first, self._size(second))] if is_pointer(second) else []
        if kind == _ENUMERATE:
            endless = self._heap.type_name(second) in _ENDLESS_BY_DESIGN
            within = self._within(code, second, depth)
            position, total = (first, None) if within is None else (within.position, within.total)
            return [] if endless else [ForLoop(code, address, position, total)]
        if kind == _SET:  # the set, how many it had, the table's index, how many are left
            return [ForLoop(code, address, second - fourth, second)] if is_pointer(first) else []
        if kind in _DICTS:  # the dictionary, how many it had, the index of its table
            return [ForLoop(code, address, third, second)] if is_pointer(first) else []
        if kind == _REVERSED:  # the index, what is walked
            size = self._size(second) if is_pointer(second) else None
            return [ForLoop(code, address, size - 1 - first, size)] if size is not None and first >= 0 else []
        if kind == _SLICE and not is_pointer(first):
            return []
        if kind == _SLICE:  # what is walked, the next index, the end or -1
            endless = third < 0 and self._heap.type_name(first) in _ENDLESS_BY_DESIGN
            return [] if endless else [ForLoop(code, address, second, third if third > 0 else None)]
        if depth < _INNER_FRAMES and (at := _TUPLES.get(kind)) is not None and is_pointer(words[at]):
            return self._of_iterators(code, words[at], depth)
        if depth < _INNER_FRAMES and kind == _FILTER:
            inner = self._objects.head(second)
            return self._of_iterator(code, second, inner, depth + 1) if inner is not None else []
        if depth < _INNER_FRAMES and kind == _GENERATOR:
            return self._of_generator(code, address, depth)
        return []

    def _within(self, code: Code, inner: int, depth: int) -> ForLoop | None:
        """Return the loop of an iterator inside of another one, if its end is known: position and end of one time."""
        head = self._objects.head(inner) if depth < _INNER_FRAMES else None
        found = self._of_iterator(code, inner, head, depth + 1) if head is not None else []
        return next((one for one in found if one.total is not None), None)

    def _of_iterators(self, code: Code, items: int, depth: int) -> list[ForLoop]:
        """Return the loop of the first iterator in a tuple whose position is known."""
        words = memory.read_many(self._objects.pid, [(items + 24 + 8 * place, 8) for place in range(3)])
        pointers = [int.from_bytes(word, "little") for word in words if word is not None]
        pointers = [pointer for pointer in pointers if is_pointer(pointer)]
        for pointer, head in zip(pointers, self._objects.heads(pointers), strict=True):
            if head is not None and (found := self._of_iterator(code, pointer, head, depth + 1)):
                return found[:1]
        return []

    def _of_generator(self, consumer: Code, address: int, depth: int) -> list[ForLoop]:
        """Return the loops inside a generator, as those of the function that consumes it."""
        tasks = self._reader.layout.tasks
        frame = self._reader.frame_at(address + tasks.frame) if tasks is not None else None
        return self._of_frame(frame, depth + 1, consumer) if frame is not None else []

    def _size(self, sequence: int) -> int | None:
        (data,) = memory.read_many(self._objects.pid, [(sequence + _SIZE_AT, 8)])
        size = int.from_bytes(data, "little") if data is not None else 0
        return size if 0 < size < _ENDLESS else None
