"""Reports of a program that runs, made by the command line until one of them says what it should."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from livedbg.linux.procfs import child_pids
from tests.cli.zygote import run_livedbg, stalls_after, until_reported

__all__ = ["STALL_S", "USERS_STALL_S", "at_rest", "line_of", "report_of", "report_when", "stalled_report_when"]

STALL_S: Final = 3.0
"""After how many seconds a wait is a stall for tests that have to wait for one."""
USERS_STALL_S: Final = 10.0
"""After how many seconds it is one for users."""
_JOB_HAS_NO_RANKS: Final = "No rank is known"


def report_of(pid: int, *options: object, stall_s: float = STALL_S) -> dict[str, Any]:
    """What `livedbg report PID --json` says, with its exit code as `exit`; only that where a job has no ranks yet.

    Nothing was stopped for it.
    """
    done = run_livedbg(["report", pid, "--json", "--timeout", "120", *options], env=stalls_after(stall_s), text=True)
    if _JOB_HAS_NO_RANKS in done.stderr:
        return {"exit": done.returncode, "verdict": {"state": "", "sentence": _JOB_HAS_NO_RANKS}, "findings": []}
    assert done.stdout, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["intrusions"]["stops"] == 0 and said["intrusions"]["paused_ms"] == 0, said["intrusions"]
    return said | {"exit": done.returncode}


def report_when(
    pid: int, true: Callable[[dict[str, Any]], object], *options: object, stall_s: float = USERS_STALL_S
) -> dict[str, Any]:
    """The first report of which something is true: it takes a moment until a program hangs, and for long enough.

    Args:
        pid: the program.
        true: may note in a report what is wrong with it, as its `problem`.
        options: of the command.
        stall_s: after how many seconds a wait is a stall.
    """
    said: dict[str, Any] = {}
    begun_s, ended_s = time.monotonic(), []

    def is_said() -> bool:
        said.clear()
        said.update(report_of(pid, *options, stall_s=stall_s))
        ended_s.append(round(time.monotonic() - begun_s, 1))
        return bool(true(said))

    until_reported(is_said, told=lambda: (ended_s, said["verdict"], said.get("problem", "")))
    return said


def stalled_report_when(
    pid: int, true: Callable[[dict[str, Any]], object], *options: object, stall_s: float = STALL_S
) -> dict[str, Any]:
    """`report_when` of what shows only once a wait is a stall: an earlier report costs processor time for nothing."""
    at_rest(pid, stall_s)
    return report_when(pid, true, *options, stall_s=stall_s)


def at_rest(pid: int, for_s: float = STALL_S) -> None:
    """Wait until the main threads of a process and its children have not run for a time; twice as long at most.

    By the clock, as a stall is; where it ends too early, more reports are made.
    """
    begun_s = since_s = time.monotonic()
    before: dict[int, list[str]] = {}
    while (now_s := time.monotonic()) < min(since_s + for_s, begun_s + 2 * for_s):
        with contextlib.suppress(OSError):  # one that has just ended
            ran = {one: _switches(one) for one in (pid, *child_pids(pid))}
            if ran != before:
                before, since_s = ran, now_s
        time.sleep(0.1)


def _switches(pid: int) -> list[str]:
    return [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "ctxt_switches" in line]


def line_of(words: str, program: Path) -> int:
    """The number of the first line of a program with these words."""
    return next(number for number, line in enumerate(program.read_text().splitlines(), 1) if words in line)
