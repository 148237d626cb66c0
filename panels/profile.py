"""What a thread, or all threads of a process, did in the last minute: the functions that took the CPU time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from livedbg.analysis.profile import FunctionShare, function_shares, profile_of
from livedbg.model import ids
from livedbg.model.profiles import ProfileSlice
from livedbg.model.snapshot import Snapshot
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.sheet import SheetLine
from livedbg.text.wording import many
from livedbg.themes import Role

_MINUTE_NS: Final = 60_000_000_000
_MOST: Final = 10


def profile_lines(context: DrawContext, entity: str) -> Iterator[SheetLine]:
    """Own and total share of each function, from the samples of the last minute; none where there are no samples."""
    profile = profile_of(slices_since(context.snapshot, _MINUTE_NS, entity))
    shares = function_shares(profile)
    if not shares:
        return
    yield SheetLine()
    yield SheetLine(
        f"{many(profile.samples, 'sample')} of running threads: own and total share", Role.DIM, "last minute"
    )
    for share in shares[:_MOST]:
        role = Role.PYTHON if share.language == "python" else Role.TEXT
        yield SheetLine(f"{share.own:>6.1%} {share.total:>6.1%}  {share.function}  {place_of(share)}".rstrip(), role)


def slices_since(shot: Snapshot, span_ns: int, entity: str | None = None) -> list[ProfileSlice]:
    """The samples that are no older than that.

    Args:
        shot: the state.
        span_ns: how old they may be, by the newest event of their host.
        entity: the thread, or the process, that they are of; None for all.
    """
    found: list[ProfileSlice] = []
    for thread, kept in shot.profiles.items():
        if entity is None or entity in (thread, ids.process_of(thread)):
            since_ns = shot.now(ids.parse(thread).parts[0]).mono_ns - span_ns
            found += (one for one in kept if one.end_mono_ns >= since_ns)
    return found


def place_of(share: FunctionShare) -> str:
    """`server.cpp:31`; the module where the line is not known."""
    if share.file and share.line:
        return f"{share.file.rpartition('/')[2]}:{share.line}"
    return share.module or ""
