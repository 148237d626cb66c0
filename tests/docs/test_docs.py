"""The documentation says what the program is: pages are current, links resolve, command lines parse, keys exist."""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
from livedbg.analysis.verdict import exit_code
from livedbg.app.commands import APP_KEYS, REPLAY_KEYS
from livedbg.app.views import VIEWS
from livedbg.cli.group import EXIT_CODES, commands, livedbg
from livedbg.commands.output import TIME_LIMIT
from livedbg.model import Severity, errors
from livedbg.panels.base import MOVES
from tests.docs.pages import pages
from tests.docs.pictures import PICTURES, Picture, picture
from tests.make_docs import DOCS, UNSET

ROOT = DOCS.parent
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"(?:^|\()livedbg ([^)#\n]+)")


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_every_made_page_is_current_and_no_other_is_left() -> None:
    for path, text in pages().items():
        assert (DOCS / path).read_text() == text, f"{path}: run `make docs`"
    assert {page.stem for page in (DOCS / "commands").iterdir()} == {*commands(), "README"}
    assert {svg.stem for svg in (DOCS / "pictures").iterdir()} == {wanted.name for wanted in PICTURES}


@pytest.mark.parametrize("wanted", PICTURES, ids=lambda wanted: wanted.name)
def test_a_picture_is_of_this_version(wanted: Picture) -> None:
    made = asyncio.run(picture(wanted))
    assert (DOCS / "pictures" / f"{wanted.name}.svg").read_text() == made, "run `make docs`, and look at the pictures"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link]
    for link in links:
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            titles = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, link


def test_every_page_and_picture_is_linked_from_somewhere() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in _LINK.findall(page.read_text())
    }
    assert [page for page in [*PAGES, *(DOCS / "pictures").iterdir()] if page.resolve() not in linked] == [
        ROOT / "README.md"
    ]


def command_lines() -> list[tuple[str, str]]:
    """Every `livedbg …` that a reader could type: in blocks, after a prompt, in running text."""
    found = []
    for page in PAGES:
        text = page.read_text()
        lines = []
        for kind, block in _BLOCK.findall(text):
            if kind == "sh":
                lines += block.splitlines()
            elif kind == "console":
                lines += [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
        lines += re.findall(r"`(livedbg [^`]+)`", _BLOCK.sub("", text))
        found += [(page.name, match[1].strip()) for line in lines for match in _COMMAND.finditer(line)]
    return found


def test_command_lines_are_understood() -> None:
    assert len(command_lines()) > 40
    group = livedbg.make_context("livedbg", [], resilient_parsing=True)
    for page, line in command_lines():
        name, *words = shlex.split(line)
        command = livedbg.get_command(group, name)
        assert command is not None, f"{page}: livedbg {line}"
        if words and "[OPTIONS]" not in words:
            try:
                command.make_context(name, words, parent=group)  # parses, and runs nothing
            except click.UsageError as error:
                pytest.fail(f"{page}: livedbg {line}: {error.message}")


def test_the_exit_codes_are_those_of_the_program() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LivedbgError)]
    finding = Finding(rule="r", severity=Severity.ERROR, sentence="s", topic="dependency")
    verdicts = [Verdict(state=state, sentence="s") for state in VerdictState]
    codes = {exit_code(verdict, found) for verdict in verdicts for found in ((), (finding,))}
    assert set(EXIT_CODES) == codes | {kind.exit_code for kind in kinds} | {TIME_LIMIT, click.UsageError.exit_code}
    assert all(set(entry.exits) <= set(EXIT_CODES) for entry in commands().values())


@pytest.mark.parametrize(
    ("page", "codes"),
    [("README.md", set(EXIT_CODES)), ("help", set(EXIT_CODES)), ("docs/report-schema.md", {0, 3, 5, 10, 11, 12})],
)
def test_the_exit_codes_are_told_alike_wherever_they_are(page: str, codes: set[int]) -> None:
    text = livedbg.epilog or "" if page == "help" else (ROOT / page).read_text()
    told = re.split(r"\n\n|\.\n|\.$", text.partition("Exit codes")[2])[0]
    assert {int(code) for code in re.findall(r"(?:^|[\s·,:])(\d+) (?=\w)", told)} == codes


def test_the_keys_of_the_tour_are_keys_of_the_app() -> None:
    declared = {*APP_KEYS, *REPLAY_KEYS, *MOVES, *(key for spec in VIEWS for kind in spec.kinds for key in kind.KEYS)}
    shown = {sign for key in declared for sign in key.shown.split()}
    tour = _BLOCK.sub("", (DOCS / "tour.md").read_text())
    told = {span for span in re.findall(r"`([^`\s]+)`", tour) if len(span) < 3 or span in {"Space", "Tab", "Enter"}}
    assert len(told) > 20
    assert told <= shown
    assert {spec.key for spec in VIEWS} - {"1"} <= told


def test_every_command_has_its_page() -> None:
    index = (DOCS / "commands" / "README.md").read_text()
    assert all(f"]({name}.md)" in index for name in livedbg.list_commands(click.Context(livedbg)))
