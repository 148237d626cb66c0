"""Wait for a process with a scheduler in memory: it has mapped a file with `aicpu` in its name.

The reader of schedulers is imported only then: most sessions have none.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from livedbg.adapters.ascend.model import AscendModel
from livedbg.session.adapter import Context, processes_seen, targets_ended

WORD: Final = "aicpu"
"""What the name of the scheduler's library holds."""

SEARCH_S: Final = 2.0
"""Between two looks at a process."""

SEARCH_MOST_S: Final = 30.0
"""The same where no log speaks of the runtime."""

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
    due: dict[str, tuple[float, float]] = {}
    while not targets_ended(context):
        for process in [one for one in context.snapshot().processes.values() if not one.exited]:
            at_s, pause_s = due.get(process.id, (0.0, SEARCH_S))
            if time.monotonic() < at_s:
                continue
            due[process.id] = (
                time.monotonic() + (SEARCH_S if model.jobs else pause_s),
                min(SEARCH_MOST_S, 2 * pause_s),
            )
            if await asyncio.to_thread(_shows, process.pid):
                return True
        if context.request.once:
            return False
        await context.sleep(SEARCH_S)
    return False


def _shows(pid: int) -> bool:
    try:
        return WORD.encode() in Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False  # gone, or not ours to look at: the process adapter says so
