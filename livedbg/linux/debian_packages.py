"""Which Debian package a file is of, by dpkg's lists of files (dpkg-query(1), --search): no program is started."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from livedbg.linux import target_files

_LISTS: Final = Path("var/lib/dpkg/info")
_MOST_LISTS: Final = 20_000
_LARGEST: Final = 8 << 20
_PYTHON: Final = re.compile(r"(?:lib)?(python3\.\d+)(?:-minimal|-stdlib)?$")


def packages_of(paths: Collection[str], root: Path = Path("/")) -> dict[str, str]:
    """The package of each file that belongs to one, without its architecture: `libpq5`.

    Args:
        paths: absolute paths of the files.
        root: what the paths begin at: `/proc/PID/root` for those of a container.
    """
    wanted = {form: path for path in paths for form in _forms(path)}
    found: dict[str, str] = {}
    for place in _lists(root / _LISTS):
        if len(found) == len(set(paths)):
            break
        text = b"\n" + _content(place) + b"\n"
        for form, path in wanted.items():
            if path not in found and b"\n" + os.fsencode(form) + b"\n" in text:
                found[path] = place.name.removesuffix(".list").partition(":")[0]
    return found


def package_with_symbols(package: str) -> str:
    """The package with the debug information of a package's files: `libpq5-dbgsym`, `libc6-dbg`."""
    if package == "libc6":
        return "libc6-dbg"
    python = _PYTHON.match(package)
    return f"{python[1]}-dbg" if python is not None else f"{package}-dbgsym"


def _forms(path: str) -> tuple[str, ...]:
    """A path as lists may have it: those of before /usr was merged have `/lib` for `/usr/lib`."""
    return (path, path.removeprefix("/usr")) if path.startswith(("/usr/lib", "/usr/bin/", "/usr/sbin/")) else (path,)


def _lists(folder: Path) -> Iterator[Path]:
    try:
        yield from (one.path for one in target_files.entries(folder, _MOST_LISTS) if one.name.endswith(".list"))
    except OSError:
        return


def _content(place: Path) -> bytes:
    """A list; b"" where it is none: the files of a container are no more to be trusted than its program."""
    try:
        fd = target_files.open_fd(place, links=False)
    except OSError:
        return b""
    try:
        return os.pread(fd, _LARGEST, 0) if os.fstat(fd).st_size <= _LARGEST else b""
    except OSError:
        return b""
    finally:
        os.close(fd)
