"""Where ranks meet before they are a job: who listens at MASTER_PORT, and from which hosts somebody has connected.

Source: the kernel's list of connections in the network namespace of a rank (`/proc/PID/net/tcp`, proc_pid_net(5)).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

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
    """

    address: str
    deserted: bool
    hosts: tuple[str, ...]


def meeting_of(pid: int, environment: Mapping[str, str]) -> Meeting | None:
    """Where a rank meets the others; None where its environment does not say so.

    Args:
        pid: of the rank.
        environment: of it.
    """
    address, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    if not address or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        return None
    table = SocketTable(pid)
    sockets = table.at(int(port))
    hosts = {
        one.remote.rpartition(":")[0]
        for one in sockets
        if one.remote and one.state == "established" and table.peer(one) is None
    }
    deserted = address in _HERE and not any(one.listening for one in sockets)
    return Meeting(f"{clean_line(address)}:{int(port)}", deserted, tuple(sorted(hosts))[:_MOST_HOSTS])
