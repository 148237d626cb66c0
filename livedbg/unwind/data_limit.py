"""How much memory the unwinding process may have: files that it maps count, private and writable as elfutils maps them.

Invariants:
    data_limit.G1. The limit is that of its own data, and `TIMES` the size of each file that a process which it looks at
        has mapped with code; `MOST` at most.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterable
from typing import Final

from livedbg.linux import target_files
from livedbg.linux.maps import Mapping

__all__ = ["MOST", "OWN", "TIMES", "DataLimit"]

OWN: Final = 2 << 30
"""Bytes of data of its own."""

TIMES: Final = 4
"""A file is mapped once for names, and once by each program of drgn's that is not let go of yet."""

MOST: Final = 64 << 30
"""The greatest limit, in bytes."""


class DataLimit:
    """The limit of this process's data (RLIMIT_DATA, setrlimit(2)). It never gets smaller."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, int], int] = {}  # of files, by device and inode
        self._set()

    def allow(self, pid: int, mappings: Iterable[Mapping]) -> None:
        """Raise the limit for the files of a process."""
        before = len(self._sizes)
        for mapping in mappings:
            key = (mapping.device, mapping.inode)
            if mapping.executable and mapping.path.startswith("/") and key not in self._sizes:
                self._sizes[key] = 0
                with contextlib.suppress(OSError, ValueError):  # it is not there any more
                    self._sizes[key] = target_files.status(f"/proc/{pid}/root{mapping.path}").st_size
        if len(self._sizes) != before:
            self._set()

    def _set(self) -> None:
        most = min(OWN + TIMES * sum(self._sizes.values()), MOST)
        with contextlib.suppress(OSError, ValueError):
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(
                resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
            )
