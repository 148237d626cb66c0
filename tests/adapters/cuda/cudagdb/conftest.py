"""A cuda-gdb that plays sessions, and files that are core dumps by their headers."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.cli import main
from tests.adapters.cuda.cudagdb.sessions import FIXTURES
from tests.adapters.cuda.cudagdb.tables import Session
from tests.cli.conftest import Said

PLAYER = Path(__file__).parents[3] / "gdbmi" / "player.py"
EM_CUDA, EM_X86_64 = 190, 62


def core_bytes(*, machine: int = EM_CUDA, kind: int = 4, sections: int = 4, size: int = 512) -> bytes:
    """An ELF core dump of that machine: a header, sections, their table (elf(5))."""
    body = bytes(size) * sections
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, 0x8000_0009, 0, 0, 64 + n * size, size, 0, 0, 1, 0) for n in range(sections)
    )
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", identity, kind, machine, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, sections, 0
    )
    return head + body + table


def program_that_plays(session: Session | str, folder: Path) -> str:
    """A program `cuda-gdb` in a folder: it plays a fixture by its name, or a session."""
    script = folder / "session.txt"
    if isinstance(session, str):
        script = FIXTURES / f"{session}.txt"
    else:
        script.write_text(session.text, encoding="utf-8")
    program = folder / "bin" / "cuda-gdb"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {PLAYER} --any {script} "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def gpu_core(tmp_path: Path) -> Path:
    """A GPU core dump, as far as its headers say."""
    path = tmp_path / "core_1764236276_box_4711.nvcudmp"
    path.write_bytes(core_bytes())
    return path


@pytest.fixture
def player(tmp_path: Path) -> Callable[[Session | str], str]:
    """A program `cuda-gdb` that plays a session: one of the fixtures by name, or one made here."""

    def make(session: Session | str) -> str:
        return program_that_plays(session, tmp_path)

    return make


@pytest.fixture
def device(capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`livedbg device WORDS` in this process: starting one takes longer than most of what is asked here."""

    def run(*words: object) -> Said:
        capfd.readouterr()
        code = main(["device", *map(str, words)])
        said = capfd.readouterr()
        assert "Traceback" not in said.err, said.err
        return Said(code, said.out, said.err)

    return run
