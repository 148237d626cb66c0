"""The options of a catchpoint, for the command line (`livedbg catch`) and the app's prompt.

Invariants:
    catch_options.O1. The words after `livedbg catch PID` can be typed in the app too, with the same meaning.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import click

from livedbg.model import catchpoints
from livedbg.model.catchpoints import HOLD_MOST_S, Moment, Pattern, Preset
from livedbg.model.errors import UsageError
from livedbg.model.intents import Catch
from livedbg.session.systems import merged


@cache
def presets() -> Mapping[str, Preset]:
    """Return all presets by name."""
    return merged(catchpoints.PRESETS, lambda system: system.presets, "catch preset called")


def patterns_of(text: str) -> tuple[Moment | None, tuple[Pattern, ...]]:
    """Parse a user's pattern or preset name; raises as livedbg.model.catchpoints.patterns_of does."""
    return catchpoints.patterns_of(text, presets())


def usual_types() -> list[str]:
    """Return the exception types in presets."""
    thrown = (preset for preset in presets().values() if preset.moment is Moment.THROW)
    return [pattern for preset in thrown for pattern in preset.patterns if Pattern(pattern).exact]


_Command = TypeVar("_Command", bound=Callable[..., Any])


def catch_options(command: _Command) -> _Command:
    """Add the options of a catchpoint to a command."""
    for option in reversed(
        (
            click.option("--message", default="", metavar="TEXT", help="Only if the message contains TEXT."),
            click.option(
                "--moment", type=click.Choice([m.value for m in Moment]), help="When to catch.  [default: throw]"
            ),
            click.option(
                "--count", type=click.IntRange(1), metavar="N", help="End after N hits.  [default with --stop: 1]"
            ),
            click.option("--follow", is_flag=True, help="Include child processes, also later ones."),
            click.option("--stop", is_flag=True, help="Stop the throwing thread to read its variables and source."),
            click.option(
                "--hold",
                type=click.FloatRange(0, HOLD_MOST_S),
                metavar="SECONDS",
                help="With --stop: keep the thread stopped for SECONDS, or until resumed.",
            ),
        )
    ):
        command = option(command)
    return command


def catch_intent(
    process: str,
    pattern: str,
    *,
    message: str = "",
    moment: str | None = None,
    count: int | None = None,
    follow: bool = False,
    stop: bool = False,
    hold: float | None = None,
) -> Catch:
    """Return the intent for the options.

    Raises:
        UsageError: the pattern is invalid, or options contradict each other.
    """
    patterns_of(pattern)
    if hold is not None and not stop:
        raise UsageError("--hold needs --stop.", "add --stop", "usage")
    if stop and follow:
        raise UsageError("--stop and --follow exclude each other.", "leave out --follow", "usage")
    return Catch(
        process=process,
        pattern=pattern,
        moment=Moment(moment) if moment else None,
        message=message,
        count=count or int(stop),
        follow=follow,
        stop=stop,
        hold_s=hold or 0.0,
    )


def typed_catch(text: str, process: str) -> Catch:
    """Parse a catchpoint typed in the app: options, and a type, preset or pattern, perhaps after a moment (`call f`).

    Args:
        text: quotes group words, a backslash is a backslash.

    Raises:
        UsageError: it is invalid.
    """
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = lexer.escape = ""
    try:
        words = list(lexer)
        context = _typed.make_context("", words)
    except click.UsageError as error:
        raise UsageError(error.format_message(), "", "usage") from None
    except ValueError:
        raise UsageError("A quote is not closed.", "", "usage") from None
    options = dict(context.params)
    said: list[str] = list(options.pop("words"))
    if options["moment"] is None and len(said) > 1 and said[0] in {moment.value for moment in Moment}:
        options["moment"] = said.pop(0)
    return catch_intent(process, " ".join(said), **options)


@click.command(add_help_option=False)
@click.argument("words", nargs=-1)
@catch_options
def _typed(**_options: object) -> None:
    """Only parsed, never run."""
