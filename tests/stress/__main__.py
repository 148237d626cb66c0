"""Watch healthy programs in which all that is waited for comes and goes: nothing may be called stuck; then real hangs
amid the same churn: each has to be reported.

    python -m tests.stress [--seconds 600] [--load 0] [--write]

Between the readings of which a claim is made (threads, their calls, words of memory, descriptors, Python's structures)
livedbg is delayed at random, as on a machine that is on its knees: what was read then did not hold at one moment.
`--load` adds programs that only burn CPU time. `--write` puts the result into docs/reliability.md. Exit code 1 if a
healthy program was called stuck, or a hang was not reported.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

from livedbg.adapters.proc import scene, threads, wait_reader
from livedbg.analysis import VerdictState
from livedbg.cpython.threads import ThreadReader as PythonThreads
from livedbg.linux import memory, procfs
from livedbg.model.request import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.view import Update
from tests.healthy.long import Load

TARGETS: Final = Path(__file__).parents[1] / "targets"
PAGE: Final = Path(__file__).parents[2] / "docs" / "reliability.md"
_BEGIN, _END = "<!-- stress: begin -->", "<!-- stress: end -->"
_BAD: Final = frozenset({VerdictState.STALLED, VerdictState.DEADLOCK, VerdictState.CRASHED})
_HANGS: Final = {
    ("cpp", "deadlock"): "lock-cycle",
    ("cpp", "orphan"): "dead-owner",
    ("py", "deadlock"): "lock-cycle",
    ("py", "loop"): "lock-cycle",
}
"""Which program with which word hangs, and the rule that has to report it."""
_HANG_LIMIT_S: Final = 300.0
_LOOK_S: Final = 0.5
_DELAYS: Final = (
    (procfs, "thread_ids"),
    (procfs, "read_stat"),
    (procfs, "blocked_syscall"),
    (memory, "read_many"),
    (memory, "read"),
    (threads.ThreadReader, "sample"),
    (wait_reader.WaitReader, "sample"),
    (scene, "DescriptorIndex"),
    (scene, "read_locks"),
    (PythonThreads, "threads"),
)
"""Readings before and after which time passes."""


def delayed(function: Callable[..., Any], rng: random.Random) -> Callable[..., Any]:
    """A function that now and then begins or returns late."""

    @wraps(function)
    def slow(*args: Any, **kwargs: Any) -> Any:
        _pass_time(rng)
        result = function(*args, **kwargs)
        _pass_time(rng)
        return result

    return slow


def _pass_time(rng: random.Random) -> None:
    chance = rng.random()
    if chance < 0.02:
        time.sleep(rng.random() * (0.005 if chance < 0.018 else 0.15))


@contextmanager
def delays(seed: int) -> Iterator[None]:
    """Readings are delayed as long as this is entered."""
    rng = random.Random(seed)
    before = [(owner, name, getattr(owner, name)) for owner, name in _DELAYS if hasattr(owner, name)]
    for owner, name, function in before:
        setattr(owner, name, delayed(function, rng))
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def command(kind: str, word: str, folder: Path) -> list[str]:
    """The command line of a program; one in C++ is built."""
    if kind == "py":
        return [sys.executable, str(TARGETS / "churn.py"), *filter(None, (word,))]
    program = folder / "churn"
    if not program.exists():
        source = str(TARGETS / "churn.cpp")
        subprocess.run(["g++", "-std=c++17", "-g", "-O1", "-pthread", "-o", str(program), source], check=True)
    return [str(program), *filter(None, (word,))]


@contextmanager
def running(argv: list[str]) -> Iterator[int]:
    """A program from when it is ready until its end, with all children."""
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid
    finally:
        os.killpg(child.pid, 9)
        child.wait()


def alarms_of(update: Update) -> dict[str, str]:
    """The claims of an update: sentence by rule."""
    return {one.rule: one.sentence for one in update.diagnosis.findings.values() if one.state in _BAD}


def watch(
    pid: int, until: Callable[[Update], bool], seconds: float, load: Load | None = None
) -> tuple[Counter[str], int]:
    """Watch a program.

    Args:
        pid: of it.
        until: ends it early.
        seconds: the longest time.
        load: to be kept meanwhile.

    Returns:
        How many updates had which claim, and how many updates there were.
    """
    claims: Counter[str] = Counter()
    taken = 0
    over: list[Update] = []
    request = Request(host="box", processes=(TargetProcess(pid),), stacks="none", interval_s=_LOOK_S, read_only=True)
    view = LiveView(request)

    def note(update: Update) -> None:
        nonlocal taken
        taken += 1
        claims.update(f"{rule}: {sentence}" for rule, sentence in alarms_of(update).items())
        if until(update):
            over.append(update)

    view.subscribe(note)
    view.start()
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end and not over:
            if load is not None:
                load.keep()
            view.wait_ended(0.2)
    finally:
        view.stop()
    return claims, taken


def main() -> int:
    """Run the programs one after the other, and say what was claimed of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="for the healthy programs together")
    parser.add_argument("--load", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows, bad = [], 0
    load = Load(options.load) if options.load else None
    with tempfile.TemporaryDirectory() as folder, delays(options.seed):
        for kind in ("cpp", "py"):
            with running(command(kind, "", Path(folder))) as pid:
                claims, taken = watch(pid, lambda _update: False, options.seconds / 2, load)
            for claim, count in claims.most_common():
                print(f"FALSE {kind}: {count} of {taken} updates: {claim}", flush=True)
            rows.append(f"| healthy, {kind} | {options.seconds / 2:.0f} s, {taken} updates | {len(claims)} claims |")
            print(rows[-1], flush=True)
            bad += len(claims)
        for (kind, word), rule in _HANGS.items():
            with running(command(kind, word, Path(folder))) as pid:
                began = time.monotonic()
                claims, taken = watch(pid, lambda update, rule=rule: rule in alarms_of(update), _HANG_LIMIT_S, load)
            others = [claim for claim in claims if not claim.startswith(f"{rule}:")]
            missed = len(claims) == len(others)
            bad += missed + len(others)
            what = "missed" if missed else f"reported after {time.monotonic() - began:.1f} s"
            rows.append(f"| {word}, {kind} | {taken} updates | {what}, {len(others)} other claims |")
            print(rows[-1], *others, sep="\n  ", flush=True)
    if load is not None:
        load.end()
    if options.write:
        table = "\n".join(("| program | watched | |", "| --- | --- | --- |", *rows))
        before, _, rest = PAGE.read_text().partition(_BEGIN)
        PAGE.write_text(f"{before}{_BEGIN}\n{table}\n{_END}{rest.partition(_END)[2]}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
