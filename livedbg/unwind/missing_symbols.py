"""Which files of a process lack debug information, and which Debian package has it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux import target_files
from livedbg.linux.debian_packages import package_with_symbols, packages_of
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_notes import read_build_id
from livedbg.linux.maps import parse_maps
from livedbg.unwind.modules import Module, Modules

_DEBUG: Final = "usr/lib/debug/.build-id"


class MissingSymbols(NamedTuple):
    """A file without debug information.

    Attributes:
        module: its base name.
        build_id: in hexadecimal digits; "" where it has none.
        package: with its debug information; "" where that isn't known.
    """

    module: str
    build_id: str
    package: str


def missing_symbols(pid: int, addresses: Iterable[int]) -> list[MissingSymbols]:
    """The files that some addresses lie in, of those that lack debug information.

    Args:
        pid: the process.
        addresses: of code.

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
    """Where the paths of a process begin, seen from here."""
    root = Path(f"/proc/{pid}/root")
    try:
        return Path("/") if root.samefile("/") else root
    except OSError:
        return root


def _build_id(module: Module, root: Path) -> str | None:
    """The build id of a file that lacks debug information, "" without one; None for a file that has some."""
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
