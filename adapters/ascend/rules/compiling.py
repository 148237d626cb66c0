"""A compilation by pypto or ptoas failed: what, where in the program, and in which pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.survived import unless_survived
from livedbg.analysis.rules.base import RuleInput
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
        seen = said.attributes
        inferred = bool(seen.get("failed")) and not seen.get("side")
        return Finding(
            rule=self.name,
            state=VerdictState.CRASHED,
            severity=Severity.CRITICAL,
            sentence=" ".join(_words(said, number)),
            claim=said.sentence,
            evidence=said.evidence,
            next=tuple(_next(said)),
            inferred=inferred,
            since_wall_ns=said.at_wall_ns,
        )


def _words(said: Diagnostic, number: int) -> Iterator[str]:
    seen = said.attributes
    what = f"function {seen['function']}" if seen.get("function") else "the program"
    where = f" at {seen['place']}" if seen.get("place") else ""
    generated = " (a file that pypto generated)" if seen.get("generated") else ""
    who = _STAGES.get(seen.get("stage", ""), "The compiler refuses")
    yield sentences(f"{who} {what}{where}{generated}: {said.sentence}")
    if seen.get("op"):
        yield f"The operation is {seen['op']}."
    if seen.get("origin"):
        yield f"That line was made from {seen['origin']}."
    if seen.get("shape"):
        yield f"Shapes: {seen['shape']}."
    if seen.get("code"):
        yield f"The line is “{seen['code']}”."
    yield from _pass_words(said)
    if seen.get("internal"):
        yield f"A check inside the compiler failed ({seen.get('check') or 'no place given'}): that is a bug of pypto's."
    if seen.get("more"):
        yield f"The same report has {seen['more']} more."
    if number > 1:
        yield f"{number - 1} more {'error was' if number == 2 else 'errors were'} found."
    if seen.get("beyond"):
        yield f"Further {seen['beyond']} are not listed."


def _pass_words(said: Diagnostic) -> Iterator[str]:
    seen = said.attributes
    if seen.get("side"):
        yield f"The {seen['side']} of the pass {seen.get('failed')} is wrong."
    elif seen.get("complete"):
        yield f"All passes ended (the last: {seen.get('last')}); it failed after them."
    elif seen.get("stage") == "ptoas" and seen.get("last"):
        yield f"The last pass of ptoas that ended is {seen['last']}."
    elif seen.get("last"):
        failed = f"so {seen['failed']} is the one that failed" if seen.get("failed") else "so the next one failed"
        yield f"The last pass that ended is {seen['last']}, {failed}."
    if seen.get("missing"):
        yield f"{seen['missing']} of the dumps before it are missing."


def _next(said: Diagnostic) -> Iterator[str]:
    seen = said.attributes
    if seen.get("hint"):
        yield f"the compiler's hint: {seen['hint']}"
    if seen.get("internal"):
        yield "report it to pypto, with the program and its passes_dump directory: it is a bug of the compiler"
    elif seen.get("origin"):
        yield f"check {seen['origin']}: the line of your program that it was generated from"
    elif seen.get("place") and not seen.get("generated"):
        yield f"change {seen['place']}: the message is about that line"
    if seen.get("dump"):
        yield f"read {seen['dump']}: the program as the last pass left it"
        if seen.get("compare"):
            yield f"all that differs: {seen['compare']}"
    elif seen.get("stage") in {"pass", "verifier"}:
        yield "compile with dump_passes=True: passes_dump/ then shows which pass fails"
    if seen.get("stage") == "ptoas" and seen.get("generated") and not seen.get("origin"):
        yield "PYPTO_EMIT_PTO_LOC=1 (the default since August 2026) lets ptoas name the line of your program"
    if seen.get("stage") == "ptoas":
        yield "compile with skip_ptoas=True to keep the .pto file, and dump_ptoas_passes=True to see its passes"
    if seen.get("report"):
        yield f"the whole text: {seen['report']}"
    if seen.get("stage") in {"pass", "codegen", "verifier"} and not seen.get("internal"):
        yield "PTO_BACKTRACE=1 adds the place in the compiler"
