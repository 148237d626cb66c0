"""`livedbg recipes`: launch presets, each for one debugging question."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from livedbg.cli.target_options import redact_option
from livedbg.commands.output import warn
from livedbg.linux.procfs import command_line
from livedbg.model import Process
from livedbg.model.snapshot import EMPTY
from livedbg.recipes import Recipe, chosen, own_folder, recipes
from livedbg.recipes.fitting import facts_of, fitting
from livedbg.session.hostinfo import host_name
from livedbg.session.recognition import by_snapshot, in_order, of_running
from livedbg.session.targets import resolve
from livedbg.text.sanitize import clean_line
from livedbg.text.secrets import mask_command


@click.command("recipes")
@click.argument("names", nargs=-1, metavar="[NAME|PID]...")
@click.option("--for", "target", metavar="TARGET", help="Recipes that apply to a process, with its command line.")
@redact_option
def command(names: tuple[str, ...], target: str | None, redact: bool) -> int:
    """List the recipes for `livedbg launch --recipe NAME CMD`, or describe some of them.

    With a PID, list the recipes that apply to that process, each with the full command to rerun it.

    Add your own as TOML files in livedbg/recipes of the configuration folder; they override built-in ones by name.
    """
    known, wrong = recipes()
    for sentence in wrong:
        warn(sentence)
    pids = [target] if target is not None else [name for name in names if name.isdigit() and name not in known]
    for word in pids:
        _say_fitting(word, known, redact=redact)
    if not names and target is None:
        width = max(map(len, known), default=0)
        for name, recipe in known.items():
            click.echo(f"{name:{width}}  {recipe.question}")
        click.echo(f"\nlivedbg recipes NAME describes one; add your own in {own_folder()}", err=True)
    for name in names:
        if name not in pids:
            recipe = known.get(name) or chosen(name, known)[0]
            for line in _explained(recipe):
                click.echo(line)
    return 0


def _say_fitting(word: str, known: Mapping[str, Recipe], *, redact: bool) -> None:
    for target in resolve([word]).processes:
        argv: tuple[str, ...] = ()
        cwd: str | None = None
        with contextlib.suppress(OSError):
            argv = command_line(target.pid)
            cwd = str(Path(f"/proc/{target.pid}/cwd").readlink())
        process = Process(id="", host=host_name(), pid=target.pid, command=argv)
        systems = by_snapshot(EMPTY, process)
        with contextlib.suppress(OSError):
            systems |= of_running(target.pid, languages=True)
        click.echo(
            f"Process {target.pid} uses: {', '.join(in_order(systems)) or 'nothing that a recipe applies to'}", err=True
        )
        for again in fitting(
            known,
            systems,
            (mask_command(argv) if redact else argv) or ("CMD",),
            cwd if cwd and Path(cwd).is_dir() else None,
        ):
            click.echo(f"{again.name}: {again.recipe.question}")
            click.echo(f"    {clean_line(again.command)}")


def _explained(recipe: Recipe) -> Iterator[str]:
    yield f"{recipe.name}: {recipe.question}"
    yield f"    livedbg launch --recipe {recipe.name}{recipe.asks} -- CMD"
    yield from _columns(facts_of(recipe))


def _columns(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    listed = [(name, text) for name, text in facts if text]
    lead = max(len(name) for name, _ in listed)
    for name, text in listed:
        yield from textwrap.wrap(text, 100, initial_indent=f"    {name:{lead}}  ", subsequent_indent=" " * (lead + 6))
