"""Messages that tables of forms find in records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

import pytest

from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.logs.said import Form, Said, SaidDecoder, words_of
from livedbg.model import Diagnostic, LogRecord, LogSource
from livedbg.model.events import DiagnosticSeen, Stamp

STAMP: Stamp = {"wall_ns": 1, "mono_ns": 1, "host": "box"}


def _broke(match: re.Match[str]) -> Said:
    return Said(code="broke", key=match["what"], sentence=f"{match['what']} broke")


class Decoder(SaidDecoder):
    """Two forms: of one line, and of two."""

    name = "toy"
    forms: ClassVar[Sequence[Form]] = (
        Form(("it broke: ",), re.compile(r"it broke: (?P<what>\w+)"), _broke),
        Form(("  part: ",), re.compile(r"A machine stopped\n(?:[^\n]*\n){0,2}?  part: (?P<what>\w+)"), _broke),
    )
    triggers: ClassVar[tuple[bytes, ...]] = (*words_of(forms), b"A machine stopped")


def told(*texts: str) -> list[Diagnostic]:
    """What is known in the end, of logs that are read one after the other."""
    decoder, known = Decoder(), dict[str, Diagnostic]()
    for number, text in enumerate(texts):
        decoder.opened(LogSource(id=f"log:{number}", name=f"{number}.log"))
        assembler, cutter = RecordAssembler(f"log:{number}", SourceClock()), LineCutter()
        records = [*assembler.feed([*cutter.feed(text.encode()), *cutter.flush()]), *assembler.flush()]
        events = [event for record in records for event in decoder.feed(record, STAMP)[0]]
        for event in (*events, *decoder.flush(STAMP)):
            assert isinstance(event, DiagnosticSeen)
            known[event.diagnostic.id] = event.diagnostic
    return list(known.values())


@pytest.mark.invariant("said.S1")
def test_S1_a_message_that_comes_again_is_one_with_its_first_and_last_line() -> None:
    (one,) = told("it broke: pump\nstep 1\nit broke: pump\nit broke: pump\n")
    assert [proof.place for proof in one.evidence] == ["0.log:1", "0.log:4"]
    assert one.attributes["count"] == "3" and one.sentence == "pump broke"
    assert len(told("it broke: pump\n", "it broke: pump\n")) == 2
    assert len(told("it broke: pump\nit broke: valve\n")) == 2


@pytest.mark.invariant("said.S2")
def test_S2_the_records_of_one_message_are_near_each_other_and_of_one_writer() -> None:
    (one,) = told("A machine stopped\nat noon\n  part: axle\n")
    assert one.evidence[0].place == "0.log:1" and "count" not in one.attributes
    assert told("A machine stopped\n" + "step\n" * 40 + "x\n  part: axle\n") == []
    split = "[rank0]: A machine stopped\n[rank1]: A machine stopped\n[rank1]: x\n[rank1]:   part: axle\n"
    (second,) = told(split)
    assert second.evidence[0].place == "0.log:2" and second.writer == "rank 1"


def test_a_part_that_was_read_is_not_read_again() -> None:
    assert len(told("it broke: pump\nA machine stopped\n  part: axle\n")) == 2


def test_a_log_of_many_messages_is_bounded() -> None:
    assert len(told("".join(f"it broke: p{number}\n" for number in range(500)))) == 200


class _Beside(Decoder):
    asides = re.compile(r"^launcher: error: task \d+ ended")


def _records(text: str) -> list[LogRecord]:
    assembler, cutter = RecordAssembler("log:0", SourceClock()), LineCutter()
    return [*assembler.feed([*cutter.feed(text.encode()), *cutter.flush()]), *assembler.flush()]


@pytest.mark.invariant("said.S3")
def test_S3_parts_of_a_message_and_what_is_printed_beside_it_are_known_and_nothing_else() -> None:
    text = "ERROR: A machine stopped\nERROR: at noon\n  part: pump\nlauncher: error: task 3 ended\nERROR: x\n"
    records = _records(text.replace("ERROR: A", "A"))
    decoder = _Beside()
    decoder.opened(LogSource(id="log:0", name="0.log"))
    assert not any(decoder.knows(record) for record in records)
    for record in records:
        decoder.feed(record, STAMP)
    known = [record.text.partition("\n")[0] for record in records if decoder.knows(record)]
    assert known == ["A machine stopped", "ERROR: at noon", "launcher: error: task 3 ended"]


@pytest.mark.invariant("said.S3")
def test_S3_without_an_error_beside_it_an_error_line_is_not_known() -> None:
    decoder = _Beside()
    decoder.opened(LogSource(id="log:0", name="0.log"))
    (record,) = _records("launcher: error: task 3 ended\n")
    decoder.feed(record, STAMP)
    assert not decoder.knows(record)
