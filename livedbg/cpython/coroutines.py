"""Await chains: the coroutines from the outermost suspended one to the awaited object that is none.

A coroutine object has its frame inside. While it is suspended, its value stack is whole and ends at the frame's stack
top, and the last value is what it awaits (Objects/genobject.c, _PyGen_yf).

Sources: CPython Include/internal/pycore_frame.h, Objects/genobject.c of 3.11 to 3.13.

Invariants:
    coroutines.C1. Slots are returned of suspended coroutines only: a running one's value stack is unknown.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.cpython.heap import HeapReader
from livedbg.cpython.objects import Code, is_pointer

MOST_FRAMES: Final = 50
"""Coroutines of a chain that are followed."""

_STACK_TOP_AT: Final = 64
_STATE_BEFORE_FRAME: Final = 5
_GENERATORS: Final = frozenset({"coroutine", "generator", "async_generator"})
_HAS_INNER: Final = {  # what awaits something else, and where that is (Objects/genobject.c)
    "coroutine_wrapper": 16,
    "async_generator_asend": 16,
    "async_generator_athrow": 16,
    "anext_awaitable": 16,
}
_FUTURE_ITERATOR: Final = "_asyncio.FutureIter"


class CoroutineFrame(Struct, frozen=True):
    """A coroutine of a chain.

    Attributes:
        slots: local variables and the live value stack; () while it runs.
        running: it runs, or awaits nothing yet.
    """

    code: Code
    line: int
    slots: tuple[int, ...] = ()
    running: bool = False

    @property
    def stack(self) -> tuple[int, ...]:
        """Return the value stack, without the awaited object."""
        return self.slots[self.code.locals_count : -1]

    @property
    def where(self) -> str:
        """Return `worker() app.py:41`."""
        return f"{self.code.name}() {self.code.file.rpartition('/')[2]}:{self.line}"


class AwaitChain(NamedTuple):
    """An await chain, and the future at its end, or 0; `stamp` changes when any of its coroutines runs."""

    frames: tuple[CoroutineFrame, ...]
    future: int
    cut: bool
    stamp: tuple[int, ...]


def await_chain(heap: HeapReader, coroutine: int) -> AwaitChain:
    """Return the chain that begins with a coroutine; raise OSError if it is not readable."""
    frames: list[CoroutineFrame] = []
    stamp: list[int] = []
    at, future = coroutine, 0
    for _ in range(2 * MOST_FRAMES):
        kind = heap.type_name(at)
        if kind in _GENERATORS and len(frames) < MOST_FRAMES:
            frame, awaited, mark = _frame(heap, at)
            stamp += (at, *mark)
            if frame is None:
                break
            frames.append(frame)
            if not awaited:
                break
            at = awaited
        elif kind in _HAS_INNER:
            (at,) = heap.words(at + _HAS_INNER[kind], 1)
        elif kind == _FUTURE_ITERATOR:
            (future,) = heap.words(at + 16, 1)
            break
        else:
            break
    else:
        return AwaitChain(tuple(reversed(frames)), 0, True, tuple(stamp))
    return AwaitChain(tuple(reversed(frames)), future, len(frames) >= MOST_FRAMES, tuple(stamp))


def _frame(heap: HeapReader, coroutine: int) -> tuple[CoroutineFrame | None, int, tuple[int, ...]]:
    """Return the frame of a coroutine, its awaited object, and words that change when it runs."""
    layout = heap.objects.layout
    assert layout.tasks is not None
    at = layout.frame
    base = coroutine + layout.tasks.frame
    head = heap.words(base - 8, at.size // 8 + 1)
    raw = struct.pack(f"<{len(head)}Q", *head)
    (state,) = struct.unpack_from("<b", raw, 8 - _STATE_BEFORE_FRAME)
    code_at, instruction = (
        int.from_bytes(raw[8 + place : 16 + place], "little") for place in (at.code, at.instruction)
    )
    (top,) = struct.unpack_from("<i", raw, 8 + _STACK_TOP_AT)
    mark = (state & 0xFF, instruction, top & 0xFFFF_FFFF)
    code = heap.objects.code(code_at & ~7) if state <= 0 and is_pointer(code_at & ~7) else None
    if code is None:
        return None, 0, mark
    line = code.line(instruction - code.start)
    created = state == (-3 if layout.version >= (3, 13) else -2)
    if state == 0 or created or not code.locals_count < top <= code.slots:
        return CoroutineFrame(code, code.first_line if created else line, (), running=True), 0, mark
    slots = heap.words(base + at.size, top)
    return CoroutineFrame(code, line, slots), slots[-1], mark
