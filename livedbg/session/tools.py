"""Programs on this host: on the PATH, or installed with the tools of a system."""

from __future__ import annotations

import os
import shutil

from livedbg.linux.registers import MACHINE
from livedbg.model.errors import ToolMissing
from livedbg.session.adapter import Request
from livedbg.session.systems import declared, note_problem, systems
from livedbg.unwind.helper_process import usable
from livedbg.unwind.pool import UnwinderPool


def find_tool(name: str) -> str | None:
    """Return the path of a program, or None."""
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
    """Return the gdb to use: the requested one, or the one on the PATH; else the debugger of a system."""
    found = shutil.which(path or "gdb")
    if path or found is not None:
        return found
    return next(filter(None, (find_tool(name) for system in systems() for name in system.debuggers)), None)


def no_unwinder(request: Request) -> ToolMissing | None:
    """Return why native stacks are impossible on this host, or None."""
    machine = os.uname().machine
    if machine != MACHINE:
        return ToolMissing(f"they need x86-64, this is {machine}.", "run without native stacks", "machine")
    if (request.gdb is None and usable()) or find_gdb(request.gdb) is not None:
        return None
    if request.gdb:
        return ToolMissing(f"{request.gdb} was not found.", "sudo apt-get install gdb", "gdb-missing")
    return ToolMissing("neither drgn nor gdb is installed.", "pip install drgn", "gdb-missing")


def shared_unwinders(request: Request) -> UnwinderPool:
    """Return the unwinders that all adapters of the session share; each adapter closes them.

    A named gdb is used instead of drgn.
    """
    return UnwinderPool.shared(find_gdb(request.gdb), drgn=request.gdb is None)
