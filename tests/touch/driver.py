"""The livedbg side of the chaos test: attaches, holds a thread, detaches, again and again, until something ends it."""

from __future__ import annotations

import asyncio
import sys

from livedbg.linux.procfs import thread_ids
from livedbg.model.errors import LivedbgError
from livedbg.session.tools import find_gdb
from livedbg.touch.attach import Attachment


async def main(pid: int) -> None:
    gdb = find_gdb()
    assert gdb is not None
    attachment = Attachment(gdb, pid)
    await attachment.start()
    print("READY", flush=True)
    try:
        for turn in range(10_000):
            await attachment.attach()
            tids = sorted(thread_ids(pid))
            async with attachment.hold(tids[turn % len(tids)]) as held:
                await attachment.engine.command(f"-stack-list-frames --thread {held.number}")
            await attachment.detach()
    except LivedbgError as error:
        print(f"ENDED {error.message}", flush=True)
    finally:
        await attachment.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
