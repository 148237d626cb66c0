"""Log files: expanding the names that the user gave, and telling logs from other files.

A file that the user names is always read. In a directory everything is read except known other kinds (data, sources,
archives), hidden files, documents, and binary files. JSON is read if it is a list of log entries or lines of a
collector of logs, and so are recordings of a terminal.
"""

from __future__ import annotations

import errno
import glob
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from livedbg.linux import target_files
from livedbg.linux.target_files import is_closed, is_folder, is_regular
from livedbg.logs.bytesource import packing_of, transcript_in
from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.entries import entry_json
from livedbg.text.patterns import lazy_re

_MOST_FILES: Final = 20_000
_DEEPEST: Final = 16
_SNIFFED: Final = 4096
_CARRIERS: Final = frozenset({".json", ".jsonl", ".ndjson", ".cast"})
_CARRIED: Final = 16 * 1024  # bytes of them that are looked at

_LOG_SUFFIXES: Final = frozenset({".log", ".txt", ".out", ".err", ".stdout", ".stderr"})
# fmt: off
_ERROR_FILE: Final = "error.json"
"""What launchers let a worker write its exception into."""
_OTHER_SUFFIXES: Final = frozenset(
    (
        ".json", ".jsonl", ".ndjson", ".cast", ".bin", ".npy", ".npz", ".pkl", ".pickle", ".safetensors", ".ckpt",
        ".onnx", ".h5", ".parquet", ".arrow", ".csv", ".tsv", ".so", ".o", ".a", ".ko", ".exe", ".dll", ".whl",
        ".pyc", ".zip", ".tar", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".jar",
        ".py", ".pyi", ".pyx", ".c", ".cc", ".cpp", ".cxx", ".h",
        ".hh", ".hpp", ".inc", ".rs", ".go", ".js", ".ts", ".java", ".sh", ".bash", ".gdb", ".mlir", ".ll", ".s",
        ".dot", ".md", ".rst", ".html", ".htm", ".css", ".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf",
        ".ipynb", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".lock", ".db", ".sqlite", ".core", ".dump",
        ".prof", ".trace", ".pid", ".swp",
    )
)
# fmt: on
_DOCUMENTS: Final = lazy_re(r"(?:README|LICENSE|COPYING|NOTICE|CHANGELOG|AUTHORS|Makefile|CMakeLists)\b", re.IGNORECASE)
_ROTATED: Final = lazy_re(
    r"(?:[.-]\d{4}-?\d\d-?\d\d(?:[-_T.]\d\d(?:[:_.-]?\d){0,30}+)?|[.-]\d{1,10}+|\.gz|\.zst|\.old|\.bak){1,8}+$"
)
_MAGIC: Final = (
    b"\x7fELF",
    b"PK\x03\x04",
    b"\x89PNG",
    b"\x80\x02",
    b"\x80\x04",
    b"\xfd7zXZ",
    b"BZh",
)
_REPORT: Final = lazy_re(rb"\A[A-Z]{4,12}(?: [^\n]{1,80})?\n(?: {2}\S[^\n]{0,200}\n){1,20}\n(?:Evidence|Next|Taken)\b")
"""Of livedbg itself, as `report -o` writes it: what it says of a job is no log of that job."""

_KINDS: Final = (
    ("a pipe", stat.S_ISFIFO),
    ("a socket", stat.S_ISSOCK),
    ("a device", stat.S_ISCHR),
    ("a device", stat.S_ISBLK),
)


class Found(Struct, frozen=True):
    """A file to read; `named`: the user (or a process's environment) named it itself."""

    path: Path
    name: str
    named: bool


class Scan(Struct):
    """Result of a scan of the named places.

    Attributes:
        denied: directories that can't be listed, and files below one.
        skipped: files in directories that are not text.
        odd: special files, with their kind: `a pipe`, `a device`, `a link to nothing`.
    """

    files: list[Found] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    denied: list[Path] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)
    odd: list[tuple[Path, str]] = field(default_factory=list)
    too_many: bool = False


def scan(named: str, known: frozenset[Path] = frozenset(), no_logs: frozenset[str] = frozenset()) -> Scan:
    """Expand `named` (a file, a directory or a glob).

    Args:
        named: as the user wrote it; `~` is expanded.
        known: files whose content need not be read again.
        no_logs: suffixes of more files in directories that are no logs (`System.no_logs`).
    """
    result = Scan()
    path = Path(named).expanduser()
    if is_folder(path):
        _add_directory(result, path, known, no_logs)
    elif is_closed(path):
        result.denied.append(path)
    elif path.exists():
        _add_named(result, path)
    elif glob.has_magic(str(path)):
        matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 (absolute patterns too)
        for match in map(Path, matches):
            if is_folder(match):
                _add_directory(result, match, known, no_logs)
            else:
                _add_named(result, match)
        if not matches:
            result.missing.append(named)
    else:
        result.missing.append(named)
    return result


def _add_named(result: Scan, path: Path) -> None:
    if is_regular(path):
        result.files.append(Found(path, path.name, True))
    elif is_closed(path):
        result.denied.append(path)
    elif path.exists():
        result.odd.append((path, _kind(path)))


def _add_directory(result: Scan, top: Path, known: frozenset[Path], no_logs: frozenset[str]) -> None:
    for path in _walk(top, result, set(), 0):
        if len(result.files) >= _MOST_FILES:
            result.too_many = True
            return
        if path in known:
            result.files.append(Found(path, str(path.relative_to(top)), False))
            continue
        suffix = _suffix(path.name)
        if suffix in _CARRIERS and suffix not in no_logs and _holds_log(path):
            result.files.append(Found(path, str(path.relative_to(top)), False))
            continue
        if (suffix in _OTHER_SUFFIXES and path.name != _ERROR_FILE) or suffix in no_logs or _DOCUMENTS.match(path.name):
            continue
        if _is_no_log(path, suffix):
            result.skipped.append(path)
            continue
        result.files.append(Found(path, str(path.relative_to(top)), False))


def _walk(folder: Path, result: Scan, visited: set[tuple[int, int]], depth: int) -> Iterator[Path]:
    """Yield the regular files below `folder`, links followed, each directory once."""
    try:
        status = target_files.status(folder)
        entries = sorted(target_files.entries(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except PermissionError:
        result.denied.append(folder)
        return
    except OSError as error:
        result.odd.append((folder, f"a folder that can't be listed ({error.strerror})"))
        return
    if (status.st_dev, status.st_ino) in visited:
        return
    visited.add((status.st_dev, status.st_ino))
    folders = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        try:
            kind = target_files.status(entry.path).st_mode if stat.S_ISLNK(entry.kind) else entry.kind
            if stat.S_ISREG(kind):
                yield entry.path
            elif stat.S_ISDIR(kind):
                folders.append(entry.path)
            else:
                result.odd.append((entry.path, _kind(entry.path)))
        except PermissionError:
            result.denied.append(entry.path)
        except OSError:
            result.odd.append((entry.path, _kind(entry.path)))
    if depth < _DEEPEST:
        for below in folders:
            yield from _walk(below, result, visited, depth + 1)


def _kind(path: Path) -> str:
    try:
        mode = target_files.status(path).st_mode
    except FileNotFoundError:
        return "a link to nothing"
    except OSError as error:
        return "a link to itself" if error.errno == errno.ELOOP else f"not to be seen ({error.strerror})"
    return next((word for word, is_one in _KINDS if is_one(mode)), "neither a file nor a directory")


def _suffix(name: str) -> str:
    """Return the suffix that tells the kind: `.log` of `a.log`, `a.log.1`, `a.log.2.gz`, `a.log-20260101`."""
    return Path(_ROTATED.sub("", name)).suffix.lower()


def _holds_log(path: Path) -> bool:
    try:
        status = target_files.status(path)
        return _carries(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return False


@lru_cache(maxsize=4096)
def _carries(path: Path, mtime_ns: int, size: int) -> bool:
    """Return whether a file holds log entries; a file that has not changed is not read again."""
    with target_files.open_binary(path) as file:
        head = file.read(_CARRIED)
    if transcript_in(head) is not None:
        return True
    line = head.partition(b"\n")[0].decode("utf-8", "replace")
    return line.startswith("{") and entry_json(line, SourceClock(0, 0)) is not None


def _is_no_log(path: Path, suffix: str) -> bool:
    """Return whether the beginning of a file is no text, or a report of livedbg's.

    An unreadable file counts as a log: reading it says why.
    """
    try:
        with target_files.open_binary(path) as file:
            head = file.read(_SNIFFED)
    except OSError:
        return False
    if packing_of(head):
        return False
    binary = head.startswith(_MAGIC) or head.count(0) * 10 > len(head)
    return _REPORT.match(head) is not None or (binary and suffix not in _LOG_SUFFIXES)
