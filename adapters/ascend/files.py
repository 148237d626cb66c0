"""Finds and reads the files that the runtime writes beside its log: deps.json, name_map*.json, scope_stats.jsonl.

They come late (after a run has drained), and may be read while they are being written: a file that
is not whole JSON yet is tried again when it has changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from livedbg.adapters.ascend.dumps.graphs import OtherShape, parse_graph
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.model import JobFile
from livedbg.adapters.ascend.names import NameMap, by_func_id
from livedbg.linux import target_files
from livedbg.linux.target_files import is_folder, is_shared
from livedbg.session.pacing import Limit, Stopwatch
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.text.typed import ready

__all__ = ["SIZE_LIMIT", "FileProblem", "FileWatch", "folders_of"]

SIZE_LIMIT: Final = 256 << 20
"""A larger file is not read."""

_NAMES: Final = ("deps.json", "scope_stats.jsonl")
_DEPTH: Final = 6  # folders below a given one that are looked into
_ENTRIES: Final = 20_000  # directory entries that one scan may visit
_SHORT_S: Final = 2.0  # looks come no more often in any case
_LIMIT: Final = Limit(cpu=0.02, most_s=300.0)  # of reading a file that changes all the time


class FileProblem(Struct, frozen=True):
    """A file that can't be used (now).

    Attributes:
        sentence: why.
        passing: it may be right later (it is being written).
        remedy: what to do.
    """

    path: Path
    sentence: str
    passing: bool
    remedy: str = "check that the run that writes it has ended"


def folders_of(patterns: Iterable[str]) -> list[Path]:
    """The folders that log arguments (files, folders, globs) speak of, absolute as the logs' own paths are.

    A folder that everybody writes into is one only if it is named itself.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern).expanduser().absolute()
        while any(mark in str(path) for mark in "*?[") and path != path.parent:
            path = path.parent
        if is_folder(path):
            found[path] = None
        elif is_folder(path.parent) and not is_shared(path.parent):
            found[path.parent] = None
    return list(found)


class FileWatch:
    """Looks for the files below some folders, and gives each again when it has changed."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, int]] = {}
        self._rests: dict[Path, float] = {}
        self.problems: dict[Path, FileProblem] = {}

    def scan(self, folders: Iterable[Path], *, last: bool = False) -> list[JobFile]:
        """One scan: the files that are new or changed. Blocking: call it in a thread.

        Args:
            folders: where they lie.
            last: there is no later look; else a file that was costly to read is left alone for some time.
        """
        found: list[JobFile] = []
        for path in _candidates(folders):
            try:
                status = target_files.status(path)
            except OSError:
                continue
            signature = (status.st_mtime_ns, status.st_size)
            begun, watch = time.monotonic(), Stopwatch()
            if self._seen.get(path) == signature or (self._rests.get(path, 0.0) > begun and not last):
                continue
            self._seen[path] = signature
            self.problems.pop(path, None)
            if status.st_size > SIZE_LIMIT:
                limit = f"{path} is larger than {SIZE_LIMIT >> 20} MiB and is not read."
                self._problem(
                    path, limit, False, f"livedbg graph {shell_word(path)}   reads the first part of a deps.json"
                )
                continue
            file = self._read(path, status.st_mtime_ns)
            rest_s = _LIMIT.rest_s(watch.cost())
            self._rests[path] = begun + rest_s if rest_s > _SHORT_S else 0.0
            if file is not None:
                found.append(file)
        return found

    def _read(self, path: Path, changed_wall_ns: int) -> JobFile | None:
        mark = Mark(clean_line(path.name), clean_line(path.name), changed_wall_ns, kind="file")
        try:
            data = target_files.read_bytes(path)
            if path.name == "deps.json":
                from livedbg.graphs.lost import lost_orders

                graph = parse_graph(data)
                lost_orders(graph)  # it may take seconds: here, in a thread of its own
                return JobFile(path, mark, graph=graph)
            if path.name == "scope_stats.jsonl":
                from livedbg.adapters.ascend.dumps.scope_stats import read_scope_stats

                return JobFile(path, mark, scopes=read_scope_stats(data))
            names = msgspec.json.decode(data, type=ready(NameMap)).callable_id_to_name
            return JobFile(path, mark, names=by_func_id(names))
        except OSError as error:
            self._problem(path, f"{path} can't be read: {error.strerror}.", False)
        except OtherShape as error:
            self._problem(
                path, f"{path} is not read: {error}.", False, f"livedbg graph {shell_word(path)}   says what is read"
            )
        except (ValueError, msgspec.DecodeError, RecursionError):
            self._problem(path, f"{path} is not whole: it is being written, or was cut.", True)
        return None

    def _problem(self, path: Path, sentence: str, passing: bool, remedy: str = "") -> None:
        problem = FileProblem(path, clean_line(sentence), passing)
        self.problems[path] = structs.replace(problem, remedy=clean_line(remedy)) if remedy else problem


def _candidates(folders: Iterable[Path]) -> Iterator[Path]:
    visited = 0
    for folder in folders:
        for root, directories, files in target_files.walk(folder):
            depth = len(Path(root).relative_to(folder).parts)
            directories[:] = sorted(d for d in directories if not d.startswith(".")) if depth < _DEPTH else []
            visited += len(directories) + len(files)
            if visited > _ENTRIES:
                return
            for name in sorted(files):
                if name in _NAMES or (name.startswith("name_map") and name.endswith(".json")):
                    yield Path(root, name)
