"""The line index, the search and the file reader against the plain truth of splitting the whole file."""

from __future__ import annotations

import gc
import gzip
import json
import random
import re
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.logs import files, search
from livedbg.logs.files import BLOCK, FileLogReader, LineIndex
from livedbg.logs.reader import RecordedLogReader
from livedbg.logs.search import compile_pattern, search_all, search_backward, search_forward
from livedbg.logs.writers import written_by
from livedbg.model import LogRecord, LogSource, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.session.filereaders import known_log_formats
from tests.conftest import seen_when
from tests.waiting import until

_BYTES = st.lists(st.sampled_from([b"\n", b"a", b"error", b"Error", b"\r\n", b"\x00", b"\xff", b"\x1b[31m", b" "])).map(
    b"".join
)


@pytest.fixture(scope="class")
def _small_blocks() -> Iterator[None]:
    """Blocks of some bytes, so that little data crosses many of them."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(files, "BLOCK", 8)
    monkeypatch.setattr(files, "_STEP", 32)
    monkeypatch.setattr(search, "_WINDOW", 24)
    monkeypatch.setattr(search, "_OVERLAP", 8)
    yield
    monkeypatch.undo()


def _starts(data: bytes) -> list[int]:
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    starts, offset = [], 0
    for line in lines:
        starts.append(offset)
        offset += len(line) + 1
    return starts


def _index(data: bytes) -> LineIndex:
    made = LineIndex(lambda offset, count: data[offset : offset + count])
    while made.extend(len(data), 1):
        pass
    return made


@pytest.mark.usefixtures("_small_blocks")
class TestSmallBlocks:
    @given(_BYTES)
    @pytest.mark.invariant("files.X1")
    def test_X1_the_index_agrees_with_splitting(self, data: bytes) -> None:
        starts, made = _starts(data), _index(data)
        assert made.lines == len(starts)
        assert [made.offset_of(n) for n in range(len(starts))] == starts
        assert [made.line_at(start) for start in starts] == list(range(len(starts)))
        assert len(starts) == 0 or made.offset_of(len(starts)) is None

    @given(_BYTES, _BYTES)
    @pytest.mark.invariant("files.X2")
    def test_X2_growth(self, data: bytes, more: bytes) -> None:
        whole = data + more
        grown = LineIndex(lambda offset, count: whole[offset : offset + count])
        while grown.extend(len(data), 1):
            pass
        while grown.extend(len(whole), 1):
            pass
        assert grown.lines == len(_starts(whole))
        assert [grown.offset_of(n) for n in range(grown.lines)] == _starts(whole)

    @given(_BYTES, st.integers(0, 80))
    def test_skipping_to_a_line_end_passes_none(self, data: bytes, block: int) -> None:
        offset = min(block * 8, len(data))
        moved = _index(data).next_line_end(offset)
        assert moved >= offset
        assert b"\n" not in data[offset:moved]

    @given(
        _BYTES,
        st.sampled_from(["error", "Error", "a$", "^a", "err.r", "a|E", r"\S", "(?!e)r", "zz"]),
        st.integers(0, 9),
    )
    def test_search_finds_what_line_by_line_search_finds(self, data: bytes, pattern: str, start: int) -> None:
        fold = pattern == pattern.lower() and pattern != r"\S"
        rx = re.compile(pattern.encode(), re.IGNORECASE if fold or pattern == r"\S" else 0)
        starts = _starts(data)
        lines = [data[a:b].rstrip(b"\n") for a, b in zip(starts, [*starts[1:], len(data)], strict=False)]
        seen = [line.replace(b"\x1b[31m", b"").removesuffix(b"\r") for line in lines]
        if any(len(line) > 8 for line in lines):  # pieces of a longer line are searched apart
            return
        hits = [n for n, line in enumerate(seen) if rx.search(line)]
        made = _index(data)

        def read(offset: int, count: int) -> bytes:
            return data[offset : offset + count]

        if start >= len(starts):
            return
        matcher = compile_pattern(pattern)
        found = search_forward(read, matcher, offset=starts[start], number=start, size=len(data))
        assert found == next((n for n in hits if n >= start), None)
        end = starts[start + 1] if start + 1 < len(starts) else len(data)
        back = search_backward(read, matcher, end, made.line_at)
        assert back == next((n for n in reversed(hits) if n <= start), None)
        every: list[int] = []
        search_all(
            read,
            matcher,
            offset=starts[start],
            number=start,
            size=len(data),
            found=lambda more, _share: every.extend(more) is None,
        )
        assert every == [n for n in hits if n >= start]


class _Files:
    """A reader over files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reader = FileLogReader(self._source, known_log_formats())

    def _source(self, source: str) -> LogSource | None:
        path = self.folder / source.removeprefix("log:box/")
        return LogSource(id=source, name=path.name, path=str(path))

    def write(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return f"log:box/{name}"

    def count(self, source: str) -> int:
        """How many lines there are, once all are counted."""
        return seen_when(lambda seen: seen[1], lambda: self.reader.count(source))[0]

    def texts(self, source: str, start: int, count: int) -> list[str]:
        return [record.text for record in self.reader.read(source, start, count)]


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[_Files]:
    made = _Files(tmp_path)
    yield made
    made.reader.close()


def test_reading_by_number_and_from_the_end(logs: _Files) -> None:
    source = logs.write("a.log", b"".join(b"line %d\n" % n for n in range(100_000)))
    assert logs.texts(source, -2, 5) == ["line 99998", "line 99999"]  # at once, whatever is indexed
    assert logs.count(source) == 100_000
    assert logs.texts(source, 54_321, 3) == ["line 54321", "line 54322", "line 54323"]
    assert logs.texts(source, 99_999, 3) == ["line 99999"]
    assert logs.texts(source, 100_000, 3) == []
    assert logs.texts(source, -200_000, 1) == ["line 0"]
    record = logs.reader.read(source, 54_321, 1)[0]
    assert (record.line, record.source) == (54_322, source)
    assert record.offset == sum(len(b"line %d\n" % n) for n in range(54_321))


def test_the_end_of_a_big_file_is_there_before_its_index(logs: _Files) -> None:
    source = logs.write("big.log", b"x" * 99 + b"\n")
    with (logs.folder / "big.log").open("ab") as file:
        for _ in range(400):
            file.write((b"y" * 99 + b"\n") * 1000)
        file.write(b"the end")
    assert logs.texts(source, -1, 1) == ["the end"]
    assert logs.count(source) == 400_002
    assert logs.reader.read(source, -1, 1)[0].line == 400_002


@pytest.mark.invariant("files.B3")
def test_hostile_content_loses_nothing_around_it(logs: _Files) -> None:
    garbage = random.Random(1).randbytes(3_000_000).replace(b"\n", b"")
    parts = [b"first", b"x" * 10_000_000, b"a\x00b\x00\x00", garbage, b"\xff\xfe invalid", b"crlf\r", b"", b"last"]
    source = logs.write("h.log", b"\n".join(parts))
    assert logs.count(source) == len(parts)
    got = logs.texts(source, 0, 20)
    assert len(got) == len(parts)
    assert got[0] == "first"
    assert got[1].startswith("xxx") and "9,934,464 more bytes" in got[1]
    assert got[2] == "a␀b␀␀"
    assert got[4:] == ["\ufffd\ufffd invalid", "crlf", "", "last"]
    assert logs.texts(source, -3, 1) == ["crlf"]
    assert logs.reader.search(source, "last") == len(parts) - 1
    assert logs.reader.search(source, "first", -1, backwards=True) == 0


def test_a_line_far_behind_a_giant_line(logs: _Files) -> None:
    source = logs.write("g.log", b"a\n" + b"x" * 30_000_000 + b"\nb\nc\n")
    assert logs.count(source) == 4
    assert [text[:3] for text in logs.texts(source, 1, 2)] == ["xxx", "b"]
    assert logs.texts(source, -2, 2) == ["b", "c"]


@pytest.mark.invariant("search.Q1")
@pytest.mark.parametrize(
    "pattern",
    ['said "no', "<b> &", "stream", "stderr", "^step 1", r"r\w+ing \d$", "ärger", "Red", "loud words", "\\\\n"],
)
def test_Q1_in_wrapped_logs_that_is_found_which_is_shown(logs: _Files, pattern: str) -> None:
    said = [
        "step 1",
        'he said "no" <b> & went',
        "reading 7",
        "Ärger, ärger",
        "\x1b[31mRed\x1b[0m",
        "lo\x1b[1mud words",
        "\\n",
    ] * 50
    lines = [json.dumps({"log": f"{text}\n", "stream": "stderr", "time": "2026-03-04T10:00:00Z"}) for text in said]
    source = logs.write("run-json.log", "\n".join([*lines, ""]).encode())
    assert logs.count(source) == len(lines)
    found: list[int] = []
    logs.reader.matches(source, pattern, lambda more, _share: found.extend(more) is None)
    shown = logs.texts(source, 0, len(lines))
    flags = 0 if pattern != pattern.lower() else re.IGNORECASE
    assert found == [number for number, text in enumerate(shown) if re.search(pattern, text, flags)]
    assert logs.reader.search(source, pattern) == (found[0] if found else None)
    assert logs.reader.search(source, pattern, -1, backwards=True) == (found[-1] if found else None)


@pytest.mark.invariant("search.Q1")
@pytest.mark.parametrize(
    "pattern", ["rank 3", "rank", "pid 302", "10.0.0.7", "3, 10", "Rank 3", "^rank 1", "step 2", "worker", "=>"]
)
def test_Q1_who_wrote_a_line_is_found_too(logs: _Files, pattern: str) -> None:
    lines = [
        f"(worker{rank}, rank={rank}, pid=30{rank}, ip=10.0.0.{rank + 5}) step {n} => worker"
        for n in range(40)
        for rank in (1, 2, 3)
    ]
    source = logs.write("sky.log", "\n".join([*lines, ""]).encode())
    assert logs.count(source) == len(lines)
    records = logs.reader.read(source, 0, len(lines))
    flags = 0 if pattern != pattern.lower() else re.IGNORECASE
    expected = [
        number
        for number, one in enumerate(records)
        if any(re.search(pattern, said, flags) for said in (one.text, written_by(one.writer, one.host, one.pid)))
    ]
    found: list[int] = []
    logs.reader.matches(source, pattern, lambda more, _share: found.extend(more) is None)
    assert found == expected
    assert written_by("rank 3", "10.0.0.8", 303) == "rank 3, 10.0.0.8, pid 303"
    assert written_by("train[42]", "node07", 42) == "train[42], node07"


@pytest.mark.invariant("files.B2")
def test_growth_truncation_and_replacement_are_seen(logs: _Files) -> None:
    source = logs.write("a.log", b"one\n")
    assert logs.count(source) == 1
    with (logs.folder / "a.log").open("ab") as file:
        file.write(b"two\nthree\n")
    until(lambda: logs.count(source) == 3)
    assert logs.texts(source, -1, 1) == ["three"]
    logs.write("a.log", b"new\n")
    until(lambda: logs.count(source) == 1)
    assert logs.texts(source, 0, 9) == ["new"]
    (logs.folder / "b").write_bytes(b"other\nfile\nhere\n")
    (logs.folder / "b").rename(logs.folder / "a.log")
    until(lambda: logs.texts(source, 0, 9) == ["other", "file", "here"])


def test_gzip_is_read_like_a_file(logs: _Files) -> None:
    source = logs.write("a.log.1.gz", gzip.compress(b"".join(b"line %d\n" % n for n in range(500_000))))
    assert logs.count(source) == 500_000
    assert logs.texts(source, 400_000, 1) == ["line 400000"]
    assert logs.reader.search(source, "line 399999") == 399_999
    cut = logs.write("cut.gz", gzip.compress(random.Random(1).randbytes(100_000))[:50_000])
    assert logs.count(cut) > 0


@pytest.mark.invariant("files.B3")
def test_what_can_not_be_read_has_no_lines(logs: _Files) -> None:
    (logs.folder / "folder").mkdir()
    for source in ("log:box/missing", "log:box/folder"):
        assert logs.reader.count(source) == (0, True)
        assert logs.reader.read(source, 0, 5) == ()
        assert logs.reader.search(source, "x") is None
    assert logs.count(logs.write("empty", b"")) == 0
    assert logs.texts("log:box/empty", -5, 5) == []


def test_search_rules(logs: _Files) -> None:
    source = logs.write("a.log", b"Alpha\n\x1b[31mERR\x1b[0mOR one\nbeta \xc3\xbcber\nalpha\r\nError two\n")
    find = logs.reader.search
    assert find(source, "alpha") == 0
    assert find(source, "alpha", 1) == 3
    assert find(source, "Alpha", 1) is None
    assert find(source, "error one") == 1  # colours are not in the way
    assert find(source, "alpha$", 1) == 3
    assert find(source, "\u00fcber") == 2
    assert find(source, "[\u00fc\u00e4]ber") == 2
    assert find(source, "error", -1, backwards=True) == 4
    assert find(source, "error", 3, backwards=True) == 1
    assert find(source, "one.beta") is None
    with pytest.raises(ValueError, match="not a regular expression"):
        find(source, "a(")


def test_search_tells_progress_and_can_be_given_up(logs: _Files) -> None:
    source = logs.write("a.log", (b"x" * 99 + b"\n") * 400_000)
    logs.count(source)
    shares: list[float] = []

    def give_up(share: float) -> bool:
        shares.append(share)
        return share < 0.5

    assert logs.reader.search(source, "needle", progress=give_up) is None
    assert shares == sorted(shares)
    assert 0.5 <= shares[-1] < 1
    assert logs.reader.search(source, "needle", -1, backwards=True, progress=lambda share: share < 0.5) is None


def _collect(job: Callable[[Callable[[list[int], float], bool]], None]) -> list[int]:
    lines: list[int] = []
    job(lambda more, _share: lines.extend(more) is None)
    return lines


def test_all_matches_of_a_log_and_of_what_came_since(logs: _Files) -> None:
    source = logs.write("a.log", b"".join(b"step %d%s\n" % (n, b" slow" * (n % 1000 == 7)) for n in range(100_000)))
    hits = [n for n in range(100_000) if n % 1000 == 7]
    assert _collect(lambda found: logs.reader.matches(source, "slow", found)) == hits
    assert _collect(lambda found: logs.reader.matches(source, "SLOW|never", found)) == []
    assert _collect(lambda found: logs.reader.matches(source, "sl.w$", found, 50_000)) == hits[50:]
    long = logs.write("long.log", b"needle " * 300_000 + b"\nneedle\n")
    assert _collect(lambda found: logs.reader.matches(long, "needle", found)) == [0, 1]
    some: list[int] = []

    def enough(more: list[int], _share: float) -> bool:
        some.extend(more)
        return not some

    logs.reader.matches(source, "slow", enough)
    assert 0 < len(some) < len(hits)
    with pytest.raises(ValueError, match="not a regular expression"):
        logs.reader.matches(source, "a(", enough)


_TWO_RANKS = b"""[rank0]: 2026-01-02 03:04:05,100 INFO step 1
[rank0]: Traceback (most recent call last):
[rank1]: 2026-01-02 03:04:05,101 INFO step 1
[rank0]:   File "t.py", line 3, in <module>
[rank1]: Traceback (most recent call last):
[rank0]:     f()

[rank1]:   File "t.py", line 4, in <module>
[rank0]: KeyError: 'x'
[rank1]:     g()
[rank0]: 2026-01-02 03:04:06,100 INFO step 2
[rank1]: ValueError: y
[rank1]: 2026-01-02 03:04:06,101 INFO step 2
"""


@pytest.mark.invariant("files.W1")
def test_W1_severe_lines_are_those_of_whole_tracebacks_rank_by_rank(logs: _Files) -> None:
    source = logs.write("a.log", _TWO_RANKS)
    lines = _collect(lambda found: logs.reader.severe(source, Severity.ERROR, found))
    assert sorted(lines) == [1, 3, 4, 5, 7, 8, 9, 11]
    assert sorted(_collect(lambda found: logs.reader.severe(source, Severity.DEBUG, found))) == [
        n for n in range(13) if n != 6
    ]
    missing = _collect(lambda found: logs.reader.severe("log:box/missing", Severity.ERROR, found))
    assert missing == []


def test_severe_lines_across_pieces(logs: _Files) -> None:
    trace = b"Traceback (most recent call last):\n" + b'  File "t.py", line 3, in f\n    f()\n' * 30 + b"KeyError: 1\n"
    source = logs.write("a.log", b"ok\n" * 1980 + trace + b"ok\n" * 3000 + trace + b"done\n")
    lines = _collect(lambda found: logs.reader.severe(source, Severity.ERROR, found))
    assert lines == [*range(1980, 2042), *range(5042, 5104)]


def test_severity_and_time_of_single_lines(logs: _Files) -> None:
    source = logs.write(
        "a.log",
        b"[mono_ns=1000][T0x7f][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 mono_ns=1000 wall_ns=1700000000000000000\n"
        b"[mono_ns=2000][T0x7f][ERROR] f: [a.cpp:1] bad\n",
    )
    record = logs.reader.read(source, 1, 1)[0]
    assert (record.severity, record.mono_ns, record.wall_ns) == ("error", 2000, 1700000000000001000)


def test_a_recording_is_read_by_record() -> None:
    records = tuple(
        LogRecord(source=source, text=text, line=line)
        for source, text, line in [("a", "one\ntwo", 7), ("b", "other", 1), ("a", "Three", 9)]
    )
    reader = RecordedLogReader(lambda: Snapshot(recent_logs=records))
    assert reader.count("a") == (3, True)
    assert [(r.text, r.line) for r in reader.read("a", 1, 5)] == [("two", 8), ("Three", 9)]
    assert [r.text for r in reader.read("a", -1, 5)] == ["Three"]
    assert reader.search("a", "three") == 2
    assert reader.search("a", "one", 2, backwards=True) == 0
    assert reader.search("b", "one") is None
    assert _collect(lambda found: reader.matches("a", "e", found)) == [0, 2]
    assert _collect(lambda found: reader.severe("a", Severity.ERROR, found)) == []


@pytest.mark.invariant("files.B1")
def test_B1_memory_grows_with_the_index_alone(logs: _Files) -> None:
    line = b"x" * 99 + b"\n"
    source = logs.write("big.log", line * 400_000)
    logs.texts(logs.write("small.log", line), 0, 1)  # starts what is started once
    gc.collect()
    tracemalloc.start()
    try:
        assert logs.count(source) == 400_000
        assert len(logs.texts(source, 200_000, 5)) == 5
        assert logs.reader.search(source, "nowhere") is None
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    files = 8 * len(line) * 400_000 // BLOCK
    assert kept < files + 200_000
    for number in range(80):
        logs.texts(logs.write(f"{number}.log", line), 0, 1)
    descriptors = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    assert sum(name.startswith(str(logs.folder)) for name in descriptors) <= 32
