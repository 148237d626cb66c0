"""Command lines that livedbg prints can be pasted, whatever a target's files are called."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from livedbg.logs.tail import unreadable
from livedbg.text.shell import shell_word


@pytest.mark.parametrize(
    "name", ["a b.log", "$(reboot)", "x; reboot", "it's", "`id`", "--help", "a\nb", "\x1b]0;t\x07"]
)
def test_a_name_is_one_word(name: str) -> None:
    words = shlex.split(f"ls -l {shell_word(Path(name))} end", posix=True)
    assert len(words) == 4 and words[3] == "end"
    assert not words[2].startswith("-")
    assert "\n" not in words[2] and "\x1b" not in words[2]


def test_plain_names_and_numbers_stay() -> None:
    assert [shell_word(word) for word in (4711, "a/b-c.log", Path("/x/y"))] == ["4711", "a/b-c.log", "/x/y"]


def test_a_remedy_names_a_hostile_file_as_one_word() -> None:
    error = unreadable(Path("/tmp/a b; reboot"), OSError(5, "I/O error"))
    assert error.remedy == "ls -l '/tmp/a b; reboot'"
