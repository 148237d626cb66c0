"""The greenlets of another process: where each is suspended, which run, in which thread. Read without a stop.

Methods raise OSError if the process is gone, unreadable, or changes too fast.

No list of greenlets exists. Each is an object whose type is `greenlet.greenlet` or a subclass, so they are found by
searching the process's memory for the addresses of these types, and believed only if the C++ object behind agrees. Only
present pages are read (livedbg.linux.memory).

Sources: src/greenlet/{TGreenlet,TPythonState,TStackState}.{hpp,cpp} of 3.1 to 3.5; checked with 3.5.6 on CPython 3.11,
3.12 and 3.13, and with 3.1.1, 3.2.4 and 3.3.0 on 3.12. greenlet links the frames of what it suspends past those that
lie on the C stack, and keeps the thread's `exc_info` in what it suspends: it is null only in the one that runs.

Invariants:
    greenlets.G1. An object is a greenlet only if the C++ object that it points to points back to it, and that of its
        main greenlet does so too.
    greenlets.G2. Frames are returned of suspended greenlets only.
    greenlets.S1. At most MOST_SEARCHED bytes are read by one search.
    greenlets.S2. After a search, its result is reused for a time 100 times as long as it took.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Set
from typing import Final

from msgspec import Struct, structs

from livedbg.cpython.heap import HeapReader
from livedbg.cpython.objects import is_pointer
from livedbg.cpython.threads import PyFrame, ThreadReader
from livedbg.linux import memory
from livedbg.linux.maps import parse_maps
from livedbg.linux.memory import is_heap, used_pieces
from livedbg.text.patterns import lazy_re

MOST_SEARCHED: Final = 256 << 20
"""Bytes that one search reads."""

_MOST_MAPPED: Final = 64 << 30  # bytes whose pages are looked for
_PIECE: Final = 64 << 10
_REST: Final = 100


class HeapSearch:
    """Searches the memory of one process for objects of some types."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._rests_until = 0.0
        self._last: tuple[list[int], bool] = ([], False)

    def find(self, types: Set[int]) -> tuple[list[int], bool]:
        """Return possible objects of some types, by address, and whether there may be more."""
        if time.monotonic() >= self._rests_until:
            began = time.thread_time()
            self._last = self._search(types)
            self._rests_until = time.monotonic() + _REST * (time.thread_time() - began)
        return self._last

    def _search(self, types: Set[int]) -> tuple[list[int], bool]:
        found: list[int] = []
        left, mapped = MOST_SEARCHED, _MOST_MAPPED
        for mapping in filter(is_heap, parse_maps(self._pid)):
            mapped -= mapping.end - mapping.start
            if mapped < 0:
                return found, True
            for start, size in used_pieces(self._pid, mapping, _PIECE):
                if size > left:
                    return found, True
                left -= size
                found += self._in(start, size, types)
        return found, False

    def _in(self, start: int, size: int, types: Set[int]) -> Iterator[int]:
        """Yield objects in a range: they begin at multiples of 16, and the pointer to the type is their second word."""
        try:
            data = memory.read(self._pid, start, size)
        except (ProcessLookupError, PermissionError):
            raise
        except OSError:
            return  # unmapped meanwhile
        words = memoryview(data).cast("Q")[1::2]
        if not types.isdisjoint(words):
            yield from (start + 16 * place for place, word in enumerate(words) if word in types)


MOST_GREENLETS: Final = 5_000
"""Greenlets of a process that are read."""

_KNOWN: Final = lazy_re(r"3\.[1-5]\.\d+")
_SUBCLASSES_AT: Final = 360  # PyTypeObject
_REFERENT_AT: Final = 16  # PyWeakReference
_MOST_TYPES: Final = 64
_IMPL_AT: Final = 32  # PyGreenlet: head, weakreflist, dict, pimpl
_FRAME_AT: Final = 24  # PyFrameObject: head, f_back, f_frame
_IMPL: Final = struct.Struct("<8x Q Q 32x Q Q Q Q 16x Q 56x Q 8x Q")
# Greenlet: vtable, _self, exception_state (exc_info, 2 words), switch_args (2), stack_state (start, stop, copy, saved,
# prev), python_state (context, top_frame, 3 words that differ by version, current_frame, 3 of the data stack);
# UserGreenlet: main, run, parent
_MAIN_STOP: Final = (1 << 64) - 1


class Greenlet(Struct, frozen=True):
    """A greenlet that has begun and has not ended.

    Attributes:
        parent: the greenlet that runs when it ends; 0 for a main greenlet.
        stack_at: where its C stack begins; 0 for a main greenlet.
        frames: innermost first; () while it runs, and if it is only in C code.
        stamp: changes when it runs.
    """

    address: int
    kind: str
    main: int
    parent: int
    running: bool
    stack_at: int
    frames: tuple[PyFrame, ...]
    stamp: tuple[int, ...]


class Greenlets(Struct, frozen=True):
    """The greenlets of a process; `cut`: there are more, or not all of its memory was searched."""

    found: tuple[Greenlet, ...] = ()
    cut: bool = False


def is_known(version: str) -> bool:
    """Return whether the layout of a version of greenlet is known."""
    return _KNOWN.fullmatch(version) is not None


class GreenletReader:
    """Reads the greenlets of one process."""

    def __init__(self, heap: HeapReader, reader: ThreadReader) -> None:
        self._heap = heap
        self._reader = reader
        self._search = HeapSearch(heap.pid)

    def read(self, roots: Iterable[int]) -> Greenlets:
        """Return all greenlets that have begun and not ended, by the addresses of the type `greenlet.greenlet`."""
        types: dict[int, str] = {}
        for root in roots:
            self._types(root, types)
        if not types:
            return Greenlets()
        places, cut = self._search.find(types.keys())
        found = self.again(places)
        return Greenlets(found[:MOST_GREENLETS], cut or len(found) > MOST_GREENLETS)

    def again(self, addresses: Iterable[int]) -> tuple[Greenlet, ...]:
        """Return the current state of the objects that are (still) greenlets."""
        states = list(self._states(list(addresses)))
        mains = {one.address for one, _ in states if one.main == one.address}
        suspended = {one.address: frame for one, frame in states if frame and one.main in mains}
        pointers = memory.read_many(self._heap.pid, [(frame + _FRAME_AT, 8) for frame in suspended.values()])
        starts = {
            address: int.from_bytes(pointer, "little")
            for address, pointer in zip(suspended, pointers, strict=True)
            if pointer is not None
        }
        frames = self._reader.frames_from(starts)
        found = ((one, tuple(frames.get(one.address, ()))) for one, _ in states if one.main in mains)
        return tuple(structs.replace(one, frames=own, stamp=(*one.stamp, *_marks(own))) for one, own in found)

    def _types(self, kind: int, found: dict[int, str]) -> None:
        if kind in found or len(found) >= _MOST_TYPES or not is_pointer(kind):
            return
        found[kind] = self._heap.objects.class_name(kind)
        (classes,) = self._heap.words(kind + _SUBCLASSES_AT, 1)
        for _, reference in self._heap.dict_items(classes, _MOST_TYPES) if self._heap.type_name(classes) else ():
            self._types(self._heap.words(reference + _REFERENT_AT, 1)[0], found)

    def _states(self, addresses: list[int]) -> Iterator[tuple[Greenlet, int]]:
        """Yield the greenlets at some addresses without their frames, and where the innermost one is, or 0."""
        heads = memory.read_many(self._heap.pid, [(address, _IMPL_AT + 8) for address in addresses])
        candidates: dict[int, tuple[str, int]] = {}
        for address, head in zip(addresses, heads, strict=True):
            impl = int.from_bytes(head[_IMPL_AT:], "little") if head is not None else 0
            if head is not None and is_pointer(impl):
                candidates[address] = self._heap.objects.type_name(head), impl
        data = memory.read_many(self._heap.pid, [(impl, _IMPL.size) for _, impl in candidates.values()])
        for (address, (kind, _)), raw in zip(candidates.items(), data, strict=True):
            if raw is None:
                continue
            own, exc_info, start, stop, copy, size, frame, main, parent = _IMPL.unpack(raw)
            if own == address and start and stop and is_pointer(main) and (not frame or is_pointer(frame)):
                is_main = main == address
                if is_main == (stop == _MAIN_STOP):
                    frame = frame if exc_info else 0
                    one = Greenlet(
                        address=address,
                        kind=kind,
                        main=main,
                        parent=0 if is_main else parent,
                        running=not exc_info,
                        stack_at=0 if is_main else stop,
                        frames=(),
                        stamp=(start, copy, size, frame),
                    )
                    yield one, frame


def _marks(frames: Iterable[PyFrame]) -> Iterator[int]:
    for frame in frames:
        yield frame.code.address
        yield frame.offset
        yield hash(frame.slots[: frame.code.locals_count])
