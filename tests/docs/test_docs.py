"""The documentation says what the program is: generated pages are current, links resolve, command lines parse."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import click
import pytest

from livedbg.cli.group import livedbg
from tests.make_docs import DOCS, EXIT_CODES, PICTURES, Picture, pages, picture

ROOT = DOCS.parent
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
_BLOCK = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    for name in ("NO_COLOR", "COLORTERM", "SSH_CONNECTION", "TEXTUAL_COLOR_SYSTEM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("path", sorted(pages()))
def test_a_generated_page_is_current(path: str) -> None:
    assert (DOCS / path).read_text() == pages()[path], "run `make docs`"


@pytest.mark.parametrize("wanted", PICTURES, ids=lambda wanted: wanted.name)
def test_a_picture_is_of_this_version(wanted: Picture) -> None:
    made = asyncio.run(picture(wanted))
    assert (DOCS / "pictures" / f"{wanted.name}.svg").read_text() == made, "run `make docs`, and look at the pictures"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def command_lines() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text()):
            for line in block.splitlines():
                words = line.strip().removeprefix("$ ").split("#")[0].strip()
                if words.startswith("livedbg ") and "[OPTIONS]" not in words:
                    found.append((page.name, words))
    return found


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_command_lines_are_understood(page: str, line: str) -> None:
    name, *words = shlex.split(line)[1:]
    if name.startswith("-"):
        return
    group = click.Context(livedbg, info_name="livedbg")
    command = livedbg.get_command(group, name)
    assert command is not None, f"{page}: {line}"
    command.make_context(name, words, parent=group)  # parses, and runs nothing


def test_the_exit_codes_are_those_of_the_help() -> None:
    assert livedbg.epilog is not None
    said = {int(code) for code in re.findall(r"\b(\d+) (?=\w)", livedbg.epilog.partition("Exit codes:")[2])}
    assert said == {code for code, _ in EXIT_CODES}


def test_every_command_has_its_page() -> None:
    index = (DOCS / "commands" / "README.md").read_text()
    names = livedbg.list_commands(click.Context(livedbg))
    assert all(f"]({name}.md)" in index and (DOCS / "commands" / f"{name}.md").exists() for name in names)
