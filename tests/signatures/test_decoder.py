"""Messages that signatures find in records."""

from __future__ import annotations

import pytest

from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.model import Diagnostic, LogRecord, LogSource
from livedbg.model.events import DiagnosticSeen, Stamp
from livedbg.signatures.book import Book, parse
from livedbg.signatures.decoder import SignatureDecoder

STAMP: Stamp = {"wall_ns": 1, "mono_ns": 1, "host": "box"}


TOY = """
source = "a toy"
asides = ['^launcher: error: task \\d+ ended']

[quiet]
pattern = 'skipping this way'
words = ["skipping this way"]
lines = 1

[defaults]
class = "process"
ends = "process"
kind = "broke"
sentence = "{what} broke"
key = "{what}"

[[signature]]
id = "one-line"
pattern = 'it broke: (?P<what>\\w+)'

[[signature]]
id = "lines"
pattern = 'A machine stopped\\n(?:[^\\n]*\\n){0,2}?  part: (?P<what>\\w+)'
words = ["  part: "]
parts = ["A machine stopped"]
"""


def decoder() -> SignatureDecoder:
    """One of a file with two signatures: of one line, and of several."""
    return SignatureDecoder(lambda: Book([parse("toy", "toy.toml", TOY)]))


def told(*texts: str) -> list[Diagnostic]:
    """What is known in the end, of logs that are read one after the other."""
    toy, known = decoder(), dict[str, Diagnostic]()
    for number, text in enumerate(texts):
        toy.opened(LogSource(id=f"log:{number}", name=f"{number}.log"))
        assembler, cutter = RecordAssembler(f"log:{number}", SourceClock()), LineCutter()
        records = [*assembler.feed([*cutter.feed(text.encode()), *cutter.flush()]), *assembler.flush()]
        events = [event for record in records for event in toy.feed(record, STAMP)[0]]
        for event in (*events, *toy.flush(STAMP)):
            assert isinstance(event, DiagnosticSeen)
            known[event.diagnostic.id] = event.diagnostic
    return list(known.values())


@pytest.mark.invariant("said.S1")
def test_S1_a_message_that_comes_again_is_one_with_its_first_and_last_line() -> None:
    (one,) = told("it broke: pump\nstep 1\nit broke: pump\nit broke: pump\n")
    assert [proof.place for proof in one.evidence] == ["0.log:1", "0.log:4"]
    assert one.message.count == 3 and one.sentence == "pump broke"
    assert len(told("it broke: pump\n", "it broke: pump\n")) == 2
    assert len(told("it broke: pump\nit broke: valve\n")) == 2


@pytest.mark.invariant("signature_decoder.D4")
def test_D4_the_records_of_one_message_are_near_each_other_and_of_one_writer() -> None:
    (one,) = told("A machine stopped\nat noon\n  part: axle\n")
    assert one.evidence[0].place == "0.log:1" and one.message.count == 1
    assert told("A machine stopped\n" + "step\n" * 40 + "x\n  part: axle\n") == []
    split = "[rank0]: A machine stopped\n[rank1]: A machine stopped\n[rank1]: x\n[rank1]:   part: axle\n"
    (second,) = told(split)
    assert second.evidence[0].place == "0.log:2" and second.writer == "rank 1"


def test_a_part_that_was_read_is_not_read_again() -> None:
    assert len(told("it broke: pump\nA machine stopped\n  part: axle\n")) == 2


def test_a_log_of_many_messages_is_bounded() -> None:
    assert len(told("".join(f"it broke: p{number}\n" for number in range(500)))) == 200


def _records(text: str) -> list[LogRecord]:
    assembler, cutter = RecordAssembler("log:0", SourceClock()), LineCutter()
    return [*assembler.feed([*cutter.feed(text.encode()), *cutter.flush()]), *assembler.flush()]


@pytest.mark.invariant("signature_decoder.D5")
def test_D5_parts_of_a_message_and_what_is_printed_beside_it_are_known_and_nothing_else() -> None:
    text = "ERROR: A machine stopped\nERROR: at noon\n  part: pump\nlauncher: error: task 3 ended\nERROR: x\n"
    records = _records(text.replace("ERROR: A", "A"))
    toy = decoder()
    toy.opened(LogSource(id="log:0", name="0.log"))
    assert not any(toy.knows(record) for record in records)
    for record in records:
        toy.feed(record, STAMP)
    known = [record.text.partition("\n")[0] for record in records if toy.knows(record)]
    assert known == ["A machine stopped", "ERROR: at noon", "launcher: error: task 3 ended"]


@pytest.mark.invariant("signature_decoder.D5")
def test_D5_without_an_error_beside_it_an_error_line_is_not_known() -> None:
    toy = decoder()
    toy.opened(LogSource(id="log:0", name="0.log"))
    (record,) = _records("launcher: error: task 3 ended\n")
    toy.feed(record, STAMP)
    assert not toy.knows(record)


@pytest.mark.invariant("signature_decoder.D5")
def test_D5_what_a_tuner_says_of_an_attempt_is_known_and_not_the_error_behind_it() -> None:
    records = _records("ERROR: skipping this way\nERROR: it broke: pump\nERROR: x\n")
    toy = decoder()
    toy.opened(LogSource(id="log:0", name="0.log"))
    for record in records:
        toy.feed(record, STAMP)
    assert [toy.knows(record) for record in records] == [True, True, False]
