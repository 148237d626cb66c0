"""Whose word a path is, as a session's request tells: the user's, or that of a target (livedbg.linux.target_files)."""

from __future__ import annotations

from glob import has_magic
from pathlib import Path

from livedbg.linux import target_files
from livedbg.model.intents import VALUES_DUMP, VALUES_GOLDEN
from livedbg.model.request import Request


def note_trust(request: Request) -> None:
    """Note which processes are targets, and what the user named; what a pattern means is noted where it is found."""
    for target in request.processes:
        target_files.register(target.pid)
        for captured in (target.stdout, target.stderr):
            if captured is not None:
                target_files.vouch(captured)
    options = (request.options.get(name, "") for name in (VALUES_DUMP, VALUES_GOLDEN))
    for named in (*request.logs, *options):
        if named and not has_magic(named):
            target_files.vouch(Path(named).expanduser())
