"""What a submission of the Vulkan driver runs: the commands of its command buffer, with the names of the dispatches.

A submission (runtime/src/iree/hal/drivers/vulkan/queue.c) points to a command buffer (command_buffer.c): a chain of
blocks of records, each with its length and its type. The record of a dispatch has the executable, and its entry of the
executable's table of pipelines (executable.h), which has the handle of the pipeline and the name of the function.

Invariants:
    iree_submissions.V1. A command buffer is read whole or not at all: its records fill its blocks, and each pipeline is
        in the table of its executable.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.adapters.iree.live.image import Image
from livedbg.adapters.iree.live.libraries import Dispatch
from livedbg.adapters.iree.live.recordings import Command, Recording
from livedbg.adapters.iree.live.runtime_files import Runtime
from livedbg.text.sanitize import clean_line

__all__ = ["read_submissions"]

_BUFFER: Final = struct.Struct("<2Q128x2Q")  # references, table of functions, first block at 144, last block
_BLOCK: Final = struct.Struct("<3Q")  # next, bytes used, bytes
_DATA: Final = 32  # of a block
_RECORD: Final = struct.Struct("<QI4x")  # bytes, type
_RUN: Final = struct.Struct("<2Q")  # executable, pipeline: behind the head of a dispatch's record
_EXECUTABLE: Final = struct.Struct("<2Q72x2Q")  # references, table of functions; 88: count and address of pipelines
_PIPELINE: Final = struct.Struct("<Q112x2Q24x")  # handle; 120: name and its length
_FILL, _UPDATE, _COPY, _DISPATCH, _BARRIER, _LAST = 0, 1, 2, 3, 4, 6
_KINDS: Final = {_FILL: "fill", _UPDATE: "update", _COPY: "copy"}
_MOST_BLOCKS: Final = 256
_MOST_PIPELINES: Final = 4096
_LARGEST: Final = 1 << 20
_LONGEST: Final = 512


class _Strange(Exception):
    """It is no command buffer, or one of another layout."""


def read_submissions(
    image: Image, buffers: Sequence[int], runtime: Runtime
) -> tuple[dict[int, Recording], dict[int, Dispatch]]:
    """The recordings of some command buffers by their address, and their dispatches by the handle of the pipeline.

    The address of such a dispatch is that of its entry in the executable's table.
    """
    recordings: dict[int, Recording] = {}
    pipelines: dict[int, Dispatch] = {}
    for buffer in buffers:
        own: dict[int, Dispatch] = {}
        try:
            commands = tuple(_commands(image, buffer, runtime, own))
        except _Strange:
            continue
        if commands:
            recordings[buffer] = Recording(commands)
            pipelines |= own
    return recordings, pipelines


def _commands(image: Image, buffer: int, runtime: Runtime, pipelines: dict[int, Dispatch]) -> Iterator[Command]:
    head = image.unpack(_BUFFER, buffer)
    if head is None or not _is_object(head, runtime):
        raise _Strange
    block, seen, region, index = head[2], set[int](), 0, 0
    while block:
        fields = image.unpack(_BLOCK, block)
        if fields is None or block in seen or len(seen) >= _MOST_BLOCKS or not fields[1] <= fields[2] <= _LARGEST:
            raise _Strange
        seen.add(block)
        for kind, data in _records(image.bytes_at(block + _DATA, fields[1]) or b"", fields[1]):
            if kind == _BARRIER:
                region += 1
            elif kind in _KINDS:
                yield Command(region, _KINDS[kind], index)
            elif kind == _DISPATCH:
                handle, dispatch = _dispatch(image, data, runtime)
                pipelines[handle] = dispatch
                yield Command(region, "dispatch", index, dispatch)
            index += 1
        block = fields[0]


def _records(data: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Type and payload of each."""
    at = 0
    if len(data) < size:
        raise _Strange
    while at < size:
        if at + _RECORD.size > size:
            raise _Strange
        length, kind = _RECORD.unpack_from(data, at)
        if not _RECORD.size <= length <= size - at or length % 16 or kind > _LAST:
            raise _Strange
        yield kind, data[at + _RECORD.size : at + length]
        at += length


def _dispatch(image: Image, data: bytes, runtime: Runtime) -> tuple[int, Dispatch]:
    """The handle of its pipeline, and its name."""
    if len(data) < _RUN.size:
        raise _Strange
    executable, entry = _RUN.unpack_from(data)
    fields = image.unpack(_EXECUTABLE, executable)
    if fields is None or not _is_object(fields, runtime) or not 0 < fields[2] <= _MOST_PIPELINES:
        raise _Strange
    ordinal, rest = divmod(entry - fields[3], _PIPELINE.size)
    pipeline = image.unpack(_PIPELINE, entry)
    if rest or not 0 <= ordinal < fields[2] or pipeline is None or not 0 < pipeline[2] <= _LONGEST:
        raise _Strange
    name = image.bytes_at(pipeline[1], pipeline[2])
    if not pipeline[0] or name is None or not name.isascii():
        raise _Strange
    return pipeline[0], Dispatch(entry, ordinal, clean_line(name.decode("ascii")), device="vulkan")


def _is_object(fields: tuple[int, ...], runtime: Runtime) -> bool:
    """Whether it begins like one of the runtime's objects: few references, and functions in the runtime's file."""
    return 0 < fields[0] < 1 << 20 and runtime.start <= fields[1] < runtime.end
