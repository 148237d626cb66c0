"""Time limits of sockets, read from a process that is this one."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

from livedbg.linux.sockets import time_limit_s


def limited(one: socket.socket, option: int, seconds: int, microseconds: int = 0) -> None:
    one.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", seconds, microseconds))


def inode(one: socket.socket) -> int:
    return os.fstat(one.fileno()).st_ino


def test_the_limit_of_each_direction_is_read_and_the_socket_is_left_as_it_is() -> None:
    one, other = socket.socketpair()
    with one, other:
        pid, fd, blocking = os.getpid(), one.fileno(), one.getblocking()
        limited(one, socket.SO_RCVTIMEO, 30, 500_000)
        assert time_limit_s(pid, fd, inode(one), "r") == 30.5
        assert time_limit_s(pid, fd, inode(one), "w") == 0
        limited(one, socket.SO_SNDTIMEO, 7)
        assert time_limit_s(pid, fd, inode(one), "w") == 7
        assert time_limit_s(pid, other.fileno(), inode(other), "r") == 0
        assert one.getblocking() is blocking
        other.sendall(b"x")
        assert one.recv(1) == b"x"


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    one, other = socket.socketpair()
    with one, other, (tmp_path / "file").open("w") as file:
        assert time_limit_s(os.getpid(), one.fileno(), inode(one) + 1, "r") is None
        assert time_limit_s(os.getpid(), file.fileno(), os.fstat(file.fileno()).st_ino, "r") is None
        assert time_limit_s(os.getpid(), 1_000_000, inode(one), "r") is None
        assert time_limit_s(2**22 + 1, one.fileno(), inode(one), "r") is None
