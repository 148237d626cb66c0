"""Whether messages of gloo come and go at a rank: no recorder has them.

What a thread has written so far is in /proc/PID/task/TID/io (proc_pid_io(5)). The threads of gloo's event loop write
nothing but messages and what announces them; who calls `send` or `recv` writes some of them itself.

Invariants:
    messages.M1. Of a thread that is in a message only what it wrote between two looks counts at both of which it was
        in one: between others it may have written a log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from livedbg.adapters.pytorch.collectives.python_calls import WORK
from livedbg.adapters.pytorch.collectives.ranks import RankSeen
from livedbg.linux.procfs import bytes_written
from livedbg.model import Thread, ids

__all__ = ["Messages"]

_LOOP: Final = "gloo_tcp_loop"
_MOST_LOOPS: Final = 32
_EXCHANGES: Final = ("recv", "send", WORK)


class Messages:
    """Counts the bytes of messages that each rank has written since it was first looked at."""

    def __init__(self) -> None:
        self._before: dict[str, dict[int, int]] = {}
        self._totals: dict[str, int] = {}

    def keep(self, processes: Collection[str]) -> None:
        """Forget all other ranks."""
        for name in self._totals.keys() - set(processes):
            del self._totals[name], self._before[name]

    def of(self, rank: RankSeen, threads: Iterable[Thread]) -> int:
        """The bytes so far.

        Args:
            rank: as it was just seen.
            threads: of its process.
        """
        process = rank.look.process
        pid = int(ids.parse(process).short)
        loops = [thread.tid for thread in threads if thread.name == _LOOP and not thread.exited][:_MOST_LOOPS]
        calls = [rank.threads.get(call.ident) for call in rank.look.calls if call.name in _EXCHANGES]
        now = {tid: count for tid in {*loops, *calls} if tid is not None and (count := bytes_written(pid, tid))}
        before = self._before.get(process, {})
        more = sum(count - before[tid] for tid, count in now.items() if tid in before)
        self._before[process] = now
        self._totals[process] = self._totals.get(process, 0) + more
        return self._totals[process]
