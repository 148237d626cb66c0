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
from tests.bench.harness import Row, median, program, run

_LINE = (
    "[mono_ns=%d][T0x7f0e6166bb80][DEBUG] prepare_subtask_to_core: [scheduler_dispatch.cpp:205] "
    "Thread 0: Dispatched idle aiv0 task %d kernel_id=[-1,2,-1] block_idx=0/total_blocks=1 to core_offset=1 core_id=8\n"
)


def rows(size: int = 1 << 30) -> Iterator[Row]:
    """Measure on a log of `size` bytes."""
    with tempfile.TemporaryDirectory(dir=_roomy()) as folder:
        log = Path(folder) / "scheduler.log"
        _write(log, size)
        grep = median(lambda: run(program("grep"), "-c", "", str(log)))
        ours = median(lambda: _reader(log, "count"))
        mb = log.stat().st_size / 1e6
        yield Row(
            "log intake: all lines counted and indexed", mb / ours, "grep -c ''", mb / grep, "MB/s", "≥ 1/4 of grep"
        )
        grep = median(lambda: run(program("grep"), "-c", "no-such-word", str(log)))
        ours = median(lambda: _reader(log, "search"))
        yield Row("search of the whole log for a word", mb / ours, "grep -c WORD", mb / grep, "MB/s", "")
        opened = median(lambda: _reader(log, "end"))
        tail = median(lambda: run("tail", "-n", "100", str(log)))
        yield Row("open the log and show its end", opened, "tail -n 100", tail, "s", "< 2 s")
        whole = run(program("livedbg"), "report", "--logs", str(folder), "--json")
        grep = run(program("grep"), "-c", "-E", "Dispatched|STALL|FATAL|Traceback|terminate|CUDA error", str(log))
        yield Row(
            "`report --logs`: every record that matters decoded",
            mb / whole,
            "grep -c -E of six words",
            mb / grep,
            "MB/s",
            "",
        )
        yield Row("peak memory of the indexing process", _memory(log), "size of the log", mb, "MB", "steady")


def _roomy() -> str | None:
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
    reader = FileLogReader(lambda _id: source)
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
    """Peak resident size, in MB, of a process that indexes the log."""
    script = (
        "import resource; from pathlib import Path; from tests.bench.logs import _reader; "
        f"_reader(Path({str(log)!r}), 'count'); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return int(done.stdout) / 1e3
