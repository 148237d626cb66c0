"""The pages of docs/ that are made from livedbg itself: commands, rules, keys."""

from __future__ import annotations

import inspect

import click

from livedbg.analysis.behaviour import TABLE
from livedbg.app.commands import key_reference
from livedbg.cli.group import EXIT_CODES, commands, livedbg
from livedbg.session.rulebook import rules_page
from livedbg.session.systems import Command
from livedbg.session.targets import target_forms
from tests.docs.examples import OUTPUTS
from tests.docs.rooms import architecture

__all__ = ["MADE", "pages"]

MADE = "<!-- made by `make docs` from livedbg itself -->"


def pages() -> dict[str, str]:
    """Path below docs/ -> text, of every page that is made."""
    made = {f"commands/{name}.md": _command_page(entry) for name, entry in commands().items()}
    made["commands/README.md"] = _index()
    made["rules.md"] = rules_page()
    made["behaviour.md"] = _behaviour_page()
    made["architecture.md"] = architecture()
    made["keys.md"] = f"{MADE}\n# Keys\n\nIn the app, `?` shows the keys of the current screen.\n\n{key_reference()}"
    return {path: text.rstrip() + "\n" for path, text in made.items()}


def _behaviour_page() -> str:
    rows = "\n".join(f"| {number} | {row.kind} | {row.doc} |" for number, row in enumerate(TABLE, 1))
    return (
        f"{MADE}\n# What a thread does\n\n"
        "Each thread gets the first of these values that holds (`behaviour` in `report --json`).\n\n"
        f"| | value | it holds if |\n| --- | --- | --- |\n{rows}\n\n"
        "CPU time alone is no progress: a loop that waits for a flag uses as much as one that computes. A process is "
        "what its main thread is. For one that is blocked or polls, who stands at the end of what it waits for "
        "decides: a joined thread, the holder of a lock, whoever has the other end of a pipe, and so on. One that "
        "began after the wait did is not who is waited for. A job is called running only if something was seen to get "
        "on, and no main thread is blocked for the threshold without such a one at its end.\n"
    )


def _index() -> str:
    rows = "\n".join(f"| [`livedbg {e.name}`]({e.name}.md) | {e.summary} |" for e in commands().values())
    codes = "\n".join(f"| {code} | {what} |" for code, what in EXIT_CODES.items())
    return (
        f"{MADE}\n# Commands\n\n| command | |\n| --- | --- |\n{rows}\n\n"
        f"TARGET is {target_forms()}. A launcher (`torchrun`) stands for all its ranks.\n\n"
        f"## Exit codes\n\n| code | meaning |\n| --- | --- |\n{codes}\n\n"
        "A command that a signal ends exits with 128 plus the signal number (130 for Ctrl-C), unless its page says "
        "otherwise.\n"
        "Errors go to standard error: one sentence, then `try:` with the next step.\n"
    )


def _command_page(entry: Command) -> str:
    group = livedbg.make_context("livedbg", [], resilient_parsing=True)
    command = livedbg.get_command(group, entry.name)
    assert command is not None
    context = command.make_context(entry.name, [], parent=group, resilient_parsing=True)
    usage = command.get_usage(context).removeprefix("Usage: ")
    command._help_option = None  # click keeps the first one; a test may have called the command without its group
    records = [p.get_help_record(context) for p in command.get_params(context) if isinstance(p, click.Option)]
    options = "\n".join(f"| `{_cell(name)}` | {_cell(what)} |" for name, what in filter(None, records))
    codes = "\n".join(f"| {code} | {EXIT_CODES[code]} |" for code in entry.exits)
    return "\n\n".join(
        [
            f"{MADE}\n# livedbg {entry.name}",
            entry.summary,
            f"```text\n{usage}\n```",
            _help(command),
            f"## Examples\n\n{_examples(entry)}",
            f"## Options\n\n| option | |\n| --- | --- |\n{options}",
            f"## Exit codes\n\n| code | meaning |\n| --- | --- |\n{codes}",
            entry.exits_note,
            "[All commands](README.md)",
        ]
    ).replace("\n\n\n\n", "\n\n")


def _help(command: click.Command) -> str:
    """The help's text; a list that click keeps as it is becomes a block."""
    text = inspect.cleandoc(command.help or "")
    before, mark, block = text.partition("\b\n")
    return f"{before}```text\n{block.rstrip()}\n```" if mark else text


def _examples(entry: Command) -> str:
    width = max(len(line) for line, _what in entry.example)
    lines = "\n".join(f"{line:<{width}}   # {what}" for line, what in entry.example)
    shown = f"```sh\n{lines}\n```"
    for line, output in OUTPUTS.get(entry.name, {}).items():
        shown += f"\n\n```console\n$ {line}\n{output()}\n```"
    return shown


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
