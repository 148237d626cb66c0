"""Where ranks meet before they are a job: who listens at MASTER_PORT, and from which hosts somebody has connected.

Source: the kernel's list of connections in the network namespace of a rank (`/proc/PID/net/tcp`, proc_pid_net(5)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.traffic import socket_inodes
from livedbg.linux.sockets import SocketTable
from livedbg.text.sanitize import clean_line

__all__ = ["Meeting", "meeting_of"]

_HERE: Final = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_MOST_HOSTS: Final = 8


class Meeting(Struct, frozen=True):
    """The place.

    Attributes:
        address: `10.0.0.1:29500`.
        deserted: it is on this host, and nobody listens there.
        hosts: other hosts that have connections to it, as far as they are seen from here.
        others: connections to it from this host that are of no rank which is known to be there.
    """

    address: str
    deserted: bool
    hosts: tuple[str, ...]
    others: int = 0


def meeting_of(pid: int, environment: Mapping[str, str], known: Iterable[int] = ()) -> Meeting | None:
    """Where a rank meets the others; None where its environment does not say so.

    Args:
        pid: of the rank.
        environment: of it.
        known: the pids of all ranks that are known to be there.
    """
    address, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    if not address or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        return None
    table = SocketTable(pid)
    sockets = table.at(int(port))
    joined = [one for one in sockets if one.remote and one.state == "established"]
    hosts = {one.remote.rpartition(":")[0] for one in joined if table.peer(one) is None}
    own = {inode for one in {pid, *known} for inode in _sockets_of(one)}
    others = sum(peer is not None and peer not in own for peer in map(table.peer, joined))
    deserted = address in _HERE and not any(one.listening for one in sockets)
    return Meeting(f"{clean_line(address)}:{int(port)}", deserted, tuple(sorted(hosts))[:_MOST_HOSTS], others)


def _sockets_of(pid: int) -> set[int]:
    try:
        return socket_inodes(pid)
    except OSError:
        return set()
