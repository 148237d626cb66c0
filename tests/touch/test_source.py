"""Lines of source around frames: what is read, and what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from livedbg.model import Frame
from livedbg.touch import source
from livedbg.touch.source import with_source


def lines(path: Path | str, line: int = 5) -> tuple[str, ...]:
    (frame,) = with_source(os.getpid(), [Frame(function="f", file=str(path), line=line)])
    return frame.source


@pytest.mark.invariant("source.Z1")
def test_Z1_a_few_clean_lines_of_a_file_of_a_language(tmp_path: Path) -> None:
    text = "".join(f"line {number}\x1b[31m\n" for number in range(1, 101))
    for name in ("a.cpp", "a.PY", "a.cu"):
        (tmp_path / name).write_text(text)
        found = lines(tmp_path / name, 50)
        assert [line.split()[1][:2] for line in found] == [str(number) for number in range(47, 54)]
        assert not any("\x1b" in line for line in found)
    assert len(lines(tmp_path / "a.cpp", 1)) == 4 and lines(tmp_path / "a.cpp", 200) == ()


@pytest.mark.invariant("source.Z1")
def test_Z1_other_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "secret\n" * 20
    for name in ("shadow", "key.pem", "a.cpp.txt", "relative.cpp"):
        (tmp_path / name).write_text(text)
    os.mkfifo(tmp_path / "pipe.cpp")  # to open it would wait for a writer
    (tmp_path / "folder.cpp").mkdir()
    for path in ("relative.cpp", *(tmp_path / name for name in ("shadow", "key.pem", "a.cpp.txt", "pipe.cpp"))):
        assert lines(path) == ()
    assert lines(tmp_path / "folder.cpp") == () == lines(tmp_path / "none.cpp") == lines("/dev/zero.c")
    assert lines(tmp_path / "relative.cpp") != ()
    monkeypatch.setattr(source, "_MOST_BYTES", len(text) - 1)
    assert lines(tmp_path / "relative.cpp") == ()
