"""Counts in the code what should become less, and fails where one of the counts has risen (tests/house.toml).

    python -m tests.house           what rose or fell, and where; exit code 1 for either
    python -m tests.house --write   write lower numbers down; a higher one is refused
    python -m tests.house --show    all counts with their places

Nothing is imported or run of what is counted: files are read as text and as syntax trees.

A count that rose fails with the places to look at: those in lines that changed since the numbers were written. One
that fell fails until it is written down, so that it can't rise again. Rules match no pattern: a module of rules that
imports `re` is in the list of those that still do, which only becomes shorter.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

__all__ = ["COUNTS", "House", "main", "trouble", "written"]

_ROOT: Final = Path(__file__).parent.parent
_NUMBERS: Final = "tests/house.toml"
_PACKAGES: Final = {"livedbg": "livedbg", "adapters": "livedbg.adapters", "panels": "livedbg.panels"}
_HEAD: Final = """\
# What tests/house.py counts: each number may only fall, and the list may only become shorter.
# Write lower ones with `python -m tests.house --write`.
"""


class House:
    """The product's modules below a folder, by their dotted names."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = {
            ".".join([package, *path.relative_to(root / folder).with_suffix("").parts]).removesuffix(".__init__"): path
            for folder, package in _PACKAGES.items()
            for path in sorted((root / folder).rglob("*.py"))
            if not path.is_symlink() and (folder != "livedbg" or not path.is_relative_to(root / "livedbg/adapters"))
        }
        self.texts = {name: path.read_text() for name, path in self.paths.items()}

    @cached_property
    def importers(self) -> Mapping[str, set[str]]:
        """The modules that import each module by `from … import …`."""
        found = defaultdict(set)
        for name, text in self.texts.items():
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("livedbg"):
                    for one in node.names:
                        full = f"{node.module}.{one.name}"
                        found[full if full in self.texts else node.module or ""].add(name)
        return found

    def lines(self, pattern: str, where: Callable[[str], bool] = lambda name: True) -> Iterator[str]:
        """`path:line` of each match of a pattern in the modules whose names are wanted."""
        for name, text in self.texts.items():
            if where(name):
                for match in re.finditer(pattern, text):
                    yield self.place(name, text.count("\n", 0, match.start()) + 1)

    def place(self, name: str, line: int) -> str:
        """`adapters/cuda/facts.py:12`."""
        return f"{self.paths[name].relative_to(self.root)}:{line}"


def _is_rules(name: str) -> bool:
    return ".rules" in name or name.startswith("livedbg.analysis")


def _is_adapter(name: str) -> bool:
    return name.startswith("livedbg.adapters.")


def _only_importer_beside(house: House) -> Iterator[str]:
    for name, path in house.paths.items():
        by = house.importers.get(name, ())
        if len(by) == 1 and path.name != "__init__.py" and next(iter(by)).rpartition(".")[0] == name.rpartition(".")[0]:
            yield house.place(name, 1)


_TAKEN_APART: Final = (
    r"sentence\.(?:replace|r?strip|split|r?partition|startswith|endswith|removesuffix|removeprefix|lower)\b"
    r"|\bin [\w.]*sentence\b(?!\()"
    r"|\w+\.(?:sub|search|match|fullmatch)\([^()]*\bsentence\b"
)

COUNTS: Final[Mapping[str, Callable[[House], Iterator[str]]]] = {
    "modules whose only importer lies in their own folder": _only_importer_beside,
    "sentences taken apart or searched": lambda house: house.lines(_TAKEN_APART),
    "line numbers parsed out of Evidence.source": lambda house: house.lines(r'source\.rpartition\(":"\)'),
    "reads of attributes in rules": lambda house: house.lines(r"attributes(?:\.get\(|\[)", _is_rules),
    "reads of attributes": lambda house: house.lines(r"attributes(?:\.get\(|\[)"),
    "'yes' as a truth value": lambda house: house.lines(r'"yes"'),
    "EdgesReplaced published by hand": lambda house: house.lines(r"EdgesReplaced\(", _is_adapter),
    "TasksSeen published by hand": lambda house: house.lines(r"TasksSeen\(", _is_adapter),
    "StatusSeen published by hand": lambda house: house.lines(r"StatusSeen\(", _is_adapter),
    "loops until targets or logs ended": lambda house: house.lines(r"(?:targets|logs)_ended\(context\)", _is_adapter),
    "classes that are a LogDecoder of their own": lambda house: house.lines(r"class \w+\(LogDecoder\)"),
    "patterns compiled when a module is imported": lambda house: house.lines(
        r"(?m)^_?[A-Z]\w*(?:: \w+)? = re\.compile\("
    ),
    "functions of a re.Match": lambda house: house.lines(r"def [^\n]*: re\.Match\["),
}
"""What may only become less, each with the function that finds its places."""


def with_re(house: House) -> list[str]:
    """The modules of rules that match patterns."""
    return [
        name
        for name, text in house.texts.items()
        if _is_rules(name) and re.search(r"^(?:import re$|from livedbg\.text\.patterns\b)", text, re.M)
    ]


def trouble(house: House, most: Mapping[str, int], allowed: list[str], changed: set[str] | None) -> Iterator[str]:
    """A line for each count that differs from the number that was written.

    Args:
        house: the code.
        most: the numbers.
        allowed: modules of rules that may import `re`.
        changed: places, and paths of whole files, that may be at fault; None where that is not known.
    """
    for what, count in COUNTS.items():
        places = list(count(house))
        if len(places) > most[what]:
            near = places if changed is None else [one for one in places if {one, one.partition(":")[0]} & changed]
            yield f"{what}: {len(places)}, at most {most[what]} may be. Look at:\n  " + "\n  ".join(near or places)
        elif len(places) < most[what]:
            yield f"{what}: {len(places)}, less than {most[what]}: write it down (python -m tests.house --write)"
    for name in set(with_re(house)) ^ set(allowed):
        if name in allowed:
            yield f"{name} matches no pattern any more: write it down (python -m tests.house --write)"
        else:
            yield f"{house.place(name, 1)}: a rule matches a pattern: read values instead of text"


def written(numbers: Path) -> tuple[dict[str, int], list[str]]:
    """The numbers, and the modules of rules that may import `re`."""
    table = tomllib.loads(numbers.read_text())
    return table["most"], table["rules_with_re"]


def _write(house: House, numbers: Path) -> None:
    most = {what: len(list(count(house))) for what, count in COUNTS.items()}
    lines = [f'"{what}" = {number}' for what, number in most.items()]
    listed = [f'    "{name}",' for name in sorted(with_re(house))]
    numbers.write_text("\n".join([_HEAD, "rules_with_re = [", *listed, "]", "", "[most]", *lines, ""]))


def _changed(root: Path) -> set[str] | None:
    """Lines and files that are new since the commit that wrote the numbers; None without git."""

    def git(*arguments: str) -> list[str]:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        ).stdout.splitlines()

    try:
        base = git("log", "-1", "--format=%H", "--", _NUMBERS)
        found, path = {*git("ls-files", "--others", "--exclude-standard")}, ""
        for line in git("diff", "-U0", *base, "--", *_PACKAGES):
            if line.startswith("+++ b/"):
                path = line.removeprefix("+++ b/")
            elif hunk := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
                found.update(f"{path}:{int(hunk[1]) + more}" for more in range(int(hunk[2] or 1)))
        return found
    except (OSError, subprocess.CalledProcessError):
        return None


def main(arguments: list[str]) -> int:
    """Check, show or write the counts; returns the exit code."""
    house, numbers = House(_ROOT), _ROOT / _NUMBERS
    if "--show" in arguments:
        for what, count in COUNTS.items():
            places = list(count(house))
            print(f"{len(places):6,}  {what}", *places, sep="\n        ")
        return 0
    most, allowed = written(numbers)
    told = list(trouble(house, most, allowed, _changed(_ROOT)))
    if "--write" in arguments and not any("may be" in line or "a rule imports" in line for line in told):
        _write(house, numbers)
        return 0
    print(*told, sep="\n", end="\n" if told else "")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
