"""Rule for compilations by pypto or ptoas that failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from msgspec import Struct, structs

from livedbg.adapters.ascend.facts import CompileFacts
from livedbg.adapters.ascend.messages import Line, lines, read_data
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.survived import unless_survived
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.said import finding_about
from livedbg.model import Diagnostic, Severity
from livedbg.model.facts import read_facts
from livedbg.text.wording import sentences

_SHOWN: Final = 3


class _Texts(Struct, frozen=True, forbid_unknown_fields=True):
    """data/compile.toml."""

    who: dict[str, str]
    words: tuple[Line, ...]
    next: tuple[Line, ...]


@cache
def _texts() -> _Texts:
    return read_data("compile.toml", _Texts)


class CompileRule(Struct, frozen=True):
    """Judges the compile errors of all logs."""

    name: str = "ascend-compile-error"
    doc: str = (
        "A program was not compiled: pypto's parser, one of its passes, its verifier or code generator, or ptoas "
        "refused it. Names the operation, the shapes and the source line that the message has, and the pass: from the "
        "message, or the one behind the last whose dump lies in passes_dump/ (inferred, by the order of August 2026). "
        "An error after which a run began is ignored."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        said = [
            diagnostic
            for diagnostic in state.snapshot.diagnostics.values()
            if diagnostic.code == "compile-error" and not diagnostic.resolved
        ]
        for diagnostic in said[:_SHOWN]:
            finding = self._finding(diagnostic, len(said) - 1 if diagnostic is said[0] else 0)
            yield unless_survived(finding, state.snapshot)

    def _finding(self, said: Diagnostic, others: int) -> Finding:
        known = read_facts(said, CompileFacts)
        values, texts = _values(known, others), _texts()
        what = f"function {known.function}" if known.function else "the program"
        where = f" at {known.place}" if known.place else ""
        generated = " (a file that pypto generated)" if known.generated else ""
        head = f"{texts.who.get(known.stage, 'The compiler refuses')} {what}{where}{generated}: {said.sentence}"
        return finding_about(
            self.name,
            said,
            Severity.CRITICAL,
            state=VerdictState.CRASHED,
            sentence=" ".join([sentences(head), *lines(texts.words, known.stage, values)]),
            claim=said.sentence,
            next=tuple(lines(texts.next, known.stage, values)),
            inferred=bool(known.failed) and not known.side,
        )


def _values(known: CompileFacts, others: int) -> Mapping[str, str]:
    more = f"{others} more {'error was' if others == 1 else 'errors were'}" if others else ""
    values = {name: str(value) if value else "" for name, value in structs.asdict(known).items()}
    return {**values, "check": known.check or "no place given", "others": more}
