"""Findings about messages that decoders found in logs and that imply a verdict by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import line_of, place_text
from livedbg.analysis.postmortem.beside import COMPARED
from livedbg.analysis.postmortem.ended import lives
from livedbg.analysis.postmortem.exceptions import is_of_string
from livedbg.analysis.postmortem.survived import OwnLines, any_line, goes_on_after, unless_survived
from livedbg.analysis.postmortem.tested import test_at, test_marks
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.user_code import Inside
from livedbg.model import CUT_OFF, Diagnostic, Severity
from livedbg.text.quantities import duration
from livedbg.text.wording import sentence_case

NOTED: Final = "noted"
"""The mark of a message that is worth telling where nothing else is known."""
USER_PLACE: Final = "user_place"
"""The value of a message whose sentence has the user's own place, so that a framework's frame, or another one of the
same stack, adds nothing."""
HARMLESS: Final = "harmless"
"""The mark of a message whose words speak of a failure, and which is none."""
_SHOWN: Final = 10
_PROOFS: Final = 6


def steps_of(*said: Diagnostic) -> tuple[str, ...]:
    """Return the steps that messages advise."""
    return tuple(dict.fromkeys(step for one in said for step in one.message.steps))


def thrown_at(said: Diagnostic, state: RuleInput, line: int = 0) -> str:
    """Return `, at step (train.py:14)`: the user's frame in a message's traceback; else `, in test NAME`, or "".

    It is the traceback around the message, or one right below it whose exception is cut off: what catches an exception
    may print it first. Of a signature's message the innermost frame of a framework is said where no other is known.
    `line` is used if the message's last line is not known.
    """
    last = said.message.last or line
    lines = [last, *(proof.line or 0 for proof in said.evidence if proof.log == said.log)]  # it may be said again
    hits = [hit for hit in state.snapshot.exceptions.values() if hit.source == said.log and hit.stack]
    around = [
        hit for hit in hits if any(at in range(hit.first_line or hit.line or 0, (hit.line or 0) + 1) for at in lines)
    ]
    around = around or [hit for hit in hits if hit.message == CUT_OFF and hit.first_line == last + 1]
    stack = min(around, key=lambda hit: hit.line or 0).stack if around else ()
    frame = state.code.frame_of(stack) if stack else None
    inside = state.code.inside(frame) if frame is not None else Inside.NEVER
    told_place = said.message.values.get(USER_PLACE, "")
    of_it = any(place in told_place for one in stack if (place := line_of(one)))
    if told_place and (inside is Inside.FRAMEWORK or of_it):
        return in_test(said, state, line)
    most = Inside.FRAMEWORK if said.message.signature else Inside.PACKAGE  # the others tell places of their own
    if frame is not None and frame.file and inside <= most and not is_of_string(frame):
        told = (said.sentence, *(said.message.values.values() if inside is Inside.FRAMEWORK else ()))
        line_text = line_of(frame)
        return "" if line_text and any(line_text in text for text in told) else f", at {place_text(frame)}"
    return in_test(said, state, line)


def in_test(said: Diagnostic, state: RuleInput, line: int = 0) -> str:
    """Return `, in test NAME` for what was said while that test ran, or ""."""
    over = said.log and not lives(state.snapshot)  # all records are searched: not again and again beside a job
    of = state.once(test_marks) if over else {}
    marks = of.get((said.log, said.writer)) or of.get((said.log, "")) or ()  # a rank that the text itself names
    shown = (proof.line or 0 for proof in said.evidence[:1])
    test = test_at(said.message.first or said.message.last or line or next(shown, 0), marks)
    return f", in test {test}" if test else ""


def _who(said: Diagnostic) -> str:
    return f"{sentence_case(said.writer)}: " if said.writer and not said.does else ""


def _again(said: Diagnostic, amounts_to: VerdictState | None) -> str:
    """Return `, said 4 times in 3 min` of a wait that its waiter reports again and again, or ""."""
    first, last = (said.evidence[at].at_wall_ns if said.evidence else None for at in (0, -1))
    if amounts_to is not VerdictState.STALLED or said.message.count == 1 or first is None or last is None:
        return ""
    return f", said {said.message.count} times in {duration(last - first)}" if last > first else ""


def finding_of(
    rule: str,
    said: Diagnostic,
    state: RuleInput,
    amounts_to: VerdictState | None,
    own_lines: OwnLines | None = None,
    *,
    more: str = "",
) -> Finding:
    """Return the finding about a message; it decides nothing if the log goes on after it.

    While a target lives, no message is an end of it; with a critical one the verdict is not good either (reported.A1).
    If no target lives, the verdict is `amounts_to`. What follows a `final` one in its log is no progress.
    """
    own_lines = any_line if "final" in said.message.marks else own_lines
    alive = lives(state.snapshot)
    if alive:
        stands = amounts_to is not None and said.severity is Severity.CRITICAL
        amounts_to = VerdictState.UNKNOWN if stands else None
    finding = Finding(
        rule=rule,
        severity=said.severity,
        sentence=f"{_who(said)}{said.sentence}{thrown_at(said, state)}{_again(said, amounts_to)}{more}.",
        claim=said.sentence,
        entities=said.entities,
        evidence=said.evidence,
        next=steps_of(said),
        since_wall_ns=said.at_wall_ns,
        state=amounts_to,
        decides=amounts_to is VerdictState.UNKNOWN,
        noted=NOTED in said.message.marks,
    )
    if finding.state is VerdictState.UNKNOWN and goes_on_after(said.evidence, state.snapshot, own_lines):
        return replace(finding, state=None, decides=False)
    judged = unless_survived(finding, state.snapshot, own_lines)
    differs = judged.state is VerdictState.CRASHED and COMPARED in said.message.marks
    return replace(judged, state=VerdictState.DIVERGED) if differs else judged


def finding_about(rule: str, said: Diagnostic, severity: Severity, **more: Any) -> Finding:
    """Return a finding with sentence, entities, evidence and time of a diagnostic; `more` are other fields, or other
    values of these.
    """
    known = {"sentence": said.sentence, "entities": said.entities, "evidence": said.evidence}
    return Finding(rule=rule, severity=severity, **{**known, "since_wall_ns": said.at_wall_ns, **more})


def findings_of(
    rule: str,
    told: Sequence[Diagnostic],
    state: RuleInput,
    amounts_to: Callable[[Diagnostic], VerdictState | None],
    own_lines: OwnLines | None = None,
) -> Iterator[Finding]:
    """Yield the findings about messages of one kind; those after the first ten are one."""
    for said in told[:_SHOWN]:
        yield finding_of(rule, said, state, amounts_to(said), own_lines)
    if others := told[_SHOWN:]:
        yield Finding(
            rule=rule,
            severity=max((one.severity for one in others), key=lambda severity: severity.rank),
            sentence=f"{len(others):,} more messages of this kind ({others[0].code}).",
            evidence=tuple(proof for one in others for proof in one.evidence[:1])[:_PROOFS],
        )


class SaidRule(Struct, frozen=True):
    """Rule for messages that imply a verdict by themselves.

    Attributes:
        codes: code of the messages -> verdict if no target lives.
        own_lines: lines that the runtime also writes while it ends.
    """

    name: str
    doc: str
    system: str
    codes: dict[str, VerdictState | None]
    own_lines: OwnLines | None = None

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each message; those after the first ten of a code are one."""
        found: dict[str, list[Diagnostic]] = {}
        for said in state.snapshot.diagnostics.values():
            if said.system == self.system and said.code in self.codes:
                found.setdefault(said.code, []).append(said)
        for code, told in found.items():
            amounts_to = self.codes[code]
            yield from findings_of(
                self.name,
                told,
                state,
                lambda _, amounts_to=amounts_to: amounts_to,  # type: ignore[misc]
                self.own_lines,
            )
