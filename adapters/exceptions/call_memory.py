"""Reads a call from a process's memory and the registers of the thread that makes it, in the form of a probe event's.

What a probe event has the kernel read at the call itself (livedbg.adapters.exceptions.calls, ARGUMENTS) is read here
by ourselves: just after the call, or while the thread is stopped at it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from livedbg.linux import memory
from livedbg.model.catchpoints import Moment
from livedbg.probes.tracefs import Field

_TEXT: Final = 2048  # bytes of a message or argument that are read
_ADJUSTED, _TYPE = -8, -80  # from the unwind header: adjustedPtr and exceptionType (livedbg.adapters.exceptions.calls)


def read_call(pid: int, arguments: Sequence[int], moment: Moment) -> tuple[bytes, Mapping[str, Field]]:
    """What a probe event would have read of a call: its raw data and fields.

    Args:
        pid: the process.
        arguments: the first four that are passed in registers (System V ABI: rdi, rsi, rdx, rcx).
        moment: what is called.
    """
    numbers: dict[str, int] = {}
    texts: dict[str, bytes] = {}
    if moment is Moment.CALL:
        for number, argument in enumerate(arguments):
            numbers[f"a{number}"] = argument
            texts[f"s{number}"] = _text(pid, argument)
    elif moment is not Moment.RETHROW:
        thrown, type_info = arguments[0], arguments[1]
        if moment is Moment.CATCH:
            thrown, type_info = (_word(pid, arguments[0] + offset) for offset in (_ADJUSTED, _TYPE))
        value = _word(pid, thrown)
        numbers = {"type_info": type_info, "value": value}
        texts = {
            "type": _text(pid, _word(pid, type_info + 8)),
            "message": _text(pid, _word(pid, thrown + 8)),
            "text": _text(pid, value),
        }
    return _as_fields(numbers, texts)


def _as_fields(numbers: Mapping[str, int], texts: Mapping[str, bytes]) -> tuple[bytes, Mapping[str, Field]]:
    fields: dict[str, Field] = {}
    raw = bytearray()
    for name, number in numbers.items():
        fields[name] = Field(name, len(raw), 8, text=False)
        raw += struct.pack("<Q", number)
    start = len(raw) + 4 * len(texts)
    tail = b""
    for name, text in texts.items():
        fields[name] = Field(name, len(raw), 4, text=True)
        raw += struct.pack("<HH", start + len(tail), len(text))
        tail += text
    return bytes(raw) + tail, fields


def _word(pid: int, address: int) -> int:
    try:
        return int(struct.unpack("<Q", memory.read(pid, address, 8))[0])
    except (OSError, OverflowError):
        return 0


def _text(pid: int, address: int) -> bytes:
    if not address:
        return b""
    try:
        return memory.read_text(pid, address, _TEXT)
    except (OSError, OverflowError):
        return b""
