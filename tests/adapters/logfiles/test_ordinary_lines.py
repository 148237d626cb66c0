"""Lines of jobs in good health: hardly any reaches a decoder, or is read as an error."""

from __future__ import annotations

import pytest

from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.logs.clock import SourceClock
from livedbg.logs.error_lines import ALARMS, EXACT
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.logs.search import with_escaped
from livedbg.logs.skim import Skimmer
from livedbg.model import LogRecord
from livedbg.session.filereaders import known_log_formats
from tests.logs.ordinary import SHAPES, block
from tests.logs.reading import decoders

_LINES = 2000


def _read(data: bytes) -> list[LogRecord]:
    """What comes out of a big log."""
    decoding = Decoding(decoders())
    assembler = RecordAssembler("s", SourceClock(), known_log_formats())
    assembler.learn(LineCutter().feed(data))
    words = decoding.triggers or ()
    skimmer = Skimmer(
        assembler,
        with_escaped(words) if assembler.door.escaped else words,
        0,
        1,
        alarms=with_escaped(ALARMS) if assembler.door.escaped else ALARMS,
        exact={**decoding.exact, **EXACT},
        opens=decoding.opens,
    )
    return [*skimmer.feed(data), *skimmer.flush()]


@pytest.mark.parametrize("shape", SHAPES)
def test_they_are_passed_over(shape: str) -> None:
    records = _read(block(shape, _LINES).encode())
    assert len(records) <= _LINES / 100, records[-3:]


def test_what_is_behind_them_is_read() -> None:
    for shape in SHAPES:
        data = block(shape, 99) + "2026-03-04 05:06:07,890 - a - ERROR - CUDA error: an illegal memory access\n"
        assert any("CUDA error" in record.text for record in _read(data.encode())), shape
