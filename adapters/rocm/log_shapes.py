"""Shape of the log of AMD's runtime."""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.shapes import Header, Shape
from livedbg.model import Severity
from livedbg.text.patterns import lazy_re

_AMD_LEVELS: Final = {"0": Severity.ERROR, "1": Severity.ERROR, "2": Severity.WARNING, "3": Severity.INFO}

# ROCm's AMD_LOG_LEVEL (clr rocclr/utils/debug.cpp): microseconds of CLOCK_MONOTONIC.
_AMD = lazy_re(r":(\d):[^:]{1,200}:\s*\d+\s*: (\d{1,16}) us: ?(?:\[pid:(\d{1,10}) +tid: ?0x[0-9a-f]+\])? ?")


def _amd(match: re.Match[str], clock: SourceClock) -> Header:
    mono_ns = int(match[2]) * 1000
    pid = int(match[3]) if match[3] else None
    return Header(
        "amd-log", _AMD_LEVELS.get(match[1], Severity.DEBUG), match.end(), clock.wall_of_mono(mono_ns), mono_ns, pid
    )


SHAPES: Final = (Shape("amd-log", ":", _AMD, _amd),)
"""The specific ones first."""
