"""Whether a target is as if nobody had ever touched it: it runs, counts on, is nobody's tracee, and its code is that
of its files."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Final

from livedbg.linux.elf import mapped_file
from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import read_stat, status_fields, thread_ids
from livedbg.model import ThreadState

COUNTERS: Final = ("heartbeat", "runtime_error", "sold_out", "closed", "number", "forks")
_STANDING: Final = (ThreadState.STOPPED, ThreadState.TRACED)


def counters(file: Path) -> dict[str, int]:
    """What tests/targets/thrower.cpp has counted."""
    data = file.read_bytes()[: 8 * len(COUNTERS)]
    return dict(zip(COUNTERS, struct.unpack(f"<{len(COUNTERS)}Q", data), strict=True))


def counts_on(file: Path, names: tuple[str, ...] = COUNTERS, deadline_s: float = 10.0) -> bool:
    """Whether each counter moves within a time."""
    first, end = counters(file), time.monotonic() + deadline_s
    while any(counters(file)[name] == first[name] for name in names):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def untouched(pid: int) -> bool:
    """Whether no thread is traced or stands."""
    try:
        return all(
            status_fields(pid, tid)["TracerPid"] == "0" and read_stat(pid, tid).state not in _STANDING
            for tid in thread_ids(pid)
        )
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread that ended meanwhile: look again


def changed_code(pid: int) -> list[str]:
    """The mapped code that differs from its file."""
    found = []
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        for mapping in parse_maps(pid):
            if not mapping.executable or not mapping.path.startswith("/"):
                continue
            live = os.pread(memory, mapping.end - mapping.start, mapping.start)
            with mapped_file(pid, mapping).open("rb") as file:
                file.seek(mapping.offset)
                kept = file.read(len(live))
            if live[: len(kept)] != kept:
                found.append(mapping.path)
    finally:
        os.close(memory)
    return found
