"""What commands share: options that say what to look at, and a session over it."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

import click

from livedbg.analysis.verdict import INCONCLUSIVE, exit_code, is_blind
from livedbg.cli.saying import warn, warn_all
from livedbg.cli.time_limit import TimeLimit
from livedbg.model.errors import SourceError, UsageError
from livedbg.session.adapter import Request
from livedbg.session.hostinfo import host_name
from livedbg.session.live import LiveView
from livedbg.session.session import EventSink
from livedbg.session.targets import Targets, resolve
from livedbg.session.view import Update
from livedbg.text.private_files import write_private

__all__ = [
    "TIME_LIMIT",
    "Look",
    "code_of",
    "look_options",
    "quit_on_signals",
    "redact_option",
    "running",
    "signals_held",
    "started",
    "warn",
    "warn_all",
    "why_blind",
    "write",
]

TIME_LIMIT = 4
"""Exit code: a time limit ended it before anything was known."""

_CLEAN_UP_S: Final = 120.0  # after a signal, on a busy machine
_AGAIN_S: Final = 0.1  # until a signal that was lost is sent again

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Look:
    """What the options of a command line ask to look at."""

    targets: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    tree: bool = True
    interval: float = 0.5
    local_variables: bool = False
    native: bool = True
    read_only: bool = False
    redact: bool = True
    gdb: str | None = None
    found: Targets = field(default=Targets(()))

    def resolved(self) -> Look:
        """The same with its targets looked up.

        Raises:
            UsageError: nothing to look at, or a target that can't be meant.
            TargetError: a target that can't be looked at.
            SourceError: a log that is not there.
        """
        if not self.targets and not self.logs:
            raise UsageError("Missing a TARGET or --logs PATH.", "livedbg ps", "usage")
        for path in self.logs:
            if not any(sign in path for sign in "*?[") and not Path(path).exists():
                raise SourceError(f"{path} does not exist.", "give a log file, a directory or a quoted glob", "missing")
        return Look(**{**_fields(self), "found": resolve(self.targets)})

    def request(self, *, once: bool = False, stacks: str | None = None) -> Request:
        """The request of a session."""
        return Request(
            host=host_name(),
            processes=self.found.processes,
            logs=tuple(str(Path(path).expanduser()) for path in self.logs),
            tree=self.tree,
            interval_s=self.interval,
            stacks=stacks or ("native" if self.native else "python"),
            local_variables=self.local_variables,
            once=once,
            read_only=self.read_only,
            redact=self.redact,
            gdb=self.gdb,
        )


def _fields(look: Look) -> dict[str, Any]:
    return {name: getattr(look, name) for name in look.__slots__}


def redact_option(command: Command) -> Command:
    """The option that shows secrets; the command gets it as `redact`."""
    return click.option(
        "--no-redact", "redact", flag_value=False, default=True, help="Show passwords, tokens and keys instead of ***."
    )(command)


def look_options(command: Command) -> Callable[..., Any]:
    """The options that say what to look at; the command gets them as one `look` argument."""

    @click.argument("targets", nargs=-1, metavar="[TARGET]...")
    @click.option("--logs", multiple=True, metavar="PATH", help="Log file, directory or quoted glob; repeatable.")
    @click.option("--tree/--no-tree", default=True, show_default=True, help="Include child processes.")
    @click.option(
        "--interval",
        type=click.FloatRange(0.05, 60),
        default=0.5,
        show_default=True,
        metavar="SECONDS",
        help="Shortest time between two scans.",
    )
    @click.option("--locals", "local_variables", is_flag=True, help="Show local variables in Python stacks.")
    @click.option("--native/--no-native", default=True, show_default=True, help="Show native frames in stacks.")
    @click.option("--read-only", is_flag=True, help="Forbid intrusive actions.")
    @redact_option
    @click.option("--gdb", metavar="PATH", help="gdb for unwinding stack copies; it is not attached.")
    @functools.wraps(command)
    def wrapped(**options: Any) -> Any:
        look = Look(
            targets=options.pop("targets"),
            logs=options.pop("logs"),
            tree=options.pop("tree"),
            interval=options.pop("interval"),
            local_variables=options.pop("local_variables"),
            native=options.pop("native"),
            read_only=options.pop("read_only"),
            redact=options.pop("redact"),
            gdb=options.pop("gdb"),
        )
        return command(look=look, **options)

    return wrapped


@contextlib.contextmanager
def running(
    request: Request, *, title: str | None = None, sink: EventSink | None = None, limit: TimeLimit | None = None
) -> Iterator[LiveView]:
    """A live session, stopped at the end whatever happens."""
    with started(LiveView(request, title=title, sink=sink), limit) as view:
        yield view


@contextlib.contextmanager
def started(view: LiveView, limit: TimeLimit | None = None) -> Iterator[LiveView]:
    """A session that was made already; stopped at the end whatever happens.

    Args:
        view: the session.
        limit: by when; None: whenever it has detached.
    """
    limit = TimeLimit(None) if limit is None else limit
    limit.begin()
    try:
        with signals_held():  # a signal amid the start of a thread can leave one of its locks taken
            view.start()
        yield view
    finally:
        limit.stop(view)
        if view.stuck:
            warn("A source did not stop in time and was abandoned.", "please report this as a bug")


@contextlib.contextmanager
def quit_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a headless command as Ctrl-C does, so that its clean-up runs.

    Where that does not come to an end within `_CLEAN_UP_S`, all threads' stacks are printed on standard error and the
    process ends: a guard (livedbg.touch) resumes stopped threads, and the next livedbg removes probes that are left.
    A signal that comes while Python runs a callback of its own (of a weak reference, say) raises where exceptions are
    only printed: it is sent again.
    """

    def quit_now(number: int, frame: FrameType | None) -> None:
        if sys.__stderr__ is not None:  # else it is closed
            with contextlib.suppress(ValueError, OSError):  # as here
                faulthandler.dump_traceback_later(_CLEAN_UP_S, exit=True, file=sys.__stderr__)
        raise click.exceptions.Exit(128 + number)

    def send_again(unraisable: sys.UnraisableHookArgs) -> None:
        number = _number_of(unraisable.exc_value)
        if number is None:
            report(unraisable)
        else:
            again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()

    old = {number: signal.signal(number, quit_now) for number in (signal.SIGTERM, signal.SIGHUP)}
    report, sys.unraisablehook = sys.unraisablehook, send_again
    try:
        yield
    finally:
        sys.unraisablehook = report
        faulthandler.cancel_dump_traceback_later()
        for number, handler in old.items():
            signal.signal(number, handler)


def _number_of(error: BaseException | None) -> int | None:
    """The signal whose handler raised an exception; None for other exceptions."""
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    if isinstance(error, click.exceptions.Exit) and error.exit_code > 128:
        return error.exit_code - 128
    return None


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """What SIGINT, SIGTERM and SIGHUP do happens at the end of the block, not in the midst of it.

    On other threads than the main one, which get no signals, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old = {number: signal.signal(number, lambda sent, _frame: came.append(sent)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    for sent in came:
        then = old[signal.Signals(sent)]
        if callable(then):
            then(sent, None)
        else:
            signal.raise_signal(sent)


def code_of(update: Update, *, in_time: bool = True) -> int:
    """The exit code of a verdict.

    Args:
        update: the last one.
        in_time: no time limit ended the command; else an inconclusive verdict is TIME_LIMIT.
    """
    code = exit_code(update.diagnosis.verdict, update.diagnosis.findings.values())
    return code if in_time or code != INCONCLUSIVE else TIME_LIMIT


def why_blind(update: Update) -> None:
    """Print, on standard error, which source can't tell, and the remedy: the reason for exit code 3."""
    for finding in update.diagnosis.findings.values():
        if is_blind(finding):
            warn(finding.sentence, finding.next[0] if finding.next else "")


def write(text: str, output: Path | None) -> None:
    """Write a text to a file that only its owner can read, or to standard output.

    Raises:
        SourceError: the file can't be written.
    """
    if output is None:
        click.echo(text)
        return
    try:
        write_private(output, text if text.endswith("\n") else text + "\n")
    except OSError as error:
        raise SourceError(f"{output} can't be written: {error.strerror}.", "choose another path with -o") from None
