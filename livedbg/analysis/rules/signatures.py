"""Judges failure texts of which no system's own rules say more (livedbg.signatures)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.said import findings_of
from livedbg.analysis.rules.survived import ANY_LINE, goes_on_after
from livedbg.model import Diagnostic, ExceptionHit
from livedbg.model.snapshot import Snapshot

__all__ = ["SignatureFound", "explained", "rules", "says_an_end"]

_ENDS: Final[Mapping[str, VerdictState | None]] = {
    "nothing": None,
    "perhaps": VerdictState.UNKNOWN,
    "waits": VerdictState.STALLED,
    "diverges": VerdictState.DIVERGED,
    "host": VerdictState.CRASHED,
    "process": VerdictState.CRASHED,
    "rank": VerdictState.CRASHED,
    "job": VerdictState.CRASHED,
}

_ENDED: Final = ("process", "rank", "job", "host")


class SignatureFound:
    """A failure text in a log."""

    name = "signature"
    doc = (
        "A log has a text that a signature knows (`livedbg signatures` lists them). If it says that a process, a rank "
        "or the job has ended: a crash, unless a target lives or the log goes on after it. If it leaves that open, as "
        "the kernel's log does: `unknown`. What a host had is a crash where its log is all there is, and `unknown` "
        "beside the logs of a job, which may not have used that part. If it says that somebody waits, and nothing "
        "follows: a stall; or that results are wrong: `diverged`. Else it is a note. Texts of systems whose own rules "
        "say more are left to these."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a message; those after the first ten of a kind are one together."""
        alone = len(state.snapshot.log_sources) < 2
        found: dict[tuple[str, str], list[Diagnostic]] = {}
        for said in state.snapshot.diagnostics.values():
            if "signature" in said.attributes and not state.judged.judges(said):
                found.setdefault((said.system, said.code), []).append(said)
        amounts_to = partial(_amounts_to, alone=alone)
        for told in found.values():
            final = any("final" in said.attributes for said in told)  # nothing can go on: what follows is no progress
            for finding in findings_of(self.name, told, state, amounts_to, ANY_LINE if final else None):
                waits = finding.state is VerdictState.STALLED
                goes_on = waits and goes_on_after(finding.evidence, state.snapshot)
                yield replace(finding, state=None) if goes_on else finding


def _amounts_to(said: Diagnostic, *, alone: bool) -> VerdictState | None:
    """What it amounts to; of a host, which may have other jobs, only where its log is all there is."""
    known = said.attributes
    if "over" in known or "warned" in known:
        return None
    return VerdictState.UNKNOWN if known["ends"] == "host" and not alone else _ENDS[known["ends"]]


def explained(
    hit: ExceptionHit,
    snapshot: Snapshot,
    known: Callable[[str], Collection[str]],
    counts: Callable[[Diagnostic], bool],
) -> bool:
    """Whether a signature has found its text in the lines of an exception, or in the same text before.

    Args:
        hit: the exception.
        snapshot: the state.
        known: ids of the signatures that find something in a text.
        counts: whether a message can explain an exception at all.
    """
    told = [
        said.attributes
        for said in snapshot.diagnostics.values()
        if "signature" in said.attributes and said.attributes["source"] == hit.source and counts(said)
    ]
    if hit.line is not None and any(int(one["order"]) <= hit.line <= int(one["until"]) for one in told):
        return True
    names = {one["signature"] for one in told}
    return bool(names) and not names.isdisjoint(known(f"{hit.type}: {hit.message}"))


def says_an_end(said: Diagnostic) -> bool:
    """Whether a message says that something ended: else the exception in whose lines it stands does."""
    return said.attributes["ends"] in _ENDED


def rules() -> Sequence[Rule]:
    """The rule."""
    return (SignatureFound(),)
