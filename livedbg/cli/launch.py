"""`livedbg launch`: start a command and attach to it."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO

import click

from livedbg.app.options import LEFT_RUNNING, AppOptions
from livedbg.cli.attach import app_options
from livedbg.cli.hits import FindingsPrinter, HitPrinter
from livedbg.cli.job import Job, LastWill, Order, job_of, picked_recipes
from livedbg.cli.one_run import run_once
from livedbg.cli.report import render
from livedbg.cli.target_options import FILE, known_signatures, redact_option, signatures_option
from livedbg.cli.watch import OnStall, follow
from livedbg.commands.output import TIME_LIMIT, code_of, note, warn, write
from livedbg.commands.signals import Quit, hung_up, quit_on_signals, started
from livedbg.model.errors import LivedbgError, UsageError
from livedbg.repeats.compare import Comparison, Group, compare
from livedbg.repeats.marking import Ran, marked
from livedbg.repeats.outcome import RunEnd
from livedbg.repeats.pool import Pool, check_visible, devices_of
from livedbg.session.hostinfo import host_name
from livedbg.session.launch import launch_folder
from livedbg.session.live import LiveView
from livedbg.text.json_text import json_bytes
from livedbg.text.quantities import duration
from livedbg.text.sanitize import clean_line

_CRASHED: Final = 11
_HUNG: Final = 10
_WIDTH: Final = 100
_INDENT: Final = " " * 6
_ENDED: Final = 52  # characters of how it ended, in the table
_ALSO: Final = 3  # runs before it in which markers are looked for as one ends


def repeat(order: Order, count: int, parallel: int, devices: Sequence[str], as_json: bool) -> int:
    """Run a command many times and report how the runs ended.

    Raises:
        UsageError: it can't be started.
        SourceError: its output can't be kept.
        KeyboardInterrupt: the user ended it; the runs so far were reported.
    """
    pool = Pool(count, parallel, devices, lambda number, device, stop: run_once(order, number, device, stop))
    ran: list[Ran] = []
    interruption: BaseException | None = None
    pool.start()
    try:
        _collect(pool, ran, count)
    except LivedbgError as error:  # a run could not be started or kept: the others still count
        if not ran:
            raise
        interruption = error
    except (KeyboardInterrupt, Quit, OSError) as ended:
        interruption = ended
        if hung_up(ended):  # nobody reads a report
            order.left.set()
            raise
        if isinstance(ended, OSError):
            raise
        warn("killing the current runs")
        pool.stop()
        _collect(pool, ran, count)
    finally:
        pool.stop()
        pool.join()
    ends = [one.end for one in marked(sorted(ran, key=lambda one: one.end.run))]
    outcome = compare(ends, buffered=not any(recipe.wrapper[:1] == ("stdbuf",) for recipe, _ in order.recipes))
    if as_json:
        click.echo(_encoded(order, count, ends, outcome, interruption is not None).decode())
    else:
        for line in _report(ends, outcome):
            click.echo(line)
    warn(f"each run's output and recording are in {order.folder}")
    if interruption is not None:
        raise interruption
    return _CRASHED if outcome.crashes != "well" else _HUNG if outcome.hangs != "well" else 0


def _collect(pool: Pool[Ran], ran: list[Ran], count: int) -> None:
    for one in pool.results():
        ran.append(one)
        end = one.end
        if end.bad and not end.marker:  # pairs of markers may show in several runs only
            end = next(iter(marked([one, *ran[-_ALSO - 1 : -1]]))).end
        for remark in end.notes:
            warn(f"run {end.run}: {remark}")
        warn(_progress(end, count))


def _progress(end: RunEnd, count: int) -> str:
    on = f" on device {end.device}" if end.device else ""
    where = f" {_place(end)}" if end.notable and end.place else ""
    return clean_line(f"run {end.run} of {count}{on}: {end.ending}{where} ({duration(end.seconds * 1e9)})")


def _place(end: RunEnd) -> str:
    if end.marker and end.place == end.marker:
        return f"after `{end.marker}`"
    return f"in `{end.stack[0]}`" if end.stack else f"after the line `{end.last_line}`"


def _report(ends: Sequence[RunEnd], outcome: Comparison) -> Iterator[str]:
    by_number = {end.run: end for end in ends}
    rows = [("RUNS", "ENDED", "WHERE")]
    rows += [(str(len(group.runs)), group.ending, group.place) for group in outcome.groups]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    ended = min(widths[1], _ENDED)
    for (runs, ending, place), group in zip(rows, [None, *outcome.groups], strict=True):
        shown = ending if len(ending) <= ended else f"{ending[: ended - 1]}…"
        lead = f"{runs:>{widths[0]}}  {shown:{ended}}  "
        yield from textwrap.wrap(place, _WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead)) or [
            lead.rstrip()
        ]
        if group is not None:
            if shown != ending:
                yield from textwrap.wrap(ending, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
            yield from _details(group, by_number)
    yield ""
    for sentence in outcome.sentences:
        yield from textwrap.wrap(sentence, _WIDTH)
    for line in outcome.next:
        yield f"  next: {line}"


def _details(group: Group, ends: dict[int, RunEnd]) -> Iterator[str]:
    first = next((ends[run] for run in group.runs if ends[run].stack), ends[group.runs[0]])
    numbers = ", ".join(map(str, group.runs[:12])) + (", …" if len(group.runs) > 12 else "")
    yield f"      runs {numbers}"
    if first.message:
        yield from textwrap.wrap(f"message: {first.message}", _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    if first.verdict:
        yield from textwrap.wrap(first.verdict, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    for number, frame in enumerate(first.stack[:8]):
        yield f"      #{number} {frame}"
    if group.stacks > 1:
        yield f"      ({group.stacks} different stacks; this is run {first.run}'s)"


def _encoded(order: Order, count: int, ends: Sequence[RunEnd], outcome: Comparison, interrupted: bool) -> bytes:
    return json_bytes(
        {
            "schema": "livedbg.repeat/1",
            "command": order.words,
            "asked": count,
            "interrupted": interrupted,
            "folder": str(order.folder),
            "comparison": outcome,
            "runs": ends,
        },
        pretty=True,
    )


_FOUND: Final = (10, 11, 12)
"""Exit codes of what is wrong."""

_FORMS = {".json": "json", ".md": "markdown"}


@click.command("launch", context_settings={"allow_interspersed_args": False})
@click.option("--headless", is_flag=True, help="No screen: relay the output of CMD, print findings on standard error.")
@click.option("--timeout", type=click.FloatRange(0.1), metavar="SECONDS", help="Headless: kill CMD after SECONDS.")
@click.option(
    "--report", "report_file", type=FILE, help="Headless: write a report at exit or time limit (.json, .md, else text)."
)
@click.option("--on-stall", metavar="CMD", help="Headless: run this command on a stall.")
@click.option(
    "--catch",
    "catches",
    multiple=True,
    metavar="TYPE",
    help="Catch TYPE (see `livedbg catch`) from the first instruction on; repeatable.",
)
@click.option(
    "--follow/--no-follow",
    "children",
    default=True,
    help="With --catch: include child processes of CMD.  [default: follow]",
)
@click.option(
    "--recipe",
    "wanted",
    multiple=True,
    metavar="NAME[=OPTION,…]",
    help="Apply a launch preset (see `livedbg recipes`); repeatable.",
)
@click.option(
    "--repeat", "count", type=click.IntRange(1), metavar="N", help="Run CMD N times and compare how the runs end."
)
@click.option("--parallel", type=click.IntRange(1), metavar="K", help="With --repeat: run K at a time.")
@click.option("--gpus", metavar="LIST", help="With --repeat: give each run one GPU of a list such as 0-3,5.")
@click.option("--json", "as_json", is_flag=True, help="With --repeat: print the comparison as JSON.")
@click.option("--detach", is_flag=True, help="Leave CMD running when livedbg quits.")
@click.option("--logs", multiple=True, metavar="PATH", help="More logs to read; repeatable.")
@signatures_option
@redact_option
@app_options
@click.argument("argv", nargs=-1, required=True, metavar="[--] CMD [ARG]...", type=click.UNPROCESSED)
def command(
    headless: bool,
    timeout: float | None,
    report_file: Path | None,
    on_stall: str | None,
    catches: tuple[str, ...],
    children: bool,
    wanted: tuple[str, ...],
    count: int | None,
    parallel: int | None,
    gpus: str | None,
    as_json: bool,
    detach: bool,
    logs: tuple[str, ...],
    signatures: tuple[str, ...],
    redact: bool,
    screen: AppOptions,
    argv: tuple[str, ...],
) -> int:
    """Start CMD and debug it. Its output goes to files; the Logs screen shows them.

    When you quit the app, it asks whether to kill CMD or leave it running (--detach: leave it). If the terminal goes
    away (SIGHUP), CMD keeps running, and its output still goes to its files. SIGTERM and, headless, Ctrl-C kill it.
    If CMD crashes, livedbg names the place: it sets PYTHONFAULTHANDLER, and catches signals of faults if permitted;
    else it lets CMD write a core file of at most 256 MiB, reads that and removes it.
    If CMD exits by itself, its exit code is returned. Without a terminal, or with --timeout, --report or --on-stall,
    livedbg runs headless.

    --repeat runs CMD N times, headless. Each run has a folder with its output and a recording; --timeout is per
    run. The runs end with livedbg, but for those that run as the terminal goes away. The exit code is 0 if all runs
    ended well, 11 if some crashed, 10 if some hung.
    """
    if argv[0] == "--":
        argv = argv[1:]
    if not argv:
        raise UsageError("Missing a command.", "livedbg launch -- python train.py")
    known_signatures(signatures)
    if count is not None:
        if report_file or on_stall or detach:
            raise UsageError("--repeat excludes --report, --on-stall and --detach.", "use --json")
        devices = devices_of(gpus) if gpus is not None else ()
        check_visible(devices, os.environ)
        picked = picked_recipes(wanted)
        folder = launch_folder()
        order = Order(argv, logs, catches, picked, children, timeout, folder, redact, signatures)
        with quit_on_signals():
            try:
                return repeat(order, count, min(parallel or len(devices) or 1, count), devices, as_json)
            finally:
                with contextlib.suppress(OSError):
                    folder.rmdir()  # nothing could be started
    if parallel or gpus or as_json:
        raise UsageError("--parallel, --gpus and --json need --repeat.", "livedbg launch --repeat 20 -- CMD")
    unseen = headless or timeout or report_file or on_stall or not (sys.stdin.isatty() and sys.stdout.isatty())
    held: list[str] = []
    with quit_on_signals():  # from before it is started: a signal must not leave it behind
        order = Order(argv, logs, catches, picked_recipes(wanted), children, redact=redact, signatures=signatures)
        job = job_of(order, note if unseen else held.append)
        if unseen:
            stall = OnStall(on_stall) if on_stall is not None else None
            return _headless(job, timeout, report_file, stall, detach)
        return _in_app(job, screen, detach, held)


def _in_app(job: Job, screen: AppOptions, detach: bool, held: list[str]) -> int:
    end = LastWill(detach, job.watch)
    while held:  # what is to be known before it starts
        note(held.pop(0))
    with end:
        child = end.child = job.start(detach=detach)
        title = f"{host_name()}:{child.pid} {' '.join(job.order.words)}"
        view = LiveView(job.request(child), title=title)
        job.arm(view, child)
        code = end.in_app(view, job, screen)
        ended = child.exit_code
    if child.exit_code is not None:
        job.watch.finish(child)
    with contextlib.suppress(OSError):  # the terminal is gone
        for line in held:
            note(line)
        if child.exit_code is None:
            note(f"{job.order.argv[0]} goes on: livedbg attach {child.pid}")
        click.echo(f"output: {child.folder}", err=True)
    return (code if code != LEFT_RUNNING else 0) or ended or 0


def _headless(job: Job, timeout: float | None, report_file: Path | None, on_stall: OnStall | None, detach: bool) -> int:
    relays: list[_Relay] = []
    interrupted = False
    end = LastWill(detach, job.watch)
    try:
        with end:
            child = end.child = job.start(detach=detach)
            unread = (lambda: None) if detach else child.end  # as SIGPIPE ends a command in a pipeline
            relays += [_Relay(child.stdout, sys.stdout, unread), _Relay(child.stderr, sys.stderr, unread)]
            view = LiveView(job.request(child))
            job.arm(view, child)
            hits = HitPrinter(False, error=True)
            with started(view):
                if job.plan.catch:
                    view.subscribe(lambda update: hits.show(update.snapshot))
                printer = FindingsPrinter(False, error=True, profiled=any(part.beside for part in job.plan.parts))
                waiter = threading.Thread(target=child.wait, daemon=True)
                waiter.start()
                try:
                    update, in_time = follow(view, printer, None, timeout, on_stall)
                except KeyboardInterrupt:
                    update, in_time, interrupted = view.latest(), True, True
                if not job.plan.catch:
                    hits.show_faults(update.snapshot)
                if report_file is not None:
                    write(render(update, _FORMS.get(report_file.suffix, "text")), report_file)
            if interrupted:
                raise KeyboardInterrupt
            late = code_of(update) if code_of(update) in _FOUND else TIME_LIMIT  # never the code of a success
            code = child.wait(5.0) or 0 if in_time else late
    finally:
        for relay in relays:
            relay.finish()
    if child.exit_code is not None:
        job.watch.finish(child)
    if not in_time:
        note(f"{job.order.argv[0]} was killed after {timeout:g} s")
    for relay in relays:
        if relay.error is not None and not detach:
            raise relay.error
    return code


class _Relay:
    """Copies a growing file to a stream of ours; calls `unread` once, on its thread, when nobody reads that."""

    def __init__(self, path: Path, to: TextIO, unread: Callable[[], None]) -> None:
        self.error: OSError | None = None
        self._path = path
        self._to = to
        self._unread = unread
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        with self._path.open("rb") as source:
            last = False
            while True:
                while data := source.read(1 << 16):
                    try:
                        self._to.buffer.write(data)
                        self._to.flush()
                    except OSError as error:
                        self.error = error
                        if error.errno != errno.EIO:  # else the terminal is gone (Q1)
                            self._unread()
                        return
                if last:
                    return
                last = self._done.wait(0.05)

    def finish(self) -> None:
        self._done.set()
        self._thread.join(5)
