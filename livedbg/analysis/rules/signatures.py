"""Rule for failure texts of which no system's own rules say more (livedbg.signatures)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from string import hexdigits
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.beside import BESIDE
from livedbg.analysis.postmortem.differing import with_outputs_joined
from livedbg.analysis.postmortem.lines import KnownLine, known_lines, steps_on
from livedbg.analysis.postmortem.survived import goes_on_after
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.said import NOTED, findings_of
from livedbg.analysis.wording import brief, with_more
from livedbg.model import CauseClass, Diagnostic, Evidence, ExceptionHit
from livedbg.model.snapshot import Snapshot
from livedbg.text.quantities import duration

_ENDS: Final[Mapping[str, VerdictState | None]] = {
    "nothing": None,
    "completes": None,  # livedbg.analysis.postmortem.completed
    "perhaps": VerdictState.UNKNOWN,
    "waits": VerdictState.STALLED,
    "diverges": VerdictState.DIVERGED,
    "host": VerdictState.CRASHED,
    "process": VerdictState.CRASHED,
    "rank": VerdictState.CRASHED,
    "job": VerdictState.CRASHED,
}
_OVER: Final = ("process", "rank", "job", "perhaps", "completes")
_SHOWN: Final = 160
_SAID: Final = 200  # characters of what followed
_ADDRESS: Final = "address"
_EVERY: Final = "every_s"
"""The value of a wait that is reported again after so many seconds while it lasts."""
_TURNS: Final = 3
_HUNG: Final = "hung"
"""The mark of a report that a test hung, by who ended it."""

_ENDED: Final = ("process", "rank", "job", "host")


class SignatureFound:
    """Rule for a failure text in a log."""

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
        """Yield a finding for each message; those after the first ten of a kind are one."""
        alone = len(state.snapshot.log_sources) < 2
        found: dict[tuple[str, str], list[Diagnostic]] = {}
        for said in state.snapshot.diagnostics.values():
            if said.message.ends not in ("", "completes", BESIDE) and not state.judged.judges(said):
                found.setdefault((said.system, said.code), []).append(said)
        amounts_to = partial(_amounts_to, alone=alone)
        ended: list[Finding] = []
        for told in found.values():
            for finding in findings_of(self.name, with_outputs_joined(told), state, amounts_to):
                waits = finding.state is VerdictState.STALLED
                judged = _unless_over(finding, told[0], state) if waits else finding
                ended.append(_with_same_address(judged, told, state.snapshot))
        yield from _with_what_followed(ended, state.snapshot)


def _unless_over(finding: Finding, about: Diagnostic, state: RuleInput) -> Finding:
    """Keep a wait as a stall only if its log does not go on, does not say that the waiter has ended, and repeats it.

    Two steps of one writer after it are enough: who waits reports none. A wait of a host is no stall either if the job
    completed. Whoever reports that a test hung has ended it, so an account of that end says nothing against it.
    """
    last, snapshot = finding.evidence[-1], state.snapshot
    if about.cause is CauseClass.HOST and any(
        said.message.ends == "completes" for said in snapshot.diagnostics.values()
    ):
        return replace(finding, state=None)
    source = snapshot.log_sources.get(last.log)
    lines = known_lines(source, snapshot) if source is not None and last.line is not None else ()
    later = [line for line in lines if line.number > (last.line or 0)]
    over = goes_on_after(finding.evidence, snapshot) or steps_on(later)
    own = CauseClass.SUMMARY if _HUNG in about.message.marks else None
    ends = (said for said in _later(last, snapshot) if said.message.ends in _OVER)
    if over or any(said.message.ends == "completes" or own is None or said.cause is not own for said in ends):
        return replace(finding, state=None)
    ended = next((line for line in later if line.shuts_down), None)
    more = f"Its log ends after that, at {last.file}:{ended.number}: {ended.text.strip()[:_SHOWN]}" if ended else ""
    more = more or _not_repeated(about, last, lines)
    if not more:
        return finding
    return with_more(finding, more, state=VerdictState.UNKNOWN, decides=True, roots=())


def _not_repeated(about: Diagnostic, last: Evidence, lines: Sequence[KnownLine]) -> str:
    """Return that a wait, which is reported again while it lasts, was not for as long as its log goes on; or ""."""
    every = about.message.values.get(_EVERY, "")
    at_ns = next((line.wall_ns for line in lines if last.line in line.numbers), None)
    silent_ns = max((line.wall_ns or 0 for line in lines), default=0) - (at_ns or 0)
    if not every.isdecimal() or at_ns is None or silent_ns <= _TURNS * int(every) * 1_000_000_000:
        return ""
    return (
        "It may be over: such a line is repeated while it lasts, ten times at most, and the log goes on for "
        f"{duration(silent_ns)} without it"
    )


def _with_same_address(finding: Finding, told: Iterable[Diagnostic], snapshot: Snapshot) -> Finding:
    """Add what another log, the kernel's, says of the address at which a device failed: by whom and of whom."""
    places = {(proof.log, proof.line) for proof in finding.evidence}
    own = next((said for said in told if (said.log, said.message.first) in places and _address(said)), None)
    if own is None or own.message.ends == "host":
        return finding
    others = (said for said in snapshot.diagnostics.values() if said.log != own.log and said.system == own.system)
    same = next((said for said in others if said.code != own.code and _address(said) == _address(own)), None)
    if same is None or same.log not in snapshot.log_sources:
        return finding
    return with_more(finding, f"{snapshot.log_sources[same.log].name}: {same.sentence}")


def _with_what_followed(found: Sequence[Finding], snapshot: Snapshot) -> Iterator[Finding]:
    """Say of two kinds of errors of a host, of which it is not known what they ended, the later behind the first.

    A note that comes first leads over no error: it is said behind that.
    """
    kinds = {
        (said.log, said.message.first): (said.message.signature, said.message.ends == "perhaps")
        for said in snapshot.diagnostics.values()
        if said.cause is CauseClass.HOST and not said.message.over
        if said.message.ends == "perhaps" or NOTED in said.message.marks
    }
    places = [(one.evidence[0].log, one.evidence[0].line or 0, one) for one in found if one.evidence]
    told = sorted((one for one in places if one[:2] in kinds), key=lambda one: one[:2])
    errors = [one for one in told if one[0] == told[0][0] and kinds[one[:2]][1]]
    later = next((one for log, line, one in errors if kinds[log, line][0] != kinds[told[0][:2]][0]), None)
    for finding in found:
        if later is not None and finding is (told[0][2] if told[0] in errors else later):
            more = f"Then: {brief(later, _SAID)}" if told[0] in errors else f"Before it: {brief(told[0][2], _SAID)}"
            yield with_more(finding, more)
        else:
            yield finding


def _address(said: Diagnostic) -> int:
    text = said.message.values.get(_ADDRESS, "")
    return int(text[2:], 16) if text[:2] == "0x" and set(text[2:]) <= set(hexdigits) and text[2:] else 0


def _later(proof: Evidence, snapshot: Snapshot) -> Iterator[Diagnostic]:
    for said in snapshot.diagnostics.values():
        after = said.evidence[-1] if said.evidence else None
        if after is not None and after.log == proof.log and (after.line or 0) > (proof.line or 0):
            yield said


def _amounts_to(said: Diagnostic, *, alone: bool) -> VerdictState | None:
    """Return the verdict by a message; a host may have other jobs, so its message decides only if its log is the only
    one.
    """
    if said.message.over or said.message.warned:
        return None
    return VerdictState.UNKNOWN if said.message.ends == "host" and not alone else _ENDS[said.message.ends]


def explained(
    hit: ExceptionHit,
    snapshot: Snapshot,
    known: Callable[[str], Collection[str]],
    counts: Callable[[Diagnostic], bool],
) -> bool:
    """Return whether a signature has matched in the lines of an exception, or in the same text before.

    `known` returns the ids of the signatures that match a text; `counts`, whether a message can explain an exception:
    none can that only says more of a failure near it.
    """
    told = [
        said.message
        for said in snapshot.diagnostics.values()
        if said.message.signature and said.message.ends != BESIDE and said.log == hit.source and counts(said)
    ]
    if hit.line is not None and any(one.first <= hit.line <= one.last for one in told):
        return True
    names = {one.signature for one in told}
    return bool(names) and not names.isdisjoint(known(f"{hit.type}: {hit.message}"))


def says_an_end(said: Diagnostic) -> bool:
    """Return whether a message reports an end: otherwise the exception in whose lines it is decides."""
    return said.message.ends in _ENDED


def rules() -> Sequence[Rule]:
    return (SignatureFound(),)
