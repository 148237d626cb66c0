"""Lines of logs that speak of a failure and don't call themselves an error, where nothing else tells how the run ended.

Invariants:
    spoken.P1. They decide nothing but that the end is not known: no line of them is called an error or a crash.
    spoken.P2. They are not shown beside an error, nor of a run that completed or of which a process is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ahocorasick_rs import AhoCorasick

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.beside import shown
from livedbg.analysis.rules.completed import completions
from livedbg.analysis.rules.words import many
from livedbg.model import Evidence, LogRecord, Severity
from livedbg.model.snapshot import Snapshot

__all__ = ["OF_A_DEBUGGER", "SpokenFailures", "rules", "speaks_of_failure"]

_SHOWN: Final = 3
_LONGEST: Final = 300
_SPEAKS: Final = re.compile(
    r"(?<![\w-])(?:fail(?:ed|ure|s)?|severe|fatal|abort(?:ed|ing)|unable to|could not|can(?:no|')t|refused|timed out"
    r"|killed|lost|crash(?:ed)?|panic(?:ked)?|terminated|unreachable|corrupted|evicted)(?![\w=-])(?! ?[:=] ?0\b)"
    r"|\bexit(?:ed)?(?: with)? (?:code|status) [1-9-]|\b(?:result|rc|ret|retcode|errno|status)[ =:]{1,3}-\d"
    r"|\b(?:[Ee]xit [Cc]ode|Reason): +(?!0\b|Completed)\w|\b(?:CrashLoopBackOff|NodeLost)\b"
    r"|\b(?:no|lack of|missed|lost) (?:\w+ )?heart-?beats?\b",
    re.IGNORECASE,
)
_NOT: Final = re.compile(
    r"\b0 (?:fail|crash|abort|lost)"
    r"|\b(?:no|none|not|never|without|if|skip\w*|retry\w*|n't) (?:\w+ )?(?:fail|crash|abort|lost)"
    r"|\bcaught\b(?! signal)|\bhandled\b",
    re.IGNORECASE,
)
_CODES: Final = tuple(f"{name}{sign}" for name in ("result", "rc", "ret", "code", "errno", "status") for sign in " =:")
_WORDS: Final = AhoCorasick(
    (
        *("fail", "severe", "fatal", "abort", "unable to", "could not", "cannot", "can't", "refused", "timed out"),
        *("killed", "lost", "crash", "panic", "terminated", "unreachable", "corrupted", "evicted", "exit", "reason:"),
        *("heartbeat", "heart-beat", *_CODES),
    )
)
"""One of these, in small letters, is in whatever `_SPEAKS` finds; most lines have none."""
OF_A_DEBUGGER: Final = re.compile(r'\d*(?:\^(?:done|error|running|connected|exit)\b|[*=+][a-z-]{1,40},|[~@&]")')
"""Records of gdb/MI: what a debugger read in a program that may go on."""


class SpokenFailures:
    """Lines that speak of a failure."""

    name = "failure-lines"
    doc = (
        "No error was found in the logs, no line says that the run completed, and some speak of a failure "
        "(`failed`, `severe`, `lost`, a code that is not 0): how many, the first three, and what stands beside them. "
        "The verdict is `unknown`. Of a big log its newest lines are searched."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding."""
        snapshot = state.snapshot
        if snapshot.processes or snapshot.tasks or _else_is_known(snapshot):
            return
        found = list(_spoken(snapshot))
        if not found or any(completions(snapshot)):
            return
        proofs = tuple(_evidence(record, line, snapshot) for record, line in found)
        source = snapshot.log_sources.get(found[0][0].source)
        shows = proofs[:_SHOWN] if source is None else shown(proofs[:_SHOWN], source, found[0][0].line, snapshot)
        first = f"{'at' if len(found) == 1 else 'the first at'} {proofs[0].place}"
        logs = many(len(snapshot.log_sources), "log")
        speak = "line speaks" if len(found) == 1 else "lines speak"
        yield Finding(
            rule=self.name,
            severity=Severity.INFO,
            sentence=(
                f"No error was found in {logs}. {len(found):,} {speak} of a failure, {first}. How the run "
                "ended is not known."
            ),
            evidence=shows,
            next=("read these lines, and those before them",),
            state=VerdictState.UNKNOWN,
        )


def speaks_of_failure(snapshot: Snapshot) -> bool:
    """Whether some line does."""
    return next(_spoken(snapshot), None) is not None


def _else_is_known(snapshot: Snapshot) -> bool:
    said = any(one.severity.rank >= Severity.ERROR.rank for one in snapshot.diagnostics.values())
    return said or bool(snapshot.exceptions) or any(source.errors for source in snapshot.log_sources.values())


def _spoken(snapshot: Snapshot) -> Iterator[tuple[LogRecord, int]]:
    """The records that speak of one, and the line of each."""
    for record in snapshot.recent_logs:
        if not _WORDS.find_matches_as_indexes(record.text.lower()):
            continue
        for number, line in enumerate(record.text.split("\n")):
            text = line[:_LONGEST]
            if OF_A_DEBUGGER.match(text) is None and _SPEAKS.search(text) is not None and _NOT.search(text) is None:
                yield record, number
                break


def _evidence(record: LogRecord, number: int, snapshot: Snapshot) -> Evidence:
    source = snapshot.log_sources.get(record.source)
    name = source.name if source is not None else record.source
    return Evidence.of_record(record, name, record.text.split("\n")[number].strip()[:_LONGEST], number)


def rules() -> Sequence[Rule]:
    """The rule of this module."""
    return (SpokenFailures(),)
