"""`watch --save`: writes down all that is known when the job gets stuck or crashes, and before a time limit ends it.

Invariants:
    saving.V1. A task that its runtime will end with an error is saved once, before that: when half of its time is over,
        and no earlier than `_BEFORE_NS` before the end.
    saving.V2. What was saved stays: every save has a folder of its own, at most `MOST` of them.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from livedbg.analysis.diagnosis import VerdictState
from livedbg.cli.report import render
from livedbg.commands.messages import warn
from livedbg.model import Task, TaskState
from livedbg.model.intents import WantStacks
from livedbg.model.snapshot import Snapshot
from livedbg.session.systems import declared, note_problem
from livedbg.session.view import SessionView, Update
from livedbg.text.private_files import write_private
from livedbg.text.quantities import duration
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word

__all__ = ["MOST", "Saver", "about_to_end"]

MOST: Final = 10
"""Saves of one command."""

_BEFORE_NS: Final = 30_000_000_000
_STACKS_S: Final = 5.0  # for stacks that are taken because of it
_POLL_S: Final = 0.1
_BAD: Final = {
    VerdictState.STALLED: "the job is stalled",
    VerdictState.DEADLOCK: "the job is in a deadlock",
    VerdictState.CRASHED: "the job has crashed",
}


def about_to_end(snapshot: Snapshot) -> list[Task]:
    """The tasks that their runtime will end with an error before long, if they do not complete (V1)."""
    now_ns = snapshot.now().wall_ns
    found = []
    for task in snapshot.tasks.values():
        if task.ends_wall_ns is None or task.state is not TaskState.RUNNING or now_ns >= task.ends_wall_ns:
            continue
        whole_ns = task.ends_wall_ns - (task.since_wall_ns if task.since_wall_ns is not None else now_ns)
        if task.ends_wall_ns - now_ns <= min(_BEFORE_NS, max(whole_ns, 0) // 2):
            found.append(task)
    return found


class Saver:
    """Saves what is known of a session, when it is time.

    Args:
        view: the session.
        folder: where; it is made when there is something to save.
    """

    def __init__(self, view: SessionView, folder: Path) -> None:
        self._view = view
        self._folder = folder
        self._state: VerdictState | None = None
        self._ending: set[str] = set()
        self._count = 0

    def take(self, update: Update) -> None:
        """Save if it is time. It may take some seconds: stacks of all threads are asked for first."""
        state = update.diagnosis.verdict.state
        reason = _BAD.get(state, "") if state is not self._state else ""
        self._state = state
        ending = [task for task in about_to_end(update.snapshot) if task.id not in self._ending]
        if ending:
            self._ending.update(task.id for task in ending)
            first = min(ending, key=lambda task: task.ends_wall_ns or 0)
            left_ns = max(0, (first.ends_wall_ns or 0) - update.snapshot.now().wall_ns)
            reason = f"{clean_line(first.name)} ends with an error in {duration(left_ns)}"
        if reason and not update.ended:
            self._save(reason)

    def _save(self, reason: str) -> None:
        self._count += 1
        if self._count > MOST:
            if self._count == MOST + 1:
                warn(f"{MOST} reports were saved; no more are.")
            return
        self._take_stacks()
        update = self._view.latest()
        folder = self._folder / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{self._count}"
        try:
            folder.mkdir(mode=0o700, parents=True)
            write_private(folder / "report.json", render(update, "json"))
            write_private(folder / "report.txt", render(update, "text"))
        except OSError as error:
            warn(f"{folder} can't be written: {error.strerror}.", "name another folder after --save")
            return
        for system, save in declared(lambda system: system.saves):
            try:
                save(update.snapshot, folder)
            except Exception as error:  # systems.Y2: a system that fails is a problem, and ends nothing
                note_problem(system.name, "what it knows was not saved", error)
        click.echo(f"Saved to {shell_word(str(folder))}: {reason}.", err=True)

    def _take_stacks(self) -> None:
        """Ask for the stacks of all processes, and wait until each has a newer one; not for long."""
        update = self._view.latest()
        asked_ns = time.monotonic_ns()
        wanted = [one.id for one in update.snapshot.processes.values() if one.target and not one.exited]
        for process in wanted:
            self._view.send(WantStacks(process=process))
        end_s = time.monotonic() + _STACKS_S
        while wanted and not update.ended and time.monotonic() < end_s:
            time.sleep(_POLL_S)
            update = self._view.latest()
            newer = {
                thread.process
                for name, stack in update.snapshot.stacks.items()
                if stack.taken_mono_ns >= asked_ns and (thread := update.snapshot.threads.get(name)) is not None
            }
            wanted = [one for one in wanted if one not in newer and not update.snapshot.processes[one].exited]
