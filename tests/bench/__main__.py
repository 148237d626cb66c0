"""`python -m tests.bench [GROUP]... [--write]`: measure, print ratios; --write puts them into docs/performance.md."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import attach, graph, logs, screen
from tests.bench.harness import Row

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
GROUPS: dict[str, tuple[str, Callable[[], Iterable[Row]]]] = {
    "attach": ("Looking at a torch process of 257 threads", attach.rows),
    "logs": ("A log of 1 GiB", logs.rows),
    "screen": ("The terminal app, 80x24, on a pty", screen.rows),
    "graph": ("The wait-for analysis", graph.rows),
}
HEAD = "| what | livedbg | peer | peer / livedbg | budget |\n| --- | --- | --- | --- | --- |"
INTRODUCTION = """# Performance

Measured, not promised: each row is livedbg and a peer in the same run on the same machine. The last but one column
is the peer's figure divided by livedbg's: above 1, livedbg's is the smaller figure (faster, where it is a time;
slower, where it is a rate). Times are medians of a few repeats, start of the programs included.

    make bench                      # everything, some five minutes
    python -m tests.bench graph     # one group: {groups}
    python -m tests.bench --write   # and this page anew
"""


def facts() -> str:
    """What was measured on."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ": unknown")
    gdb = subprocess.run(["gdb", "--version"], capture_output=True, text=True, check=False).stdout.splitlines()[:1]
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    return (
        f"Measured on {when}: {os.cpu_count()} cores ({model.partition(':')[2].strip()}), Linux {platform.release()}, "
        f"Python {platform.python_version()}, {' '.join(gdb)}, load {os.getloadavg()[0]:.1f} when it began."
    )


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
        page += ["", f"## {title}", "", HEAD]
        print(f"\n{title}\n{HEAD}")
        for row in rows():
            page.append(row.markdown())
            print(row.markdown(), flush=True)
    if wanted.write:
        PAGE.write_text("\n".join([*page, "", NOTES]))
        print(f"\nwritten: {PAGE.name}")


NOTES = """## What the rows mean

- *Pause*: a thread of the target writes the time between its own beats into shared memory; a pause is the longest
  gap while a tool looks, less the longest gap while none does. That livedbg causes no stop at all is not read off
  this figure but tested: context switches and `TracerPid` of a target stay what they were
  (`tests/adapters/proc/test_lifecycle.py`, `tests/adapters/native`).
- *Cost of observing* is the CPU time of the livedbg process, of one core, its start subtracted.
- *Key to paint* is from writing a key to the pty until the other screen's name stands in what the app writes, while
  a second process appends 100,000 records a second to the log that is watched.
- *From nothing* is the first diagnosis of a state that holds all tasks and edges; how fast events become that state
  is a row of its own. *After a change* is folding the events, the snapshot, and the diagnosis.
"""

if __name__ == "__main__":
    main()
