"""Reports which files of the shown stacks lack debug information, and which package has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.analysis.user_code import NO_FRAMEWORKS, Inside
from livedbg.model import Frame
from livedbg.model.snapshot import Snapshot
from livedbg.report.document import LimitOut
from livedbg.report.entities import kept_frames
from livedbg.session.view import Update
from livedbg.text.sanitize import clean_line
from livedbg.unwind.missing_symbols import MissingSymbols, missing_symbols

_MOST: Final = 3


def symbol_limits(update: Update, shown: Sequence[str] | None = None) -> tuple[LimitOut, ...]:
    """Return a limit for each file of the culprits' stacks that lacks debug information, at most a few.

    Ended processes are skipped.

    Args:
        update: a live one: the pids of a recording may belong to other processes now.
        shown: the threads whose stacks are shown; if no culprit is among them, the first of them count as such. None
            for those of the verdict.
    """
    snapshot = update.snapshot
    made: dict[str, LimitOut] = {}
    for thread in _culprits(update, shown):
        bare = list(_bare(snapshot, thread))
        addresses = [frame.address for frame in bare if frame.address is not None]
        process = snapshot.processes.get(snapshot.threads[thread].process)
        if not addresses or process is None or process.exited:
            continue
        try:
            found = missing_symbols(process.pid, addresses)
        except OSError:
            continue
        named = {frame.module for frame in bare}
        nameless = {frame.module for frame in bare if _nameless(frame)}
        for one in found:
            if one.module in (named if one.package else nameless):  # else the user's own, built without -g
                made.setdefault(one.package or one.module, _limit(process.id, one))
    return tuple(made.values())[:_MOST]


def _culprits(update: Update, shown: Sequence[str] | None) -> list[str]:
    stacks, roots = update.snapshot.stacks, update.diagnosis.verdict.roots
    named = [name for name in roots if shown is None or name in shown] or shown or ()
    return [name for name in named if name in stacks and name in update.snapshot.threads][:_MOST]


def _bare(snapshot: Snapshot, thread: str) -> Iterator[Frame]:
    """Yield the shown native frames that have no name, or no line where it would help."""
    stack = snapshot.stacks.get(thread)
    frames = stack.frames if stack is not None else ()
    for number in kept_frames(frames):
        frame = frames[number]
        unlined = NO_FRAMEWORKS.inside(frame) is Inside.UNLINED
        if frame.language == "native" and (unlined or _nameless(frame)):
            yield frame


def _nameless(frame: Frame) -> bool:
    return frame.function.startswith("0x")


def _limit(process: str, missing: MissingSymbols) -> LimitOut:
    module = clean_line(missing.module)
    which = f": package {missing.package}" if missing.package else ""
    if not which:
        which = f" (build id {missing.build_id})" if missing.build_id else " (it has no build id)"
    return LimitOut(
        source="native",
        target=process,
        health="degraded",
        code="no-symbols",
        sentence=f"Symbols of {module} are missing{which}.",
        remedy=_remedy(missing.package),
    )


def _remedy(package: str) -> str:
    archive = "  (from the archive debian-debug, for Ubuntu ddebs)" if package.endswith("-dbgsym") else ""
    return f"apt install {package}{archive}" if package else ""
