"""How far a compilation got, and what its last pass changed: the folders in which pypto and ptoas leave their program
after each pass.

pypto writes `passes_dump/00_frontend.py` and, after each pass, `NN_after_Pass.py` (hw-native-sys/pypto,
python/pypto/ir/pass_manager.py); ptoas writes below `ptoas_passes/UNIT/` what MLIR's --mlir-print-ir-tree-dir writes:
`N_pass-name.mlir`.
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

_DEPTH: Final = 6
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
        """It is a file that the compiler wrote, not one of the user's."""
        return not self.file.endswith(".py")


class PassDump(Struct, frozen=True):
    """One folder of dumps.

    Attributes:
        unit: of ptoas's: the kernel or group; "" for pypto's.
        last: name of the last pass that ended; "" when not one has.
        number: its number.
        written_ns: when that file was written.
        missing: numbers between the first and the last that are not there.
    """

    path: Path
    unit: str
    last: str
    number: int
    written_ns: int
    missing: int = 0

    def files(self, upto: str = "") -> list[Path]:
        """The files of the passes, in their order; up to that of a pass, where it is named and there."""
        steps = sorted(
            (int(step[1]), step[2], self.path / name) for name in _names(self.path) if (step := _STEP.match(name))
        )
        last = max((number for number, name, _ in steps if name == upto), default=self.number)
        return [path for number, _, path in steps if number <= last]

    @property
    def file(self) -> str:
        """The file of the last pass that ended."""
        names = [name for name in _names(self.path) if (step := _STEP.match(name)) and int(step[1]) == self.number]
        return clean_line(str(self.path / names[0])) if names else ""


class PassChange(Struct, frozen=True):
    """What one pass changed.

    Attributes:
        before, after: the files' names.
        lines: of the difference, the ones that matter most, each beginning with `-`, `+` or a blank.
        more: further lines that differ.
    """

    before: str
    after: str
    lines: tuple[str, ...]
    more: int


def find_dumps(folders: Iterable[Path]) -> list[PassDump]:
    """All folders of dumps below some folders; in each folder the newest last. Blocking: call it in a thread."""
    found: dict[Path, PassDump] = {}
    visited = 0
    for folder in folders:
        for root, directories, files in target_files.walk(folder):
            path = Path(root)
            visited += len(directories) + len(files)
            if visited > _ENTRIES:
                break
            if len(path.relative_to(folder).parts) >= _DEPTH:
                directories[:] = []
            directories[:] = sorted(name for name in directories if not name.startswith("."))
            for dump in _dumps_in(path, directories):
                found[dump.path] = dump
            directories[:] = [name for name in directories if name not in {"passes_dump", "ptoas_passes"}]
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
    """The names of pypto's passes, in their order (data/passes.toml)."""
    return read_data("passes.toml", _File).pipeline


def next_pass(last: str) -> str:
    """The pass that comes behind that one ("": the first) in pypto's pipeline; "" where it isn't known."""
    if not last:
        return pipeline()[0]
    places = [number for number, name in enumerate(pipeline()) if name == last]
    if len(places) != 1 or places[0] + 1 >= len(pipeline()):
        return ""
    return pipeline()[places[0] + 1]


def quoted(place: Place, folders: Iterable[Path]) -> tuple[str, Place | None]:
    """The text of a source line, and the line of the program that it was made from, where it says so. Blocking.

    A generated .pto line ends with MLIR's `loc("model.py":14:5)`.

    Args:
        place: the line; its file absolute, or below one of the folders.
        folders: where to look for it.
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
    """The last change before an error, or None where no two dumps differ. Blocking.

    Args:
        files: the dumps, oldest first; the last one is that of the pass that failed, or of the last that ended.
        message: of the error; what it names is looked for in the difference.
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
