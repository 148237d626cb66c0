"""Finds files of a process without debug information, and the Debian packages that have it.

The package of a file is looked up in dpkg's lists of files (dpkg-query(1), --search); no program is started.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux import target_files
from livedbg.linux.elf import ElfError, ElfFile, read_build_id
from livedbg.linux.maps import parse_maps
from livedbg.text.patterns import lazy_re
from livedbg.unwind.modules import Module, Modules

_LISTS: Final = Path("var/lib/dpkg/info")
_MOST_LISTS: Final = 20_000
_LARGEST: Final = 8 << 20
_PYTHON: Final = lazy_re(r"(?:lib)?(python3\.\d+)(?:-minimal|-stdlib)?$")


def packages_of(paths: Collection[str], root: Path = Path("/")) -> dict[str, str]:
    """Return the package of each file that belongs to one, without its architecture: `libpq5`.

    `root` is `/proc/PID/root` for files of a container.
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
    """Return the package with the debug information of a package's files: `libpq5-dbgsym`, `libc6-dbg`."""
    if package == "libc6":
        return "libc6-dbg"
    python = _PYTHON.match(package)
    return f"{python[1]}-dbg" if python is not None else f"{package}-dbgsym"


def _forms(path: str) -> tuple[str, ...]:
    """Return a path in the forms of the lists: those of before /usr was merged have `/lib` for `/usr/lib`."""
    return (path, path.removeprefix("/usr")) if path.startswith(("/usr/lib", "/usr/bin/", "/usr/sbin/")) else (path,)


def _lists(folder: Path) -> Iterator[Path]:
    try:
        yield from (one.path for one in target_files.entries(folder, _MOST_LISTS) if one.name.endswith(".list"))
    except OSError:
        return


def _content(place: Path) -> bytes:
    """Read a list, or b"": the files of a container are no more to be trusted than its program."""
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


_DEBUG: Final = "usr/lib/debug/.build-id"


class MissingSymbols(NamedTuple):
    """A file without debug information; its build id (hex) and the package with the information are "" if not known."""

    module: str
    build_id: str
    package: str


def missing_symbols(pid: int, addresses: Iterable[int]) -> list[MissingSymbols]:
    """Return the files at code addresses that lack debug information.

    Raises:
        OSError: the process is gone or its mappings may not be read.
    """
    modules = Modules(pid, parse_maps(pid))
    found = dict.fromkeys(modules.at(address) for address in addresses)
    inside = [module for module in found if module is not None and module.code.path.startswith("/")]
    root = _root(pid)
    lacking = {module: known for module in inside if (known := _build_id(module, root)) is not None}
    kept = {module.code.path for module in lacking if not module.code.deleted}
    packages = packages_of(kept, root) if kept else {}
    made = []
    for module, build_id in lacking.items():
        package = "" if module.code.deleted else packages.get(module.code.path, "")
        made.append(MissingSymbols(module.name, build_id, package_with_symbols(package) if package else ""))
    return made


def _root(pid: int) -> Path:
    root = Path(f"/proc/{pid}/root")
    try:
        return Path("/") if root.samefile("/") else root
    except OSError:
        return root


def _build_id(module: Module, root: Path) -> str | None:
    """Return the build id of a file without debug information ("" if it has none); None if it has some."""
    try:
        with ElfFile(module.file) as elf:
            build_id = read_build_id(elf)
            if elf.has_section(".debug_info") or elf.has_section(".zdebug_info"):
                return None
    except (OSError, ElfError):
        return None
    apart = f"{build_id[:2]}/{build_id[2:]}.debug"
    if build_id and any(target_files.is_regular(place / _DEBUG / apart) for place in {root, Path("/")}):
        return None
    return build_id
