"""Judges failure texts of which no system's own rules say more (livedbg.signatures)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.known_lines import KNOWN
from livedbg.analysis.rules.said import findings_of
from livedbg.analysis.rules.survived import ANY_LINE, goes_on_after
from livedbg.analysis.wording import with_more
from livedbg.model import Diagnostic, Evidence, ExceptionHit
from livedbg.model.snapshot import Snapshot

__all__ = ["SignatureFound", "explained", "rules"]

_ENDS: Final[Mapping[str, VerdictState | None]] = {
    "nothing": None,
    "completes": None,  # livedbg.analysis.rules.completed
    "perhaps": VerdictState.UNKNOWN,
    "waits": VerdictState.STALLED,
    "diverges": VerdictState.DIVERGED,
    "process": VerdictState.CRASHED,
    "rank": VerdictState.CRASHED,
    "job": VerdictState.CRASHED,
}
_OVER: Final = ("process", "rank", "job", "perhaps", "completes")
_SHOWN: Final = 160


class SignatureFound:
    """A failure text in a log."""

    name = "signature"
    doc = (
        "A log has a text that a signature knows (`livedbg signatures` lists them). If it says that a process, a rank "
        "or the job has ended: a crash, unless a target lives or the log goes on after it. If it leaves that open, as "
        "the kernel's log does: `unknown`. If it says that somebody waits, and nothing follows: a stall; or "
        "that results are wrong: `diverged`. Else it is a note. Texts of systems whose own rules say more are left "
        "to these."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a message; those after the first ten of a kind are one together."""
        found: dict[tuple[str, str], list[Diagnostic]] = {}
        for said in state.snapshot.diagnostics.values():
            if said.ends not in ("", "completes") and not state.judged.judges(said):
                found.setdefault((said.system, said.code), []).append(said)
        for told in found.values():
            final = any("final" in said.attributes for said in told)  # nothing can go on: what follows is no progress
            for finding in findings_of(self.name, told, state, _amounts_to, ANY_LINE if final else None):
                yield _unless_over(finding, state) if finding.state is VerdictState.STALLED else finding


def _unless_over(finding: Finding, state: RuleInput) -> Finding:
    """A wait: a stall only if its log does not go on, and nothing in it says that what waited has ended."""
    last, snapshot = finding.evidence[-1], state.snapshot
    if goes_on_after(finding.evidence, snapshot) or any(said.ends in _OVER for said in _later(last, snapshot)):
        return replace(finding, state=None)
    source = snapshot.log_sources.get(last.log)
    lines = KNOWN.of(snapshot, source) if source is not None and last.line is not None else ()
    ended = next((line for line in lines if line.number > (last.line or 0) and line.shuts_down), None)
    if ended is None:
        return finding
    more = f"Its log ends after that, at {last.file}:{ended.number}: {ended.text.strip()[:_SHOWN]}"
    return with_more(finding, more, state=VerdictState.UNKNOWN, decides=True, roots=())


def _later(proof: Evidence, snapshot: Snapshot) -> Iterator[Diagnostic]:
    """What a log says after a line."""
    for said in snapshot.diagnostics.values():
        after = said.evidence[-1] if said.evidence else None
        if after is not None and after.log == proof.log and (after.line or 0) > (proof.line or 0):
            yield said


def _amounts_to(said: Diagnostic) -> VerdictState | None:
    return None if "over" in said.attributes else _ENDS[said.ends]


def explained(hit: ExceptionHit, snapshot: Snapshot, own: Iterable[str]) -> bool:
    """Whether a signature has found its text in the lines of an exception.

    Args:
        hit: the exception.
        snapshot: the state.
        own: systems that say themselves which exceptions they explain.
    """
    return hit.line is not None and any(
        "signature" in said.attributes
        and said.system not in own
        and said.attributes["source"] == hit.source
        and int(said.attributes["order"]) <= hit.line <= int(said.attributes["until"])
        for said in snapshot.diagnostics.values()
    )


def rules() -> Sequence[Rule]:
    """The rule."""
    return (SignatureFound(),)
