"""Programs on this host: on the PATH, or where the tools of a system are installed."""

from __future__ import annotations

import shutil

from livedbg.session.systems import declared, note_problem, systems


def find_tool(name: str) -> str | None:
    """The path of a program; None where there is none."""
    found = shutil.which(name)
    if found is not None:
        return found
    for system, find in declared(lambda system: system.tools):
        try:
            found = find(name)
        except Exception as error:  # systems.Y2: a system that fails is a problem, and ends nothing
            note_problem(system.name, "its tools can't be searched for", error)
            continue
        if found is not None:
            return found
    return None


def find_gdb(path: str | None = None) -> str | None:
    """The gdb to use: the one that was asked for, or the one on the PATH; else the debugger of a system."""
    found = shutil.which(path or "gdb")
    if path or found is not None:
        return found
    return next(filter(None, (find_tool(name) for system in systems() for name in system.debuggers)), None)
