"""Time limits of sockets of other processes: SO_RCVTIMEO and SO_SNDTIMEO (socket(7)).

Nothing under /proc shows them. pidfd_getfd(2) (Linux 5.6) gives a second descriptor of the same socket, which is asked
and closed at once. No setting of the socket changes. A blocked call keeps its socket open by itself, so the second
descriptor delays a close only where the thread leaves that call and closes the socket within those microseconds. The
kernel allows it to those who may read the memory of the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from typing import Final

_PIDFD_GETFD: Final = 438  # the same number on every architecture

_libc = ctypes.CDLL(None, use_errno=True)


def time_limit_s(pid: int, fd: int, inode: int, direction: str) -> float | None:
    """The time limit of calls on a socket in which a thread is blocked.

    Args:
        pid: the process.
        fd: its descriptor of the socket.
        inode: of the socket: the descriptor may be another file by now.
        direction: `r` for what receives, `w` for what sends.

    Returns:
        Seconds; 0 for no limit, None where that can't be read.
    """
    option = socket.SO_RCVTIMEO if direction == "r" else socket.SO_SNDTIMEO
    try:
        with _second(pid, fd) as copy:
            if os.fstat(copy).st_ino != inode:
                return None
            seconds, microseconds = struct.unpack("@ll", _option(copy, option))
    except (OSError, struct.error):
        return None
    return float(seconds + microseconds / 1e6)


def _option(fd: int, option: int) -> bytes:
    """getsockopt(2) of a bare descriptor: a socket object of Python's could make it non-blocking for everybody."""
    value, size = ctypes.create_string_buffer(16), ctypes.c_uint(16)
    if _libc.getsockopt(fd, socket.SOL_SOCKET, option, value, ctypes.byref(size)) != 0:
        raise OSError(ctypes.get_errno(), "getsockopt")
    return value.raw[: size.value]


@contextlib.contextmanager
def _second(pid: int, fd: int) -> Iterator[int]:
    """A descriptor of ours for an open file of another process."""
    process = os.pidfd_open(pid)
    try:
        copy = int(_libc.syscall(ctypes.c_long(_PIDFD_GETFD), process, fd, 0))
        if copy < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        try:
            yield copy
        finally:
            os.close(copy)
    finally:
        os.close(process)
