"""What the kernel writes as text holds names that any user may have chosen."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from livedbg.linux.descriptors import parse_locks
from livedbg.linux.lines import lines, number, rows
from livedbg.linux.live_environment import rank_of
from livedbg.linux.sockets import SocketTable

HEAD = "Num RefCount Protocol Flags Type St Inode Path\n"


@pytest.mark.invariant("lines.N1")
@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\r"])
def test_N1_only_a_newline_ends_a_line(end: str) -> None:
    assert lines(f"Name:\ta{end}TracerPid: 1\nTgid: 2\n".encode()) == [f"Name:\ta{end}TracerPid: 1", "Tgid: 2"]


def test_bytes_that_are_no_text_stay_in_their_line() -> None:
    assert lines(b"a\xe2\nb\xff\n") == ["a\ufffd", "b\ufffd"]
    assert lines(b"") == [] and lines(b"no end") == ["no end"] and lines(b"\n\n") == ["", ""]


@pytest.mark.invariant("lines.N2")
def test_N2_a_bad_row_costs_that_row() -> None:
    assert list(rows(b"1\nx\n\n2\n", int)) == [1, 2]
    good = "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF\n"
    assert len(parse_locks(f"2: -> nonsense\n{good}3: FLOCK ADVISORY WRITE x fe:00:1 0 EOF\n\n".encode())) == 1


@pytest.mark.parametrize("text", ["", "-1", "9" * 5000, "٣", "1 2", "0x1", "²"])
def test_what_is_no_number_of_the_kernel_s_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        number(text)


def test_a_rank_of_5000_digits_is_none_and_the_next_variable_counts() -> None:
    assert rank_of({"RANK": "9" * 5000}) is None
    assert rank_of({"RANK": "9" * 5000, "PMI_RANK": "3"}) == 3
    assert rank_of({"RANK": "007"}) == 7


def test_sockets_with_hostile_names_cost_no_other_socket(tmp_path: Path) -> None:
    names = ["a\nb", "a\n\n", "\n", "c d", "e\u2028f", "g\x85h\x0bi", b"\xff\xfe".decode("utf-8", "surrogateescape")]
    held = []
    for name in names:
        one = socket.socket(socket.AF_UNIX)
        one.bind(os.fsencode(tmp_path / "s") + os.fsencode(name))
        held.append(one)
    plain = socket.socket(socket.AF_UNIX)
    plain.bind(str(tmp_path / "plain"))
    plain.listen()
    with socket.create_server(("127.0.0.1", 0)) as server:
        table = SocketTable(os.getpid())
        for one in (*held, plain, server):
            assert table.get(os.fstat(one.fileno()).st_ino) is not None
        found = table.get(os.fstat(plain.fileno()).st_ino)
        assert found is not None and found.listening and found.local == str(tmp_path / "plain")
        blank = table.get(os.fstat(held[3].fileno()).st_ino)
        assert blank is not None and blank.local == str(tmp_path / "sc d")
    for one in (*held, plain):
        one.close()
