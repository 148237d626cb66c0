"""`python -m tests.bench [GROUP]... [--write]`: measure, print ratios; --write puts them into docs/performance.md."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import attach, catch, graph, launches, logs, screen, touch
from tests.bench.harness import Row
from tests.bench.table import HEAD

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
GROUPS: dict[str, tuple[str, Callable[[], Iterable[Row]]]] = {
    "attach": ("Looking at a torch process of 257 threads", attach.rows),
    "catch": ("Catching exceptions", catch.rows),
    "launches": ("Listening to launches", launches.rows),
    "touch": ("Touching: attaching, and glances", touch.rows),
    "logs": ("A log of 1 GiB", logs.rows),
    "screen": ("The terminal app, 80x24, on a pty", screen.rows),
    "graph": ("The wait-for analysis", graph.rows),
}
INTRODUCTION = """# Performance

Measured, not promised: each row is livedbg and a peer in the same run on the same machine. *peer / livedbg* is the
peer's figure divided by livedbg's: above 1, livedbg's is the smaller one (faster, where it is a time; slower, where it
is a rate). Times are those of whole programs, their start included. A figure is the median, and after it, of several
repeats, the least, the greatest and how many there were. *held* says whether the budget is held; what is not held is
said too.

    make bench                      # everything, some fifteen minutes
    python -m tests.bench graph     # one group: {groups}
    python -m tests.bench --write   # and this page anew
"""


def facts() -> str:
    """What was measured on."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ": unknown")
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    peers = ", ".join(attach.shown_version(name) for name in ("gdb", "py-spy", "pystack", "grep"))
    return (
        f"Measured on {when}: {os.cpu_count()} cores ({model.partition(':')[2].strip()}), {memory_gb:.0f} GB, "
        f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}, {peers}."
    )


def load() -> str:
    """How busy the machine is, apart from what is measured (or was, just before)."""
    return f"Load of the machine when this group began: {os.getloadavg()[0]:.1f}."


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    wanted = parser.parse_args()
    unknown = set(wanted.groups) - GROUPS.keys()
    if unknown or (wanted.write and wanted.groups):
        parser.error("no such group" if unknown else "--write wants all groups")
    page = [INTRODUCTION.format(groups=", ".join(GROUPS)), facts()]
    print(page[-1])
    for name in wanted.groups or GROUPS:
        title, rows = GROUPS[name]
        page += ["", f"## {title}", "", load(), "", HEAD]
        print(f"\n{title}. {load()}\n{HEAD}")
        for row in rows():
            page.append(row.markdown())
            print(row.markdown(), flush=True)
    if wanted.write:
        PAGE.write_text("\n".join([*page, "", NOTES]))
        print(f"\nwritten: {PAGE.name}")


NOTES = """## What the rows mean

- *Catching*: the target (`tests/targets/paced.cpp`) measures each throw with its catch; the figures are what comes on
  top of one that nobody watches. As fast as they come, the reader is overrun and what it can't take is dropped and
  counted. gdb reaches fewer throws a second than are wanted, so its thread rests less between them.
- *Listening to launches*: of functions that do nothing (`tests/targets/cuda_standin.c`); CUDA's own take some
  microseconds. What a trap costs is measured anew on each box as it begins, and bounds what is listened to.
- *Attaching*: gdb has started and set itself up before. The gap is that of one thread of 257, which stamps the clock
  each 100 us; the bound for all of them is what livedbg itself measures. `gdb -p` reads symbols while all stand.
- *Pause*: a thread of the target writes the time between its own beats (every 100 us) into shared memory. Any program
  that works beside it makes gaps on a box of few cores, so the noise is the longest gap while livedbg reports on
  *another* process; what a look at the target itself adds to that is the pause.
- *Context switches* are those that the kernel counts (`/proc/PID/task/TID/status`) for the threads that have none by
  themselves. Tests assert that livedbg causes none, and that `TracerPid` stays 0
  (`tests/adapters/proc/test_lifecycle.py`, `tests/adapters/native`).
- *CPU of one core* is user and system time of the program and of all its children (gdb, py-spy) on a terminal, by
  `/proc/PID/stat`, some seconds after it began. livedbg looks twice a second, rarer while nothing changes, and rarer
  too where looking would cost more than its share (`adapters/proc/pace.py`). In the busy process each thread wakes
  three times a second and multiplies two matrices.
- *A word that a decoder wants in each record* is the worst case of a log that is read whole; the start of livedbg is
  subtracted. One record in a thousand in the log of 1 GiB has such a word.
- *Key to paint* is from writing a key to the pty until the other screen's name stands in what the app writes, while
  a second process appends 100,000 records a second to the log that is watched.
- *From nothing* is the first diagnosis of a state that holds all tasks and edges; how fast events become that state
  is a row of its own. *After a change* is folding the events, the snapshot, and the diagnosis.
"""

if __name__ == "__main__":
    main()
