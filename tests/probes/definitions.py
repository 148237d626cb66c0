"""The probes that this process has defined."""

from __future__ import annotations

import os
import re

from livedbg.probes.tracefs import TraceEvents

__all__ = ["definitions"]


def definitions() -> set[str]:
    """Names of the probes that this process has defined; one that an earlier test has left may be among them."""
    with TraceEvents() as trace:
        return set(re.findall(rf"^p:(livedbg_{os.getpid()}/\w+) ", trace.defined(), re.MULTILINE))
