"""Verdicts before the first scan is complete: while it goes on, and after a time limit ended it.

Half a scan shows no state of the target: without the stacks a hung program seems to run, without /proc a living one
seems to be a log that ends somewhere.

Invariants:
    out_of_time.O1. After a time limit, the state is that of the data so far; the sentence says what is missing.
    out_of_time.E1. Until every source has completed its first scan, the verdict is `unknown`, says how much was scanned
        and what is still to come, and there is no finding and no wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Diagnosis, Verdict, VerdictState
from livedbg.analysis.inconclusive import watched
from livedbg.model import OUT_OF_TIME, Process, SourceHealth
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import listing, many

_SOURCES: Final = 3
_SHOWN: Final = 2  # kinds of waits
_WORDS: Final = 3  # of a command
_LONGEST: Final = 80


def so_far(verdict: Verdict, snapshot: Snapshot) -> Verdict:
    """Add the parts that a time limit left unscanned to a verdict; return it unchanged if there was none."""
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
    name = " ".join(process.command[:_WORDS])[:_LONGEST] or "the process"
    threads = [one for one in watched(snapshot) if one.process == process.id]
    waits = Counter(one.waits_in for one in threads if one.waits_in).most_common(_SHOWN)
    count = max(len(threads), process.thread_count or 0)
    doing = listing([f"{number} in {call}" for call, number in waits])
    held = f", of which {doing}" if doing else ""
    return f"Process {process.pid} ({name}) lives: {process.state.value}, {many(count, 'thread')}{held}."


_NAMED: Final = 4


def looking(snapshot: Snapshot, to_come: Sequence[str], *, stacks: bool) -> Diagnosis:
    """Return the diagnosis before the first complete scan of the sources `to_come`.

    With `stacks`, a thread counts as scanned only once its stack was taken.
    """
    threads = snapshot.last_threads()
    done = sum(1 for thread in threads if not stacks or thread.id in snapshot.stacks)
    seen = [f"{done:,} of {many(len(threads), 'thread')}"] if threads else []
    if snapshot.log_sources:
        seen.append(many(len(snapshot.log_sources), "log"))
    rest = f" and {len(to_come) - _NAMED} more" if len(to_come) > _NAMED else ""
    missing = f" Still to come: {', '.join(to_come[:_NAMED])}{rest}." if to_come else ""
    sentence = f"Looking: {', '.join(seen) or 'nothing was read yet'}.{missing}"
    return Diagnosis(
        Verdict(state=VerdictState.UNKNOWN, sentence=sentence), revision=snapshot.revision, is_looking=True
    )
