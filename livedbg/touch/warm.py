"""The gdbs that attach, one a process: started and prepared once, and kept with their symbols from stop to stop."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from livedbg.linux.programs import Program
from livedbg.touch.attach import Attachment
from livedbg.touch.inspector import Inspector


class WarmGdb(NamedTuple):
    """A prepared gdb: its attachment, and the inspector of its threads."""

    attachment: Attachment
    inspector: Inspector


class WarmGdbs:
    """The prepared gdbs of a session."""

    def __init__(self) -> None:
        self._known: dict[int, WarmGdb] = {}
        self._programs: dict[int, Program] = {}
        self._starting = asyncio.Lock()

    async def of(self, path: str, pid: int) -> WarmGdb:
        """Return the gdb of a process, not attached; a fresh one (from `path`) if its symbols are of another program.

        Raises:
            GdbCommandError, GdbGone, GdbTimeout: it can't be started, or has no Python.
        """
        async with self._starting:
            known = self._known.get(pid)
            if known is not None and known.attachment.engine.alive:
                if not self._programs[pid].replaced:
                    return known
                del self._known[pid]
                await known.attachment.close()
            self._programs[pid] = Program(pid)
            attachment = Attachment(path, pid)
            fresh = WarmGdb(attachment, Inspector(attachment.engine, pid))
            try:
                await attachment.start()
                await fresh.inspector.prepare()
            except BaseException:
                await attachment.close()
                raise
            self._known[pid] = fresh
            return fresh

    async def close(self) -> None:
        """End all gdbs; processes that one has stopped are resumed."""
        known, self._known = self._known, {}
        await asyncio.gather(*(one.attachment.close() for one in known.values()))
