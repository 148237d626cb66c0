"""Judges failures of compilers.

Invariants:
    compilers.J1. A build that runs several compilers at once goes on for a while after the first failure. The last
        message of its outermost tool decides whether that failure ended it.
    compilers.J2. An assertion that failed right below messages that name no place or no reason is what ended it.
    compilers.J3. Of several errors of MLIR, one of another place with another text is said in words; what only says
        that a stage failed is that of the first error, and no other one.
    compilers.J4. What a build was making is said of an error without a source of its own, or in a header: by the step
        that failed, and by make's account where the innermost steps that failed are one. Which of several it was is not
        known.
    compilers.J5. A declaration of C++ that makes no sense as it is read (`incomplete type 'void'`) follows from a name
        in it that is not declared, though the compiler reports that name later. Other first errors stay first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import place_text
from livedbg.analysis.postmortem.exceptions import is_of_string
from livedbg.analysis.postmortem.survived import goes_on_after
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.said import finding_of, steps_of, thrown_at
from livedbg.model import Diagnostic, Evidence, ExceptionHit, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.session.signatures import book
from livedbg.text.patterns import lazy_re
from livedbg.text.wording import many, sentences

FAILED: Final = "compile-failed"
SUMMARY: Final = "compile-summary"
"""Kinds of the room's signatures: a failure, and the word of whoever started what failed."""
_COMPILES: Final = lazy_re(
    r"[Cc]ompil|[Bb]uild failed|[Ff]ailed to build"
    r"|codegen error|ptxas|nvrtc|NVRTC|Error building extension|PassManager|CalledProcess|LoweringException"
)
_OF_DECLARATION: Final = lazy_re(
    r"has incomplete type 'void'|declared void$|does not refer to a value|template argument \d{1,3} is invalid"
)
"""What is said of a declaration in which a name is not declared, before that name."""
_UNDECLARED: Final = lazy_re(
    r"no (?:member|template|type) named|not declared|not been declared|undeclared identifier|unknown type name"
    r"|does not name a (?:template )?type|is not a member of"
)
_LINES_OF_DECLARATION: Final = 6
_SOURCED: Final = lazy_re(r":\d{1,9}\)?$")
_HEADERS: Final = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".ipp", ".tcc", ".tpp")
"""Ends of names of sources that others include."""
_BESIDE: Final = 40
_PROOFS: Final = 6
_PASSES: Final = "mlir-pipeline"
"""The signature of the passes that failed."""
_OF_MLIR: Final = "mlir"
_OUTERMOST: Final = "outermost"
"""Mark of what a build's outermost tool says when it gives up."""
_WARNED: Final = "It was logged as a warning."
_OVER: Final = "What tried it went on."
_ASSERTED: Final = "log: assert"
_NEAR: Final = 60
"""Lines between two errors that are of one compilation."""


class CompilerFailed:
    """Judges the errors of a compiler."""

    name = "compiler-failed"
    doc = (
        "A compiler failed: ptxas, nvcc, NVRTC, Triton, a C++ compiler or linker, or a pass of an MLIR compiler. Its "
        "first error is quoted, with file and line; errors that follow close by are counted. A crash, unless the log "
        "goes on (a tuner drops configurations that do not compile, a build tries another way); what a logger calls a "
        "warning is a note."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each failed compilation."""
        said = [one for one in state.snapshot.diagnostics.values() if one.system == "compilers"]
        for told in _compilations(said):
            yield self._finding(told, _end_of_build(told, said, state), state)

    def _finding(self, told: Sequence[Diagnostic], end: Diagnostic | None, state: RuleInput) -> Finding:
        own = _root_first([one for one in told if one.code == FAILED])
        first = own[0] if own else told[0]
        last = end or max(told, key=lambda one: one.message.last)
        over = first.message.over
        asserted = _asserted_below(told, state.snapshot)
        decides = first.severity.rank >= Severity.ERROR.rank and not over and not asserted
        at = next((place for one in told if (place := thrown_at(one, state))), "") or _raised_near(told, state)
        more = _of_what(first, told)
        shown = replace(
            first,
            sentence=f"{first.sentence}{more}{'' if thrown_at(first, state) else at}",
            evidence=_evidence_lines(first, told, last),
        )
        ends = VerdictState.CRASHED if decides else None
        finding = finding_of(self.name, shown, state, ends, more=_making(first, told))
        if not decides and not asserted:
            finding = replace(finding, sentence=f"{finding.sentence} {_OVER if over else _WARNED}")
        sentence = sentences(finding.sentence, *_others(own))
        steps = steps_of(*told) or ("read the compiler's lines around it",)
        return replace(finding, sentence=sentence, next=steps)


def _of_what(first: Diagnostic, told: Sequence[Diagnostic]) -> str:
    """Return `, in @fill, in pass Lower, for rocm/gfx942`: what messages of a compilation say of what was compiled."""
    passes = next((one for one in told if one.message.signature == _PASSES and one is not first), None)
    values = {name: value for one in reversed(told) for name, value in one.message.values.items() if value}
    function, stage = first.message.values.get("function", ""), values.get("stage", "")
    parts = [
        f", in @{function}" if function and function not in first.message.values.get("message", "") else "",
        f", in {passes.message.values.get('message', '')}" if passes is not None else "",
        f", in {stage}" if stage and stage != first.message.values.get("stage") else "",
        f", for {values['target']}" if "target" in values else "",
    ]
    return "".join(parts)


def _root_first(own: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the errors, of C++ first the name that is not declared, from which the first one follows (J5)."""
    first = own[0].message.values if own else {}
    file, _, line = first.get("place", "").rpartition(":")
    if not line.isdigit() or _OF_DECLARATION.search(first.get("message", "")) is None:
        return list(own)
    near = {f"{file}:{number}" for number in range(int(line), int(line) + _LINES_OF_DECLARATION)}
    names = (one for one in own[1:] if one.message.values.get("place") in near)
    root = next((one for one in names if _UNDECLARED.search(one.message.values.get("message", ""))), None)
    return list(own) if root is None else [root, *(one for one in own if one is not root)]


def _making(first: Diagnostic, told: Sequence[Diagnostic]) -> str:
    """Return `, making fill.cu.o`: what the failed step of a build makes, of an error without a source of it (J4)."""
    if first.code != FAILED:
        return ""  # it is that step's own account
    values = first.message.values
    steps = [one.message.values for one in told if one.code == SUMMARY and one.message.values.get("made")]
    deepest = max((int(step["depth"] or 0) for step in steps), default=0)
    made = {step["made"] for step in steps if int(step["depth"] or 0) == deepest}
    target = values.get("made", "") or (made.pop() if len(made) == 1 else "")
    name = target.rpartition("/")[2]
    place = values.get("place", "").rpartition("/")[2]
    sourced = _SOURCED.search(place) is not None and not place.rpartition(":")[0].endswith(_HEADERS)
    return f", making {name}" if name and name != place and not sourced else ""


def _others(own: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield what is said of the errors after the first: of MLIR's, one of another place in words (J3)."""
    first, others = own[:1], list(own[1:])
    known = {one.message.values.get(name, "") for one in first for name in ("place", "message")}
    alone = (one for one in others if one.message.signature == _OF_MLIR and _is_other(one, known))
    if (named := next(alone, None)) is not None:
        others.remove(named)
        values = named.message.values
        yield f"Another error: {values['message']} ({values['place']})"
    if others:
        yield many(len(others), "more error")


def _is_other(said: Diagnostic, known: Set[str]) -> bool:
    return known.isdisjoint(said.message.values.get(name, "") for name in ("place", "message"))


def _asserted_below(told: Sequence[Diagnostic], snapshot: Snapshot) -> bool:
    """Return whether an assertion of the compiler failed right below messages that name no place or no reason."""
    if any(one.code == FAILED and one.message.values.get("place") for one in told):
        return False
    until = max(one.message.last for one in told)
    return any(
        hit.catchpoint == _ASSERTED and hit.source == told[0].log and 0 < (hit.line or 0) - until <= _BESIDE
        for hit in snapshot.exceptions.values()
    )


def _raised_near(told: Sequence[Diagnostic], state: RuleInput) -> str:
    """Return `, at step (train.py:14)`: the user's frame of an exception that was raised near the compiler's lines."""
    for hit in state.snapshot.exceptions.values():
        frame = state.code.frame_of(hit.stack) if hit.stack and _is_near(hit, told) else None
        if frame is not None and not is_of_string(frame):
            return f", at {place_text(frame)}"
    return ""


def _evidence_lines(first: Diagnostic, told: Sequence[Diagnostic], last: Diagnostic) -> tuple[Evidence, ...]:
    """Return the first lines of a compilation, and the last one."""
    lines = dict.fromkeys((first.evidence[0], *(one.evidence[-1] for one in told)))
    end = last.evidence[-1]
    return (*[one for one in lines if one != end][: _PROOFS - 1], end)


def _end_of_build(told: Sequence[Diagnostic], said: Iterable[Diagnostic], state: RuleInput) -> Diagnostic | None:
    """Return the outermost build tool's last message after a compilation, if the log ends with it (J1)."""
    until = max(one.message.last for one in told)
    ends = [
        one
        for one in said
        if one.log == told[0].log
        and one.message.first > until
        and one.code == SUMMARY
        and _OUTERMOST in one.message.marks
    ]
    last = max(ends, key=lambda one: one.message.last, default=None)
    return None if last is None or goes_on_after(last.evidence, state.snapshot) else last


def _compilations(said: Iterable[Diagnostic]) -> list[list[Diagnostic]]:
    """Group messages that are in one log and near each other."""
    found: list[list[Diagnostic]] = []
    ordered = sorted(said, key=lambda one: (one.log, one.message.first))
    for one in (one for one in ordered if one.code in (FAILED, SUMMARY)):
        last = found[-1][-1] if found else None
        near = last is not None and one.message.first - last.message.last <= _NEAR
        if last is not None and near and last.log == one.log:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether an exception carries a compiler's failure, or is next to one that was printed."""
    text = f"{hit.type}: {hit.message}"
    if any(one.said.code == FAILED for one in book()[0].found(text, "compilers")):
        return True
    said = (one for one in snapshot.diagnostics.values() if one.system == "compilers" and one.code == FAILED)
    return _is_near(hit, said)


def _is_near(hit: ExceptionHit, said: Iterable[Diagnostic]) -> bool:
    """Return whether an exception for a compiler's failure is near the compiler's lines."""
    if hit.line is None or _COMPILES.search(f"{hit.type}: {hit.message}") is None:
        return False
    near = (one.message for one in said if one.log == hit.source)
    return any(one.first - _BESIDE <= hit.line <= one.last + _BESIDE for one in near)


def rules() -> Sequence[Rule]:
    """Return the rule of this room."""
    return (CompilerFailed(),)
