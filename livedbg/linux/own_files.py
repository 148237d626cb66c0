"""Our own open files: whether there is room for many more, and room made where our rights allow it."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

_SPARE: Final = 256


def room_for_files(more: int) -> bool:
    """Whether so many more files can be open; the soft limit (getrlimit(2), RLIMIT_NOFILE) is raised for it."""
    wanted = sum(1 for _ in Path("/proc/self/fd").iterdir()) + more + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if wanted > soft and (hard == resource.RLIM_INFINITY or wanted <= hard):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return True
    return wanted <= soft
