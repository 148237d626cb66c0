"""The counts of tests/house.py, on a tree of a few files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import COUNTS, House, trouble

SEARCHED = "sentences taken apart or searched"
CALM = {
    "livedbg/analysis/rules/ends.py": "def says(finding: str) -> str:\n    return finding\n",
    "adapters/cuda/rules/errors.py": "from livedbg.analysis.rules.ends import says\n",
}
NOTHING = dict.fromkeys(COUNTS, 0)


def house(root: Path, files: dict[str, str]) -> House:
    """A tree of these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return House(root)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("text = finding.sentence.rstrip('.')", SEARCHED),
        ("known = host in finding.sentence", SEARCHED),
        ("text = HEAD.sub('', finding.sentence)", SEARCHED),
        ('number = proof.source.rpartition(":")[2]', "line numbers parsed out of Evidence.source"),
        ("rank = said.attributes.get('rank')", "reads of attributes in rules"),
        ('late = word == "yes"', "'yes' as a truth value"),
        ("class Own(LogDecoder): ...", "classes that are a LogDecoder of their own"),
    ],
)
def test_a_count_that_rose_is_told_with_its_place(tmp_path: Path, line: str, what: str) -> None:
    """The file that changed is named, with the line; another one that has the same is not."""
    place = "adapters/cuda/rules/errors.py"
    code = house(tmp_path, {**CALM, place: f"import os\n\n{line}\n", "adapters/iree/rules/old.py": line})
    told = [one for one in trouble(code, {**NOTHING, what: 1}, [], {place}) if one.startswith(what)]
    assert told == [f"{what}: 2, at most 1 may be. Look at:\n  {place}:3"]


def test_a_count_that_fell_has_to_be_written_down(tmp_path: Path) -> None:
    """Else it could rise again unseen."""
    code = house(tmp_path, CALM)
    assert not list(trouble(code, NOTHING, [], None))
    (told,) = trouble(code, {**NOTHING, SEARCHED: 1}, [], None)
    assert "--write" in told


def test_a_module_for_one_neighbour_is_counted(tmp_path: Path) -> None:
    """One that a module of another folder imports is not."""
    what = "modules whose only importer lies in their own folder"
    beside = "from livedbg.analysis.rules.ends import says\n"
    code = house(tmp_path, {**CALM, "adapters/cuda/rules/errors.py": "", "livedbg/analysis/rules/said.py": beside})
    (told,) = trouble(code, NOTHING, [], None)
    assert told.startswith(f"{what}: 1")
    assert not list(trouble(house(tmp_path, CALM), NOTHING, [], None))


def test_a_rule_that_imports_re_is_refused_unless_it_is_listed(tmp_path: Path) -> None:
    """One that is listed and needs it no more has to leave the list."""
    code = house(tmp_path, {**CALM, "adapters/cuda/rules/errors.py": "import re\n", "panels/text.py": "import re\n"})
    (told,) = trouble(code, NOTHING, [], None)
    assert told.startswith("adapters/cuda/rules/errors.py:1: a rule matches a pattern")
    assert not list(trouble(code, NOTHING, ["livedbg.adapters.cuda.rules.errors"], None))
    (told,) = trouble(code, NOTHING, ["livedbg.adapters.cuda.rules.errors", "livedbg.analysis.rules.ends"], None)
    assert told.startswith("livedbg.analysis.rules.ends matches no pattern any more")
