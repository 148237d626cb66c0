"""The messages between a session and its unwinding process: msgpack, each preceded by its length.

The copied stacks of a request are in one file that the session writes, one behind the other, in the order of the
request.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from livedbg.linux.maps import Mapping
from livedbg.unwind.capture import ThreadCopy

LENGTH: Final = struct.Struct("<I")
"""What precedes each message: its length."""

MOST_BYTES: Final = 64 << 20
"""The longest message."""


class WireMapping(Struct, array_like=True, frozen=True):
    """A mapping; its path need not be valid text."""

    start: int
    end: int
    permissions: str
    offset: int
    device: str
    inode: int
    path: bytes
    deleted: bool

    @classmethod
    def of(cls, mapping: Mapping) -> WireMapping:
        return cls(*mapping[:6], os.fsencode(mapping.path), mapping.deleted)

    def mapping(self) -> Mapping:
        return Mapping(
            self.start,
            self.end,
            self.permissions,
            self.offset,
            self.device,
            self.inode,
            os.fsdecode(self.path),
            self.deleted,
        )


class Copied(Struct, array_like=True, frozen=True):
    """A thread, and the copied part of its stack, from `low` up to `high`.

    Attributes:
        registers: in the order of livedbg.linux.registers.
        doubted: the same with other values in the unknown registers: what differs between them is no value of a
            variable.
        guessed: the frame pointer is a guess.
    """

    tid: int
    low: int
    high: int
    registers: tuple[int, ...]
    doubted: tuple[tuple[int, ...], ...] = ()
    guessed: bool = False


class Request(Struct, array_like=True, frozen=True):
    """A request to unwind copied stacks.

    Attributes:
        stacks: path of the file with the stacks of the threads.
        mappings: of files that have code, and other executable ones.
        debug: use debug information, and not symbol tables alone.
    """

    pid: int
    stacks: str
    mappings: list[WireMapping]
    threads: list[Copied]
    debug: bool = True
    values: bool = False


class WireFrame(Struct, array_like=True, frozen=True):
    """A frame; unknown fields are None. `values` are `name=value` of local variables and arguments."""

    pc: int
    function: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    inlined: bool = False
    values: tuple[str, ...] = ()


class WireStack(Struct, array_like=True, frozen=True):
    """The stack of a thread; `places` are indexes into the frames of the reply, innermost first."""

    tid: int
    places: list[int]
    whole: bool


class Reply(Struct, array_like=True, frozen=True):
    """The unwound stacks; the first message, before any request, has nothing but an error."""

    error: str = ""
    frames: list[WireFrame] = []
    stacks: list[WireStack] = []


def packed(message: Struct) -> bytes:
    """Return a message preceded by its length."""
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body


def write_stacks(path: Path, threads: Sequence[ThreadCopy]) -> None:
    """Write the stacks of threads to a file that only we may read.

    Raises:
        OSError: the file can't be written.
    """
    path.touch(mode=0o600)
    with path.open("wb") as out:
        out.writelines(thread.stack for thread in threads)


class CopiedStacks:
    """Memory that holds only the copied stacks of the current request."""

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._stacks: list[bytes] = []

    def take(self, file: Path, threads: Sequence[Copied]) -> None:
        """Replace the stacks by the request's.

        Raises:
            OSError: the file can't be read.
            ValueError: it is cut short.
        """
        self.clear()
        stacks: dict[int, bytes] = {}
        with file.open("rb") as source:
            for thread in threads:
                stack = source.read(thread.high - thread.low)
                if len(stack) != thread.high - thread.low:
                    raise ValueError("the copied stacks are cut short")
                if len(stack) > len(stacks.get(thread.low, b"")):
                    stacks[thread.low] = stack
        self._lows = sorted(stacks)
        self._stacks = [stacks[low] for low in self._lows]

    def clear(self) -> None:
        self._lows, self._stacks = [], []

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of a stack.

        Raises:
            LookupError: they were not copied.
        """
        place = bisect_right(self._lows, address) - 1
        if place >= 0:
            start = address - self._lows[place]
            data = self._stacks[place][start : start + size]
            if len(data) == size:
                return data
        raise LookupError(f"{address:#x} was not copied")
