"""One round of the chaos test: an action on a target, a blow at a random moment, and a look at how the target fares."""

from __future__ import annotations

import contextlib
import os
import random
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux.procfs import (
    child_pids,
    command_line,
    process_ids,
    read_file,
    read_stat,
    status_fields,
    thread_ids,
    wait_channel,
)
from livedbg.model import ThreadState
from livedbg.probes.tracefs import NoTracefs, TraceEvents
from tests.touch.actions import Action
from tests.touch.aims import Running
from tests.touch.health import changed_code, counters, counts_on, family_untouched

__all__ = ["MARK", "SIGNALS", "Blow", "Outcome", "marked", "play"]

ROOT: Final = Path(__file__).parents[2]
SIGNALS: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGSTOP)
MARK: Final = "LIVEDBG_CHAOS"  # in the environment of all that a round starts, and of what that starts
_WELL_S: Final = 60.0
_START_S: Final = 100.0
_STOPPED_S: Final = 2.0  # how long victims stay stopped at least: it must count on meanwhile
_LOOK_S: Final = 0.003
_TRIES: Final = 20
_SAID_S: Final = 0.5


class Blow(NamedTuple):
    """What is done: a signal, to whom (`livedbg and guard`: to both at once; `all`: with gdb and other helpers)."""

    action: Action
    victims: str
    number: signal.Signals

    def __str__(self) -> str:
        return f"{self.action.name}: {self.number.name} to {self.victims}"


class Outcome(NamedTuple):
    """How a round ended.

    Attributes:
        aim: the target's kind.
        well_s: from the blow (from the end of a stop) until the target ran on untouched.
        wrong: what was wrong; "" when all was well.
    """

    aim: str
    blow: Blow
    well_s: float
    wrong: str


def play(target: Running, blow: Blow, chance: random.Random) -> Outcome:
    """Strike, and look."""
    for _ in range(_TRIES):
        with _Round(target, blow, chance) as one:
            if one.strike():
                return Outcome(target.aim.name, blow, *one.look())
    return Outcome(target.aim.name, blow, 0.0, "the victims never were there")


class _Round:
    """An action that runs, and one blow."""

    def __init__(self, target: Running, blow: Blow, chance: random.Random) -> None:
        self._target, self._blow, self._chance = target, blow, chance
        self._mark = secrets.token_hex(8)
        self._struck: set[int] = set()
        self._process = subprocess.Popen(
            blow.action.argv(target.pid, target.aim.thrown),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if blow.action.ready else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), MARK: self._mark},
            start_new_session=True,
        )

    def __enter__(self) -> _Round:
        if self._process.stdout is not None:
            line = self._process.stdout.readline()
            assert line == self._blow.action.ready, f"{self._blow.action.name} said {line!r}"
        return self

    def __exit__(self, *_: object) -> None:
        for pid in {self._process.pid, *self._helpers()}:
            _send(pid, signal.SIGCONT)
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def strike(self) -> bool:
        """Strike at a random moment; whether the victims were there."""
        end = time.monotonic() + _START_S
        while not self._victims():
            if self._process.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(_LOOK_S)
        time.sleep(self._chance.random() * self._blow.action.span_s)
        self._struck = self._victims()
        for pid in sorted(self._struck, key=lambda _: self._chance.random()):
            _send(pid, self._blow.number)
        return bool(self._struck)

    def look(self) -> tuple[float, str]:
        """How long it took until all was well, and what was not."""
        pid, stopped = self._target.pid, self._blow.number is signal.SIGSTOP
        if stopped:
            time.sleep(_STOPPED_S)
            if not self._counts(_WELL_S):
                return 0.0, f"it stands while livedbg is stopped: {self._said()}"
            then = self._chance.choice((signal.SIGCONT, signal.SIGKILL))
            for victim in self._struck:
                _send(victim, then)
        struck = time.monotonic()
        if not self._counts(_WELL_S):
            return 0.0, f"it does not count on: {self._said()}"
        self._process.terminate()
        if not _soon(lambda: family_untouched(pid)):
            return 0.0, f"it is traced or stands: {self._said()}"
        if not self._counts(_WELL_S):
            return 0.0, f"it does not count on after the end: {self._said()}"
        well_s = time.monotonic() - struck
        if not _soon(lambda: self._process.poll() is not None and not self._helpers()):
            return 0.0, f"left behind: {[_arguments(pid) for pid in (self._process.pid, *self._helpers())]}"
        if not _soon(lambda: changed_code(pid) == []):
            return 0.0, f"its code differs: {changed_code(pid)}"
        if not _soon(lambda: _left_definitions(self._process.pid) == []):
            return 0.0, f"definitions are left: {_left_definitions(self._process.pid)}"
        return well_s, ""

    def _counts(self, deadline_s: float) -> bool:
        layout = self._target.aim.layout
        return counts_on(self._target.counted, layout, deadline_s, layout)

    def _said(self) -> str:
        """Which counters stand, and the threads that do."""
        layout = self._target.aim.layout
        before = counters(self._target.counted, layout)
        time.sleep(_SAID_S)
        stand = [name for name, count in counters(self._target.counted, layout).items() if count == before[name]]
        return f"{stand} stand, {_standing(self._target.pid)}"

    def _victims(self) -> set[int]:
        """Those to strike; empty as long as one is missing."""
        found: dict[str, list[int]] = {}
        pids = [self._process.pid] if _lives(self._process.pid) else []
        for pid in pids:
            pids += child_pids(pid)
            found.setdefault(_role(pid), []).append(pid)
        if self._blow.victims == "all":
            roles = [role for role in self._blow.action.victims if " " not in role and role != "all"]
            return set(pids) if all(role in found for role in roles) else set()
        roles = self._blow.victims.split(" and ")
        return {pid for role in roles for pid in found[role]} if all(role in found for role in roles) else set()

    def _helpers(self) -> list[int]:
        return [pid for pid in marked(self._mark) if pid != self._process.pid]


def marked(mark: str) -> list[int]:
    """All that was started with a mark in its environment (MARK), wherever it hangs by now, and that lives."""
    word, found = f"{MARK}={mark}".encode(), []
    for pid in process_ids():
        with contextlib.suppress(OSError):
            if word in read_file(f"/proc/{pid}/environ").split(b"\0") and _lives(pid):
                found.append(pid)
    return found


def _role(pid: int) -> str:
    arguments = _arguments(pid)
    if any(argument.endswith("guard.py") for argument in arguments):
        return "guard"
    if any("livedbg.unwind.helper" in argument for argument in arguments):
        return "unwinder"
    return "gdb" if any("--interpreter=" in argument for argument in arguments) else "livedbg"


def _left_definitions(pid: int) -> list[str]:
    """Probes of a livedbg that has ended, once the next one has begun."""
    try:
        with TraceEvents() as trace:
            return re.findall(rf"^p:livedbg_{pid}/.*$", trace.defined(), re.MULTILINE)
    except (NoTracefs, PermissionError):
        return []


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


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


def _standing(pid: int) -> list[str]:
    """The threads of a process and its children that are traced or stand."""
    found = []
    for process in (pid, *child_pids(pid)):
        with contextlib.suppress(OSError):
            for tid in thread_ids(process):
                state, tracer = read_stat(process, tid).state.value, status_fields(process, tid)["TracerPid"]
                if tracer != "0" or state in ("stopped", "traced"):
                    found.append(f"{process}/{tid} {state} by {tracer} in {wait_channel(process, tid)}")
    return found or ["no thread is traced or stands"]


def _soon(look: Callable[[], bool]) -> bool:
    end = time.monotonic() + _WELL_S
    while not look():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
