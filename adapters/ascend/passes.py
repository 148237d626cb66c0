"""How far a compilation got: the folders in which pypto and ptoas leave their program after each pass.

pypto writes `passes_dump/00_frontend.py` and, after each pass, `NN_after_Pass.py` (hw-native-sys/pypto,
python/pypto/ir/pass_manager.py); ptoas writes below `ptoas_passes/UNIT/` what MLIR's --mlir-print-ir-tree-dir writes:
`N_pass-name.mlir`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.compile_errors import Place
from livedbg.adapters.ascend.pipeline import PIPELINE
from livedbg.linux import target_files
from livedbg.text.sanitize import clean_bytes, clean_line

__all__ = ["PassDump", "find_dumps", "next_pass", "quoted"]

_DEPTH: Final = 6
_ENTRIES: Final = 20_000
_LINE_LIMIT: Final = 20_000
_SOURCES: Final = frozenset({".py", ".pto", ".mlir"})
_SOURCE_LIMIT: Final = 64 << 20
_ORIGIN: Final = re.compile(r"\s{0,100}loc\(\"([^\"]{1,400}\.py)\":(\d{1,9}):(\d{1,9})\)\s{0,100}$")
_STEP: Final = re.compile(r"^(\d{1,4})_(?:after_)?([\w-]{1,100})\.(?:py|mlir)$")


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


def next_pass(last: str) -> str:
    """The pass that comes behind that one ("": the first) in pypto's pipeline; "" where it isn't known."""
    if not last:
        return PIPELINE[0]
    places = [number for number, name in enumerate(PIPELINE) if name == last]
    if len(places) != 1 or places[0] + 1 >= len(PIPELINE):
        return ""
    return PIPELINE[places[0] + 1]


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
