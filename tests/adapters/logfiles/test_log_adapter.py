"""The log adapter in a real session, on real files and processes."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from livedbg.adapters.logfiles import LogAdapter, feed
from livedbg.adapters.logfiles import adapter as adapter_module
from livedbg.adapters.logfiles.catalogue import Catalogue
from livedbg.logs import skim
from livedbg.logs.decoder import LogDecoder
from livedbg.model import LogRecord, LogSource, SourceHealth
from livedbg.model.events import CounterSeen, Event, Stamp
from livedbg.model.snapshot import EMPTY, Snapshot
from livedbg.session.adapter import Adapter, Context, Request, TargetProcess
from livedbg.session.session import Session
from tests.cli.conftest import livedbg
from tests.waiting import awaited


class _Words(LogDecoder):
    """Counts records that hold a word, and links them."""

    name = "words"
    triggers: ClassVar[tuple[bytes, ...]] = (b"needle",)

    def __init__(self) -> None:
        self.fed: list[LogRecord] = []
        self.sources: list[LogSource] = []
        self.flushes = 0

    def opened(self, source: LogSource) -> None:
        self.sources.append(source)

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        self.fed.append(record)
        if "explode" in record.text:
            raise ValueError("bad record")
        return [CounterSeen(entity="task:words/n", name="seen", value=len(self.fed), **stamp)], ("task:words/n",)

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        self.flushes += 1
        return ()


class _Beside(Adapter):
    """Contributes the decoder above."""

    name = "beside"
    sees = cost = ""

    def __init__(self) -> None:
        self.words = _Words()

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        return (self.words,)

    async def run(self, context: Context) -> None:
        context.settled()


class _Watched:
    """A session over a request, and its newest state."""

    def __init__(self, request: Request) -> None:
        self.state: Snapshot = EMPTY
        self.beside = _Beside()
        self.session = Session(request, [LogAdapter(), self.beside], self._take)

    def _take(self, update: Any) -> None:
        self.state = update.snapshot

    @property
    def texts(self) -> list[str]:
        return [record.text for record in self.state.recent_logs]

    async def until(self, holds: Callable[[], bool]) -> None:
        await awaited(holds, told=lambda: f"{self.texts[-20:]} {list(self.state.statuses.values())}")


@asynccontextmanager
async def watching(
    *logs: Path | str, processes: Sequence[TargetProcess] = (), once: bool = False
) -> AsyncIterator[_Watched]:
    watched = _Watched(Request(host="box", logs=tuple(map(str, logs)), processes=tuple(processes), once=once))
    running = asyncio.create_task(watched.session.run())
    try:
        await asyncio.sleep(0)
        await asyncio.wait_for(watched.session.settled.wait(), 100)
        yield watched
    finally:
        watched.session.stop()
        await asyncio.wait_for(running, 100)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def test_one_look_reads_everything(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    append(tmp_path / "a" / "err.txt", "[INFO] f: needle one\n[ERROR] g: two\nTraceback (most recent call last):\n")
    append(tmp_path / "a" / "err.txt", '  File "a.py", line 1, in f\nValueError: x')
    append(tmp_path / "b.log", "needle without an end")
    (tmp_path / "deps.json").write_text('{"needle": 1}\n')
    (tmp_path / "blob").write_bytes(bytes(5000))
    (tmp_path / "report.txt").write_text("CRASHED\n  Crashed in f (a.py:1): needle.\n\nEvidence\n  F1 crash\n")
    (tmp_path / "old.log.1.gz").write_bytes(gzip.compress(b"packed needle\n"))
    async with watching(tmp_path, once=True) as watched:
        state = watched.state
    assert sorted(watched.texts) == sorted(
        [
            "[INFO] f: needle one",
            "[ERROR] g: two",
            'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x',
            "needle without an end",
            "packed needle",
        ]
    )
    assert [hit.type for hit in state.exceptions.values()] == ["ValueError"]
    links = {record.text: record.links for record in state.recent_logs}
    assert links["packed needle"] == ("task:words/n",)
    assert links["[ERROR] g: two"] == ()
    sources = {source.name: source for source in state.log_sources.values()}
    assert sorted(sources) == ["a/err.txt", "b.log", "old.log.1.gz"]
    err = sources["a/err.txt"]
    assert (err.id, err.format, err.lines) == (f"log:box{tmp_path}/a/err.txt", "simpler-device", 5)
    assert sources["b.log"].lines == 1
    assert [s.code for s in state.statuses.values()] == ["binary-skipped"]
    assert watched.beside.words.flushes == 1
    assert {source.name for source in watched.beside.words.sources} == set(sources)


async def test_a_live_log_is_followed_through_rotation_and_truncation(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    append(log, "[INFO] f: one\n")
    async with watching(tmp_path) as watched:
        await watched.until(lambda: "[INFO] f: one" in watched.texts)
        append(log, "[INFO] f: two\n  more of two\n")
        await watched.until(lambda: "[INFO] f: two\n  more of two" in watched.texts)
        append(log, "[INFO] f: three\n")
        log.rename(tmp_path / "run.log.1")
        append(log, "[INFO] f: four\n")
        await watched.until(lambda: "[INFO] f: four" in watched.texts)
        (tmp_path / "run.log.2.gz").write_bytes(gzip.compress((tmp_path / "run.log.1").read_bytes()))
        shutil.copy(log, tmp_path / "run.log.copy")
        (tmp_path / "late.txt").write_text("[INFO] f: late\n")
        await watched.until(lambda: "[INFO] f: late" in watched.texts)
        log.write_text("[INFO] g: five after truncation\n")
        await watched.until(lambda: "[INFO] g: five after truncation" in watched.texts)
        append(log, "no end yet")
        await watched.until(lambda: "no end yet" in watched.texts)
    wanted = ["one", "two", "three", "late", "five"]
    assert [sum(f": {word}" in text for text in watched.texts) for word in wanted] == [1] * len(wanted)


async def test_a_log_that_comes_later(tmp_path: Path) -> None:
    log = tmp_path / "later" / "x.log"
    async with watching(log, f"{tmp_path}/*.out") as watched:
        codes = {(s.target, s.health) for s in watched.state.statuses.values()}
        assert codes == {(str(log), SourceHealth.DEGRADED), (f"{tmp_path}/*.out", SourceHealth.DEGRADED)}
        log.parent.mkdir()
        append(log, "here\n")
        (tmp_path / "slurm-1.out").write_text("there\n")
        await watched.until(lambda: {"here", "there"} <= set(watched.texts))
        await watched.until(lambda: all(s.health is SourceHealth.OK for s in watched.state.statuses.values()))


async def test_one_look_at_a_log_that_is_empty_shows_it_and_makes_no_decoders(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.touch()
    async with watching(log, once=True) as watched:
        await watched.until(lambda: [source.size for source in watched.state.log_sources.values()] == [0])
        assert "decoders" not in vars(watched.session)
    async with watching(log) as watched:
        append(log, "needle\n")
        await watched.until(lambda: watched.texts == ["needle"])


async def test_a_packed_log_that_is_still_empty_when_it_is_found(tmp_path: Path) -> None:
    packed, named = tmp_path / "run.log.1.gz", tmp_path / "named.gz"
    packed.touch()
    named.touch()
    append(tmp_path / "run.log", "here\n")
    async with watching(tmp_path / "*.log*", named) as watched:
        await watched.until(lambda: "here" in watched.texts)
        packed.write_bytes(gzip.compress(b"packed later\n"))
        named.write_bytes(gzip.compress(b"named, and packed later\n"))
        await watched.until(lambda: {"packed later", "named, and packed later"} <= set(watched.texts))


async def test_a_missing_log_fails_a_one_look_session_softly(tmp_path: Path) -> None:
    async with watching(tmp_path / "none.log", once=True) as watched:
        pass
    (status,) = watched.state.statuses.values()
    assert (status.code, status.health) == ("no-such-log", SourceHealth.FAILED)
    assert status.remedy


async def test_hostile_text_is_clean_when_it_enters(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"before\n\x1b]52;c;ZXZpbA==\x07x\x9b\xc2\x9b31m\x00\xe2\x80\xaey\r\nafter\n")
    (tmp_path / "\x1b]0;evil\x07.log").write_bytes(b"x\n")
    async with watching(tmp_path, once=True) as watched:
        pass
    everything = [*watched.texts, *(s.name + s.id for s in watched.state.log_sources.values())]
    assert all(char.isprintable() for text in everything for char in text)
    assert "before" in everything and "after" in everything


@pytest.mark.invariant("logfiles_feed.G1", "logfiles_feed.G2")
async def test_G1_G2_a_big_log_is_decoded_in_order_and_only_its_end_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter_module, "_WHOLE_LIMIT", 100_000)
    monkeypatch.setattr(feed, "_PREVIEW", 10_000)
    log = tmp_path / "big.log"
    with log.open("w") as file:
        for number in range(100_000):
            file.write(f"[INFO] f: {'needle' if number % 1000 == 7 else 'noise'} {number}\n")
    async with watching(log) as watched:
        words = watched.beside.words
        await watched.until(lambda: len(words.fed) == 100)
        append(log, "[INFO] f: needle at the end\n[INFO] f: bye\n")
        await watched.until(lambda: "[INFO] f: bye" in watched.texts)
        await watched.until(lambda: next(iter(watched.state.log_sources.values())).lines == 100_002)
    assert [record.line for record in words.fed] == [*range(8, 100_000, 1000), 100_001]
    assert watched.texts[-3:] == ["[INFO] f: noise 99999", "[INFO] f: needle at the end", "[INFO] f: bye"]
    assert len(watched.texts) < 1000
    assert len(set(watched.texts)) == len(watched.texts)
    (source,) = watched.state.log_sources.values()
    assert source.format == "simpler-device"


ERRORS = ("[ERROR] f: no glue", "E0102 03:04:05.000006 77 a.cc:1] no glue either", "needle ERROR: understood")


@pytest.mark.invariant("logfiles_feed.G3")
@pytest.mark.parametrize("packed", [False, True])
async def test_G3_error_lines_in_the_middle_of_a_big_log_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(adapter_module, "_WHOLE_LIMIT", 0)
    lines = [f"[INFO] f: noise {number}, 0 {'ERRORS' if number % 9 == 0 else 'errors'}" for number in range(40_000)]
    for number, line in enumerate(ERRORS):
        lines[20_000 + 1000 * number] = line
    data = "\n".join([*lines, ""]).encode()
    (tmp_path / f"a.log{'.gz' if packed else ''}").write_bytes(gzip.compress(data) if packed else data)
    (tmp_path / "good.log").write_text("\n".join(line for line in lines if line not in ERRORS))
    async with watching(tmp_path, once=True) as watched:
        pass
    found = {source.name.partition(".")[0]: source for source in watched.state.log_sources.values()}
    bad, good = found["a"], found["good"]
    assert (bad.errors, bad.first_error_line, bad.last_error, bad.unread) == (2, 20_001, ERRORS[1], 0)
    assert (good.errors, good.first_error_line, good.unread) == (0, None, 0)


@pytest.mark.invariant("logfiles_feed.G3")
async def test_G3_how_much_of_a_log_full_of_error_lines_was_not_read_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter_module, "_WHOLE_LIMIT", 0)
    monkeypatch.setattr(skim, "ALARMS_READ", 100)
    data = b"[ERROR] f: no glue\n" * 100_000
    (tmp_path / "a.log").write_bytes(data)
    async with watching(tmp_path, once=True) as watched:
        pass
    (source,) = watched.state.log_sources.values()
    assert 100 <= source.errors < 100_000 and source.first_error_line == 1
    assert 0 < source.unread < len(data)


async def test_a_file_is_read_once_under_all_its_names(tmp_path: Path) -> None:
    append(tmp_path / "real.log", "only once\n")
    (tmp_path / "link.log").symlink_to("real.log")
    os.link(tmp_path / "real.log", tmp_path / "hard.log")
    async with watching(tmp_path, tmp_path / "real.log", f"{tmp_path}/*.log", once=True) as watched:
        pass
    assert watched.texts == ["only once"]


async def test_a_decoder_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    append(tmp_path / "a.log", "needle explode\nneedle\nFatal Python error: Aborted\nlast\n")
    async with watching(tmp_path, once=True) as watched:
        pass
    (status,) = watched.state.statuses.values()
    assert (status.target, status.health) == ("decoder words", SourceHealth.FAILED)
    assert watched.texts == ["needle explode", "needle", "Fatal Python error: Aborted", "last"]
    assert len(watched.state.exceptions) == 1
    assert len(watched.beside.words.fed) == 1


async def test_many_logs_are_read_fairly_and_not_all_kept_open(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"{number}.log").write_text(f"file {number}\n")
    async with watching(tmp_path) as watched:
        await watched.until(lambda: len(watched.texts) == 600)
        append(tmp_path / "300.log", "one more\n")
        await watched.until(lambda: "one more" in watched.texts)
        assert _open_files() < 400


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


_WRITER = """
import os, sys, time
log = open(sys.argv[1], "a", buffering=1)
data = open(sys.argv[2], "a", buffering=1)
reading = open(sys.argv[3])
print("started", flush=True)
print("problem", file=sys.stderr, flush=True)
log.write("from the log\\n")
data.write("no log by name\\n")
sys.stdin.read()
"""


async def test_logs_that_a_process_has_open_or_names(tmp_path: Path) -> None:
    ascend = tmp_path / "ascend"
    plog = ascend / "debug" / "plog"
    device = ascend / "run" / "device-0"
    for folder in (plog, device):
        folder.mkdir(parents=True)
    (tmp_path / "read.log").write_text("somebody else wrote this\n")
    (tmp_path / "cuda.txt").write_text("[14:38:03.928][1][CUDA][E] Returning 1\n")
    (tmp_path / "app.py").write_text(_WRITER)
    environment = {
        **os.environ,
        "ASCEND_PROCESS_LOG_PATH": str(ascend),
        "CUDA_LOG_FILE": "cuda.txt",
        "NCCL_DEBUG_FILE": f"{tmp_path}/nccl.%h.%p",
    }
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "app.py", "my.log", "my.data", "read.log",
            stdin=asyncio.subprocess.PIPE, stdout=out, stderr=err, cwd=tmp_path, env=environment,
        )  # fmt: skip
    try:
        pid = process.pid
        (plog / f"plog-{pid}_20261121031122123.log").write_text(
            "[ERROR] GE(1,x):2026-06-09-11:42:20.000.000 [a:1]2 ge\n"
        )
        (plog / "plog-1_20261121031122123.log").write_text("another process\n")
        (device / f"device-{pid}_20261121031122123.log").write_text("from the device\n")
        (tmp_path / f"nccl.{os.uname().nodename}.{pid}").write_text("box:1:2 [0] NCCL INFO hello\n")
        before = (Path("/proc") / str(pid) / "status").read_text
        async with watching(processes=[TargetProcess(pid)]) as watched:
            wanted = {"started", "problem", "from the log", "from the device", "box:1:2 [0] NCCL INFO hello"}
            await watched.until(lambda: wanted <= set(watched.texts))
            await watched.until(lambda: any("Returning 1" in text for text in watched.texts))
            await watched.until(lambda: any(text.endswith("2 ge") for text in watched.texts))
            assert "TracerPid:\t0" in before()
        assert not {"another process", "no log by name", "somebody else wrote this"} & set(watched.texts)
        names = {source.name: source for source in watched.state.log_sources.values()}
        assert {"stdout", "stderr", "my.log", "cuda.txt"} <= set(names)
        assert names["my.log"].process == f"process:box/{pid}"
    finally:
        process.kill()
        await process.wait()


@pytest.mark.invariant("catalogue.C1")
async def test_C1_the_captured_output_of_a_launched_program(tmp_path: Path) -> None:
    captured = tmp_path / "captured"
    with captured.open("w") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "print('hello', flush=True); input()",
            stdin=asyncio.subprocess.PIPE,
            stdout=out,
            stderr=asyncio.subprocess.DEVNULL,
        )
    try:
        target = TargetProcess(process.pid, stdout=captured)
        async with watching(processes=[target]) as watched:
            await watched.until(lambda: "hello" in watched.texts)
        catalogue = Catalogue(Request(host="box", processes=(target,)))
        (candidate,) = catalogue.search(()).new
        assert (candidate.source.id, candidate.source.name) == (f"log:box/{process.pid}/stdout", "stdout")
        assert catalogue.search((process.pid,)).new == []  # its descriptor 1 is the same file
    finally:
        process.kill()
        await process.wait()


@pytest.mark.invariant("catalogue.C3")
async def test_C3_a_named_log_belongs_to_the_process_that_writes_it(tmp_path: Path) -> None:
    written, other, link = (tmp_path / name for name in ("job.err", "old.err", "link"))
    other.write_text("of an earlier run")
    code = "import sys; print('hello', file=sys.stderr, flush=True); input()"
    with written.open("w") as err:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=err, cwd=tmp_path,
        )  # fmt: skip
    try:
        link.symlink_to(written)
        target = TargetProcess(process.pid)
        async with watching(other, link, processes=[target]) as watched:
            await watched.until(lambda: {"hello", "of an earlier run"} <= set(watched.texts))
            owners = {source.name: source.process for source in watched.state.log_sources.values()}
            assert owners == {"link": f"process:box/{process.pid}", "old.err": None}
            decoded = {source.name: source.process for source in watched.beside.words.sources}
            assert decoded == owners
    finally:
        process.kill()
        await process.wait()


@pytest.mark.invariant("catalogue.C3")
async def test_C3_a_process_that_begins_to_write_a_named_log(tmp_path: Path) -> None:
    log = tmp_path / "job.txt"
    log.write_text("begun\n")
    code = "import sys; log = open('job.txt', 'a'); print(flush=True); input()"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=tmp_path,
    )
    try:
        assert process.stdout is not None
        catalogue = Catalogue(Request(host="box", logs=(str(log),)))
        (candidate,) = catalogue.search(()).new
        assert candidate.source.process is None
        await process.stdout.readline()
        found = catalogue.search((process.pid,))
        assert (found.new, found.owners) == ([], {candidate.source.id: f"process:box/{process.pid}"})
        assert catalogue.search((process.pid,)).owners == {}
    finally:
        process.kill()
        await process.wait()


async def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with watching(tmp_path / "pipe", once=True) as watched:
        pass
    (status,) = watched.state.statuses.values()
    assert (status.code, status.health) == ("not-a-file", SourceHealth.FAILED)


def test_it_applies_to_logs_and_to_processes() -> None:
    assert LogAdapter.applies(Request(host="box", logs=("x",)))
    assert LogAdapter.applies(Request(host="box", processes=(TargetProcess(1),)))
    assert not LogAdapter.applies(Request(host="box"))


@pytest.mark.invariant("catalogue.C2")
def test_C2_what_cant_be_found_is_reported_once_and_when_it_changes(tmp_path: Path) -> None:
    log = tmp_path / "later.log"
    catalogue = Catalogue(Request(host="box", logs=(str(log),)))

    def said() -> list[tuple[str, str, SourceHealth]]:
        return [(status.target, status.code, status.health) for status in catalogue.search(()).statuses]

    missing = (str(log), "no-such-log", SourceHealth.DEGRADED)
    assert [said(), said(), said()] == [[missing], [], []]
    log.write_text("here\n")
    assert [said(), said()] == [[(str(log), "no-such-log", SourceHealth.OK)], []]
    log.unlink()
    assert [said(), said()] == [[missing], []]


def test_a_log_with_very_many_relevant_records_is_read_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "pool.log"
    line = "2026-01-02 03:04:05.{:03} worker[3] INFO pool: closing connection {} of arena malloc(): 4 blocks\n"
    log.write_text("".join(line.format(n % 1000, n) for n in range(60_000)) + "ValueError: no such plan\n")
    said = livedbg("report", "--logs", log, "--json", "--timeout", "90")
    assert (said.code in (5, 11), said.err) == (True, "")
    assert json.loads(said.out)["limits"] == []
