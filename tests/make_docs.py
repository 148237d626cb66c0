"""`make docs`: the pages and pictures of docs/ that are made from livedbg itself.

The pictures are of the app on recordings of the demos (tests/fixtures/recordings), at their ends.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from dataclasses import dataclass
from pathlib import Path

import click

from livedbg.analysis.rules import rules_page
from livedbg.app.application import LivedbgApp
from livedbg.app.helptext import key_reference
from livedbg.app.options import AppOptions, Colours
from livedbg.cli.group import livedbg
from livedbg.cli.table import COMMANDS, CommandEntry
from livedbg.replay import ReplayView
from tests.app.apps import ready

DOCS = Path(__file__).parents[1] / "docs"
RECORDINGS = Path(__file__).parent / "fixtures" / "recordings"
MADE = "<!-- made by `make docs` from livedbg itself -->"
EXIT_CODES = (
    (0, "nothing wrong found"),
    (10, "a stall or a deadlock"),
    (11, "a crash"),
    (12, "a precision or dependency finding"),
    (2, "the command line is wrong"),
    (3, "the target, a log or a tool can't be used; standard error says why and what to do"),
    (4, "a time limit ended it"),
)
HEADLESS = ("launch", "report", "watch")


@dataclass(frozen=True)
class Picture:
    """One picture: a recording, the keys that are pressed, the size of the terminal."""

    name: str
    recording: str
    keys: tuple[str, ...]
    size: tuple[int, int] = (110, 32)
    theme: str = "dark"
    colours: Colours = Colours.FULL
    ascii_only: bool = False
    replay: bool = False


PICTURES = (
    Picture("overview", "deadlock", ("1",)),
    Picture("overview-80x24", "deadlock", ("1",), (80, 24)),
    Picture("evidence", "deadlock", ("1", "e")),
    Picture("graph", "deadlock", ("3",)),
    Picture("threads", "deadlock", ("4",)),
    Picture("ascend-overview", "ascend", ("1",)),
    Picture("ascend-tasks", "ascend", ("2",)),
    Picture("ascend-logs", "ascend", ("6",)),
    Picture("ledger", "deadlock", ("9",)),
    Picture("replay", "ascend", ("1",), replay=True),
    Picture("contrast", "deadlock", ("1",), theme="contrast"),
    Picture("ascii", "deadlock", ("3",), (80, 24), colours=Colours.NONE, ascii_only=True),
)


class _AsLive(ReplayView):
    """A recording's end, shown as the live session showed it."""

    mode = "observe"
    timeline = None  # type: ignore[assignment]


def pages() -> dict[str, str]:
    """Path below docs/ -> text, of every page that is generated."""
    made = {f"commands/{name}.md": _command_page(entry) for name, entry in COMMANDS.items()}
    made["commands/README.md"] = _index()
    made["rules.md"] = rules_page()
    made["keys.md"] = f"{MADE}\n# Keys\n\nThe same stands in the app: `?` on any screen.\n\n{key_reference()}"
    return {path: text.rstrip() + "\n" for path, text in made.items()}


def _index() -> str:
    rows = "\n".join(f"| [{e.name}]({e.name}.md) | {e.summary} |" for e in COMMANDS.values())
    codes = "\n".join(f"| {code} | {what} |" for code, what in EXIT_CODES)
    return (
        f"{MADE}\n# Commands\n\n| command | |\n| --- | --- |\n{rows}\n\n"
        f"## Exit codes of the headless commands\n\n| code | meaning |\n| --- | --- |\n{codes}\n"
    )


def _command_page(entry: CommandEntry) -> str:
    group = click.Context(livedbg, info_name="livedbg")
    command = livedbg.get_command(group, entry.name)
    assert command is not None
    context = click.Context(command, info_name=entry.name, parent=group)
    usage = command.get_usage(context).removeprefix("Usage: ")
    text = "\n".join(_help(command))
    records = [p.get_help_record(context) for p in command.get_params(context)]
    options = "\n".join(f"| `{_cell(name)}` | {_cell(what)} |" for name, what in filter(None, records))
    examples = "\n".join(f"{line}    # {what}" for line, what in entry.example)
    codes = (
        "\nExit codes: [the list](README.md#exit-codes-of-the-headless-commands).\n" if entry.name in HEADLESS else ""
    )
    return (
        f"{MADE}\n# livedbg {entry.name}\n\n{entry.summary}\n\n```console\n{usage}\n```\n\n{text}\n\n"
        f"## Examples\n\n```sh\n{examples}\n```\n\n## Options\n\n| option | |\n| --- | --- |\n{options}\n{codes}"
    )


def _help(command: click.Command) -> list[str]:
    text = inspect.cleandoc(command.help or "").replace("\b\n", "```text\n", 1)
    lines = text.split("\n")
    return [*lines, "```"] if "```text" in lines else lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


async def picture(wanted: Picture) -> str:
    """One picture as SVG."""
    kind = ReplayView if wanted.replay else _AsLive
    view = kind(RECORDINGS / f"{wanted.recording}.livedbg")
    if not wanted.replay:
        view.title = view.title.partition(" · ")[2]
    app = LivedbgApp(
        view,
        AppOptions(theme=wanted.theme, clock=lambda: view.end_wall_ns),
        interval_s=0.0,
        ascii_only=wanted.ascii_only,
        colours=wanted.colours,
    )
    try:
        async with app.run_test(size=wanted.size) as pilot:
            await ready(pilot)
            for key in wanted.keys:
                await pilot.press(key)
                await pilot.pause(0.3)
            await pilot.pause(0.3)
            return app.export_screenshot(title="livedbg", simplify=True)
    finally:
        app.feed.stop()
        view.stop()


def main() -> None:
    """Write everything."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    for name in ("NO_COLOR", "COLORTERM", "SSH_CONNECTION", "TEXTUAL_COLOR_SYSTEM"):
        os.environ.pop(name, None)
    (DOCS / "commands").mkdir(parents=True, exist_ok=True)
    (DOCS / "pictures").mkdir(exist_ok=True)
    for path, text in pages().items():
        (DOCS / path).write_text(text)
    for wanted in PICTURES:
        (DOCS / "pictures" / f"{wanted.name}.svg").write_text(asyncio.run(picture(wanted)))
    print(f"{len(pages())} pages and {len(PICTURES)} pictures in {DOCS.name}/")


if __name__ == "__main__":
    main()
