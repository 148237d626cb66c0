"""The examples of all signatures: what is said of each, bare and in what collectors and containers put around."""

from __future__ import annotations

import re
from typing import Final

import pytest

from livedbg.model import Diagnostic
from livedbg.model.snapshot import Snapshot
from livedbg.session.rulebook import diagnose, judged
from livedbg.session.signatures import book
from livedbg.signatures.book import Entry
from livedbg.signatures.check import problems
from livedbg.signatures.model import Ends, Example
from tests.logs.reading import read
from tests.wild.wrappings import wrapped

BOOK: Final = book()[0]
STEPS: Final = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
JUDGED: Final = judged()
WRAPPINGS: Final = ("docker", "kubectl", "journal", "ts")
STATES: Final = {
    Ends.NOTHING: "unknown",
    Ends.PERHAPS: "unknown",
    Ends.WAITS: "stalled",
    Ends.DIVERGES: "diverged",
    Ends.COMPLETES: "exited",
}
EXAMPLES: Final = [
    pytest.param(entry, example, id=f"{entry.name}-{number}")
    for entry in BOOK.entries
    for number, example in enumerate(entry.signature.examples)
]


def told_by(entry: Entry, snapshot: Snapshot) -> list[Diagnostic]:
    """What the signatures of this room say."""
    told = [said for said in snapshot.diagnostics.values() if said.system == entry.room.system]
    ends = [said for said in told if said.message.signature]
    well = entry.usual.ends is Ends.COMPLETES
    return [said for said in ends if well or said.message.ends != Ends.COMPLETES]


def said_of(entry: Entry, text: str) -> tuple[str, str, list[Diagnostic]]:
    """The state and the sentence of the verdict, and what the signatures of this room say."""
    snapshot = read(text).snapshot()
    verdict = diagnose(snapshot).verdict
    return verdict.state.value, verdict.sentence, told_by(entry, snapshot)


def going_on(text: str) -> str:
    """Ordinary lines of the rank that a text is of."""
    rank = re.match(r"\[rank\d+\]:", text)
    return STEPS if rank is None else "".join(f"{rank[0]} {line}\n" for line in STEPS.splitlines())


def sentences_of(entry: Entry, text: str) -> list[str]:
    """What the signatures of this room say."""
    return [said.sentence for said in told_by(entry, read(text).snapshot())]


@pytest.mark.invariant("signature_decoder.D1")
@pytest.mark.parametrize(("entry", "example"), EXAMPLES)
def test_an_example_bare_and_in_wrappings(entry: Entry, example: Example) -> None:
    text = example.text if example.text.endswith("\n") else f"{example.text}\n"
    state, sentence, told = said_of(entry, text)
    said = [one.sentence for one in told]
    expected = [one for one in (example.says, *example.also) if one]
    if not expected:
        assert said == [] and state != "crashed"
        assert said_of(entry, STEPS + text)[0] != "crashed"
        return
    assert set(expected) <= set(said)
    if entry.usual.ends is Ends.BESIDE:
        return  # what it stands beside decides
    assert state == (example.verdict or STATES.get(entry.usual.ends or Ends.NOTHING, "crashed")), sentence
    if state in ("crashed", "stalled"):
        assert sentence.startswith(example.says) or JUDGED.judges(told[0])
        final = "final" in (entry.usual.marks or ())
        assert final or said_of(entry, text + going_on(text))[0] not in ("crashed", "stalled")
    for name in WRAPPINGS:
        assert (name, sentences_of(entry, wrapped(name, STEPS + text))) == (name, said)


@pytest.mark.invariant("check.C2")
@pytest.mark.parametrize("room", BOOK.rooms, ids=[room.name for room in BOOK.rooms])
def test_the_built_in_files_have_no_problem(room: object) -> None:
    assert list(problems(room)) == []  # type: ignore[arg-type]
