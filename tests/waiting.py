"""Waiting for the thing itself, with a bound that a busy machine does not reach.

A deadline on the clock measures the machine: at ten times the load the same work takes ten times as long. What is
waited for is given CPU time instead: it has failed once it used so much and the thing is not there, or once it has
ended. The clock only ends a wait for what sleeps for ever.

Retries are of another kind: something random has to come out in one of several attempts. `again` makes two at least,
so that the way to the second one is tried in every run, and gives each a folder of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from livedbg.linux.procfs import child_pids, read_stat

__all__ = ["CPU_S", "WALL_S", "Bound", "again", "awaited", "lives", "until"]

T = TypeVar("T")
CPU_S: Final = 60.0
WALL_S: Final = 240.0
"""Below the limit that a test has (pyproject.toml)."""
_NAP_S: Final = 0.02
_LEAST: Final = 2


class Bound:
    """By when what is waited for has to be there.

    Args:
        of: processes that do it, with their children; none: this one.
    """

    def __init__(self, of: Sequence[int] = (), cpu_s: float = CPU_S, wall_s: float = WALL_S) -> None:
        self._of = of
        self._cpu_s = cpu_s
        self._begun_s = self._used_s()
        self._end_s = time.monotonic() + wall_s

    def problem(self) -> str:
        """Why it is waited for no longer; "" while it is."""
        if self._of and not any(map(lives, self._of)):
            return "all that could do it have ended"
        if (used_s := self._used_s() - self._begun_s) > self._cpu_s:
            return f"not after {used_s:.0f} s of CPU time"
        return "not in time, and next to no CPU time was used" if time.monotonic() > self._end_s else ""

    def _used_s(self) -> float:
        return sum(map(_cpu_s, _with_children(self._of))) if self._of else time.process_time()


def until(
    true: Callable[[], T],
    *,
    of: Sequence[int] = (),
    cpu_s: float = CPU_S,
    wall_s: float = WALL_S,
    naps_s: tuple[float, float] = (_NAP_S, _NAP_S),
    told: Callable[[], object] = str,
) -> T:
    """Look again and again until something is true.

    Args:
        true: looks.
        of: the processes that make it true, with their children; none: this one (a session of ours, say).
        cpu_s: CPU time that these may use for it.
        wall_s: how long on the clock, where they only sleep.
        naps_s: the first pause between two looks and the longest; each is twice as long as the one before.
        told: what is known, where it did not come true.

    Returns:
        What was seen when it was first true.

    Raises:
        AssertionError: it did not come true.
    """
    bound = Bound(of, cpu_s, wall_s)
    nap_s, longest_s = naps_s
    while True:
        problem = bound.problem()  # before the look: what has just ended was looked at after its end
        if found := true():
            return found
        assert not problem, f"{problem}: {told()}"
        time.sleep(nap_s)
        nap_s = min(2 * nap_s, longest_s)


async def awaited(
    true: Callable[[], T], *, cpu_s: float = CPU_S, wall_s: float = WALL_S, told: Callable[[], object] = str
) -> T:
    """`until` on an event loop, for what this process does."""
    bound = Bound((), cpu_s, wall_s)
    while not (found := true()):
        problem = bound.problem()
        assert not problem, f"{problem}: {told()}"
        await asyncio.sleep(_NAP_S)
    return found


def again(attempt: Callable[[Path], T], good: Callable[[T], bool], folder: Path, most: int) -> T:
    """What the first good attempt gave, or the last one; two attempts are made at least.

    Args:
        attempt: gets the path of a folder that is not there yet.
        good: whether what it gave is what is wanted.
        folder: for those folders.
        most: attempts.
    """
    found: list[T] = []
    for number in range(1, most + 1):
        found.append(attempt(folder / f"attempt-{number}"))
        if number >= _LEAST and any(map(good, found)):
            break
    return next(filter(good, found), found[-1])


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return read_stat(pid).state not in "ZX"
    except OSError:
        return False


def _cpu_s(pid: int) -> float:
    try:
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15])) / 100
    except OSError:
        return 0.0


def _with_children(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        yield pid
        yield from _with_children(child_pids(pid))
