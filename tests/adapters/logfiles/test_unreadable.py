"""What can't be read in a folder of logs is named, and the rest is read."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import zstandard

from livedbg.commands.signals import running
from livedbg.logs.bytesource import Unpacked
from livedbg.model import SourceHealth
from livedbg.model.request import Request
from livedbg.model.snapshot import Snapshot
from tests.waiting import WALL_S

CRASH = 'Traceback (most recent call last):\n  File "/srv/t.py", line 3, in main\n    f()\nKeyError: 7\n'
STEPS = "".join(f"step {n} loss {random.Random(n).random()}\n" for n in range(3000))


def _looked(folder: Path) -> Snapshot:
    with running(Request(host="box", logs=(str(folder),), once=True)) as view:
        assert view.wait_settled(WALL_S)
        return view.latest().snapshot


def _said(snapshot: Snapshot) -> list[str]:
    return [status.sentence for status in snapshot.statuses.values() if status.health is not SourceHealth.OK]


def _types(snapshot: Snapshot) -> list[str]:
    return [hit.type for hit in snapshot.exceptions.values()]


def test_each_thing_that_is_no_log_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(CRASH)
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "dangling.log").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop.log").symlink_to(tmp_path / "loop.log")
    (tmp_path / "empty.log").touch()
    (tmp_path / "binary.log").write_bytes(random.Random(1).randbytes(5000))
    with socket.socket(socket.AF_UNIX) as end:
        before = Path.cwd()
        os.chdir(tmp_path)  # the path of a socket is short
        try:
            end.bind("sock.log")
        finally:
            os.chdir(before)
        snapshot = _looked(tmp_path)
    said = "\n".join(_said(snapshot))
    for words in (
        "pipe.log is a pipe: it is not read",
        "sock.log is a socket: it is not read",
        "dangling.log is a link to nothing: it is not read",
        "loop.log is a link to itself: it is not read",
        "binary.log holds binary data",
        "1 log without a line: empty.log",
    ):
        assert words in said
    assert _types(snapshot) == ["KeyError"]


def test_many_of_them_are_counted(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(CRASH)
    for number in range(20):
        os.mkfifo(tmp_path / f"{number:02}.log")
    said = _said(_looked(tmp_path))
    assert len(said) == 9
    assert "12 more entries" in said[-1]


def test_a_damaged_packed_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = gzip.compress((CRASH + STEPS).encode())
    (tmp_path / "cut.log.gz").write_bytes(whole[:8000])
    (tmp_path / "bad.log.gz").write_bytes(b"no gzip at all")
    snapshot = _looked(tmp_path)
    said = "\n".join(_said(snapshot))
    assert "cut.log.gz is cut off: it was read up to there" in said
    assert "bad.log.gz is not packed as its name says: nothing of it can be read" in said
    assert _types(snapshot) == ["KeyError"]


@pytest.mark.parametrize(
    "name, data",
    [
        ("run.log.1.zst", zstandard.compress(CRASH.encode())),
        ("run.log", b"\xff\xfe" + CRASH.encode("utf-16-le")),
        ("run.log", b"\xfe\xff" + CRASH.encode("utf-16-be")),
        ("run.log", b"\xef\xbb\xbf" + CRASH.encode()),
        ("run.log", gzip.compress(CRASH.encode())),
    ],
    ids=["zstd", "utf-16 of Windows", "utf-16", "byte order mark", "gzip by its content"],
)
def test_other_ways_to_write_a_log(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    snapshot = _looked(tmp_path)
    assert _types(snapshot) == ["KeyError"]
    assert not _said(snapshot)


@pytest.mark.invariant("bytesource.Z1", "bytesource.Z2")
@pytest.mark.parametrize(
    "packed", [gzip.compress(STEPS.encode()), zstandard.compress(STEPS.encode())], ids=["gzip", "zstd"]
)
def test_Z1_Z2_pieces_to_the_end_or_to_the_damage(packed: bytes, tmp_path: Path) -> None:
    def read(data: bytes) -> tuple[bytes, str]:
        (tmp_path / "x").write_bytes(data)
        with (tmp_path / "x").open("rb") as file:
            pieces = Unpacked(file)
            return b"".join(pieces), pieces.problem

    assert read(packed) == (STEPS.encode(), "")
    assert read(packed + packed) == (STEPS.encode() * 2, "")
    got, problem = read(packed[:-100])
    assert STEPS.encode().startswith(got) and problem == "is cut off"
    got, problem = read(packed + packed[:2000])
    assert got.startswith(STEPS.encode()) and problem == "is cut off"
    got, problem = read(packed + b"\x01garbage")
    assert got.startswith(STEPS.encode()[:100]) and problem == "is damaged"
    assert read(b"") == (b"", "")


LOOK_AS_NOBODY = """
import os, sys
from livedbg.commands.signals import running
from livedbg.model.request import Request
for who in ("root", "nobody"):
    if who == "nobody":  # who may not read this checkout: all has been imported by the first look
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    for folder in sys.argv[1:]:
        with running(Request(host="box", logs=(folder,), once=True)) as view:
            print(who, "settled", view.wait_settled(100))
            snapshot = view.latest().snapshot
        print(who, *(status.sentence for status in snapshot.statuses.values()), sep="|")
        print(who, *(hit.type for hit in snapshot.exceptions.values()), sep="|")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_what_another_user_may_not_read_is_named_and_the_rest_is_read() -> None:
    """In a folder of its own: pytest takes what others may do from its folders again whenever a worker starts."""
    top = Path(tempfile.mkdtemp(prefix="livedbg-test-"))
    try:
        top.chmod(0o755)
        for folder in (top / "open", top / "closed" / "in"):
            (folder / "folder").mkdir(parents=True)
            (folder / "run.log").write_text(CRASH)
            (folder / "mine.log").write_text(CRASH)
            (folder / "mine.log").chmod(0)
            (folder / "folder").chmod(0o700)
        (top / "closed").chmod(0o700)
        command = [sys.executable, "-c", LOOK_AS_NOBODY, str(top / "open"), str(top / "closed" / "in")]
        done = subprocess.run(command, cwd=top, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(top)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert [line for line in said if "settled" in line] == ["root settled True"] * 2 + ["nobody settled True"] * 2
    opened, seen, closed, nothing = [line for line in said if line.startswith("nobody|") or line == "nobody"]
    assert f"{top}/open/mine.log can't be read: permission denied" in opened
    assert f"{top}/open/folder can't be listed: permission denied" in opened
    assert seen == "nobody|KeyError"
    assert closed == f"nobody|{top}/closed/in can't be listed: permission denied"
    assert nothing == "nobody"
