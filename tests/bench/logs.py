"""Log intake against grep: counting the lines, finding a word, decoding what a decoder needs, memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from livedbg.logs.files import FileLogReader
from livedbg.model import LogSource
from livedbg.session.filereaders import known_log_formats
from livedbg.text.secrets import TextMasker
from tests.bench.harness import Row, program, run
from tests.bench.table import Figure, repeated

_LINE = (
    "[mono_ns=%d][T0x7f0e6166bb80][DEBUG] prepare_subtask_to_core: [scheduler_dispatch.cpp:205] "
    "Thread 0: Dispatched idle aiv0 task %d kernel_id=[-1,2,-1] block_idx=0/total_blocks=1 to core_offset=1 core_id=8\n"
)


_EVERY = "2026-01-02 03:04:05.%03d worker[%d] INFO pool: closing connection %d of arena malloc(): %d blocks\n"
"""A line that a decoder wants to see, and of which it can make nothing."""

WORDS = "Dispatched|STALL|FATAL|Traceback|terminate|CUDA error"


def rows(size: int = 1 << 30, repeats: int = 3) -> Iterator[Row]:
    """Measure on a log of `size` bytes."""
    with tempfile.TemporaryDirectory(dir=roomy()) as folder:
        log = Path(folder) / "scheduler.log"
        _write(log, size)
        mb = log.stat().st_size / 1e6

        def grep(*words: str) -> Figure:
            return repeated(lambda: mb / run(program("grep"), "-c", *words, str(log)), repeats)

        def ours(what: str) -> Figure:
            return repeated(lambda: mb / _reader(log, what), repeats)

        yield Row("all lines counted and indexed", ours("count"), "grep -c ''", grep(""), "MB/s", "≥ 1/4 of grep")
        yield Row("search of the whole log for a word", ours("search"), "grep -c WORD", grep("no-such-word"), "MB/s")
        shown = repeated(lambda: _reader(log, "end"), repeats)
        tail = repeated(lambda: run("tail", "-n", "100", str(log)), repeats)
        yield Row("open the log and jump to its end", shown, "tail -n 100", tail, "s", "< 2 s")
        whole = repeated(lambda: mb / _whole(folder), repeats)
        what = "`report --logs` including start-up: all relevant records found and decoded"
        yield Row(what, whole, f"grep -c -E of {WORDS.count('|') + 1} words", grep("-E", WORDS), "MB/s")
        yield Row("peak memory of the indexing process", _memory(log), "size of the log", mb, "MB")
    with tempfile.TemporaryDirectory(dir=roomy()) as folder:
        log = Path(folder) / "pool.log"
        count = max(size // 4000, 1000)
        log.write_text("".join(_EVERY % (n % 1000, n % 8, n, n * 7) for n in range(count)))
        start = _whole(None)
        decoded = repeated(lambda: count / max(_whole(folder) - start, 1e-3), repeats)
        found = repeated(lambda: count / run(program("grep"), "-c", "-E", r"alloc\(\)", str(log)), repeats)
        what = f"decoding of a log in which every record is relevant, of {count:,} records"
        yield Row(what, decoded, "grep -c -E of one word", found, "/s", "≥ 150,000 /s")
        lines = log.read_text().splitlines()
        masked = repeated(lambda: len(lines) / _masking(lines), repeats)
        yield Row(
            "secrets masked in records without any", masked, "grep -c -E of one word", found, "/s", "≥ 500,000 /s"
        )


def _masking(lines: list[str]) -> float:
    """Seconds to mask what looks like a secret in lines."""
    started = time.process_time()
    masker = TextMasker()
    for line in lines:
        masker.mask(line)
    return time.process_time() - started


def _whole(folder: str | None) -> float:
    """Seconds of a `report` on the logs of a folder, or of one on next to nothing."""
    if folder is None:
        with tempfile.TemporaryDirectory() as empty:
            (Path(empty) / "a.log").write_text("a line\n")
            return _whole(empty)
    took_s = time.perf_counter()
    argv = [program("livedbg"), "report", "--logs", folder, "--json", "--timeout", "1000"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    took_s = time.perf_counter() - took_s
    assert done.returncode not in {2, 3, 4}, "the report is not of all that there is"
    return took_s


def roomy() -> str | None:
    """A folder in memory, where there is room, so that the disk is not what is measured."""
    memory = Path("/dev/shm")
    free = os.statvfs(memory) if memory.is_dir() else None
    return str(memory) if free is not None and free.f_bavail * free.f_frsize > 3 << 30 else None


def _write(log: Path, size: int) -> None:
    """One record in a thousand is one that a decoder wants; the rest is chatter of the same shape."""
    chatter = "".join(
        f"[mono_ns={5_279_698_738_179 + n}][T0x7f0e6166bb80][INFO] poll_queue: [queue.cpp:88] depth={n % 7} spins={n}\n"
        for n in range(1000)
    )
    with log.open("w") as out:
        number = 0
        while out.tell() < size:
            out.write(chatter)
            out.write(_LINE % (5_279_698_738_179 + number, number))
            number += 1


def _reader(log: Path, what: str) -> float:
    source = LogSource(id="log:bench", name=log.name, path=str(log))
    reader = FileLogReader(lambda _id: source, known_log_formats())
    started = time.perf_counter()
    try:
        if what == "end":
            assert len(reader.read(source.id, -100, 100)) == 100
        elif what == "search":
            assert reader.search(source.id, "no-such-word") is None
        else:
            while not reader.count(source.id)[1]:
                time.sleep(0.002)
        return time.perf_counter() - started
    finally:
        reader.close()


def _memory(log: Path) -> float:
    """Peak resident size, in MB, of a process that indexes the log.

    By VmHWM: `ru_maxrss` would be no less than the memory that this process, which starts it, has at that time.
    """
    script = (
        "from pathlib import Path; from tests.bench.logs import _reader; "
        f"_reader(Path({str(log)!r}), 'count'); print(Path('/proc/self/status').read_text())"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    peak = next(line for line in done.stdout.splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1e3
