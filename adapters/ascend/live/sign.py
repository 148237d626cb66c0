"""Wait for a process with a scheduler in memory: it has mapped a file with `aicpu` in its name.

The reader of schedulers is imported only then: most sessions have none.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from livedbg.adapters.ascend.model import AscendModel
from livedbg.linux.maps import maps_mention
from livedbg.session.adapter import Context, processes_seen, targets_ended
from livedbg.session.pacing import SEARCH_S, Searches

WORD: Final = "aicpu"
"""What the name of the scheduler's library holds."""

_PATIENCE_S: Final = 60.0  # with those who look at processes and logs, on a busy box


async def first_processes(context: Context, model: AscendModel) -> None:
    """Wait for the first processes; in a session that samples once, for the logs too."""
    await processes_seen(context)
    if context.request.once:
        end = time.monotonic() + _PATIENCE_S
        while not model.settled and time.monotonic() < end:
            await context.sleep(0.02)


async def is_there(context: Context, model: AscendModel) -> bool:
    """Wait for such a process; return False if there is none and none will come."""
    if not context.request.processes:
        return False
    await first_processes(context, model)
    searches = Searches()
    while not targets_ended(context):
        for process in [one for one in context.snapshot().processes.values() if not one.exited]:
            due = searches.due(process.id, often=bool(model.jobs))
            if due and await asyncio.to_thread(maps_mention, process.pid, WORD.encode()):
                return True
        if context.request.once:
            return False
        await context.sleep(SEARCH_S)
    return False
