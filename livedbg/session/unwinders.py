"""What unwinds native stacks in this session: drgn, or the gdb that was asked for or is there."""

from __future__ import annotations

import os

from livedbg.linux.registers import MACHINE
from livedbg.model.errors import ToolMissing
from livedbg.session.adapter import Request
from livedbg.session.tools import find_gdb
from livedbg.unwind.helper_process import usable
from livedbg.unwind.pool import UnwinderPool


def no_unwinder(request: Request) -> ToolMissing | None:
    """Why native stacks can't be had on this host at all; None where they can."""
    machine = os.uname().machine
    if machine != MACHINE:
        return ToolMissing(f"they need x86-64, this is {machine}.", "run without native stacks", "machine")
    if (request.gdb is None and usable()) or find_gdb(request.gdb) is not None:
        return None
    if request.gdb:
        return ToolMissing(f"{request.gdb} was not found.", "sudo apt-get install gdb", "gdb-missing")
    return ToolMissing("neither drgn nor gdb is installed.", "pip install drgn", "gdb-missing")


def shared_unwinders(request: Request) -> UnwinderPool:
    """The unwinders that all adapters of the session share, who each close them.

    A gdb that was named is used instead of drgn.
    """
    return UnwinderPool.shared(find_gdb(request.gdb), drgn=request.gdb is None)
