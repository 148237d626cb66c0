"""Memory of another process: reads by process_vm_readv(2), in batches, without stopping it.

A batch costs one system call per 512 ranges. The kernel ends a batch at the first range that it can't read, so a short
batch goes on after the bad range (process_vm_readv(2), "partial transfers apply at the granularity of iovec elements").

Present pages come from `/proc/PID/pagemap`: reading a page that was never used would map it.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from livedbg.linux.maps import Mapping
from livedbg.linux.procfs import living_task

MAX_TEXT: Final = 4096
"""Longest text that `read_text` reads."""

_BATCH: Final = 512  # at most IOV_MAX = 1024 (limits.h)

_libc = ctypes.CDLL(None, use_errno=True)
_libc_held = ctypes.PyDLL(None, use_errno=True)


class _IoVec(ctypes.Structure):
    """struct iovec (sys/uio.h)."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_readv, _readv_held = _libc.process_vm_readv, _libc_held.process_vm_readv
for _call in (_readv, _readv_held):
    _call.restype = ctypes.c_ssize_t
    _call.argtypes = (
        ctypes.c_int,
        ctypes.POINTER(_IoVec),
        ctypes.c_ulong,
        ctypes.POINTER(_IoVec),
        ctypes.c_ulong,
        ctypes.c_ulong,
    )


def read(pid: int, address: int, size: int) -> bytes:
    """Return `size` bytes at `address` of a process.

    Raises:
        OSError: EFAULT (not all of it is mapped), EPERM or ESRCH.
    """
    data = _transfer(pid, [(address, size)])
    if len(data) != size:
        raise OSError(14, f"only {len(data)} of {size} bytes are mapped at {address:#x}")
    return data


def read_into(pid: int, address: int, size: int, buffer: ctypes.Array[ctypes.c_char]) -> int:
    """Read into a buffer of ours; return the number of bytes, less than `size` if the memory ends before.

    Holds the GIL: while a target is stopped, there must be no wait for the interpreter.

    Raises:
        OSError: EFAULT (nothing is mapped there), EPERM or ESRCH.
    """
    local = _IoVec(ctypes.addressof(buffer), min(size, len(buffer)))
    remote = _IoVec(address, min(size, len(buffer)))
    count: int = _readv_held(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    if count < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return count


def read_many(pid: int, requests: Sequence[tuple[int, int]]) -> list[bytes | None]:
    """Read (address, size) ranges at once; return their bytes, None for those that can't be read in full.

    Raises:
        PermissionError: the kernel doesn't let us read this process.
        ProcessLookupError: the process is gone.
    """
    found: list[bytes | None] = []
    while len(found) < len(requests):
        batch = requests[len(found) : len(found) + _BATCH]
        try:
            data = memoryview(_transfer(pid, batch))
        except (PermissionError, ProcessLookupError):
            raise
        except OSError:  # EFAULT: nothing of the first range
            found.append(None)
            continue
        at = 0
        for _, size in batch:
            if at + size > len(data):
                found.append(None)  # ended inside or before this range; what follows is tried again
                break
            found.append(bytes(data[at : at + size]))
            at += size
    return found


def read_text(pid: int, address: int, limit: int = MAX_TEXT) -> bytes:
    """Return the NUL-terminated string at `address`, without the NUL; cut at `limit` bytes or at the mapping's end.

    Raises:
        OSError: nothing can be read there.
    """
    text = b""
    while len(text) < limit:
        here = address + len(text)
        size = min(limit - len(text), 4096 - here % 4096)
        try:
            part = read(pid, here, size)
        except OSError:
            if text:
                break
            raise
        end = part.find(b"\0")
        if end >= 0:
            return text + part[:end]
        text += part
    return text


def _transfer(pid: int, ranges: Sequence[tuple[int, int]]) -> bytes:
    total = sum(size for _, size in ranges)
    buffer = ctypes.create_string_buffer(total)
    local = _IoVec(ctypes.addressof(buffer), total)
    remote = (_IoVec * len(ranges))(*(_IoVec(*item) for item in ranges))
    count: int = _readv(pid, ctypes.byref(local), 1, remote, len(ranges), 0)
    if count < 0:
        number = ctypes.get_errno()
        if number == errno.ESRCH and (task := living_task(pid)) != pid:
            return _transfer(task, ranges)
        raise OSError(number, os.strerror(number))
    return buffer.raw[:count]


_CHUNK: Final = 4 << 20
_PAGE: Final = 4096
_THERE: Final = 3 << 62  # present, or swapped (Documentation/admin-guide/mm/pagemap.rst)


def is_heap(mapping: Mapping) -> bool:
    """Return whether a mapping is private writable anonymous memory, other than a main thread's stack."""
    named = mapping.path and mapping.path != "[heap]" and not mapping.path.startswith("[anon")
    return mapping.permissions == "rw-p" and not mapping.inode and not named


def used_pieces(pid: int, mapping: Mapping, most: int) -> Iterator[tuple[int, int]]:
    """Yield address and size of the present pieces of a mapping, at most `most` bytes each; all of it if not known."""
    try:
        pages = os.open(f"/proc/{living_task(pid)}/pagemap", os.O_RDONLY)
    except OSError:
        yield from _pieces(mapping.start, mapping.end, most)
        return
    try:
        for start in range(mapping.start, mapping.end, _CHUNK):
            size = min(_CHUNK, mapping.end - start)
            for first, end in _runs(os.pread(pages, size // _PAGE * 8, start // _PAGE * 8)):
                yield from _pieces(start + first * _PAGE, start + end * _PAGE, most)
    finally:
        os.close(pages)


def _pieces(start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    return ((at, min(most, end - at)) for at in range(start, end, most))


def _runs(entries: bytes) -> Iterator[tuple[int, int]]:
    if not entries.strip(b"\0"):
        return
    at = 0
    for there, run in groupby(bool(entry & _THERE) for entry in memoryview(entries).cast("Q")):
        first, at = at, at + sum(1 for _ in run)
        if there:
            yield first, at
