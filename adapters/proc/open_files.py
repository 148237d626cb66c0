"""Whether a watched process has used up its file descriptors, as a resource that is a part of it."""

from __future__ import annotations

import time
from typing import Final

from livedbg.linux.descriptors import used_up
from livedbg.model import Resource, ids
from livedbg.model.facts import DescriptorFacts

KIND: Final = "descriptors"

_EVERY_S: Final = 1.0
"""It costs some 30 us a look, and a leak takes its time."""


class OpenFiles:
    """Those of one process.

    Args:
        host: its host.
        pid: the process.
    """

    def __init__(self, host: str, pid: int) -> None:
        self._pid = pid
        self._id = ids.fd_object(KIND, host, pid)
        self._taken_s = -1e9
        self._resource: Resource | None = None

    def resource(self) -> Resource | None:
        """Its descriptors, if no more can be opened."""
        now_s = time.monotonic()
        if now_s - self._taken_s >= _EVERY_S:
            self._taken_s = now_s
            self._resource = self._read()
        return self._resource

    def _read(self) -> Resource | None:
        try:
            limit = used_up(self._pid)
        except OSError:
            return None  # gone, or not ours to look at
        if limit is None:
            return None
        name = f"descriptors of {self._pid}"
        return Resource(id=self._id, kind=KIND, name=name, state="used up", facts=DescriptorFacts(limit=limit))
