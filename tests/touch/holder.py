"""Attaches to a process and holds its first thread until something ends it; prints the pids of gdb and of the guard."""

from __future__ import annotations

import asyncio
import sys

from livedbg.session.tools import find_gdb
from livedbg.touch.attach import Attachment


async def main(pid: int) -> None:
    gdb = find_gdb()
    assert gdb is not None
    attachment = Attachment(gdb, pid)
    await attachment.start()
    await attachment.attach(30)
    try:
        async with attachment.hold(pid, 600):
            print("READY", attachment.engine.pid, attachment.guard_pid, flush=True)
            await asyncio.sleep(600)
    finally:
        await attachment.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
