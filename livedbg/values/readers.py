"""Readers of the dump files of systems: the protocol, and all readers as one.

This module doesn't import numpy: what searches for dumps can do so without it.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from livedbg.linux import target_files
from livedbg.model.errors import SourceError, UsageError
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:
    from livedbg.values.dump import Dump
    from livedbg.values.tensor import Array, Tensor

_DEPTH: Final = 6
_FOLDERS: Final = 10_000


class DumpFiles(Struct, frozen=True):
    """Names of the two files of a dump, which lie in one folder."""

    manifest: str
    payload: str


class GoldenFile(Struct, frozen=True):
    """A tensor of the golden data: an output that the program should leave, or an input."""

    name: str
    output: bool
    path: Path

    @property
    def label(self) -> str:
        """`out/f`."""
        return f"{'out' if self.output else 'in'}/{self.name}"


class TensorFormat(Struct, frozen=True):
    """A format of files that hold one tensor.

    Attributes:
        suffix: of their names, without the dot.
        load: reads the elements of a file; raises ValueError for a file without a tensor.
        write: writes a tensor whose elements are all there.
        remedy: how to make a readable file, if one can't be read.
    """

    suffix: str
    load: Callable[[Path], Array]
    write: Callable[[Tensor, Path], None]
    remedy: str


def written_as(formats: Iterable[TensorFormat]) -> tuple[str, ...]:
    """Return the suffixes, without the dot, of the forms in which a tensor can be written."""
    return ("npy", *(form.suffix for form in formats), "txt")


class DumpReader(Protocol):
    """Reads the dumps that one system writes."""

    @property
    def files(self) -> Sequence[DumpFiles]:
        """The file names of such dumps."""

    @property
    def remedy(self) -> str:
        """Return advice on how to make a run write a dump."""

    def open(self, path: Path) -> Dump:
        """Open a dump: a manifest, or a payload without one.

        Raises:
            SourceError: it can't be read, or is no dump (code `not-a-dump`).
        """

    def task(self, name: str) -> int | None:
        """Return the number of a task by its user-visible name, such as `r1t2`."""

    def golden_files(self, folder: Path) -> Sequence[GoldenFile]:
        """Return the golden data in a folder."""

    def golden_of_run(self, folder: Path) -> Sequence[GoldenFile]:
        """Return the golden data that lie somewhere in a run's folder."""


class Readers(Struct, frozen=True):
    """The readers of all systems, and formats of files with one tensor, besides `.npy`."""

    readers: tuple[DumpReader, ...]
    formats: tuple[TensorFormat, ...] = ()

    def holds_one_tensor(self, path: Path) -> bool:
        """Return whether a path is a file with one tensor, by its name."""
        return path.suffix in {".npy", *(f".{form.suffix}" for form in self.formats)} and target_files.is_regular(path)

    @property
    def files(self) -> tuple[DumpFiles, ...]:
        """Names of all of their files."""
        return tuple(files for reader in self.readers for files in reader.files)

    def find(self, path: Path) -> list[Path]:
        """Return the manifests, and the payloads without one, that a path names or that lie below it.

        Raises:
            SourceError: there is none.
        """
        try:
            mode = target_files.status(path).st_mode
        except OSError as error:
            raise SourceError(
                f"{clean_line(str(path))} can't be read: {error.strerror}.", "give a run's folder", "missing"
            ) from None
        if stat.S_ISREG(mode):
            return [self._manifest_of(path)]
        found = self._below(path) if stat.S_ISDIR(mode) else []
        if not found:
            kinds = " or ".join(Path(files.manifest).stem for files in self.files)
            raise SourceError(
                f"{clean_line(str(path))} holds no {kinds}.",
                "; ".join(reader.remedy for reader in self.readers),
                "no-dump",
            )
        return found

    def _manifest_of(self, path: Path) -> Path:
        if path.suffix == ".bin":
            for files in self.files:
                if (path.parent / files.manifest).is_file():
                    return path.parent / files.manifest
        return path

    def _below(self, root: Path) -> list[Path]:
        found: list[Path] = []
        depth = len(root.parts)
        manifests, payloads = zip(*((files.manifest, files.payload) for files in self.files), strict=True)
        for seen, (folder, folders, files) in enumerate(target_files.walk(root)):
            here = Path(folder)
            if len(here.parts) - depth >= _DEPTH or seen >= _FOLDERS:
                folders.clear()
            folders.sort()
            known = [name for name in manifests if name in files] or [name for name in payloads if name in files]
            found.extend(here / name for name in known)
        return found

    def open(self, path: Path) -> Dump:
        """Open a dump: a manifest, or a payload without one.

        Raises:
            SourceError: it can't be read, or is no dump.
        """
        known = [reader for reader in self.readers if any(path.name in (f.manifest, f.payload) for f in reader.files)]
        refused = SourceError(f"{clean_line(str(path))} can't be read: no system reads dumps.", "", "no-reader")
        for reader in known or self.readers:
            try:
                return reader.open(path)
            except SourceError as error:
                if error.code != "not-a-dump":
                    raise
                refused = error
        raise refused

    def task(self, word: str) -> int:
        """Return the number of a task by its name, as a number, or in hex.

        Raises:
            UsageError: none of these.
        """
        for reader in self.readers:
            if (task := reader.task(word)) is not None:
                return task
        try:
            return int(word, 0)
        except ValueError:
            raise UsageError(f"{word} names no task.", "r1t2, 4294967298 or 0x100000002") from None

    def golden_files(self, folder: Path) -> Sequence[GoldenFile]:
        """Return the golden data in a folder."""
        return next((files for reader in self.readers if (files := reader.golden_files(folder))), ())

    def golden_of_run(self, folder: Path) -> Sequence[GoldenFile]:
        """Return the golden data that lie somewhere in a run's folder."""
        return next((files for reader in self.readers if (files := reader.golden_of_run(folder))), ())
