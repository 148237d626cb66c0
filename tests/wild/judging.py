"""What livedbg says of a folder of logs, and how that agrees with what is true of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from livedbg.commands.output import code_of
from livedbg.commands.signals import running
from livedbg.model.request import Request
from livedbg.report.build import build
from tests.wild.texts import Text

__all__ = ["GRADES", "Grade", "Said", "graded", "report"]

Grade = Literal["right", "partly", "unknown", "silent", "wrong"]
GRADES: Final[tuple[str, ...]] = ("right", "partly", "unknown", "silent", "wrong")
_FAILED: Final = {"crashed", "stalled", "deadlocked", "diverged"}


@dataclass(frozen=True, slots=True)
class Said:
    """What a report said.

    Attributes:
        state: of the verdict.
        code: the exit code.
        sentence: of the verdict.
        sentences: of the verdict and of all findings.
        all: these, the evidence and the next steps.
    """

    state: str
    code: int
    sentence: str
    sentences: str
    all: str


def report(logs: Path, longest_s: float = 120.0) -> Said:
    """What `livedbg report --logs LOGS` says, in this process.

    Args:
        logs: the folder.
        longest_s: how long reading it may take.

    Raises:
        TimeoutError: it took longer.
    """
    with running(Request(host="box", logs=(str(logs),), once=True)) as view:
        if not view.wait_settled(longest_s):
            raise TimeoutError(logs)
        update = view.latest()
    document = build(update)
    sentences = [document.verdict.sentence, *(finding.sentence for finding in document.findings)]
    rest = [text for one in document.findings for text in (*(e.text or "" for e in one.evidence), *one.next)]
    return Said(
        state=document.verdict.state,
        code=code_of(update),
        sentence=document.verdict.sentence,
        sentences="\n".join(sentences),
        all="\n".join([*sentences, *rest]),
    )


def graded(text: Text, said: Said) -> Grade:
    """How a report agrees with the truth.

    An accepted state is `right`, or `partly` where a mention is missing. Else a state unknown with its exit code is
    `unknown`, an exit code of 0 over a failure is `silent`; all else, and what must never be said, is `wrong`.
    """
    if any(word.lower() in said.sentences.lower() for word in text.never):
        return "wrong"
    if said.state in text.state:
        return "right" if all(_has(word, said.all) for word in text.mention) else "partly"
    if said.state == "unknown" and said.code:
        return "unknown"
    return "silent" if not said.code and _FAILED.intersection(text.state) else "wrong"


def _has(word: str, text: str) -> bool:
    if word.isdigit():
        return re.search(rf"(?<!\d){word}(?!\d)", text) is not None
    return word.lower() in text.lower()
