"""`livedbg watch`: prints findings as they appear, without a screen.

With `--save` it writes down all that is known when the job gets stuck or crashes, and before a time limit ends it.

Invariants:
    saving.V1. A task that its runtime will end with an error is saved once, before that: when half of its time is over,
        and no earlier than `_BEFORE_NS` before the end.
    saving.V2. What was saved stays: every save has a folder of its own, at most `MOST` of them.
"""

from __future__ import annotations

import queue
import shlex
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from livedbg.analysis.diagnosis import VerdictState
from livedbg.cli.hits import FindingsPrinter
from livedbg.cli.report import render
from livedbg.cli.target_options import TargetOptions, target_options
from livedbg.commands.launch_tracing import TracingStatus, trace_launches
from livedbg.commands.output import code_of, warn, warn_all
from livedbg.commands.signals import TimeLimit, quit_on_signals, running
from livedbg.model import Task, TaskState
from livedbg.model.errors import UsageError
from livedbg.model.intents import WantStacks
from livedbg.model.snapshot import Snapshot
from livedbg.report.build import verdict_line
from livedbg.session.live import LiveView
from livedbg.session.systems import declared, note_problem
from livedbg.session.view import SessionView, Update
from livedbg.text.json_text import json_bytes
from livedbg.text.private_files import write_private
from livedbg.text.quantities import duration
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.touch.config import refuse_touch

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
    """Return the tasks that their runtime will end with an error before long, if they do not complete (V1)."""
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
    """Saves the state of a session when the verdict turns bad or a task is about to end, in a folder created then."""

    def __init__(self, view: SessionView, folder: Path) -> None:
        self._view = view
        self._folder = folder
        self._state: VerdictState | None = None
        self._ending: set[str] = set()
        self._count = 0

    def take(self, update: Update) -> None:
        """Save if it is due; may take seconds, as stacks of all threads are read first."""
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


_ANSWER_S: Final = 0.5  # of a session that a time limit ends before its first look was complete
_CHECK_S: Final = 1.0  # how often a printer without news sees whether anybody reads
_ASK_AGAIN_S: Final = 30.0
_COMMAND_S: Final = 0.5  # for the command of a stall that is found as the time limit is over
_STUCK = {VerdictState.STALLED, VerdictState.DEADLOCK}


@click.command("watch")
@target_options
@click.option(
    "--until", type=click.Choice([state.value for state in VerdictState]), help="End when the verdict is this."
)
@click.option("--timeout", type=click.FloatRange(0.1), metavar="SECONDS", help="End after SECONDS.")
@click.option("--on-stall", metavar="CMD", help="Run CMD on a stall, with the verdict as JSON on its standard input.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Save all that is known to DIR on a stall or crash, and before a time limit ends the job.",
)
@click.option("--launches", is_flag=True, help="Trace kernel launches too, and report when they stop.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(
    options: TargetOptions,
    until: str | None,
    timeout: float | None,
    on_stall: str | None,
    save: Path | None,
    launches: bool,
    as_json: bool,
) -> int:
    """Print findings as they appear, until Ctrl-C, the end of the target, --until or --timeout."""
    options = options.resolved()
    warn_all(options.found.problems)
    stall = OnStall(on_stall) if on_stall is not None else None
    request = replace(options.request(), ends_with_processes=bool(options.found.processes))
    limit = TimeLimit(timeout, probes=launches)
    if launches:
        refuse_touch(request, "--launches sets probes")
        if not request.processes:
            raise UsageError("--launches needs a process.", "livedbg watch PID --launches")
    with quit_on_signals(), running(request, limit=limit) as view:
        try:
            if launches:
                processes = [f"process:{request.host}/{process.pid}" for process in request.processes]
                if not trace_launches(view, processes, limit_s=limit.left_s):
                    warn(f"The probes were not set within {timeout:g} s.", "--timeout SECONDS")
                view.subscribe(TracingStatus().report)
                view.subscribe(_Asker(view).take)
            saver = Saver(view, save) if save is not None else None
            update, in_time = follow(view, FindingsPrinter(as_json), until, limit.left_s, stall, saver)
        except KeyboardInterrupt:
            update, in_time = view.latest(), True
    return code_of(update, in_time=in_time)


class OnStall:
    """Runs a command each time the job gets stuck. The line is split as a shell would; no shell runs it.

    Raises:
        UsageError: the line can't be split.
    """

    def __init__(self, line: str) -> None:
        try:
            self._argv = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"--on-stall: {error}.", "quote it: --on-stall 'notify-send stuck'") from None
        if not self._argv:
            raise UsageError("--on-stall needs a command.", "--on-stall 'notify-send stuck'")
        self._stuck = False

    def take(self, update: Update, limit_s: float | None = None) -> None:
        """Run the command if the verdict has changed to stuck; wait `limit_s` for its end, after which it goes on."""
        verdict = update.diagnosis.verdict
        stuck = verdict.state in _STUCK
        if stuck and not self._stuck:
            try:
                child = subprocess.Popen(self._argv, stdin=subprocess.PIPE)
                child.communicate(json_bytes(verdict_line(verdict, update.snapshot.now().wall_ns)), limit_s)
            except subprocess.TimeoutExpired:
                warn(f"--on-stall: {self._argv[0]} had not ended by the time limit. It goes on.")
            except OSError as error:
                warn(f"--on-stall: {self._argv[0]} can't be run: {error.strerror}.")
        self._stuck = stuck


class _Asker:
    """Asks for the stacks that systems want once launches are traced: others are taken rarely, and one may explain why.

    Of a process or a thread it asks once, and again after a while.
    """

    def __init__(self, view: LiveView) -> None:
        self._view = view
        self._asked: dict[str, float] = {}

    def take(self, update: Update) -> None:
        for system, wanted in declared(lambda system: system.stacks_wanted):
            try:
                for process, threads in wanted(update.snapshot, update.diagnosis):
                    self._ask(process, *threads)
            except Exception as error:  # systems.Y2: a system that fails is a problem, and ends nothing
                note_problem(system.name, "it can't say which stacks it wants", error)

    def _ask(self, process: str, *threads: str) -> None:
        now_s, asked = time.monotonic(), threads or (process,)
        if now_s - self._asked.get(asked[0], -_ASK_AGAIN_S) >= _ASK_AGAIN_S:
            self._asked[asked[0]] = now_s
            self._view.send(WantStacks(process=process, threads=threads))


def follow(
    view: LiveView,
    printer: FindingsPrinter,
    until: str | None = None,
    timeout: float | None = None,
    on_stall: OnStall | None = None,
    saver: Saver | None = None,
) -> tuple[Update, bool]:
    """Print the findings of a session; return the last update, and whether it ended before `timeout`."""
    updates: queue.SimpleQueue[Update] = queue.SimpleQueue()
    unsubscribe = view.subscribe(updates.put)
    end = None if timeout is None else time.monotonic() + timeout
    try:
        view.wait_settled(10.0 if timeout is None else min(timeout, 10.0))
        update = view.latest()
        while True:
            found = update.ended or update.diagnosis.verdict.state.value == until
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0 and not found:
                update = (update if view.wait_settled(0) else view.out_of_time(_ANSWER_S)).so_far()
            printer.show(update, last=found or (left is not None and left <= 0))
            if on_stall is not None:
                on_stall.take(update, None if left is None else max(_COMMAND_S, left))
            if saver is not None:
                saver.take(update)
            if found:
                return update, True
            if left is not None and left <= 0:
                return update, False
            try:
                update = updates.get(timeout=min(_CHECK_S, _CHECK_S if left is None else left))
                while not update.ended:
                    update = updates.get_nowait()
            except queue.Empty:
                printer.check()
    finally:
        unsubscribe()
