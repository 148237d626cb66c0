"""The memory of `record --last 10m` over simulated hours, against that after the first ten minutes."""

from __future__ import annotations

import gc
import itertools
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from livedbg.model import LogRecord, Process, Thread, ThreadState
from livedbg.model import events as ev
from livedbg.recording.ring import RingRecorder
from livedbg.state.store import Store
from tests.bench.harness import Row

_S: Final = 10**9
_THREADS: Final = 64
_HOUR_S: Final = 3600


def rows(hours: int = 4) -> Iterator[Row]:
    """Measure a process with 64 threads, sampled once a second, with ten log records a second."""
    with tempfile.TemporaryDirectory(prefix="livedbg-bench-") as folder:
        ring, store = RingRecorder(Path(folder) / "r", "box", "t", last_s=600), Store()
        ring.keyframe = store.keyframe
        events = _events()
        resident, kept = [], []
        for seconds in (_HOUR_S, *([_HOUR_S] * (hours - 1))):
            for batch in itertools.islice(events, seconds):
                ring(batch)
                store.apply_all(batch)
            gc.collect()
            resident.append(_resident_mib())
            kept.append(ring.size / (1 << 20))
    what = f"record --last 10m, after {hours} hours"
    yield Row(f"memory, {what}", resident[-1], "after the first hour", resident[0], "MiB")
    yield Row(f"events kept, packed, {what}", kept[-1], "after the first hour", kept[0], "MiB")


def _events() -> Iterator[list[ev.Event]]:
    for second in itertools.count():
        at: Any = {"host": "box", "mono_ns": second * _S, "wall_ns": 10**18 + second * _S}
        threads = tuple(
            Thread(
                id=f"thread:box/1/{tid}",
                process="process:box/1",
                tid=tid,
                state=ThreadState.RUNNING,
                cpu_ns=second * tid,
                switches=second + tid,
            )
            for tid in range(1, _THREADS + 1)
        )
        texts = (f"step {second}.{number} loss {hash((second, number)) % 10**9}" for number in range(10))
        records = tuple(LogRecord(source="log:box/x", text=text) for text in texts)
        process = [ev.ProcessSeen(process=Process(id="process:box/1", host="box", pid=1), **at)] if second == 0 else []
        yield [*process, ev.ThreadsSeen(threads=threads, **at), ev.LogsSeen(records=records, **at)]


def _resident_mib() -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024
