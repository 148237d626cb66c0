"""Sessions of real gdbs (tests/fixtures/gdb-mi), played back to the engine: all answers are matched and understood."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbCommandError
from livedbg.gdbmi.records import Record, parse_line

SESSIONS = Path(__file__).parents[1] / "fixtures" / "gdb-mi"
PLAYER = Path(__file__).with_name("player.py")


def text_of(session: Path) -> str:
    return session.read_text(encoding="utf-8")


async def play(session: Path, folder: Path) -> tuple[list[tuple[str, Record | str]], list[Record]]:
    """Send what was sent; each command with its answer (or gdb's words where it refused), and all notices."""
    program = folder / "gdb"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {PLAYER} {session}\n")
    program.chmod(0o755)
    notices: list[Record] = []
    engine = GdbEngine(str(program), notice=notices.append)
    await engine.start()
    commands = re.findall(r"^>>> \d*(-.*)$", text_of(session), re.MULTILINE)

    async def ask(command: str) -> Record | str:
        try:
            return await engine.command(command, 60)
        except GdbCommandError as error:
            return error.message

    answers = await asyncio.gather(*map(ask, commands))
    await engine.close()
    return list(zip(commands, answers, strict=True)), notices


@pytest.mark.parametrize("session", sorted(SESSIONS.glob("*.txt")), ids=lambda path: path.stem)
async def test_every_recorded_answer_reaches_its_command(session: Path, tmp_path: Path) -> None:
    answers, notices = await play(session, tmp_path)
    recorded = re.findall(r"^(\d+)\^(\w+)", text_of(session), re.MULTILINE)
    assert len(answers) > 40
    got = ["error" if isinstance(answer, str) else answer.name for _, answer in answers]
    assert got == [name for _, name in sorted(recorded, key=lambda one: int(one[0]))]
    assert any(notice.name == "stopped" for notice in notices)
    assert not any(notice.broken for notice in notices)


async def test_the_nvfuser_wheel_as_gdb_13_saw_it(tmp_path: Path) -> None:
    answers, notices = await play(SESSIONS / "nvfuser-wheel.txt", tmp_path)
    stops = [notice.payload for notice in notices if notice.name == "stopped"]
    assert {"__cxa_throw"} <= {stop["frame"]["func"] for stop in stops if "frame" in stop}
    stacks = [a.payload["stack"] for _, a in answers if isinstance(a, Record) and "stack" in a.payload]
    assert any("nvfuser::nvfCheckFail" in frame["func"] for frame in stacks[0])
    refused = [answer for _, answer in answers if isinstance(answer, str)]
    assert any('No symbol "nvfuser" in current context' in words for words in refused)


def test_a_stop_of_cuda_gdb_has_its_focus_and_a_frame() -> None:
    focus = 'CudaFocus={device="0",sm="1",warp="2",lane="3",kernel="0",grid="4",blockIdx="(5,0,0)",threadIdx="(6,0,0)"}'
    record = parse_line(
        f'*stopped,{focus},reason="breakpoint-hit",frame={{addr="0x7f",func="axpy",args=[]}},thread-id="1"'
    )
    assert record is not None and record.name == "stopped" and not record.broken
    assert record.payload["CudaFocus"]["blockIdx"] == "(5,0,0)"
    assert record.payload["frame"]["func"] == "axpy"
