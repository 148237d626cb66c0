"""The interpreter's threads: GIL, thread states, frames. Read without a stop.

Methods raise OSError if the process is gone, has another image now, or changes during the read.

The lists are linked and change while they are read. All threads' frames are read level by level, one batch of
process_vm_readv(2) for each, so that 257 threads cost some tens of system calls.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, field

from livedbg.cpython.interpreter import Interpreter
from livedbg.cpython.layout import Layout
from livedbg.cpython.objects import Code, ObjectReader, is_pointer, word_in
from livedbg.linux import memory

_MOST_THREADS: Final = 16_384
_MOST_FRAMES: Final = 400
_SLOTS_AHEAD: Final = 56  # local variables read together with their frame
_C_STACK: Final = 3  # enum _frameowner: frames from here on belong to the interpreter's C code

# struct _gil_runtime_state (pycore_gil.h, 3.11 to 3.13): interval, last_holder, locked, switch_number, cond, …
_GIL_HEAD: Final = struct.Struct("<QQi4xQ")
_GIL_SIZE: Final = 208  # glibc, x86-64; aarch64's mutexes make it 224
_WEAK_OBJECT_AT: Final = 16

_STACK_TOP: Final = struct.Struct("<i")
_STACK_TOP_AT: Final = 64  # stacktop of _PyInterpreterFrame, 3.11 to 3.13: 3.14 has a pointer instead


class Gil(Struct, frozen=True):
    """A global interpreter lock; `holder` is the address of a PyThreadState, or None."""

    address: int
    holder: int | None
    switches: int

    def contains(self, address: int) -> bool:
        """Return whether a futex word belongs to its condition variables and mutexes."""
        return self.address <= address < self.address + _GIL_SIZE


class PyFrame(Struct, frozen=True):
    """A frame, and the words of its local variables and value stack.

    Attributes:
        top: how many of the slots live; -1 of the frame that runs, which keeps that in a register.
    """

    code: Code
    offset: int
    slots: tuple[int, ...]
    top: int = -1

    @property
    def where(self) -> str:
        """Return `worker() train.py:41`."""
        return f"{self.code.name}() {self.code.file.rpartition('/')[2]}:{self.code.line(self.offset)}"

    @property
    def stack(self) -> tuple[int, ...]:
        """The value stack; of the frame that runs, with what is left from before behind it."""
        return self.slots[self.code.locals_count : self.top if self.top >= 0 else None]

    @property
    def live(self) -> tuple[int, ...]:
        """Return the part of the value stack that surely lives."""
        depth = self.code.live_depth(self.offset)
        return self.slots[self.code.locals_count : self.code.locals_count + depth]


class PyThread(Struct):
    """A PyThreadState.

    Attributes:
        ident: `threading.get_ident()`.
        native_id: tid in the process's own PID namespace.
        join_lock: the lock that `Thread.join` of this thread waits for (up to 3.12), or 0.
    """

    address: int
    ident: int
    native_id: int
    gil: int
    join_lock: int = 0
    frames: list[PyFrame] = field(default_factory=list)


class ThreadReader:
    """Reads the threads of one interpreter, whose `layout` and `runtime` must be known."""

    def __init__(self, pid: int, interpreter: Interpreter) -> None:
        if interpreter.layout is None or interpreter.runtime is None:
            raise ValueError("no layout is known for this interpreter")
        self.pid = pid
        self.layout: Layout = interpreter.layout
        self.runtime: int = interpreter.runtime
        self.objects = ObjectReader(pid, self.layout)

    def gils(self) -> list[Gil]:
        """Return the GILs: one for each interpreter that has its own."""
        if self.layout.free_threaded:
            return []
        addresses = dict.fromkeys(self._gil_of(interpreter) for interpreter in self.interpreters())
        found = []
        for address in addresses:
            _, holder, locked, switches = _GIL_HEAD.unpack(memory.read(self.pid, address, _GIL_HEAD.size))
            found.append(Gil(address, holder if locked == 1 and holder else None, switches))
        return found

    def threads(self) -> list[PyThread]:
        """Return all thread states with their frames."""
        at = self.layout.thread
        size = max(at.next, at.ident, at.native_id, at.frame, at.on_delete_data or 0) + 8
        found: dict[int, PyThread] = {}
        frame_at: dict[int, int] = {}
        gils = {} if self.layout.free_threaded else {one: self._gil_of(one) for one in self.interpreters()}
        for interpreter, address, head in self._states(size):
            gil = gils.get(interpreter, 0)
            thread = PyThread(address, word_in(head, at.ident), word_in(head, at.native_id), gil)
            if at.on_delete_data is not None:
                thread.join_lock = self._join_lock(word_in(head, at.on_delete_data))
            found[address] = thread
            frame_at[address] = word_in(head, at.frame)
        for address, frames in self.frames_from(self._innermost(frame_at)).items():
            found[address].frames = frames
        return list(found.values())

    def frames_of(self, states: Iterable[int]) -> dict[int, list[PyFrame]]:
        """Return the frames of some threads, innermost first, by the addresses of their PyThreadState.

        Raises:
            OSError: the process is gone.
        """
        frame_at = {state: self.objects.word(state + self.layout.thread.frame) for state in states}
        found: dict[int, list[PyFrame]] = {state: [] for state in frame_at}
        return found | self.frames_from(self._innermost(frame_at))

    def frame_at(self, address: int) -> PyFrame | None:
        """Return the frame at an address, such as that of a suspended generator; None if there is none."""
        (head,) = memory.read_many(self.pid, [(address, self.layout.frame.size)])
        return self._frame(address, head) if head is not None else None

    def _innermost(self, frame_at: dict[int, int]) -> dict[int, int]:
        """Return the address of each thread's innermost frame, which up to 3.12 is behind the _PyCFrame."""
        at = self.layout.thread.cframe
        if at is None:
            return frame_at
        places = [(address, pointer + at) for address, pointer in frame_at.items() if pointer]
        heads = memory.read_many(self.pid, [(place, 8) for _, place in places])
        return {address: word_in(head, 0) for (address, _), head in zip(places, heads, strict=True) if head is not None}

    def states(self) -> dict[int, int]:
        """Return the addresses of the thread states, by tid in the process's own PID namespace."""
        at = self.layout.thread.native_id
        states = self._states(max(self.layout.thread.next, at) + 8)
        return {word_in(head, at): address for _, address, head in states}

    def _states(self, size: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield the interpreter, the address and the first bytes of each PyThreadState."""
        seen: set[int] = set()
        for interpreter in self.interpreters():
            address = self.objects.word(interpreter + self.layout.threads_head)
            while address and address not in seen and len(seen) < _MOST_THREADS:
                seen.add(address)
                head = memory.read(self.pid, address, size)
                yield interpreter, address, head
                address = word_in(head, self.layout.thread.next)

    def interpreters(self) -> list[int]:
        found: list[int] = []
        address = self.objects.word(self.runtime + self.layout.interpreters_head)
        while address and address not in found and len(found) < 256:
            found.append(address)
            address = self.objects.word(address + self.layout.interpreter_next)
        return found

    def _gil_of(self, interpreter: int) -> int:
        if self.layout.gil_in_runtime is not None:
            return self.runtime + self.layout.gil_in_runtime
        return self.objects.word(interpreter + self.layout.gil_pointer)

    def _join_lock(self, weak_reference: int) -> int:
        if not is_pointer(weak_reference):
            return 0
        try:
            return self.objects.word(weak_reference + _WEAK_OBJECT_AT)
        except OSError:
            return 0

    def frames_from(self, frame_at: dict[int, int]) -> dict[int, list[PyFrame]]:
        """Return the stacks that begin with some innermost frames, given by any keys, innermost first."""
        at = self.layout.frame
        found: dict[int, list[PyFrame]] = {key: [] for key in frame_at}
        for _ in range(_MOST_FRAMES):
            level = [(key, frame) for key, frame in frame_at.items() if is_pointer(frame)]
            if not level:
                break
            data = memory.read_many(self.pid, [(frame, at.size + 8 * _SLOTS_AHEAD) for _, frame in level])
            frame_at = {}
            for (key, address), head in zip(level, data, strict=True):
                if head is None:  # at the end of a mapping
                    (head,) = memory.read_many(self.pid, [(address, at.size)])  # noqa: PLW2901
                    if head is None:
                        continue
                frame_at[key] = word_in(head, at.previous)
                frame = self._frame(address, head)
                if frame is not None:
                    found[key].append(frame)
        return found

    def _frame(self, address: int, head: bytes) -> PyFrame | None:
        at = self.layout.frame
        if head[at.owner] >= _C_STACK:
            return None
        code = self.objects.code(word_in(head, at.code) & ~7)
        if code is None:
            return None
        if code.slots * 8 + at.size > len(head):
            (head_or_none,) = memory.read_many(self.pid, [(address, at.size + 8 * code.slots)])
            if head_or_none is None:
                return None
            head = head_or_none
        slots = struct.unpack_from(f"<{code.slots}Q", head, at.size)
        if self.layout.lock_word:  # from 3.14 on, references are tagged in their low bits
            slots = tuple(slot & ~7 for slot in slots)
        top = -1 if self.layout.lock_word else _STACK_TOP.unpack_from(head, _STACK_TOP_AT)[0]
        return PyFrame(code, word_in(head, at.instruction) - code.start, slots, top)
