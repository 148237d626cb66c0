"""Following files through rotation and truncation; skimming compared with reading everything."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.logs import skim
from livedbg.logs.clock import SourceClock
from livedbg.logs.decoder import FOLLOWED
from livedbg.logs.error_lines import ALARMS, EXACT, EXPLICIT
from livedbg.logs.lines import LineCutter
from livedbg.logs.paths import scan
from livedbg.logs.records import RecordAssembler
from livedbg.logs.skim import Skimmer
from livedbg.logs.tail import PackedFile, Tail
from livedbg.model import LogRecord
from livedbg.model.errors import SourceError
from livedbg.session.filereaders import known_log_formats, no_log_suffixes


def drain(tail: Tail | PackedFile, limit: int = 7) -> list[bytes]:
    """Everything that is there now; `b"|"` stands for a new beginning."""
    got: list[bytes] = []
    while tail.poll():
        piece = tail.read(limit)
        if piece is None:
            break
        got.append(b"|" if piece.restart else piece.data)
    return b"".join(got).split(b"|")


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.invariant("tail.T1", "tail.T3")
def test_T1_growth_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    tail = Tail(path)
    assert not tail.poll() and tail.missing  # not there yet
    append(path, b"one\ntwo")
    assert drain(tail) == [b"one\ntwo"]
    assert drain(tail) == [b""]
    append(path, b"\nthree\n")
    assert drain(tail) == [b"\nthree\n"]


@pytest.mark.invariant("tail.T2")
def test_T2_rotation_by_rename(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, b"old 1\n")
    tail = Tail(path)
    assert drain(tail) == [b"old 1\n"]
    append(path, b"old 2\n")
    path.rename(tmp_path / "a.log.1")
    append(tmp_path / "a.log.1", b"old 3\n")
    assert drain(tail) == [b"old 2\nold 3\n"]  # the new one is not there yet
    append(path, b"new 1\n")
    assert drain(tail) == [b"", b"new 1\n"]


@pytest.mark.invariant("tail.T2")
def test_T2_rotation_is_seen_after_the_file_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, b"old\n")
    tail = Tail(path)
    assert drain(tail) == [b"old\n"]
    tail.release()
    append(path, b"more\n")
    assert drain(tail) == [b"more\n"]
    tail.release()
    path.rename(tmp_path / "x")
    append(path, b"new\n")
    assert drain(tail) == [b"", b"new\n"]


@pytest.mark.parametrize("gap", [False, True], ids=["at once", "after a while without one"])
@pytest.mark.invariant("tail.T2")
def test_T2_what_was_written_before_a_rotation_to_a_file_that_was_closed(tmp_path: Path, gap: bool) -> None:
    path = tmp_path / "a.log"
    append(path, b"old 1\n")
    tail = Tail(path)
    assert drain(tail) == [b"old 1\n"]
    tail.release()  # it was quiet
    append(path, b"old 2\n")
    path.rename(tmp_path / "a.log.1")
    seen = drain(tail) if gap else [b""]
    append(path, b"new\n")
    old, new = drain(tail)
    assert (seen[0] + old, new) == (b"old 2\n", b"new\n")


@pytest.mark.invariant("tail.T2")
def test_T2_another_file_with_the_number_of_one_that_was_deleted_is_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, b"old\n")
    tail = Tail(path)
    assert drain(tail) == [b"old\n"]
    tail.release()
    path.rename(tmp_path / "b.log")
    (tmp_path / "b.log").write_bytes(b"quite another log\n")  # the inode stays
    append(path, b"new\n")
    assert drain(tail) == [b"", b"new\n"]


@pytest.mark.parametrize("regrown", [b"new\n", b"new line, longer than what was there before\n", b""])
def test_truncation_also_when_it_has_grown_again(tmp_path: Path, regrown: bytes) -> None:
    path = tmp_path / "a.log"
    append(path, b"old line\n")
    tail = Tail(path)
    assert drain(tail) == [b"old line\n"]
    path.write_bytes(regrown)
    os.utime(path, ns=(10**18, 10**18))
    assert drain(tail) == [b"", regrown]


@pytest.mark.invariant("tail.T3")
def test_a_deleted_file_is_read_to_its_end_and_let_go(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, b"one\n")
    tail = Tail(path)
    assert drain(tail) == [b"one\n"]
    append(path, b"two\n")
    status = path.stat()
    path.unlink()
    assert drain(tail) == [b"two\n"]
    assert drain(tail) == [b""]
    assert not any(os.path.samestat(status, held) for held in _open_files())
    append(path, b"again\n")
    assert b"again\n" in drain(tail)[-1]


def _open_files() -> Iterator[os.stat_result]:
    """The files that this process has open."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own
            yield entry.stat()


def test_a_link_that_is_moved_on(tmp_path: Path) -> None:
    append(tmp_path / "log.1", b"first\n")
    append(tmp_path / "log.2", b"second\n")
    link = tmp_path / "current"
    link.symlink_to("log.1")
    tail = Tail(link)
    assert drain(tail) == [b"first\n"]
    link.unlink()
    link.symlink_to("log.2")
    assert drain(tail) == [b"", b"second\n"]


def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="not a regular file"):
        Tail(tmp_path / "pipe").poll()


def test_packed_files_of_several_members_and_damaged_ones(tmp_path: Path) -> None:
    whole = gzip.compress(b"one\n") + gzip.compress(b"two\n")
    (tmp_path / "a.gz").write_bytes(whole)
    assert drain(PackedFile(tmp_path / "a.gz")) == [b"one\ntwo\n"]
    text = random.Random(1).randbytes(300_000).replace(b"|", b"")
    (tmp_path / "b.gz").write_bytes(gzip.compress(text)[:100_000])
    (got,) = drain(PackedFile(tmp_path / "b.gz"), 4096)
    assert len(got) > 50_000 and text.startswith(got)


class TestPaths:
    def test_directories_globs_and_files(self, tmp_path: Path) -> None:
        names = ["a.log", "b.txt", "deep/er/c.out", "stdout", "a.log.1", "a.log.2.gz", "x.INFO.20261121-031122.77"]
        others = ["deps.json", "k.bin", "m.pt", "n.npy", "k.cpp", "README.md", "README.txt", ".hidden.log", "t.json.gz"]
        for name in names + others:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"text\n")
        (tmp_path / "core.4711").write_bytes(b"\x7fELF" + bytes(100))
        found = scan(str(tmp_path), no_logs=no_log_suffixes())
        assert sorted(file.name for file in found.files) == sorted(names)
        assert [path.name for path in found.skipped] == ["core.4711"]
        assert [file.name for file in scan(f"{tmp_path}/**/*.out").files] == ["c.out"]
        assert [file.name for file in scan(f"{tmp_path}/k.cpp").files] == ["k.cpp"]  # named: always read
        assert scan(f"{tmp_path}/none.log").missing == [f"{tmp_path}/none.log"]
        assert scan(f"{tmp_path}/*.none").missing == [f"{tmp_path}/*.none"]

    def test_links_that_go_in_circles(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "x.log").write_bytes(b"x\n")
        (tmp_path / "a" / "up").symlink_to(tmp_path)
        (tmp_path / "gone.log").symlink_to("nowhere")
        assert [file.name for file in scan(str(tmp_path)).files] == ["a/x.log"]

    def test_a_bracket_in_a_real_name(self, tmp_path: Path) -> None:
        (tmp_path / "run[1].log").write_bytes(b"x\n")
        assert [file.name for file in scan(f"{tmp_path}/run[1].log").files] == ["run[1].log"]


TRIGGERS = (b"Dispatched", b"Traceback")
_LINES = st.lists(
    st.sampled_from(
        [
            "[DEBUG] f: [a.cpp:1] Thread 0: Dispatched idle",
            "[INFO] f: [a.cpp:1] nothing",
            "[INFO] AICPU(1,x):2026-06-09-11:42:20.000.000 [device_log.cpp:89]2 run",
            '"[a.cpp:1] Dispatched"',
            "2026-11-21 03:11:22,333 ERROR x",
            "2026-11-21 03:11:22,333 INFO x",
            "Traceback (most recent call last):",
            '  File "a.py", line 1, in f',
            "ValueError: x",
            "plain text",
            "",
            "x" * 300,
        ]
    ),
    max_size=60,
)


def _relevant(records: list[LogRecord]) -> list[LogRecord]:
    return [r for r in records if any(t.decode() in r.text for t in TRIGGERS)]


_BEATS = (b"[INFO]", b"plain")


@given(_LINES, st.integers(1, 500), st.booleans(), st.sampled_from([(), _BEATS]), st.sampled_from([-1, 100]))
@pytest.mark.invariant("skim.K1")
def test_K1_skimming_gives_what_reading_everything_gives(
    lines: list[str], size: int, ended: bool, beats: tuple[bytes, ...], dense: int
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ended else b"")
    assembler, cutter = RecordAssembler("s", SourceClock(10**18), known_log_formats()), LineCutter()
    expected = [*assembler.feed(cutter.feed(data)), *assembler.flush()]
    skimmer = Skimmer(RecordAssembler("s", SourceClock(10**18), known_log_formats()), TRIGGERS, 0, 1, beats)
    got: list[LogRecord] = []
    with patch.object(skim, "_DENSE", dense):
        for begin in range(0, len(data), size):
            got += skimmer.feed(data[begin : begin + size])
    got += skimmer.flush()
    assert _relevant(got) == _relevant(expected)
    assert (skimmer.offset, skimmer.number) == (cutter.offset, cutter.number)


def _last_beats(records: list[LogRecord]) -> list[tuple[str, int | None, int | None]]:
    """The first lines of the last records with a beat before each with a trigger, and of the last of all."""
    kept: list[tuple[str, int | None, int | None]] = []
    beat = None
    for record in records:
        if _relevant([record]):
            kept += [] if beat is None else [beat]
            beat = None
        elif any(word.decode() in record.text.partition("\n")[0] for word in _BEATS):
            beat = (record.text.partition("\n")[0], record.line, record.offset)
    return kept if beat is None else [*kept, beat]


@given(_LINES, st.integers(1, 500))
@pytest.mark.invariant("skim.K2")
def test_K2_the_last_beat_of_those_in_a_row_comes_out(lines: list[str], size: int) -> None:
    lines = [line for line in lines if not line.startswith((" ", "Traceback", '"', "[INFO] AICPU"))]  # one line each
    data = "\n".join([*lines, ""]).encode()
    assembler, cutter = RecordAssembler("s", SourceClock(10**18), known_log_formats()), LineCutter()
    expected = [*assembler.feed(cutter.feed(data)), *assembler.flush()]
    skimmer = Skimmer(RecordAssembler("s", SourceClock(10**18), known_log_formats()), TRIGGERS, 0, 1, _BEATS)
    got: list[LogRecord] = []
    for begin in range(0, len(data), size):
        got += skimmer.feed(data[begin : begin + size])
    got += skimmer.flush()
    assert _last_beats(got) == _last_beats(expected)
    assert _relevant(got) == _relevant(expected)
    assert len({record.offset for record in got}) == len(got)


_ERRORS = st.lists(
    st.one_of(
        st.sampled_from(["INFO x", "", "E0102 03:04:05.000006 77 a.cc:1] glue", "F1102 03:04:05.000006 77 a.cc:1] x"]),
        st.sampled_from(
            [
                "no EMERGENCY",
                "2026-11-21 03:11:22,333 ERROR x",
                "mean error: 0.1",
                "ValueError: x",
                "E01 ",
                "KeyError: 0",
            ]
        ),
        st.from_regex(re.compile(EXPLICIT.pattern, EXPLICIT.flags)).map(
            lambda text: "".join(text.split("\r")).replace("\n", " ")
        ),
        st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=20),
    ),
    max_size=40,
)


def _explicit(records: list[LogRecord]) -> list[LogRecord]:
    return [record for record in records if EXPLICIT.search(record.text.partition("\n")[0])]


@given(_ERRORS, st.integers(1, 200))
@pytest.mark.invariant("skim.K3", "error_lines.L1")
def test_K3_L1_skimming_finds_every_error_line(lines: list[str], size: int) -> None:
    data = "\n".join([*lines, ""]).encode()
    assembler, cutter = RecordAssembler("s", SourceClock(10**18), known_log_formats()), LineCutter()
    expected = [*assembler.feed(cutter.feed(data)), *assembler.flush()]
    again = RecordAssembler("s", SourceClock(10**18), known_log_formats())
    skimmer = Skimmer(again, TRIGGERS, 0, 1, alarms=ALARMS, exact=EXACT)
    got: list[LogRecord] = []
    for begin in range(0, len(data), size):
        got += skimmer.feed(data[begin : begin + size])
    assert _explicit([*got, *skimmer.flush()]) == _explicit(expected)
    assert not skimmer.unread


@given(st.from_regex(re.compile(EXPLICIT.pattern, EXPLICIT.flags)))
@pytest.mark.invariant("error_lines.L1")
def test_L1_whatever_calls_itself_an_error_has_an_alarm(text: str) -> None:
    data = f"\n{text}".encode()
    assert any(
        alarm not in EXACT or EXACT[alarm].match(data, found.start())
        for alarm in ALARMS
        for found in re.finditer(re.escape(alarm), data)
    )


@pytest.mark.parametrize(
    "line",
    [
        "val error: 0.03, acc 0.9",
        "mean error : -1e-3",
        "Error: None",
        "error: null",
        " fatal: no, error: ok",
        "error:  7",
    ],
)
def test_a_metric_of_that_name_is_not_read(line: str) -> None:
    skimmer = Skimmer(RecordAssembler("s", SourceClock()), (), 0, 1, alarms=ALARMS, exact=EXACT)
    assert not [*skimmer.feed(f"{line}\n".encode() * 9), *skimmer.flush()]


@pytest.mark.parametrize(
    "line", ["KeyError: 0", "\x1b[31merror: \x1b[0mx", "error: nothing", "error: no\u00e9", "Error: -x"]
)
def test_what_only_looks_like_a_metric_is_read(line: str) -> None:
    skimmer = Skimmer(RecordAssembler("s", SourceClock()), (), 0, 1, alarms=ALARMS, exact=EXACT)
    (record,) = [*skimmer.feed(f"{line}\n".encode()), *skimmer.flush()]
    assert EXPLICIT.search(record.text) is not None


@pytest.mark.invariant("skim.K4")
def test_K4_a_word_that_is_not_confirmed_hides_none() -> None:
    exact = {b"abc": re.compile(rb"abcx")}
    skimmer = Skimmer(RecordAssembler("s", SourceClock()), (b"abc", b"bcd"), 0, 1, exact=exact)
    data = b"zabcz\n" + b"quiet\n" * 9 + b"zabcd\n" + b"quiet\n" * 9 + b"abcx\nabc"
    assert [record.text for record in [*skimmer.feed(data), *skimmer.flush()] if "bc" in record.text] == [
        "zabcd",
        "abcx",
    ]


@given(st.integers(1, 90))
@pytest.mark.invariant("skim.K5")
def test_K5_what_follows_an_opening_comes_out(size: int) -> None:
    data = b"a\n" * 50 + b"open: x\n" + b"".join(b"%d | row\n" % row for row in range(FOLLOWED + 50))
    skimmer = Skimmer(RecordAssembler("s", SourceClock()), (b"open:",), 0, 1, opens=(b"open:",))
    got: list[LogRecord] = []
    for begin in range(0, len(data), size):
        got += skimmer.feed(data[begin : begin + size])
    rows = [record.text for record in [*got, *skimmer.flush()] if "row" in record.text]
    assert rows[:FOLLOWED] == [f"{row} | row" for row in range(FOLLOWED)]
    assert len(rows) <= FOLLOWED + 2


@pytest.mark.invariant("skim.K3")
def test_K3_after_too_many_alarms_only_triggers_are_found_and_the_rest_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(skim, "ALARMS_READ", 5)
    blocks = [b"2026-11-21 03:11:22,333 ERROR x\n" * 4, b"E0102 03:04:05.000006 77 a.cc:1] glue\n" * 3]
    rest = [b"2026-11-21 03:11:22,333 ERROR x\nTraceback (most recent call last):\n", b"ERROR\n" * 10]
    skimmer = Skimmer(RecordAssembler("s", SourceClock(10**18), known_log_formats()), TRIGGERS, 0, 1, alarms=ALARMS)
    got = [record for block in blocks for record in skimmer.feed(block)]
    assert skimmer.unread == 0
    got += [record for block in rest for record in skimmer.feed(block)]
    assert skimmer.unread == sum(map(len, rest))
    texts = [record.text for record in [*got, *skimmer.flush()]]
    assert (sum("ERROR x" in text for text in texts), sum("glue" in text for text in texts)) == (5, 3)  # one is before
    assert sum("Traceback" in text for text in texts) == 1


def test_skimming_keeps_a_long_traceback_and_lines_of_any_length() -> None:
    traceback = "\n".join(["Traceback (most recent call last):", *['  File "a", line 1, in f'] * 500, "ValueError: x"])
    noise = "[INFO] f: noise\n" * 5000
    data = f"{noise}{'y' * 9_000_000}\n{traceback}\n{noise}".encode()
    skimmer = Skimmer(RecordAssembler("s", SourceClock(10**18), known_log_formats()), TRIGGERS, 0, 1)
    got: list[LogRecord] = []
    for begin in range(0, len(data), 65_536):
        got += skimmer.feed(data[begin : begin + 65_536])
    (record,) = _relevant([*got, *skimmer.flush()])
    assert record.text == traceback
    assert record.line == 5002
    assert skimmer.number == data.count(b"\n") + 1
    assert len(got) < 50
