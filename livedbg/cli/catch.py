"""`livedbg catch`: traces exceptions, calls and signals; with --stop it stops the throwing thread."""

from __future__ import annotations

import queue
import select
import sys
from typing import Any, Final

import click

from livedbg.cli.hits import HitPrinter
from livedbg.cli.target_options import redact_option
from livedbg.commands.output import TIME_LIMIT, warn, warn_all
from livedbg.commands.signals import TimeLimit, quit_on_signals, started
from livedbg.model.catchpoints import CatchpointState
from livedbg.model.errors import TargetError, UsageError
from livedbg.model.intents import Resume
from livedbg.model.snapshot import Snapshot
from livedbg.session import catch_options as catch_presets
from livedbg.session.adapter import Request
from livedbg.session.catch_options import catch_intent, catch_options
from livedbg.session.hostinfo import host_name
from livedbg.session.live import LiveView
from livedbg.session.registry import adapter_classes
from livedbg.session.systems import systems
from livedbg.session.targets import resolve
from livedbg.session.view import Update
from livedbg.touch.config import refuse_touch

_LOGS_S: Final = 10.0  # at most, until logs were read
_CHECK_S: Final = 0.5
_OVER: Final = (CatchpointState.DONE, CatchpointState.FAILED)


@click.command("catch")
@click.argument("words", nargs=-1, metavar="TARGET... TYPE")
@catch_options
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="End after SECONDS (exit code 4 if too little matched).",
)
@click.option("--gdb", metavar="PATH", help="gdb for --stop; it also unwinds stack copies, in place of drgn.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@redact_option
@click.option("--presets", is_flag=True, help="List the presets for TYPE.")
def command(
    words: tuple[str, ...],
    timeout: float | None,
    gdb: str | None,
    as_json: bool,
    redact: bool,
    presets: bool,
    **options: Any,
) -> int:
    """Trace exceptions, function calls or signals: print type, message and stack of each. Does not stop the target.

    TYPE is a C++ type, which includes derived types (std::runtime_error), a glob ('std::*_error'), a regular expression
    between slashes (/Error$/), a Python exception (python:KeyError), a signal (SIGSEGV), a preset (--presets), one of
    gdb's words for every C++ exception (throw, rethrow, catch), or with `--moment call` a function name.

    With --stop, gdb attaches in non-stop mode and stops only the throwing thread, until its frames, variables and
    source are read, usually for some hundredths of a second.
    """
    if presets:
        for name, preset in catch_presets.presets().items():
            click.echo(f"{name:10} {preset.about} ({preset.moment}: {', '.join(preset.patterns)})")
        return 0
    if len(words) < 2:
        raise UsageError("Missing a TARGET or a TYPE.", "livedbg catch 4711 std::runtime_error")
    *targets, pattern = words
    catch_intent("", pattern, **options)
    found = resolve(targets)
    warn_all(found.problems)
    host = host_name()
    request = Request(
        host=host, processes=found.processes, tree=options["follow"], stacks="none", redact=redact, gdb=gdb
    )
    refuse_touch(request, "--stop stops a thread" if options["stop"] else "A catchpoint sets probes")
    limit = TimeLimit(timeout, probes=True, attaches=options["stop"])
    intents = [catch_intent(f"process:{host}/{target.pid}", pattern, **options) for target in found.processes]
    count = intents[0].count or None
    # a stop must not outlast the watchdogs of the target's runtime, which its log names
    watchdogs = tuple(name for system in systems() for name in system.watchdogs)
    adapters = ("proc", "stopping", "logs", *watchdogs) if options["stop"] else ("proc", "exceptions")
    classes = adapter_classes()
    view = LiveView(request, adapters=[classes[name]() for name in adapters if name in classes])
    updates: queue.SimpleQueue[Update] = queue.SimpleQueue()
    view.subscribe(updates.put)
    printer = HitPrinter(as_json, caught_only=True)
    with quit_on_signals():
        try:
            with started(view, limit):
                if options["stop"]:
                    view.wait_settled(limit.within(_LOGS_S))  # a watchdog is known once the logs are read
                for intent in intents:
                    view.send(intent)
                in_time = _print_hits(view, updates, printer, len(found.processes), count, limit)
        except KeyboardInterrupt:
            in_time = True
        finally:
            printer.show(view.latest().snapshot)
            printer.sum_up(view.latest().snapshot)
    return 0 if in_time else after_the_limit(view.latest().snapshot, count, timeout)


def after_the_limit(snapshot: Snapshot, count: int | None, timeout: float | None) -> int:
    """Return the exit code after the time limit, and name what was not traced by then."""
    points = snapshot.catchpoints.values()
    if not points or any(point.state is CatchpointState.ARMING for point in points):
        warn(f"Not all catchpoints were armed within {timeout:g} s.", "--timeout SECONDS")
    return 0 if sum(point.hits for point in points) >= (count or 1) else TIME_LIMIT


def _print_hits(
    view: LiveView,
    updates: queue.SimpleQueue[Update],
    printer: HitPrinter,
    targets: int,
    count: int | None,
    limit: TimeLimit,
) -> bool:
    """Print hits until done; return False if the time limit ended it.

    Raises:
        TargetError: no probe could be set.
    """
    while limit.left_s != 0:
        try:
            update = updates.get(timeout=limit.within(_CHECK_S))
        except queue.Empty:
            _resume_stopped(view, view.latest().snapshot)
            continue
        snapshot = update.snapshot
        printer.show(snapshot)
        _resume_stopped(view, snapshot)
        points = list(snapshot.catchpoints.values())
        if len(points) == targets and all(point.state is CatchpointState.FAILED for point in points):
            raise TargetError(points[0].note, points[0].remedy)
        if update.ended or view.wait_ended(0):
            return True
        if len(points) == targets and all(point.state in _OVER for point in points):
            return True
        if count is not None and targets > 1 and sum(point.hits for point in points) >= count:
            return True
    return False


def _resume_stopped(view: LiveView, snapshot: Snapshot) -> None:
    """Resume the stopped threads when Enter is pressed."""
    stopped = [point.id for point in snapshot.catchpoints.values() if point.stopped_thread]
    if stopped and sys.stdin.isatty() and select.select([sys.stdin], [], [], 0)[0]:
        sys.stdin.readline()
        for point in stopped:
            view.send(Resume(catchpoint=point))
