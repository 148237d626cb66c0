"""A compilation by pypto or ptoas failed: what, where in the program, and in which pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.facts import CompileFacts, facts
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.survived import unless_survived
from livedbg.model import Diagnostic, Severity
from livedbg.text.wording import sentences

__all__ = ["CompileRule"]

_SHOWN: Final = 3
_STAGES: Final = {
    "parser": "pypto's parser refuses",
    "pass": "pypto's compiler failed on",
    "verifier": "pypto's verifier refuses",
    "codegen": "pypto's code generator failed on",
    "ptoas": "ptoas refuses",
}


class CompileRule(Struct, frozen=True):
    """Looks at the compile errors of all logs."""

    name: str = "ascend-compile-error"
    doc: str = (
        "A program was not compiled: pypto's parser, one of its passes, its verifier or code generator, or ptoas "
        "refused it. Names the operation, the shapes and the source line that the message has, and the pass: from the "
        "message, or the one behind the last whose dump lies in passes_dump/ (inferred, by the order of August 2026). "
        "An error after which a run began is ignored."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """What it finds in `state`."""
        said = [
            diagnostic
            for diagnostic in state.snapshot.diagnostics.values()
            if diagnostic.code == "compile-error" and not diagnostic.resolved
        ]
        for diagnostic in said[:_SHOWN]:
            finding = self._finding(diagnostic, len(said) if diagnostic is said[0] else 1)
            yield unless_survived(finding, state.snapshot)

    def _finding(self, said: Diagnostic, number: int) -> Finding:
        seen = facts(said, CompileFacts)
        inferred = bool(seen.failed) and not seen.side
        return Finding(
            rule=self.name,
            state=VerdictState.CRASHED,
            severity=Severity.CRITICAL,
            sentence=" ".join(_words(said, seen, number)),
            claim=said.sentence,
            evidence=said.evidence,
            next=tuple(_next(seen)),
            inferred=inferred,
            since_wall_ns=said.at_wall_ns,
        )


def _words(said: Diagnostic, seen: CompileFacts, number: int) -> Iterator[str]:
    what = f"function {seen.function}" if seen.function else "the program"
    where = f" at {seen.place}" if seen.place else ""
    generated = " (a file that pypto generated)" if seen.generated else ""
    who = _STAGES.get(seen.stage, "The compiler refuses")
    yield sentences(f"{who} {what}{where}{generated}: {said.sentence}")
    if seen.op:
        yield f"The operation is {seen.op}."
    if seen.origin:
        yield f"That line was made from {seen.origin}."
    if seen.shape:
        yield f"Shapes: {seen.shape}."
    if seen.code:
        yield f"The line is “{seen.code}”."
    yield from _pass_words(seen)
    if seen.internal:
        yield f"A check inside the compiler failed ({seen.check or 'no place given'}): that is a bug of pypto's."
    if seen.more:
        yield f"The same report has {seen.more} more."
    if number > 1:
        yield f"{number - 1} more {'error was' if number == 2 else 'errors were'} found."
    if seen.beyond:
        yield f"Further {seen.beyond} are not listed."


def _pass_words(seen: CompileFacts) -> Iterator[str]:
    if seen.side:
        yield f"The {seen.side} of the pass {seen.failed} is wrong."
    elif seen.complete:
        yield f"All passes ended (the last: {seen.last}); it failed after them."
    elif seen.stage == "ptoas" and seen.last:
        yield f"The last pass of ptoas that ended is {seen.last}."
    elif seen.last:
        failed = f"so {seen.failed} is the one that failed" if seen.failed else "so the next one failed"
        yield f"The last pass that ended is {seen.last}, {failed}."
    if seen.missing:
        yield f"{seen.missing} of the dumps before it are missing."


def _next(seen: CompileFacts) -> Iterator[str]:
    if seen.hint:
        yield f"the compiler's hint: {seen.hint}"
    if seen.internal:
        yield "report it to pypto, with the program and its passes_dump directory: it is a bug of the compiler"
    elif seen.origin:
        yield f"check {seen.origin}: the line of your program that it was generated from"
    elif seen.place and not seen.generated:
        yield f"change {seen.place}: the message is about that line"
    if seen.dump:
        yield f"read {seen.dump}: the program as the last pass left it"
        if seen.compare:
            yield f"all that differs: {seen.compare}"
    elif seen.stage in {"pass", "verifier"}:
        yield "compile with dump_passes=True: passes_dump/ then shows which pass fails"
    if seen.stage == "ptoas" and seen.generated and not seen.origin:
        yield "PYPTO_EMIT_PTO_LOC=1 (the default since August 2026) lets ptoas name the line of your program"
    if seen.stage == "ptoas":
        yield "compile with skip_ptoas=True to keep the .pto file, and dump_ptoas_passes=True to see its passes"
    if seen.report:
        yield f"the whole text: {seen.report}"
    if seen.stage in {"pass", "codegen", "verifier"} and not seen.internal:
        yield "PTO_BACKTRACE=1 adds the place in the compiler"
