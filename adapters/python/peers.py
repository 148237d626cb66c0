"""The other end of the sockets that tasks wait for, in a user's words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from livedbg.linux.sockets import Socket, SocketTable

__all__ = ["Peers"]


class Peers:
    """Names of the sockets of one process; each is looked up once.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: dict[str, str] = {}

    def of(self, descriptors: Iterable[int]) -> dict[int, str]:
        """Descriptors -> `a socket to 10.0.0.2:443`; without those that are no sockets. Blocking."""
        links: dict[int, str] = {}
        for number in descriptors:
            try:
                link = str(Path(f"/proc/{self._pid}/fd/{number}").readlink())
            except OSError:
                continue
            if link.startswith("socket:["):
                links[number] = link
        if links.values() - self._known.keys():
            table = SocketTable(self._pid)
            self._known = {link: _named(table.get(int(link[8:-1]))) for link in links.values()}
        return {number: self._known[link] for number, link in links.items()}


def _named(found: Socket | None) -> str:
    if found is None:
        return "a socket"
    if found.remote:
        return f"a socket to {found.remote}"
    if found.listening:
        return f"connections to {found.local}"
    return "a Unix socket" if found.protocol == "unix" else "a socket"
