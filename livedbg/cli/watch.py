"""`livedbg watch`: prints findings as they appear, without a screen."""

from __future__ import annotations

import queue
import shlex
import subprocess
import time
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from livedbg.analysis.diagnosis import VerdictState
from livedbg.cli.findings import FindingsPrinter
from livedbg.cli.saving import Saver
from livedbg.cli.target_options import TargetOptions, target_options
from livedbg.commands.exit_codes import code_of
from livedbg.commands.launch_tracing import TracingStatus, trace_launches
from livedbg.commands.messages import warn, warn_all
from livedbg.commands.sessions import running
from livedbg.commands.signals import quit_on_signals
from livedbg.commands.time_limit import TimeLimit
from livedbg.model.errors import UsageError
from livedbg.model.intents import WantStacks
from livedbg.report.lines import verdict_line
from livedbg.session.live import LiveView
from livedbg.session.systems import declared, note_problem
from livedbg.session.view import Update
from livedbg.text.json_text import json_bytes
from livedbg.touch.config import refuse_touch

__all__ = ["OnStall", "command", "follow"]

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
            raise UsageError("--launches needs a process.", "livedbg watch PID --launches", "usage")
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
    """Runs a command each time the job begins to be stuck.

    Args:
        line: the command with its arguments, split as a shell would; no shell runs it.

    Raises:
        UsageError: the line can't be split.
    """

    def __init__(self, line: str) -> None:
        try:
            self._argv = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"--on-stall: {error}.", "quote it: --on-stall 'notify-send stuck'", "usage") from None
        if not self._argv:
            raise UsageError("--on-stall needs a command.", "--on-stall 'notify-send stuck'", "usage")
        self._stuck = False

    def take(self, update: Update, limit_s: float | None = None) -> None:
        """Run the command when the verdict has become one of being stuck.

        Args:
            update: the newest.
            limit_s: how long to wait for its end; it goes on after that.
        """
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
        """Ask for what is wanted."""
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
    """Print what a session finds.

    Returns:
        The last update, and whether it ended before `timeout`.
    """
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
