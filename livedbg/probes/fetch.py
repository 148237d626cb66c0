"""What a probe event fetches as text, in bounded pieces, and how the pieces are put together again.

The kernel has a type `string`, but its length is bounded by nothing that we could set: where the strings of one event
come to more than a page, Linux 6.18 warns in the host's log (`prepare_uprobe_buffer`, kernel/trace/trace_uprobe.c), and
a host with panic_on_warn goes down. So text is fetched as arrays of words (Documentation/trace/uprobetracer.rst,
"Types"), 64 of them at most in each.

A word costs the target some 0.1 µs, one that can't be read 0.6 µs: what may be no pointer is best followed not at all.

Of an argument `+3(+2(+1(REGISTER)))` the last read gives zeros where nothing can be read; where an earlier one fails,
the argument keeps what an earlier event of that CPU had there (process_fetch_insn_bottom, kernel/trace/
trace_probe_tmpl.h; seen on Linux 6.18).

Invariants:
    fetch.F1. An event's size is known when it is defined, whatever the target has in memory.
    fetch.F2. A value behind a pointer that was fetched too is not used where that pointer is zero: the value may be an
        earlier event's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from livedbg.linux import memory
from livedbg.probes.tracefs import Field

_WORD: Final = 8
_PIECE: Final = 64  # MAX_ARRAY_LEN, kernel/trace/trace_probe.h
_NAME: Final = re.compile(r"(?P<name>\w+)_p\d+")


def pieces(name: str, pointer: str, size: int) -> tuple[str, ...]:
    """The arguments of a definition that fetch the memory that something points to.

    Args:
        name: under which `values` gives its bytes.
        pointer: what the kernel is to follow, in its language.
        size: in bytes; a multiple of 8.
    """
    found = []
    for number, start in enumerate(range(0, size, _PIECE * _WORD)):
        words = min(_PIECE, (size - start) // _WORD)
        found.append(f"{name}_p{number}=+{start}({pointer}):x64[{words}]")
    return tuple(found)


def values(fields: Mapping[str, Field], raw: bytes) -> dict[str, int | bytes]:
    """The fields of an event; what was fetched in pieces is one value."""
    found: dict[str, int | bytes] = {}
    parts: dict[str, list[bytes]] = {}
    for field, whole in zip(fields.values(), _wholes(tuple(fields)), strict=True):
        if whole is None:
            found[field.name] = field.read(raw)
        else:
            parts.setdefault(whole, []).append(raw[field.offset : field.offset + field.size])
    found.update({name: b"".join(some) for name, some in parts.items()})
    return found


@lru_cache(maxsize=64)
def _wholes(names: tuple[str, ...]) -> tuple[str | None, ...]:
    """Of which value each field is a piece; None for those that are none."""
    return tuple(part["name"] if (part := _NAME.fullmatch(name)) else None for name in names)


def text_at(pid: int, address: int, fetched: bytes, most: int) -> bytes:
    """A text that ends with a NUL, of which the beginning was fetched.

    Args:
        pid: the process.
        address: where it is; 0 for not known.
        fetched: its beginning.
        most: bytes that are wanted.

    Returns:
        All of it, where its end was fetched or it is still there; else its beginning.
    """
    text, nul, _ = fetched.partition(b"\0")
    if nul or not address or len(text) >= most:
        return text[:most]
    try:
        now = memory.read_text(pid, address, most)
    except (OSError, OverflowError):
        return text
    return now if now.startswith(text) else text
