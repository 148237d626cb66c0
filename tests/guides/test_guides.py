"""The guides' answers that rest on logs, or are had in a moment, are had again; the pages are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guides.make import DOCS, Bench, Step, lay, pages
from tests.probes.refused import refused


@pytest.fixture(scope="module")
def bench() -> object:
    with Bench() as one:
        yield one


def again() -> list[tuple[str, Step]]:
    return [(name, step) for name, page in pages().items() for step in page.step if step.short]


@pytest.mark.parametrize(("name", "step"), again(), ids=lambda one: one if isinstance(one, str) else one.asks[:40])
@pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")
def test_an_answer_is_had_again(name: str, step: Step, bench: Bench) -> None:
    bench.answer(step)


def test_the_files_of_the_guides_can_be_laid_out(tmp_path: Path) -> None:
    lay(tmp_path / "job")
    runs = {name for page in pages().values() for name in page.fixtures}
    assert {path.name for path in (tmp_path / "job" / "runs").iterdir()} == runs
    assert (tmp_path / "job" / "logs" / "ratio.log").is_file()


@pytest.mark.parametrize("name", pages())
def test_a_page_has_all_questions_with_their_commands(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text()
    assert "--lay job" in text
    for step in pages()[name].step:
        assert step.asks in text and f"$ {step.run}\n" in text
    assert not any(place in text for place in (str(DOCS.parents[1]), "/root", "/tmp"))
