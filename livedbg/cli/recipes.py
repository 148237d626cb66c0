"""`livedbg recipes`: the ways of launching that answer a question."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from livedbg.recipes import Effect, Recipe, chosen, own_folder, recipes

__all__ = ["command"]

_WHEN = {"compile": "as something is compiled", "load": "as it is loaded", "run": "as it runs"}


@click.command("recipes")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def command(names: tuple[str, ...]) -> int:
    """List the recipes that `livedbg launch --recipe NAME CMD` takes, or explain some.

    Your own are TOML files in livedbg/recipes of your configuration folder; one of the same name wins.
    """
    known, wrong = recipes()
    for sentence in wrong:
        click.echo(f"livedbg: {sentence}", err=True)
    if not names:
        width = max(map(len, known), default=0)
        for name, recipe in known.items():
            click.echo(f"{name:{width}}  {recipe.question}")
        click.echo(f"\nlivedbg recipes NAME explains one; your own: {own_folder()}", err=True)
        return 0
    for name in names:
        recipe = known.get(name) or chosen(name, known)[0]
        for line in _explained(recipe):
            click.echo(line)
    return 0


def _explained(recipe: Recipe) -> Iterator[str]:
    yield f"{recipe.name}: {recipe.question}"
    yield f"    livedbg launch --recipe {recipe.name}{recipe.asks} -- CMD"
    facts = [
        ("for", ", ".join(recipe.systems)),
        ("read", _WHEN[recipe.acts]),
        ("costs", recipe.cost),
        *(("sets", f"{name}={value}") for name, value in recipe.environment.items()),
        *(("loads", " or ".join(library.names)) for library in recipe.preload),
        ("runs", " ".join([*recipe.wrapper, "CMD", *recipe.arguments]) if recipe.wrapper or recipe.arguments else ""),
        *(("reads", log) for log in recipe.logs),
        *(("catches", pattern) for pattern in recipe.catch),
        *(("tells of", f"{files.file} as they come") for files in recipe.grows),
        *(("at the end", " ".join(end.command) or end.opens) for end in recipe.after),
        *(("is seen by", _sign(way)) for way in recipe.effect),
        *(("too late", made.means) for made in recipe.cached),
        ("note", recipe.note),
        ("source", recipe.source),
        *((f"={name}", meaning) for name, meaning in recipe.options.items()),
    ]
    lead = max(len(name) for name, text in facts if text)
    for name, text in facts:
        if text:
            yield from textwrap.wrap(
                text, 100, initial_indent=f"    {name:{lead}}  ", subsequent_indent=" " * (lead + 6)
            )


def _sign(way: Effect) -> str:
    if way.says:
        return f"output like /{way.says}/"
    return f"the file {way.file}" if way.file else f"a process that has loaded something like /{way.loaded}/"
