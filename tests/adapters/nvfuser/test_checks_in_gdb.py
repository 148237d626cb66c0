"""A failed check of nvFuser in a stack that gdb printed: the reason is an argument of the function that throws."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.adapters.nvfuser.dumps.failures import Failure
from livedbg.adapters.nvfuser.dumps.statement_reader import read_statements
from livedbg.adapters.nvfuser.dumps.statements import Failed

_PLACE = 'func=0xaa10 "findPump",\n    file=0xaa20 "/opt/nvfuser/csrc/id_model/pump.cpp", line=77'
_PLEA = " INTERNAL ASSERT FAILED at /opt/nvfuser/csrc/id_model/pump.cpp:77, please report a bug with repro script to"
BELOW = f"""\
(gdb) bt
#0  nvfuser::nvfCheckFail ({_PLACE},
    msg="{_PLEA} NVFuser at https://github.com/NVIDIA/Fuser/issues. \\nExpected tank "...)
    at /opt/nvfuser/csrc/exceptions.cpp:26
"""
THROWS = f"""\
#1  0x0000aa01 in nvfuser::nvfErrorFail ({_PLACE},
    condMsg=0xaa30 "{_PLEA} NVFuser at https://github.com/NVIDIA/Fuser/issues. ",
    userMsg={{}}) at /opt/nvfuser/csrc/exceptions.cpp:27
#2  0x0000aa02 in nvfuser::Pumps::findPump (this=0xfff0) at /opt/nvfuser/csrc/id_model/pump.cpp:77
"""


def failures(text: str, folder: Path) -> list[Failure]:
    log = folder / "gdb.log"
    log.write_text(text)
    return [one.statement.failure for one in read_statements(log) if isinstance(one.statement, Failed)]


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ('"Expected tank != tanks.end() . No tank for idg{3}"', "No tank for idg{3}"),
        ('0xaa40 "No tank for \\"idg{3}\\""', 'No tank for "idg{3}"'),
        ('"No tank for idg{3}\\n"', "No tank for idg{3}"),
        ('"No tank for idg{3} and"...', "No tank for idg{3} and…"),
    ],
)
def test_the_reason_is_the_whole_argument_with_escapes_resolved(argument: str, said: str, tmp_path: Path) -> None:
    (found,) = failures(BELOW + THROWS.format(argument), tmp_path)
    assert (found.summary, found.function, found.place) == (said, "findPump", "csrc/id_model/pump.cpp:77")


@pytest.mark.parametrize("log", [BELOW, BELOW + THROWS.format('""'), 'run(userMsg="a valve is open")\n'])
def test_without_words_nothing_is_made_of_an_elided_message(log: str, tmp_path: Path) -> None:
    assert failures(log, tmp_path) == []
