"""What systems declare of logs: formats that a session recognises, and files that are no logs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from livedbg.session.systems import declared, note_problem, systems

if TYPE_CHECKING:
    from livedbg.logs.formats import LogFormats


def known_log_formats() -> LogFormats:
    """All of them, the narrower systems' first. What is wrong with a system's is a problem of it (systems.Y2)."""
    from livedbg.logs.formats import log_formats

    shapes = [shape for _system, found in declared(lambda system: system.shapes) for shape in found]
    formats, continuations = log_formats(shapes), list[str]()
    for system in systems():
        if not system.continuations:
            continue
        try:
            formats = log_formats(shapes, [*continuations, *system.continuations])
        except (ValueError, re.error) as error:
            note_problem(system.name, "its continuations can't be used", error)
        else:
            continuations += system.continuations
    return formats


def no_log_suffixes() -> frozenset[str]:
    """Suffixes of the systems' files that are no logs."""
    return frozenset(suffix for system in systems() for suffix in system.no_logs)
