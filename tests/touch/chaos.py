"""Kills gdb, livedbg and the guard at random moments of attach, hold and detach, and one that listens by debug
registers; looks how the target fares.

    python -m tests.touch.chaos [ROUNDS]

What can't be survived for sure is left out: a SIGKILL of the guard and of livedbg together. Then nobody is left to wake
the target; `kill -CONT` does.

Prints a table of figures; exit status 1 when a single round went wrong.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux.procfs import child_pids, command_line, read_stat
from livedbg.model import ThreadState
from tests.touch.health import changed_code, counters, counts_on, untouched

DRIVER: Final = Path(__file__).with_name("driver.py")
LISTEN: Final = Path(__file__).with_name("listen.py")
ROOT: Final = Path(__file__).parents[2]
_WELL_S: Final = 20.0
_CYCLE_S: Final = 0.09  # a little more than one attach, hold and detach takes


class Blow(NamedTuple):
    """What is done: a signal, to whom."""

    victims: tuple[str, ...]
    number: signal.Signals

    def __str__(self) -> str:
        return f"{' and '.join(self.victims)} by {self.number.name}"


BLOWS: Final = (
    Blow(("gdb",), signal.SIGKILL),
    Blow(("livedbg",), signal.SIGKILL),
    Blow(("guard",), signal.SIGKILL),
    Blow(("gdb", "livedbg"), signal.SIGKILL),
    Blow(("livedbg", "gdb"), signal.SIGKILL),
    Blow(("gdb", "guard"), signal.SIGKILL),
    Blow(("gdb",), signal.SIGTERM),
    Blow(("livedbg",), signal.SIGTERM),
    Blow(("gdb", "livedbg", "guard"), signal.SIGTERM),
    Blow(("gdb",), signal.SIGHUP),
    Blow(("gdb", "livedbg", "guard"), signal.SIGHUP),
    Blow(("gdb",), signal.SIGSTOP),
    Blow(("livedbg",), signal.SIGSTOP),
    Blow(("guard",), signal.SIGSTOP),
    Blow(("listener",), signal.SIGKILL),
    Blow(("listener",), signal.SIGTERM),
    Blow(("listener",), signal.SIGSTOP),
)


class Outcome(NamedTuple):
    """How a round ended.

    Attributes:
        well_s: from the blow until the target ran on untouched.
        wrong: what was wrong; "" when all was well.
    """

    blow: Blow
    well_s: float
    wrong: str


class Round:
    """One driver on a target, and one blow.

    Args:
        pid: the target.
        counted: its file of counters.
        blow: what is to come.
    """

    def __init__(self, pid: int, counted: Path, blow: Blow) -> None:
        self.pid = pid
        self._blow = blow
        self._counted = counted
        listens = blow.victims == ("listener",)
        argv = [str(LISTEN), str(pid), "0", "no such type"] if listens else [str(DRIVER), str(pid)]
        self._driver = subprocess.Popen(
            [sys.executable, *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        self._helpers: set[int] = set()

    def run(self, after_s: float) -> Outcome:
        """Strike after a time, and look."""
        assert self._driver.stdout is not None
        blow, line = self._blow, self._driver.stdout.readline()
        if line != b"READY\n":
            return Outcome(blow, 0.0, f"the driver said {line!r}")
        time.sleep(after_s)
        self._strike(blow)
        struck = time.monotonic()
        try:
            return Outcome(blow, *self._look(blow, struck))
        finally:
            self._clean_up()

    def _strike(self, blow: Blow) -> None:
        for victim in blow.victims:
            for pid in self._pids(victim):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, blow.number)

    def _pids(self, victim: str) -> list[int]:
        for pid in child_pids(self._driver.pid):
            self._helpers.add(pid)
        if victim in ("livedbg", "listener"):
            return [self._driver.pid]
        word = "guard.py" if victim == "guard" else "--interpreter="
        return [pid for pid in self._helpers if any(word in argument for argument in _arguments(pid))]

    def _look(self, blow: Blow, struck: float) -> tuple[float, str]:
        if not counts_on(self._counted, deadline_s=_WELL_S):
            return 0.0, f"it does not count on: {counters(self._counted)}, {_states(self.pid)}"
        well_s = time.monotonic() - struck
        self._pids("gdb")
        self._driver.kill()  # what the blow left of livedbg
        if not _soon(lambda: untouched(self.pid)):
            return 0.0, f"it is traced or stands: {_states(self.pid)}"
        if blow.number is not signal.SIGSTOP and not {"livedbg", "listener"}.isdisjoint(blow.victims):
            well_s = time.monotonic() - struck
        if blow.number is signal.SIGSTOP:
            self._wake_helpers()  # a gdb that is stopped while it holds nothing stays until somebody wakes it
        if not counts_on(self._counted, deadline_s=_WELL_S):
            return 0.0, f"it does not count on after the end: {_states(self.pid)}"
        changed = changed_code(self.pid)
        if changed:
            return 0.0, f"its code differs: {changed}"
        if blow.victims != ("guard",) and not _soon(lambda: not any(map(_lives, self._helpers))):
            return 0.0, f"helpers are left: {[_arguments(pid) for pid in self._helpers]}"
        return well_s, ""

    def _clean_up(self) -> None:
        self._driver.kill()
        self._driver.wait()
        assert self._driver.stdout is not None
        self._driver.stdout.close()
        self._wake_helpers()
        _soon(lambda: not any(map(_lives, self._helpers)))

    def _wake_helpers(self) -> None:
        for pid in self._helpers:
            if _arguments(pid) and _lives(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


def blows_for(pid: int) -> tuple[Blow, ...]:
    """All of them; without those to a listener where the kernel doesn't let us listen."""
    argv = [sys.executable, str(LISTEN), str(pid), "0", "*"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}) as listener:
        assert listener.stdout is not None
        heard = listener.stdout.readline() == b"READY\n"
        listener.kill()
    return tuple(blow for blow in BLOWS if heard or blow.victims != ("listener",))


def play(pid: int, counted: Path, rounds: int, seed: int = 0) -> list[Outcome]:
    """Rounds on one target, until one goes wrong: after that the target proves nothing any more."""
    chance, blows = random.Random(seed), blows_for(pid)
    outcomes: list[Outcome] = []
    for number in range(rounds):
        outcomes.append(Round(pid, counted, blows[number % len(blows)]).run(chance.random() * _CYCLE_S))
        if outcomes[-1].wrong:
            break
    return outcomes


def _arguments(pid: int) -> tuple[str, ...]:
    try:
        return command_line(pid)
    except OSError:
        return ()


def _lives(pid: int) -> bool:
    try:
        return read_stat(pid).state not in (ThreadState.ZOMBIE, ThreadState.DEAD)
    except OSError:
        return False


def _states(pid: int) -> str:
    try:
        return read_stat(pid).state.value
    except OSError:
        return "gone"


def _soon(look: Callable[[], bool]) -> bool:
    end = time.monotonic() + _WELL_S
    while not look():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _table(outcomes: list[Outcome]) -> str:
    lines = ["| blow | rounds | wrong | runs on after, median | worst |", "| --- | ---: | ---: | ---: | ---: |"]
    for blow in BLOWS:
        mine = [outcome for outcome in outcomes if outcome.blow == blow]
        times = [outcome.well_s * 1000 for outcome in mine if not outcome.wrong]
        if times:
            wrong = len(mine) - len(times)
            median, worst = statistics.median(times), max(times)
            lines.append(f"| {blow} | {len(mine)} | {wrong} | {median:.0f} ms | {worst:.0f} ms |")
    return "\n".join(lines)


def main(rounds: int) -> int:
    """Play on a target of our own, print the figures."""
    with tempfile.TemporaryDirectory(prefix="livedbg-chaos-") as folder:
        program, counted = Path(folder, "thrower"), Path(folder, "counters")
        source = ROOT / "tests" / "targets" / "thrower.cpp"
        subprocess.run(["g++", "-O1", "-g", "-pthread", str(source), "-o", str(program)], check=True)
        argv = [str(program), str(counted), "3", "2000", "1"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as target:
            assert target.stdout is not None
            target.stdout.readline()
            try:
                outcomes = play(target.pid, counted, rounds, seed=int(time.time()))
            finally:
                os.killpg(target.pid, signal.SIGKILL)  # with children that a wrong round left stopped
    print(_table(outcomes))
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    for outcome in wrong:
        print(f"{outcome.blow}: {outcome.wrong}")
    print(f"{len(outcomes)} rounds, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
