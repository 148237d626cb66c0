"""`livedbg launch --repeat N`: many runs, the end of each, and their comparison."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import click

from livedbg.cli.one_run import Order, run_once
from livedbg.commands.signals import Quit, hung_up
from livedbg.model.errors import LivedbgError
from livedbg.repeats.compare import Comparison, Group, compare
from livedbg.repeats.marking import Ran, marked
from livedbg.repeats.outcome import RunEnd
from livedbg.repeats.pool import Pool
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
        click.echo("livedbg: killing the current runs", err=True)
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
    click.echo(f"livedbg: each run's output and recording are in {order.folder}", err=True)
    if interruption is not None:
        raise interruption
    return _CRASHED if outcome.crashes != "well" else _HUNG if outcome.hangs != "well" else 0


def _collect(pool: Pool[Ran], ran: list[Ran], count: int) -> None:
    for one in pool.results():
        ran.append(one)
        end = one.end
        if end.bad and not end.marker:  # pairs of markers may show in several runs only
            end = next(iter(marked([one, *ran[-_ALSO - 1 : -1]]))).end
        for note in end.notes:
            click.echo(f"livedbg: run {end.run}: {note}", err=True)
        click.echo(f"livedbg: {_progress(end, count)}", err=True)


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
