"""`livedbg report`: one diagnosis, without a screen.

Invariants:
    report.D1. A first look that leaves the state of a living process open is followed by one of `LONGER_LOOK_S`, and
        the report says what is known at its end: of two moments nothing may have come in between. A look that some time
        was named for is the only one. Ctrl-C in the longer one prints what the first one saw. More time tells nothing
        of a runtime that is not looked into.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
from msgspec import structs

from livedbg.analysis.behaviour import unseen_runtimes
from livedbg.analysis.verdict import INCONCLUSIVE
from livedbg.cli.target_options import FILE, TargetOptions, target_options
from livedbg.commands.output import code_of, warn, why_blind, write
from livedbg.commands.signals import TimeLimit, quit_on_signals, running
from livedbg.model import OUT_OF_TIME, SourceHealth
from livedbg.model.errors import SourceError, UsageError
from livedbg.report.build import build
from livedbg.report.document import LimitOut
from livedbg.session.adapter import Request
from livedbg.session.out_of_time import REMEDY
from livedbg.session.targets import target_forms
from livedbg.session.view import Update
from livedbg.text.shell import shell_word

LONGER_LOOK_S: Final = 5.0
"""Of a process whose first look left open whether it is idle or stuck: what naps for a second or two has woken by then.
"""

_ANSWER_S: Final = 0.5  # after the limit, at least


_HELP: Final = f"""\
Diagnose TARGET once and print what it is stuck on. Does not stop the target.

TARGET is {target_forms("a recording FILE")}.
"""


@click.command("report", help=_HELP)
@target_options
@click.option("--json", "form", flag_value="json", help="Print JSON, schema livedbg.report/1.")
@click.option("--markdown", "form", flag_value="markdown", help="Print Markdown, for a bug report.")
@click.option("--text", "form", flag_value="text", default="text", help="Print text (default).")
@click.option("--brief", "short", is_flag=True, help="Only what the verdict rests on, for pasting.")
@click.option("-o", "--output", type=FILE, help="Write to FILE.")
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Observe for SECONDS; 0: scan once.  "
    f"[default: scan once, and observe for {LONGER_LOOK_S:.0f} s if that leaves the state open]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="Report what is known after SECONDS.  [default: 30, and the time that livedbg waits for a CPU]",
)
def command(
    options: TargetOptions, form: str, short: bool, output: Path | None, seconds: float | None, timeout: float | None
) -> int:
    """Run the command."""
    recording = _recording(options)
    if recording is not None:
        from livedbg.session.replay import last_update

        update, damage = last_update(recording, redact=options.redact)
        if damage:
            warn(damage)
        write(render(update, form, short=short), output)
        return code_of(update)
    limit = TimeLimit.of_look(timeout)
    with quit_on_signals():
        resolved = options.resolved()
        update, in_time = _look(resolved.request(once=not seconds), limit, seconds or 0.0)
        if seconds is None and in_time and _is_open(update) and (limit.look_s or 0.0) >= 2 * LONGER_LOOK_S:
            try:
                longer, known = _look(resolved.request(), limit, LONGER_LOOK_S)
                update = longer if known else update
            except KeyboardInterrupt:
                warn("interrupted: the report has what the first look saw, and not the 5 s that were to follow.")
        write(render(update, form, short=short, limits=(*time_limits(update, in_time), *_symbols(update))), output)
        if form != "text" or output is not None:  # the text says it
            why_blind(update)
        if not in_time:
            warn(f"the scan was not complete after {limit.took_s:.0f} s; the report has what is known.", REMEDY)
    return code_of(update, in_time=in_time)


def _look(request: Request, limit: TimeLimit, seconds: float) -> tuple[Update, bool]:
    """Return what a session knows after its first full look, or `seconds` later; and whether that look was complete."""
    with running(request, limit=limit) as view:
        in_time = limit.settled(view)
        if seconds:
            view.wait_ended(min(seconds, limit.look_s or 0))
        return (view.latest() if in_time else view.out_of_time(limit.left_s or _ANSWER_S)).so_far(), in_time


def _is_open(update: Update) -> bool:
    """Return whether more time may tell the state of a process (D1)."""
    unseen = unseen_runtimes(update.snapshot)  # more time tells nothing of these
    processes = update.snapshot.processes.values()
    alive = any(one.target and not one.exited and one.id not in unseen for one in processes)
    return alive and code_of(update) == INCONCLUSIVE


def _recording(options: TargetOptions) -> Path | None:
    files = [Path(word) for word in options.targets if not word.isdigit() and Path(word).is_file()]
    if not files:
        return None
    if len(options.targets) > 1 or options.logs:
        raise UsageError(
            "A recording can't be combined with other targets or logs.", f"livedbg report {shell_word(files[0])}"
        )
    from livedbg.recording.file import is_recording

    if not is_recording(files[0]):
        raise SourceError(
            f"{files[0]} is not a livedbg recording.", f"for a log: livedbg report --logs {shell_word(files[0])}"
        )
    return files[0]


def _symbols(update: Update) -> tuple[LimitOut, ...]:
    if not update.diagnosis.verdict.roots:
        return ()
    from livedbg.report.missing_symbols import symbol_limits

    return symbol_limits(update)


def time_limits(update: Update, in_time: bool) -> tuple[LimitOut, ...]:
    """Return a limit for a time-out that the state itself does not mention."""
    if in_time or any(status.code == OUT_OF_TIME for status in update.snapshot.statuses.values()):
        return ()
    sentence = "The time was over before livedbg could say what it had not looked at."
    return (
        LimitOut(
            source="session",
            target="",
            health=SourceHealth.DEGRADED.value,
            code=OUT_OF_TIME,
            sentence=sentence,
            remedy=REMEDY,
        ),
    )


def render(update: Update, form: str, *, short: bool = False, limits: tuple[LimitOut, ...] = ()) -> str:
    """Return a report as `json`, `markdown` or `text`, with further limits; a `short` one has what the verdict rests
    on.
    """
    document = build(update)
    if short:
        from livedbg.report.build import brief

        document = brief(document)
    document = structs.replace(document, limits=(*document.limits, *limits))
    if form == "json":
        from livedbg.text.json_text import json_bytes

        return json_bytes(document, pretty=True).decode()
    if form == "markdown":
        from livedbg.report.text import to_markdown

        return to_markdown(document)
    from livedbg.report.text import to_text

    return to_text(document)
