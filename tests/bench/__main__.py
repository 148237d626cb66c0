"""`python -m tests.bench [GROUP]... [--write]`: measure, print ratios; --write puts them into docs/performance.md."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import attach, catch, graph, launches, loaded, logs, ordinary, ranks, ring, scale, screen, touch
from tests.bench.harness import Row
from tests.bench.table import HEAD

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
GROUPS: dict[str, tuple[str, Callable[[], Iterable[Row]]]] = {
    "attach": ("Observing a torch process with 257 threads", attach.rows),
    "scale": ("CPU time and memory of a report", scale.rows),
    "loaded": ("On a busy box: the same process", loaded.rows),
    "catch": ("Tracing exceptions", catch.rows),
    "launches": ("Tracing launches", launches.rows),
    "touch": ("Attaching gdb, and glances", touch.rows),
    "logs": ("A log of 1 GiB", logs.rows),
    "ordinary": ("Logs of jobs in good health, 20 MB each, by CPU time", ordinary.rows),
    "screen": ("The terminal app, 80x24, on a pty", screen.rows),
    "graph": ("The wait-for analysis", graph.rows),
    "ranks": ("A training loop of two ranks", ranks.rows),
    "ring": ("A recording of the last minutes", ring.rows),
}
INTRODUCTION = """# Performance

Each row compares livedbg with a peer, in the same run on the same machine. *peer / livedbg* is the peer's figure
divided by livedbg's: above 1, livedbg's figure is smaller (faster, if it is a time; slower, if it is a rate). Times
include the start-up of a program. A figure is the median; in parentheses are the minimum, the maximum and the
number of repeats. *held* shows whether the budget is met.

    make bench                      # all groups, about twenty minutes
    python -m tests.bench graph     # one group: {groups}
    python -m tests.bench --write   # update this page
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
    return f"Load average when this group started: {os.getloadavg()[0]:.1f}."


def main() -> int:
    """Measure what the command line names; a group that fails is named, and the others go on."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    wanted = parser.parse_args()
    unknown = set(wanted.groups) - GROUPS.keys()
    if unknown or (wanted.write and wanted.groups):
        parser.error("no such group" if unknown else "--write wants all groups")
    failed: list[str] = []
    page = [INTRODUCTION.format(groups=", ".join(GROUPS)), facts()]
    print(page[-1])
    for name in wanted.groups or GROUPS:
        title, rows = GROUPS[name]
        page += ["", f"## {title}", "", load(), "", HEAD]
        print(f"\n{title}. {load()}\n{HEAD}")
        try:
            for row in rows():
                page.append(row.markdown())
                print(row.markdown(), flush=True)
        except Exception:
            traceback.print_exc()
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    elif wanted.write:
        PAGE.write_text("\n".join([*page, "", NOTES]))
        print(f"\nwritten: {PAGE.name}")
    return 1 if failed else 0


NOTES = """## Notes

- *Tracing exceptions*: the target (`tests/targets/paced.cpp`) measures each throw with its catch; the figures are
  the difference to an untraced throw. At full speed the reader is overrun; events that it can't take are dropped
  and counted. gdb reaches fewer throws a second than requested, so its thread rests less between them.
- *Tracing launches*: the traced functions do nothing (`tests/targets/cuda_standin.c`); CUDA's own take some
  microseconds. livedbg measures the cost of a trap on each host at the start, and limits tracing by it.
- *Attaching gdb*: gdb has started and is configured before the measurement. The gap is that of one thread of 257,
  which reads the clock every 100 us; livedbg itself measures the upper bound for all. `gdb -p` reads symbols while
  all threads are stopped.
- *Samples of running threads*: a loop counted its own work per second of its CPU time (windows of half a second, the
  kinds in turn, 4 each, load average above 20): 942 million steps without samples, 935 at 50 samples a second and 914
  at 985 (8 KB of stack each). The difference at 50 is within the noise (quartiles 919 to 949); that at 985 amounts to
  about 30 us a sample. livedbg's turn took 0.1 ms a second for two threads in places that were unwound before; the
  unwinding of new places is limited to 1 % of a core, after 2 s of CPU time at once.
- *Right frames of native stacks* (`python -m tests.unwind.matrix`, Debian 12, 2026-11-23). 74 programs, each built
  in another way (gcc, clang, musl, Go, Rust; optimised, stripped, static, split or compressed debug information),
  are copied by livedbg without a stop; then gdb 13.1 attaches and its stack is the measure. Of gdb's 1,324 frames
  livedbg has 1,286 at the same address (97.1 %), 1,189 with the same name (89.8 %), and 1,156 with the same line
  too (87.3 %). 34 programs are alike in every frame; 64 frames livedbg has and gdb has not. What is not right, or
  not alike:
  - Missing frames. A thread whose first function keeps a frame pointer, because it is built with -O0, lacks the two
    frames of the C library below it (its register is unknown without a stop). musl's own functions have no unwind
    tables on this system, so its stacks end after one frame and gdb's after two or three. Code of a JIT compiler
    ends a stack. gdb's 37 frames for calls that the compiler replaced by jumps are not shown: they are not on the
    stack.
  - Other names. Most are Rust's: gdb 13 has `{impl#2}::call_once` where livedbg names the type. A few are lambdas.
  - Other lines. In two frames of the optimised C++ program gdb has a line of the standard library's headers and
    livedbg that of the program.
  - Stripped Go (`-s -w`) has no whole stack in either; gdb crashed on one program, whose split debug information
    was deleted.
- *Pause*: a thread of the target writes the time between its own heartbeats (every 100 us) to shared memory. On a
  machine with few cores any other program causes gaps. The noise is the longest gap while livedbg reports on
  *another* process; the pause is what observing the target itself adds.
- *Context switches* are counted by the kernel (`/proc/PID/task/TID/status`) for threads that have none by
  themselves. Tests assert that livedbg causes none, and that `TracerPid` stays 0
  (`tests/adapters/proc/test_lifecycle.py`, `tests/adapters/native`).
- *CPU of one core* is user and system time of the program and all its children (gdb, py-spy) on a terminal, from
  `/proc/PID/stat`, some seconds after the start. livedbg scans twice a second, less often while nothing changes,
  and less often if a scan would exceed its share (`livedbg/session/pacing.py`). In the busy process each thread wakes
  three times a second and multiplies two matrices.
- *A log in which every record is relevant* to a decoder is the worst case of a log that is read completely; the
  start-up of livedbg is subtracted. In the log of 1 GiB one record in a thousand is relevant.
- *Key to paint* is the time from writing a key to the pty until the app writes the name of the other screen, while
  a second process appends 100,000 records a second to the observed log.
- *From nothing* is the first diagnosis of a state with all tasks and edges; folding events into that state has its
  own row. *After a change* is folding the events, the snapshot, and the diagnosis.
"""

if __name__ == "__main__":
    sys.exit(main())
