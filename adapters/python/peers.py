"""The other end of the sockets that tasks wait for, in a user's words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from livedbg.linux.sockets import Socket, SocketTable

__all__ = ["Peers"]

_TRIES: Final = 3


class Peers:
    """Names of the sockets of one process; each is looked up once, or three times where it is not in the kernel's list:
    a list that changes while it is read lacks some.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: dict[str, str] = {}
        self._missed: dict[str, int] = {}

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
        new = {link for link in links.values() if link not in self._known and self._missed.get(link, 0) < _TRIES}
        if new:
            table = SocketTable(self._pid)
            for link in new:
                found = table.get(int(link[8:-1]))
                if found is not None:
                    self._known[link] = _named(found)
                else:
                    self._missed[link] = self._missed.get(link, 0) + 1
        self._known = {link: name for link, name in self._known.items() if link in links.values()}
        self._missed = {link: count for link, count in self._missed.items() if link in links.values()}
        return {number: self._known.get(link, "a socket") for number, link in links.items()}


def _named(found: Socket) -> str:
    if found.remote:
        return f"a socket to {found.remote}"
    if found.listening:
        return f"connections to {found.local}"
    return "a Unix socket" if found.protocol == "unix" else "a socket"
