"""The command of a guide: it runs CMD once for each step, and prints the findings of each."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import click

from livedbg.app.options import AppOptions
from livedbg.cli.attach import app_options
from livedbg.cli.guide_steps import Course, StepOrder, run_step
from livedbg.cli.target_options import redact_option
from livedbg.commands.output import note
from livedbg.commands.signals import quit_on_signals
from livedbg.model.errors import UsageError
from livedbg.session.guide import GuideOption, GuideStep, StepFound
from livedbg.session.systems import Guide
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word

FC = TypeVar("FC", bound=Callable[..., Any])
_HUNG: Final = 10
_FAILED: Final = 11
_WRONG: Final = 12
_UNDONE: Final = 5
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NEXT: Final = {True: "^n runs CMD again with the settings of the next step", False: "^n goes on to the next step"}
_NAME: Final = lazy_re(r"[a-z][a-z0-9-]*")


def command_of(guide: Guide) -> click.Command:
    """Return the click command of a guide."""
    steps = guide.steps.value
    last = len(steps)
    options = _options(guide)

    @click.command(guide.name, context_settings={"allow_interspersed_args": False}, help=_help(guide, steps))
    @click.option("--step", type=click.IntRange(1, last), metavar="N", help="Run step N only.")
    @click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="What a step needs of earlier ones.")
    @_own_options(options)
    @click.option(
        "--timeout",
        type=click.FloatRange(0.1),
        default=guide.limit_s,
        show_default=True,
        metavar="SECONDS",
        help="Headless: a run that hangs, or lasts longer, is looked at and killed.",
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
        **own: str | tuple[str, ...] | None,
    ) -> int:
        words = argv[1:] if argv[0] == "--" else argv
        if not words:
            raise UsageError("Missing a command.", f"livedbg {guide.name} -- python model.py")
        if shutil.which(words[0]) is None:
            kind = "is no program" if Path(words[0]).is_file() else "is no command"
            raise UsageError(
                f"{clean_line(words[0], 200)} {kind}: a command that can be run is expected.",
                f"livedbg {guide.name} --help",
            )
        unseen = headless or not (sys.stdin.isatty() and sys.stdout.isatty())
        handed = _handed(given) | _of_options(options, own)
        course = Course(guide, words, handed, redact=redact, limit_s=timeout if unseen else None)
        with quit_on_signals():
            if unseen:
                return _headless(course, step)
            from livedbg.cli.guide_steps import in_app

            return in_app(course, step or 1, screen)

    return command


def _options(guide: Guide) -> Sequence[GuideOption]:
    return guide.options.value if guide.options is not None else ()


def _own_options(options: Sequence[GuideOption]) -> Callable[[FC], FC]:
    def add(command: FC) -> FC:
        for one in reversed(options):
            command = click.option(
                f"--{one.name}",
                one.name.replace("-", "_"),
                metavar=one.metavar,
                help=one.help,
                multiple=bool(one.joined),
            )(command)
        return command

    return add


def _of_options(options: Sequence[GuideOption], own: Mapping[str, str | tuple[str, ...] | None]) -> dict[str, str]:
    handed: dict[str, str] = {}
    for one in options:
        value = own.get(one.name.replace("-", "_"))
        if value:
            handed[one.name] = value if isinstance(value, str) else one.joined.join(value)
    return handed


def _help(guide: Guide, steps: Sequence[GuideStep]) -> str:
    listed = "\n".join(f"  {number}  {step.title}" for number, step in enumerate(steps, 1))
    return (
        f"{guide.about}\n\n"
        f"In the terminal app, {_NEXT[guide.plan is None]}. Without a terminal the steps "
        f"follow each other until one has found the cause.\n\n"
        "When you quit the app, it asks whether to kill CMD or leave it running. If the terminal goes away (SIGHUP), "
        f"CMD keeps running.\n\n\b\nSteps:\n{listed}"
    )


def _handed(given: tuple[str, ...]) -> dict[str, str]:
    handed: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(f"--set {clean_line(word)} is not NAME=VALUE.", "--set kernel=NAME")
        handed[name] = value
    return handed


def _headless(course: Course, only: int | None) -> int:
    wrong = hung = failed = undone = False
    for number in (only,) if only is not None else range(1, len(course.steps) + 1):
        order = course.order(number)
        for line in heading(course, order):
            click.echo(line)
        ran = run_step(course, order, note)
        for line in told(ran.found):
            click.echo(line)
        click.echo(f"  output     {ran.folder}\n")
        found, planned = ran.found, course.guide.plan is not None
        hung, wrong = hung or ran.code is None or found.hung, wrong or found.wrong_value
        failed, undone = found.failed or bool(ran.code) or (failed and planned), undone or found.undone
        if found.lacks and only is None:
            click.echo(f"The other steps need what is not known: {_again(course, found.lacks)}")
            undone = True
            break
        if ran.found.futile and only is None:
            break
        if ran.found.cause and only is None and number < len(course.steps):
            click.echo("The cause is found; the other steps would add nothing.")
            break
    if only is not None and only < len(course.steps) and not (ran.found.cause or ran.found.futile):
        click.echo(f"Next: {next_line(course, only + 1, ran.found.lacks)}")
    return _WRONG if wrong else _HUNG if hung else _FAILED if failed else _UNDONE if undone else 0


def _again(course: Course, lacks: Mapping[str, str]) -> str:
    given = " ".join(f"--{name} {value}" for name, value in lacks.items())
    return f"livedbg {course.guide.name} {given} -- {course.shown}"


def heading(course: Course, order: StepOrder) -> Iterator[str]:
    """Yield the lines that announce a step."""
    yield f"Step {order.number} of {len(course.steps)}: {order.step.title}"
    if order.recipes:
        yield f"  recipes    {' '.join(order.recipes)}"


def told(found: StepFound) -> Iterator[str]:
    """Yield the findings of a step as lines."""
    width = max((len(label) for label, _ in found.lines), default=0)
    for label, sentence in found.lines:
        yield f"  {clean_line(label, 20):{min(max(width, 9), 20)}}  {clean_line(sentence, 1000)}"


def next_line(course: Course, number: int, lacks: Mapping[str, str] = _NONE) -> str:
    """Return the command line of a step, with all that it needs."""
    joined = {one.name: one.joined for one in _options(course.guide)}
    words: list[str] = []
    for name, value in course.handed.items():
        if name in joined:
            each = value.split(joined[name]) if joined[name] else [value]
            words += [f"--{name} {shell_word(one)} " for one in each]
        else:
            words.append(f"--set {shell_word(f'{name}={value}')} ")
    words += [f"--{name} {value} " for name, value in lacks.items()]
    handed = "".join(words)
    return f"livedbg {course.guide.name} --step {number} {handed}-- {course.shown}"
