"""Each invariant that a module's docstring lists has a name of its own, and a test that is marked with it.

An invariant is named `module.A2`; the test of it carries `@pytest.mark.invariant("module.A2")`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SECTION: Final = re.compile(r"^Invariants?:\n((?:[ ]{4}.*\n?|\n)*)", re.MULTILINE)
ITEM: Final = re.compile(r"^[ ]{4}(\S+?)[.:] ", re.MULTILINE)
NAME: Final = re.compile(r"[a-z][a-z0-9_]*\.[A-Z]\d+")
DOCSTRING: Final = re.compile(r'\s*r?"""(.*?)"""', re.DOTALL)
MARK: Final = re.compile(r"^ *@pytest\.mark\.invariant\(([^)]*)\)", re.MULTILINE)


@cache
def named() -> tuple[tuple[str, str], ...]:
    """(name, module) of all invariants."""
    found = []
    for folder in ("livedbg", "adapters", "panels"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = DOCSTRING.match(path.read_text())
            if text is None:
                continue
            for section in SECTION.findall(text[1]):
                found += [(name, path.relative_to(ROOT).as_posix()) for name in ITEM.findall(section)]
    return tuple(dict.fromkeys(found))


def marked() -> Iterator[str]:
    """The names that tests are marked with."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        for names in MARK.findall(path.read_text()):
            yield from NAME.findall(names)


def test_invariants_are_named_module_letter_number() -> None:
    assert len(named()) > 250
    assert [row for row in named() if not NAME.fullmatch(row[0])] == []


def test_no_two_invariants_have_one_name() -> None:
    assert [name for name, count in Counter(name for name, _ in named()).items() if count > 1] == []


def test_one_module_has_one_prefix_and_one_prefix_one_module() -> None:
    pairs = {(name.partition(".")[0], module) for name, module in named()}
    assert len(pairs) == len({prefix for prefix, _ in pairs}) == len({module for _, module in pairs})


def test_each_invariant_has_a_test() -> None:
    tested = set(marked())
    names = {name for name, _ in named()}
    assert tested - names == set(), "marks of invariants that no module lists"
    assert names - tested == set(), 'mark a test with @pytest.mark.invariant("…")'
