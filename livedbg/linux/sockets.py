"""Sockets: addresses and states from /proc/PID/net, peers and queues of Unix sockets from sock_diag(7), time limits.

/proc/PID/net shows the network namespace of that process. The netlink query reaches our own only: the peer of a Unix
socket in another namespace stays unknown.

SO_RCVTIMEO and SO_SNDTIMEO (socket(7)) are not under /proc. pidfd_getfd(2) (Linux 5.6) gives a second descriptor of the
same socket, which is queried and closed at once. No setting of the socket changes. A blocked call keeps its socket open
by itself, so the second descriptor delays a close only where the thread leaves that call and closes the socket within
those microseconds. The kernel allows it to those who may read the memory of the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Callable, Iterator
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux.lines import rows
from livedbg.linux.procfs import read_file

# include/net/tcp_states.h
_TCP_STATES: Final = (
    "", "established", "syn-sent", "syn-received", "fin-wait-1", "fin-wait-2", "time-wait", "closed",
    "close-wait", "last-ack", "listening", "closing", "syn-received",
)  # fmt: skip
_OPEN: Final = ("established", "close-wait")
_UNIX_STATES: Final = {"01": "unconnected", "02": "connecting", "03": "established", "04": "disconnecting"}

# linux/sock_diag.h, linux/unix_diag.h
_SOCK_DIAG_BY_FAMILY: Final = 20
_UDIAG_SHOW_PEER: Final = 4
_UDIAG_SHOW_RQLEN: Final = 16
_UNIX_DIAG_PEER: Final = 2
_UNIX_DIAG_RQLEN: Final = 4
_NLMSG_ERROR: Final = 2


class Socket(NamedTuple):
    """A socket.

    Attributes:
        protocol: `tcp`, `udp` or `unix`.
        local: `10.0.0.1:80`, or the path of a Unix socket.
        remote: the peer's address, or "".
        datagram: others than its peer can send to it.
        queued: bytes not acknowledged by the peer, or not read by its own process.
        unread: bytes not read by its own process; for a Unix socket, see `unix_unread`.
        serves: it has no peer, and was bound to an address, a port or a path of its own: for datagrams of anybody. One
            that only asks gets a free port at any address from the kernel.
    """

    inode: int
    protocol: str
    local: str
    remote: str
    state: str
    listening: bool
    datagram: bool = False
    queued: int = 0
    unread: int = 0
    serves: bool = False


class SocketTable:
    """The sockets of a process's network namespace, at one moment."""

    def __init__(self, pid: int) -> None:
        self._sockets: dict[int, Socket] = {}
        self._by_ends: dict[tuple[str, str, str], int] = {}
        self._queued: set[tuple[str, str, str]] = set()  # connections that nobody has accepted yet: they have no inode
        for name in ("tcp", "tcp6", "udp", "udp6"):
            self._add_all(f"/proc/{pid}/net/{name}", partial(_internet, name))
        self._add_all(f"/proc/{pid}/net/unix", _unix)

    def _add_all(self, path: str, parse: Callable[[str], Socket]) -> None:
        try:
            data = read_file(path)
        except OSError:
            return
        for found in rows(data.partition(b"\n")[2], parse):
            self._sockets[found.inode] = found
            if found.remote and not found.inode and found.state in _OPEN:
                self._queued.add((found.protocol, found.local, found.remote))
            elif found.remote:
                self._by_ends[found.protocol, found.local, found.remote] = found.inode

    def get(self, inode: int) -> Socket | None:
        """Return the socket of that inode; None if it is of another kind or namespace."""
        return self._sockets.get(inode)

    def peer(self, end: Socket) -> int | None:
        """Return the inode of the other end of a TCP or UDP connection inside this namespace, or None."""
        return self._by_ends.get((end.protocol, end.remote, end.local)) if end.remote else None

    def accepting(self, end: Socket) -> list[int]:
        """Return the listening sockets whose queue has the other end of a connection, not accepted yet."""
        if (end.protocol, end.remote, end.local) not in self._queued:
            return []
        host, _, port = end.remote.rpartition(":")
        places = {f"{any_of}:{port}" for any_of in (host, "0.0.0.0", "[::]")}
        return [one.inode for one in self._sockets.values() if one.listening and one.local in places]

    def at(self, port: int) -> list[Socket]:
        """Return the TCP sockets that listen at a port, and those accepted there."""
        ending = f":{port}"
        return [one for one in self._sockets.values() if one.protocol == "tcp" and one.local.endswith(ending)]

    def accepted(self, listening: Socket) -> list[Socket]:
        """Return the connections to a listening socket, accepted or not."""
        host, _, port = listening.local.rpartition(":")
        of_all = host in ("0.0.0.0", "[::]")
        return [
            one
            for one in self._sockets.values()
            if one.protocol == listening.protocol
            and one.state == "established"
            and (one.local == listening.local or (of_all and one.local.rpartition(":")[2] == port))
        ]


def _internet(name: str, line: str) -> Socket:
    """Parse a row of /proc/net/tcp and the like (proc_pid_net(5)): sl local remote state queues … inode at 9."""
    row = line.split()
    protocol = name[:3]
    local, remote = _address(row[1]), _address(row[2])
    state = _TCP_STATES[int(row[3], 16)] if int(row[3], 16) < len(_TCP_STATES) else ""
    listening = protocol == "tcp" and state == "listening"
    connected = not row[2].endswith(":0000")
    unsent, unread = (0 if listening else int(size, 16) for size in row[4].split(":"))  # tx_queue:rx_queue
    remote, udp = remote if connected else "", protocol == "udp"
    serves = udp and not connected and _is_bound(local)
    return Socket(int(row[9]), protocol, local, remote, state, listening, udp, unsent + unread, unread, serves)


def _is_bound(local: str) -> bool:
    """Return whether a port is at an address of its own, or none that the kernel gives (ip(7), ip_local_port_range)."""
    host, _, port = local.rpartition(":")
    first, last = _free_ports()
    return bool(int(port)) and (host not in ("0.0.0.0", "[::]") or not first <= int(port) <= last)


@cache
def _free_ports() -> tuple[int, int]:
    try:
        first, last = map(int, read_file("/proc/sys/net/ipv4/ip_local_port_range").split())
    except (OSError, ValueError):
        return 32768, 60999
    return first, last


def _address(text: str) -> str:
    """Convert `0100007F:1F90` to `127.0.0.1:8080`; addresses are in host byte order, word by word."""
    host, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(host[i : i + 8])[::-1] for i in range(0, len(host), 8))
    if len(raw) == 4:
        return f"{IPv4Address(raw)}:{int(port, 16)}"
    v6 = IPv6Address(raw)
    mapped = v6.ipv4_mapped
    return f"{mapped}:{int(port, 16)}" if mapped is not None else f"[{v6}]:{int(port, 16)}"


def _unix(line: str) -> Socket:
    """Parse a row of /proc/net/unix: num refs protocol flags type state inode [path]; the path may have blanks."""
    row = line.split(None, 7)
    if not row[0].endswith(":"):
        raise ValueError("no row: the name of the socket before it has a newline")
    listening = bool(int(row[3], 16) & 0x10000)  # __SO_ACCEPTCON, include/uapi/linux/net.h
    path = row[7] if len(row) > 7 else ""
    state = "listening" if listening else _UNIX_STATES.get(row[5], "")
    bound = int(row[4], 16) == socket.SOCK_DGRAM and bool(path)
    alone = bound and _UNIX_STATES.get(row[5], "") == "unconnected"
    return Socket(int(row[6]), "unix", path, "", state, listening, bound, serves=alone)


def same_network(pid: int) -> bool:
    """Return whether a process has our network namespace (assumed if not visible)."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino == Path("/proc/self/ns/net").stat().st_ino
    except OSError:
        return True


def unix_peer(inode: int) -> int | None:
    """Return the inode of the other end of a connected Unix socket of our network namespace.

    None if it has none, or the kernel has no unix_diag.
    """
    found = _unix_diag(inode, _UDIAG_SHOW_PEER, _UNIX_DIAG_PEER)
    return int(struct.unpack_from("<I", found)[0]) or None if found is not None else None


def unix_unread(inode: int) -> int:
    """Return the unread bytes in a connected Unix socket of our network namespace; 0 if not known."""
    found = _unix_diag(inode, _UDIAG_SHOW_RQLEN, _UNIX_DIAG_RQLEN)
    return int(struct.unpack_from("<I", found)[0]) if found is not None else 0


def _unix_diag(inode: int, shows: int, wanted: int) -> bytes | None:
    """Return the attribute `wanted` of a Unix socket, requested by the flag `shows`, or None."""
    request = struct.pack("<BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, inode, shows, 0xFFFFFFFF, 0xFFFFFFFF)
    header = struct.pack("<IHHII", 16 + len(request), _SOCK_DIAG_BY_FAMILY, 1, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as netlink:  # 4: NETLINK_SOCK_DIAG
            netlink.settimeout(1.0)
            netlink.send(header + request)
            answer = netlink.recv(65536)
    except OSError:
        return None
    length, kind = struct.unpack_from("<IH", answer)
    at = 16 + 16  # nlmsghdr, unix_diag_msg
    while kind != _NLMSG_ERROR and at + 4 <= min(length, len(answer)):
        size, attribute = struct.unpack_from("<HH", answer, at)
        if attribute == wanted:
            return answer[at + 4 : at + max(8, size)]
        at += max(4, (size + 3) & ~3)
    return None


_PIDFD_GETFD: Final = 438  # the same number on every architecture

_libc = ctypes.CDLL(None, use_errno=True)


def time_limit_s(pid: int, fd: int, inode: int, direction: str) -> float | None:
    """Return the time limit of a blocked thread's call on a socket.

    Args:
        inode: of the socket: the descriptor may be another file by now.
        direction: `r` for receiving calls, `w` for sending ones.

    Returns:
        Seconds; 0 for no limit, None if it can't be read.
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
    """Call getsockopt(2) on a bare descriptor: a Python socket object could make it non-blocking for everybody."""
    value, size = ctypes.create_string_buffer(16), ctypes.c_uint(16)
    if _libc.getsockopt(fd, socket.SOL_SOCKET, option, value, ctypes.byref(size)) != 0:
        raise OSError(ctypes.get_errno(), "getsockopt")
    return value.raw[: size.value]


@contextlib.contextmanager
def _second(pid: int, fd: int) -> Iterator[int]:
    """Duplicate an open file of another process into ours."""
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
