"""docs/rules.md is what the rules say of themselves."""

from __future__ import annotations

from pathlib import Path

from livedbg.session.rulebook import rules_page

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == rules_page(), "write livedbg.session.rulebook.rules_page() to docs/rules.md"
