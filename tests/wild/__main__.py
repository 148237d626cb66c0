"""Run livedbg on all texts of failed jobs, and count what it says of them.

    python -m tests.wild [--wrapped] [--padded] [--write] [FOLDER…]

A FOLDER holds texts as tests/fixtures/wild does; those of the project where none is named. `--wrapped` puts each text
into each wrapping, too; `--padded` puts some amid 200 MB of other lines. `--write` notes in tests/wild/not_yet.toml
what is not right yet; the tests fail where that table is not true.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.wild.judging import GRADES, graded, report
from tests.wild.not_yet import write
from tests.wild.padding import AT, padded
from tests.wild.texts import Text, texts
from tests.wild.wrapping import like_bare, pairs, rotation


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--wrapped", action="store_true")
    parser.add_argument("--padded", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = texts(*options.folders)
    bare = {text.id: graded(text, report(text.logs)) for text in found}
    print("\n".join(_table(found, bare)))
    for text in found:
        if bare[text.id] != "right":
            print(f"{bare[text.id]:8} {text.id}: {report(text.logs).sentence}")
    if options.write and not options.folders:
        write(bare, {name: _unlike(name, some) for name, some in rotation(found).items()})
    if options.wrapped:
        print("\n".join(_wrapped(found)))
    if options.padded:
        print("\n".join(_padded(found)))
    return 1 if "wrong" in bare.values() else 0


def _table(found: Iterable[Text], grades: Mapping[str, str]) -> Iterator[str]:
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    for text in found:
        by_kind[text.kind][grades[text.id]] += 1
        by_kind["all"][grades[text.id]] += 1
    yield "| kind | texts | " + " | ".join(GRADES) + " |\n| --- |" + " ---: |" * (1 + len(GRADES))
    for kind in sorted(by_kind, key=lambda kind: (kind == "all", kind)):
        counts = by_kind[kind]
        yield f"| {kind} | {counts.total()} | " + " | ".join(str(counts[grade]) for grade in GRADES) + " |"


def _unlike(name: str, some: Iterable[Text]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        return sorted(text.id for text in some if like_bare(text, name, Path(folder) / text.id))


def _wrapped(found: list[Text]) -> Iterator[str]:
    tried: Counter[str] = Counter()
    other: dict[str, list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for number, (text, name) in enumerate(pairs(found)):
            tried[name] += 1
            said = like_bare(text, name, Path(folder) / str(number))
            if said is not None:
                other[name].append(f"{text.id}: {said}")
    for name, count in tried.items():
        yield f"{name}: {count - len(other[name])} of {count} as bare"
        yield from (f"    {line}" for line in other[name])


def _padded(found: list[Text]) -> Iterator[str]:
    for text in found[::40]:
        bare = graded(text, report(text.logs))
        for at in AT:
            with tempfile.TemporaryDirectory() as folder:
                padded(text, Path(folder), at)
                begun = time.monotonic()
                grade = graded(text, report(Path(folder), longest_s=1800))
                yield f"{text.id} at the {at}: {grade} (bare: {bare}), {time.monotonic() - begun:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
