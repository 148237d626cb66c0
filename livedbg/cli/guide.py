"""The command of a guide: it runs CMD once a step, and says what each step found."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from livedbg.app.options import AppOptions
from livedbg.cli.attach import app_options
from livedbg.cli.guide_steps import Course, StepOrder, run_step
from livedbg.cli.target_options import redact_option
from livedbg.commands.signals import quit_on_signals
from livedbg.model.errors import UsageError
from livedbg.session.guide import GuideStep, StepFound
from livedbg.session.systems import Guide
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word

__all__ = ["command_of", "heading", "next_line", "told"]

_HUNG: Final = 10
_FAILED: Final = 11
_WRONG: Final = 12
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")


def command_of(guide: Guide) -> click.Command:
    """The click command of a guide."""
    steps = guide.steps.value
    last = len(steps)

    @click.command(
        guide.name,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        help=_help(guide, steps),
    )
    @click.option("--step", type=click.IntRange(1, last), metavar="N", help="Run step N only.")
    @click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="What a step needs of earlier ones.")
    @click.option(
        "--timeout",
        type=click.FloatRange(0.1),
        default=600.0,
        show_default=True,
        metavar="SECONDS",
        help="Headless: a run that lasts longer is looked at and killed.",
    )
    @click.option("--headless", is_flag=True, help="No screen: print what each step found.")
    @redact_option
    @app_options
    @click.argument("argv", nargs=-1, required=True, metavar="[--] CMD [ARG]...", type=click.UNPROCESSED)
    def command(
        step: int | None,
        given: tuple[str, ...],
        timeout: float,
        headless: bool,
        redact: bool,
        screen: AppOptions,
        argv: tuple[str, ...],
    ) -> int:
        words = argv[1:] if argv[0] == "--" else argv
        if not words:
            raise UsageError("Missing a command.", f"livedbg {guide.name} -- python model.py", "usage")
        course = Course(guide, words, _handed(given), redact=redact)
        unseen = headless or not (sys.stdin.isatty() and sys.stdout.isatty())
        with quit_on_signals():
            if unseen:
                return _headless(course, step, timeout)
            from livedbg.cli.guide_app import in_app

            return in_app(course, step or 1, screen)

    return command


def _help(guide: Guide, steps: Sequence[GuideStep]) -> str:
    listed = "\n".join(f"  {number}  {step.title}" for number, step in enumerate(steps, 1))
    return (
        f"{guide.about}\n\n"
        "In the terminal app, ^n runs CMD again with the settings of the next step. Without a terminal the steps "
        f"follow each other until one has found the cause.\n\n\b\nSteps:\n{listed}"
    )


def _handed(given: tuple[str, ...]) -> dict[str, str]:
    handed: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(f"--set {clean_line(word)} is not NAME=VALUE.", "--set kernel=NAME", "usage")
        handed[name] = value
    return handed


def _headless(course: Course, only: int | None, timeout_s: float) -> int:
    """One step, or all in order until the cause is found."""
    wrong = hung = False
    code = 0
    for number in (only,) if only is not None else range(1, len(course.steps) + 1):
        order = course.order(number)
        for line in heading(course, order):
            click.echo(line)
        ran = run_step(course, order, timeout_s, _say)
        for line in told(ran.found):
            click.echo(line)
        click.echo(f"  output     {ran.folder}\n")
        hung, wrong, code = hung or ran.code is None, wrong or ran.found.wrong_value, ran.code or 0
        if ran.found.cause and only is None and number < len(course.steps):
            click.echo("The cause is found; the other steps would add nothing.")
            break
    if only is not None and only < len(course.steps):
        click.echo(f"Next: {next_line(course, only + 1)}")
    return _WRONG if wrong else _HUNG if hung else _FAILED if code else 0


def _say(line: str) -> None:
    click.echo(f"livedbg: {clean_line(line)}", err=True)


def heading(course: Course, order: StepOrder) -> Iterator[str]:
    """What a step is about to do."""
    yield f"Step {order.number} of {len(course.steps)}: {order.step.title}"
    yield f"  recipes    {' '.join(order.recipes)}"


def told(found: StepFound) -> Iterator[str]:
    """What it found."""
    for label, sentence in found.lines:
        yield f"  {clean_line(label, 20):9}  {clean_line(sentence, 1000)}"


def next_line(course: Course, number: int) -> str:
    """The command line of a step, with what it needs."""
    handed = "".join(f"--set {shell_word(f'{name}={value}')} " for name, value in course.handed.items())
    return f"livedbg {course.guide.name} --step {number} {handed}-- CMD"
