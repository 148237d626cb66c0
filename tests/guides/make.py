"""`python -m tests.guides.make [NAME…]`: run the commands of guides for real, and write docs/guides/NAME.md; with
`--lay FOLDER` only put the files there that the commands work on.

A page is tests/guides/pages/NAME.toml. Each step has a question, a command, and what its answer must say: a page whose
answer lacks that is not written. Steps on the logs of this folder and short ones are run again by tests/guides.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

HERE: Final = Path(__file__).parent
FIXTURES: Final = HERE.parent / "fixtures"
DOCS: Final = HERE.parents[1] / "docs" / "guides"
_LIMIT_S: Final = 600.0
_WIDTH: Final = 300
_FOLLOW: Final = (
    "To follow it, in a checkout of livedbg: `python -m tests.guides.make --lay job && cd job` makes a folder with "
    "the\nprograms and logs of this page."
)


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """One question of a guide.

    Attributes:
        asks: the question.
        about: what else to know, in Markdown.
        build: shell commands that are run and shown before.
        start: a shell command that runs in the background, as `$PID`.
        run: the command.
        says: regular expressions that its answer must match.
        lines: how many lines of the answer are shown.
        short: it is run again in CI; so are those that read logs.
    """

    asks: str
    run: str
    says: tuple[str, ...]
    about: str = ""
    build: tuple[str, ...] = ()
    start: str = ""
    lines: int = 24
    short: bool = False


class Page(msgspec.Struct, forbid_unknown_fields=True):
    """A guide.

    Attributes:
        title: its heading.
        intro: before the first question.
        needs: a module of Python that must be there; "" for none.
        tried: with which releases it was run.
        untried: what could not be tried here.
        fixtures: folders of tests/fixtures that are runs of the page, by their names below `runs`.
    """

    title: str
    intro: str
    tried: str
    untried: str
    step: list[Step]
    needs: str = ""
    fixtures: dict[str, str] = {}


def pages() -> dict[str, Page]:
    """All pages, by name."""
    found = sorted((HERE / "pages").glob("*.toml"))
    return {path.stem: msgspec.toml.decode(path.read_bytes(), type=Page) for path in found}


def lay(folder: Path) -> None:
    """Put the programs and logs of the guides into a new folder."""
    shutil.copytree(HERE / "programs", folder)
    shutil.copytree(HERE / "logs", folder / "logs")
    for page in pages().values():
        for name, fixture in page.fixtures.items():
            shutil.copytree(FIXTURES / fixture, folder / "runs" / name)


class Bench:
    """A folder with the programs and logs of the guides in it, where commands are run. A context manager."""

    def __enter__(self) -> Bench:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name) / "job"
        self.state = Path(self._folder.name) / "state"
        lay(self.folder)
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def answer(self, step: Step) -> str:
        """What a step's command prints.

        Raises:
            AssertionError: it does not say what it must.
        """
        for line in step.build:
            self._run(line, {})
        background = None
        try:
            more = {}
            if step.start:
                background = subprocess.Popen(
                    ["sh", "-c", f"exec {step.start}"],
                    cwd=self.folder,
                    env=self._environment({}),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
                more["PID"] = str(background.pid)
            said = self._run(step.run, more)
            end_s = time.monotonic() + _LIMIT_S / 4
            while background is not None and not _all_said(step, said) and time.monotonic() < end_s:
                said = self._run(step.run, more)  # it takes a moment until the program is stuck
        finally:
            if background is not None:
                os.killpg(background.pid, 9)
                background.wait()
        for wanted in step.says:
            assert re.search(wanted, said), f"{step.run}: no {wanted!r} in\n{said}"
        return said

    def _run(self, line: str, more: dict[str, str]) -> str:
        done = subprocess.run(
            ["sh", "-c", f"{line} 2>&1"],
            cwd=self.folder,
            env=self._environment(more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        return self._clean(done.stdout)

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {"PATH": path, "XDG_STATE_HOME": str(self.state), "XDG_CONFIG_HOME": str(self.state), "TZ": "UTC"}
        return {**os.environ, **own, "COLUMNS": "100", **more}

    def _clean(self, text: str) -> str:
        """Without what is of this machine."""
        text = (
            text.replace(f"{Path(sys.executable).parent}/", "")
            .replace(str(self.folder), "~/job")
            .replace(str(self.state), "~/.local/state")
        )
        text = re.sub(r"(?:/[\w.-]+)+/(?=site-packages/|lib/python3)", "…/", text)
        lines = [line[:_WIDTH].rstrip() for line in text.splitlines()]
        kept = [line for line in lines if not re.match(r"Taken \d{4}-", line)]
        return "\n".join(kept).strip("\n")


def _all_said(step: Step, said: str) -> bool:
    return all(re.search(wanted, said) for wanted in step.says)


def written(page: Page, answers: list[str]) -> str:
    """The text of a page."""
    parts = [f"# {page.title}\n", f"{page.intro.strip()}\n", f"{_FOLLOW}\n"]
    for number, (step, answer) in enumerate(zip(page.step, answers, strict=True), 1):
        shown = answer.splitlines()
        cut = [*shown[: step.lines], "…"] if len(shown) > step.lines else shown
        commands = [*step.build, *([f"{step.start} & PID=$!"] if step.start else []), step.run]
        console = "\n".join([*(f"$ {one}" for one in commands), *cut])
        about = f"{step.about.strip()}\n\n" if step.about else ""
        parts.append(f"## {number}. {step.asks}\n\n{about}```console\n{console}\n```\n")
    parts.append(f"## What was tried\n\n{page.tried.strip()}\n\nNot tried: {page.untried.strip()}\n")
    made = "These answers were printed by the commands above them, run by `make guides`."
    return "\n".join([*parts, f"{made}\n"])


def main() -> None:
    """Run the commands of some guides, or of all, and write their pages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--lay", metavar="FOLDER", type=Path)
    given = parser.parse_args()
    if given.lay is not None:
        lay(given.lay)
        return
    names = given.names
    DOCS.mkdir(exist_ok=True)
    for name, page in pages().items():
        if names and name not in names:
            continue
        with Bench() as bench:
            answers = [bench.answer(step) for step in page.step]
        (DOCS / f"{name}.md").write_text(written(page, answers), encoding="utf-8")
        print(f"docs/guides/{name}.md: {len(answers)} answers")


if __name__ == "__main__":
    main()
