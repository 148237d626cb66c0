"""Core files of a launched command: requested from the kernel, kept small, and found (core(5)).

Invariants:
    core_files.C1. A core is requested only if the user wants none, if it is a file of its own, and if it replaces no
        other file.
    core_files.C2. It has the memory that no file backs, up to a limit; the rest is missing.
    core_files.C3. For a command that is left running no core is requested any more: nobody would remove it.
"""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path
from typing import Final

from livedbg.linux import procfs, target_files
from livedbg.text.patterns import lazy_re

MOST_BYTES: Final = 256 << 20
_PATTERN: Final = "/proc/sys/kernel/core_pattern"
_USES_PID: Final = "/proc/sys/kernel/core_uses_pid"
_FIELD: Final = lazy_re(r"%(.)")
_ANONYMOUS: Final = b"0x1"  # private memory that no file backs: stacks and the heap


def ask_for(pid: int, cwd: Path) -> bool:
    """Have a process that has not begun its program, and its children, leave a core after a fault.

    Return True if it will; such a file is to be removed.
    """
    pattern = _pattern()
    if pattern is None:
        return False
    with contextlib.suppress(OSError, ValueError):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
        if soft != 0 or hard == 0 or (not _has_pid(pattern) and cores_in(cwd)):
            return False
        most = MOST_BYTES if hard == resource.RLIM_INFINITY else min(MOST_BYTES, hard)
        Path(f"/proc/{pid}/coredump_filter").write_bytes(_ANONYMOUS)
        resource.prlimit(pid, resource.RLIMIT_CORE, (most, hard))
        return True
    return False


def want_none_of(pid: int) -> None:
    """Undo `ask_for` for one process."""
    with contextlib.suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, resource.prlimit(pid, resource.RLIMIT_CORE)[1]))


def cores_in(folder: Path) -> list[Path]:
    """Return the files that may be cores of processes that ran in a folder.

    The cores themselves name their process (livedbg.unwind.core_file).
    """
    pattern = _pattern()
    if pattern is None:
        return []
    path = Path(_FIELD.sub(lambda match: "%" if match[1] == "%" else "*", pattern))
    return [file for file in target_files.matching(folder / path.parent, path.name) if target_files.is_regular(file)]


def _pattern() -> str | None:
    """Return the kernel's pattern for core files; None if cores go to a program, or it is not known."""
    with contextlib.suppress(OSError, UnicodeError):
        pattern = procfs.read_file(_PATTERN).decode().strip()
        if pattern and not pattern.startswith(("|", "@")):
            by_pid = procfs.read_file(_USES_PID).strip() != b"0"
            return f"{pattern}.%p" if by_pid and not _has_pid(pattern) else pattern
    return None


def _has_pid(pattern: str) -> bool:
    return "%p" in pattern or "%P" in pattern
