"""Bytes in flight over TCP between two processes of this host.

Unacknowledged and unread bytes are in the kernel's connection list of a network namespace (`/proc/PID/net/tcp`,
proc_pid_net(5)).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from livedbg.linux.descriptors import fd_links
from livedbg.linux.sockets import SocketTable

_SOCKET: Final = "socket:["


def socket_inodes(pid: int) -> set[int]:
    """Return the inodes of a process's open sockets; raise OSError if it can't be read."""
    return {int(link[len(_SOCKET) : -1]) for link in fd_links(pid).values() if link.startswith(_SOCKET)}


def bytes_under_way(one: int, other: int) -> bool:
    """Return whether a connection between two processes has unacknowledged or unread bytes; True if not readable.

    In different network namespaces, any connection of them counts.
    """
    try:
        here, there = socket_inodes(one), socket_inodes(other)
        apart = len({Path(f"/proc/{pid}/ns/net").stat().st_ino for pid in (one, other)}) > 1
    except OSError:
        return True
    table = SocketTable(one)
    if apart:
        return _queued(table, here) or _queued(SocketTable(other), there)
    for inode in here:
        own = table.get(inode)
        peer = table.peer(own) if own is not None and own.protocol == "tcp" else None
        if own is None or peer is None or peer not in there:
            continue
        end = table.get(peer)
        if own.queued or (end is not None and end.queued):
            return True
    return False


def _queued(table: SocketTable, inodes: set[int]) -> bool:
    found = (table.get(inode) for inode in inodes)
    return any(one is not None and one.protocol == "tcp" and one.queued for one in found)
