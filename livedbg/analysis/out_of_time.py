"""The verdict where a time limit ended the first look: the state so far, of the target, and what is missing.

Invariants:
    out_of_time.O1. The state is that of what was seen; the sentence says what was not looked at.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Verdict, VerdictState
from livedbg.analysis.inconclusive import watched
from livedbg.model import OUT_OF_TIME, Process, SourceHealth
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import listing, many

_SOURCES: Final = 3
_SHOWN: Final = 2  # kinds of waits
_WORDS: Final = 3  # of a command
_LONGEST: Final = 80


def so_far(verdict: Verdict, snapshot: Snapshot) -> Verdict:
    """A verdict with what a time limit kept from being looked at; the same where none did."""
    cut = [one for one in snapshot.statuses.values() if one.code == OUT_OF_TIME and one.health is not SourceHealth.OK]
    if not cut:
        return verdict
    from livedbg.analysis.postmortem.unexplained import logs_said, not_read

    sources = list(dict.fromkeys(one.source for one in cut))
    unread = not_read(snapshot)
    others = [source for source in sources if not unread or (source != "logs" and snapshot.processes)]
    more = [many(len(others) - _SOURCES, "more source")] if len(others) > _SOURCES else []
    missing = [f"{listing([*others[:_SOURCES], *more])} had not finished"] if others else []
    missing += [unread] if unread and verdict.sentence != logs_said(snapshot) else []
    said = f"Out of time: {'; '.join(missing)}." if missing else "The time was over before that."
    target = next((one for one in snapshot.processes.values() if one.target and not one.exited), None)
    seen = [verdict.sentence]
    if verdict.state is VerdictState.UNKNOWN and target is not None:
        seen = [_of(target, snapshot), *([verdict.sentence] if watched(snapshot) else [])]
    return replace(verdict, sentence=" ".join([*seen, said]))


def _of(process: Process, snapshot: Snapshot) -> str:
    """What is known of a process that lives."""
    name = " ".join(process.command[:_WORDS])[:_LONGEST] or "the process"
    threads = [one for one in watched(snapshot) if one.process == process.id]
    waits = Counter(one.waits_in for one in threads if one.waits_in).most_common(_SHOWN)
    count = max(len(threads), process.thread_count or 0)
    doing = listing([f"{number} in {call}" for call, number in waits])
    held = f", of which {doing}" if doing else ""
    return f"Process {process.pid} ({name}) lives: {process.state.value}, {many(count, 'thread')}{held}."
