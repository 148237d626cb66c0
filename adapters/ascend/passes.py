"""Find the last pass of a compilation, and what it changed, from the dumps that pypto and ptoas write after each pass.

pypto writes `passes_dump/00_frontend.py` and, after each pass, `NN_after_Pass.py` (hw-native-sys/pypto,
python/pypto/ir/pass_manager.py); ptoas writes the output of MLIR's --mlir-print-ir-tree-dir below
`ptoas_passes/UNIT/`: `N_pass-name.mlir`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.messages import read_data
from livedbg.linux import target_files
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_bytes, clean_line

_ENTRIES: Final = 20_000
_LINE_LIMIT: Final = 20_000
_SOURCES: Final = frozenset({".py", ".pto", ".mlir"})
_SOURCE_LIMIT: Final = 64 << 20
_ORIGIN: Final = lazy_re(r"\s{0,100}loc\(\"([^\"]{1,400}\.py)\":(\d{1,9}):(\d{1,9})\)\s{0,100}$")
_STEP: Final = lazy_re(r"^(\d{1,4})_(?:after_)?([\w-]{1,100})\.(?:py|mlir)$")
_SIZE: Final = 4 << 20  # of a dump that is compared
_LINES: Final = 16  # of a difference that are shown
_WIDTH: Final = 180
_BACK: Final = 12  # dumps that are gone back over where the last ones are equal
_WORD: Final = lazy_re(r"[A-Za-z_][\w.]{2,}|\d{2,}")
_COMMON: Final = frozenset({"the", "and", "for", "has", "must", "exceeds", "failed", "error", "check", "pass", "after"})


class Place(Struct, frozen=True):
    """A line of a source file."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column > 0 else "")

    @property
    def generated(self) -> bool:
        """Return whether the compiler wrote the file."""
        return not self.file.endswith(".py")


class PassDump(Struct, frozen=True):
    """One folder of dumps.

    Attributes:
        unit: ptoas's kernel or group; "" for pypto.
        last: name of the last pass that ended; "" for none.
        number: its number.
        written_ns: mtime of that file.
        missing: number of gaps between the first and the last.
    """

    path: Path
    unit: str
    last: str
    number: int
    written_ns: int
    missing: int = 0

    def files(self, upto: str = "") -> list[Path]:
        """Return the dumps in pass order, up to a named pass if that exists."""
        steps = sorted(
            (int(step[1]), step[2], self.path / name) for name in _names(self.path) if (step := _STEP.match(name))
        )
        last = max((number for number, name, _ in steps if name == upto), default=self.number)
        return [path for number, _, path in steps if number <= last]

    @property
    def file(self) -> str:
        """Return the file of the last pass that ended."""
        files = self.files()
        return clean_line(str(files[-1])) if files else ""


class PassChange(Struct, frozen=True):
    """Change by one pass.

    Attributes:
        before, after: file names.
        lines: the most relevant lines of the difference, each beginning with `-`, `+` or a blank.
        more: number of further differing lines.
    """

    before: str
    after: str
    lines: tuple[str, ...]
    more: int


def find_dumps(folders: Sequence[Path]) -> list[PassDump]:
    """Return all folders of dumps below some folders; in each folder the newest last. Blocking: call it in a thread."""
    found: dict[Path, PassDump] = {}
    for path, directories, _ in target_files.walk_some(folders):
        for dump in _dumps_in(path, directories):
            found[dump.path] = dump
        directories[:] = [name for name in directories if name not in {"passes_dump", "ptoas_passes"}]
    for folder in folders:
        if folder.name == "passes_dump" and (dump_here := _dump(folder, "")) is not None:
            found[folder] = dump_here
    return sorted(found.values(), key=lambda dump: dump.written_ns)


def _dumps_in(path: Path, directories: list[str]) -> Iterator[PassDump]:
    if "passes_dump" in directories:
        dump = _dump(path / "passes_dump", "")
        if dump is not None:
            yield dump
    if "ptoas_passes" in directories:
        for unit in _names(path / "ptoas_passes"):
            for root, below, _ in target_files.walk(path / "ptoas_passes" / unit):
                below[:] = sorted(below)[:100]
                dump = _dump(Path(root), clean_line(unit, 200))
                if dump is not None:
                    yield dump


def _names(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in target_files.entries(path))[:_ENTRIES]
    except OSError:
        return []


def _dump(path: Path, unit: str) -> PassDump | None:
    steps = sorted((int(step[1]), step[2]) for name in _names(path) if (step := _STEP.match(name)))
    if not steps:
        return None
    number, last = steps[-1]
    try:
        written_ns = max(
            target_files.status(entry.path).st_mtime_ns
            for entry in target_files.entries(path)
            if target_files.is_regular(entry.path)
        )
    except (OSError, ValueError):
        written_ns = 0
    missing = number + 1 - len({number for number, _ in steps}) if not unit else 0
    return PassDump(path, unit, "" if last == "frontend" else clean_line(last), number, written_ns, max(0, missing))


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    pipeline: tuple[str, ...]


@cache
def pipeline() -> tuple[str, ...]:
    """Return the names of pypto's passes, in order (data/passes.toml)."""
    return read_data("passes.toml", _File).pipeline


def next_pass(last: str) -> str:
    """Return the pass after `last` ("": the first) in pypto's pipeline; "" if not known."""
    if not last:
        return pipeline()[0]
    places = [number for number, name in enumerate(pipeline()) if name == last]
    if len(places) != 1 or places[0] + 1 >= len(pipeline()):
        return ""
    return pipeline()[places[0] + 1]


def quoted(place: Place, folders: Iterable[Path]) -> tuple[str, Place | None]:
    """Return the text of a source line, and the program line that it was generated from, if given. Blocking.

    A generated .pto line ends with MLIR's `loc("model.py":14:5)`.

    Args:
        place: the line; its file absolute, or below one of the folders.
    """
    for folder in folders:
        path = folder / place.file
        try:
            if (
                path.suffix not in _SOURCES
                or not target_files.is_regular(path)
                or target_files.status(path).st_size > _SOURCE_LIMIT
            ):
                continue  # a log may name any file: only programs are quoted
            with target_files.open_binary(path) as file:
                line = next(islice(file, place.line - 1, place.line), b"")
        except (OSError, ValueError):
            continue
        text = clean_bytes(line[:_LINE_LIMIT]).strip()
        origin = _ORIGIN.search(text)
        made_from = Place(origin[1], int(origin[2]), int(origin[3])) if origin is not None else None
        return clean_line(_ORIGIN.sub("", text).strip(), 300), made_from
    return "", None


def change_of(files: Sequence[Path], message: str) -> PassChange | None:
    """Return the last change in some dumps (oldest first) before an error, or None if none differ. Blocking.

    Names in the error's message are searched for in the difference.
    """
    texts: dict[Path, list[str]] = {}
    recent = list(files)[-_BACK:]
    for before, after in reversed(list(pairwise(recent))):
        for path in (before, after):
            if path not in texts:
                texts[path] = _read(path)
        if texts[before] and texts[after] and texts[before] != texts[after]:
            return _change(before, after, texts, message)
    return None


def _read(path: Path) -> list[str]:
    try:
        with target_files.open_binary(path) as file:
            return [clean_bytes(line) for line in file.read(_SIZE).splitlines()]
    except OSError:
        return []


def _change(before: Path, after: Path, texts: dict[Path, list[str]], message: str) -> PassChange:
    words = {word for word in _WORD.findall(message) if word.lower() not in _COMMON}
    hunks = list(_hunks(texts[before], texts[after]))
    best = max(hunks, key=lambda hunk: len(words.intersection(_WORD.findall("\n".join(hunk)))))
    shown = tuple(line[:_WIDTH] for line in best[:_LINES])
    changed = sum(line[:1] in "+-" for hunk in hunks for line in hunk)
    return PassChange(
        clean_line(before.name), clean_line(after.name), shown, changed - sum(line[:1] in "+-" for line in shown)
    )


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[list[str]]:
    hunk: list[str] = []
    for line in list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]:
        if line.startswith("@@"):
            if hunk:
                yield hunk
            hunk = []
        else:
            hunk.append(line)
    if hunk:
        yield hunk
