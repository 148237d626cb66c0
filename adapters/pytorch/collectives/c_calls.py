"""Find which method of a torch C++ object a Python frame is calling, and its arguments.

While a frame calls a C method, the function, the object and the arguments are adjacent on its value stack (CPython
Python/bytecodes.c, CALL, of 3.11 to 3.13). Words of earlier calls may lie above them.

Invariants:
    c_calls.C1. A call is returned only if the function precedes an object of torch's classes. Whether the frame is
        still in it must follow from the thread's native stack or its wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from livedbg.cpython.heap import HeapReader
from livedbg.cpython.objects import is_pointer
from livedbg.cpython.threads import PyThread
from livedbg.linux import memory

_BUILTIN: Final = "builtin_function_or_method"
_DEFINITION_AT: Final = 16  # m_ml of a PyCFunctionObject; its first word is the name (Include/cpython/methodobject.h)
_OWNERS: Final = ("torch._C._distributed_c10d.", "torch._C.Future", "torch._C._distributed_rpc.PyRRef")
_DEEPEST: Final = 24
_MOST_NAME: Final = 64


class MethodCall(Struct, frozen=True):
    """A method call.

    Attributes:
        owner: the class name of the object, without its module.
        words: addresses of the function, the object and the first argument, if there is one.
    """

    method: str
    owner: str
    words: tuple[int, ...]


class MethodCalls:
    """Reads method calls. Short-lived, since it caches functions."""

    def __init__(self, heap: HeapReader) -> None:
        self._heap = heap
        self._methods: dict[int, str] = {}

    def of(self, threads: Sequence[PyThread]) -> dict[int, MethodCall]:
        """Return the calls in innermost frames, by pthread_self(3); raise OSError if memory is unreadable."""
        stacks = {}
        for thread in threads:
            if thread.frames:
                frame = thread.frames[0]
                stacks[thread.ident] = frame.slots[frame.code.locals_count :][:_DEEPEST]
        words = [word for stack in stacks.values() for word in stack if is_pointer(word)]
        read = zip(words, self._heap.objects.heads(words), strict=True)
        heads = {word: head for word, head in read if head is not None}
        found = {}
        for ident, stack in stacks.items():
            for at, (function, owner) in enumerate(pairwise(stack)):
                if function in heads and owner in heads and (call := self._call(heads, stack[at : at + 3])) is not None:
                    found[ident] = call
        return found

    def _call(self, heads: dict[int, bytes], words: tuple[int, ...]) -> MethodCall | None:
        type_name = self._heap.objects.type_name
        owner = type_name(heads[words[1]])
        if not owner.startswith(_OWNERS) or type_name(heads[words[0]]) != _BUILTIN:
            return None
        method = self._method(words[0], heads[words[0]])
        return MethodCall(method, owner.rpartition(".")[2], words) if method else None

    def _method(self, function: int, head: bytes) -> str:
        if function not in self._methods:
            try:
                (name,) = self._heap.words(int.from_bytes(head[_DEFINITION_AT : _DEFINITION_AT + 8], "little"), 1)
                raw = memory.read_text(self._heap.pid, name, _MOST_NAME)
            except (OSError, OverflowError):
                return ""
            self._methods[function] = raw.decode("ascii", "replace")
        return self._methods[function]
