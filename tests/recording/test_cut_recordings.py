"""Recordings that lost their oldest events: those with a size limit, and those of the last minutes."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from livedbg.analysis.diagnosis import Diagnosis, Verdict, VerdictState
from livedbg.cli.record import BlackBox
from livedbg.model import LogRecord, Process, Thread, ThreadState
from livedbg.model import events as ev
from livedbg.model.errors import RecordingError
from livedbg.model.snapshot import EMPTY
from livedbg.recording.file import RecordingReader
from livedbg.recording.recorder import Recorder
from livedbg.recording.ring import RingRecorder
from livedbg.session.replay import last_update
from livedbg.session.view import Update
from livedbg.state.store import Store
from tests.cli.zygote import Livedbg
from tests.conftest import Target
from tests.state.test_keyframe import but_the_revision

START_NS = 10**18
S = 10**9


class Session:
    """Feeds a sink as livedbg.session.session does: the sink first, then the state."""

    def __init__(self, sink: Recorder | RingRecorder, *, keyframes: bool = True) -> None:
        self.store = Store()
        self.sink = sink
        self.random = random.Random(7)
        self.second = 0
        if keyframes:
            sink.keyframe = self.store.keyframe

    def take(self, *events: ev.Event) -> None:
        self.sink(events)
        self.store.apply_all(events)

    def run(self, seconds: int, check: Callable[[], None] = lambda: None) -> None:
        """A process with two threads, one of which works, and a log of which two records come a second."""
        for _ in range(seconds):
            at: Any = {"host": "box", "mono_ns": self.second * S, "wall_ns": START_NS + self.second * S}
            if self.second == 0:
                self.take(ev.ProcessSeen(process=Process(id="process:box/1", host="box", pid=1), **at))
            thread: dict[str, Any] = {"process": "process:box/1", "state": ThreadState.RUNNING}
            texts = (f"{self.random.getrandbits(128):032x}" for _ in range(2))
            self.take(
                ev.ThreadsSeen(
                    threads=(
                        Thread(id="thread:box/1/1", tid=1, cpu_ns=self.second * S, **thread),
                        Thread(id="thread:box/1/2", tid=2, syscall="futex", cpu_ns=5, **thread),
                    ),
                    **at,
                ),
                ev.LogsSeen(records=tuple(LogRecord(source="log:x", text=text) for text in texts), **at),
            )
            self.second += 1
            check()


def folded(path: Path) -> tuple[Store, Sequence[ev.Event], str]:
    reader = RecordingReader(path)
    events = list(reader.events())
    store = Store()
    store.apply_all(events)
    reader.close()
    return store, events, reader.incomplete


@pytest.fixture(autouse=True)
def small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is small beside the limits of these tests, as it is beside gigabytes."""
    monkeypatch.setattr("livedbg.state.store.LOG_WINDOW", 20)
    monkeypatch.setattr("livedbg.recording.recorder._FLUSH_S", 0.0)


@pytest.mark.invariant("recorder.C2")
def test_a_recording_at_its_size_limit_loses_its_oldest_part_and_replays(tmp_path: Path) -> None:
    path, most = tmp_path / "r", 90_000
    recorder = Recorder(path, "box", "t", most_bytes=most)
    session = Session(recorder)
    session.run(1500, lambda: _assert(path.stat().st_size <= most))
    recorder.close()
    assert recorder.failed == ""
    store, events, said = folded(path)
    assert but_the_revision(store) == but_the_revision(session.store)
    assert store.snapshot().log_count == 3000
    assert events[0].mono_ns > 500 * S
    assert "older events were dropped at its size limit of 87.9 KiB" in said
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["r"]
    update, warned = last_update(path)
    assert warned == said
    assert len(update.snapshot.threads) == 2


@pytest.mark.invariant("recording.R5")
@pytest.mark.parametrize("every", [1, 7, 400])
def test_R5_who_reads_along_gets_each_event_once_while_the_oldest_part_is_dropped(tmp_path: Path, every: int) -> None:
    path = tmp_path / "r"
    recorder = Recorder(path, "box", "t", most_bytes=90_000)
    session = Session(recorder)
    reader = RecordingReader(path)
    read: list[ev.Event] = []
    turns = itertools.count(1)
    session.run(1500, lambda: read.extend(reader.events()) if next(turns) % every == 0 else None)
    recorder.close()
    read += reader.events()
    texts = [record.text for event in read if isinstance(event, ev.LogsSeen) for record in event.records]
    store = Store()
    store.apply_all(read)
    assert but_the_revision(store) == but_the_revision(session.store)
    assert "older events were dropped" in reader.incomplete and reader.skipped == 0
    if every < 100:  # else more was dropped at times than had been read, and the state begins anew
        seconds = [event.mono_ns for event in read if isinstance(event, ev.ThreadsSeen)]
        assert {n * S for n in range(1500)} <= set(seconds) and seconds == sorted(seconds) and len(texts) >= 3000
    other = Recorder(path, "box", "another", replace=True)
    other(read[:1])
    assert list(reader.events()) == []
    other.close()
    reader.close()


def _assert(condition: bool) -> None:
    assert condition


@pytest.mark.parametrize("most", [20_000, 1_000])
def test_a_recording_that_can_drop_nothing_ends_at_its_limit_and_says_so(tmp_path: Path, most: int) -> None:
    path = tmp_path / "r"
    recorder = Recorder(path, "box", "t", most_bytes=most)
    session = Session(recorder, keyframes=most < 10_000)  # else the state alone is larger
    session.run(1000)
    recorder.close()
    assert "limit" in recorder.failed
    assert path.stat().st_size < most + 6_000
    store, _, _ = folded(path)
    assert len(store.snapshot().threads) == 2


@pytest.mark.invariant("ring.G1")
@pytest.mark.invariant("ring.G2")
@pytest.mark.invariant("ring.G3")
def test_the_last_minutes_are_kept_in_flat_memory(tmp_path: Path) -> None:
    ring = RingRecorder(tmp_path / "r", "box", "t", last_s=600)
    session = Session(ring)
    sizes: list[int] = []
    session.run(6000, lambda: sizes.append(ring.size))
    early, late = max(sizes[1200:2400]), max(sizes[-1200:])
    assert late <= 1.2 * early
    path = ring.write()
    store, events, said = folded(path)
    assert but_the_revision(store) == but_the_revision(session.store)
    first = min(event.mono_ns for event in events if not isinstance(event, ev.ProcessSeen)) // S
    assert 6000 - 2 * 600 < first <= 6000 - 600
    assert "because of --last 10 min" in said


def test_a_ring_has_a_memory_limit(tmp_path: Path) -> None:
    ring = RingRecorder(tmp_path / "r", "box", "t", last_s=1e6, most_bytes=50_000)
    session = Session(ring)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("livedbg.recording.ring._FRAME_BYTES", 5_000)
        session.run(1500, lambda: _assert(ring.size <= 60_000))
    store, events, said = folded(ring.write())
    assert but_the_revision(store) == but_the_revision(session.store)
    assert events[0].mono_ns > 0
    assert "memory limit" in said


def test_a_ring_writes_further_files_beside_the_first(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"")
    with pytest.raises(RecordingError, match="already exists"):
        RingRecorder(tmp_path / "old", "box", "t", last_s=1)
    with pytest.raises(RecordingError, match="not a directory"):
        RingRecorder(tmp_path / "none" / "r", "box", "t", last_s=1)
    ring = RingRecorder(tmp_path / "r.livedbg", "box", "t", last_s=60)
    session = Session(ring)
    session.run(10)
    assert not (tmp_path / "r.livedbg").exists()
    first = ring.write()
    session.run(10)
    second = ring.write()
    assert [first.name, second.name] == ["r.livedbg", "r-2.livedbg"]
    assert [folded(path)[0].snapshot().log_count for path in (first, second)] == [20, 40]


def test_the_black_box_writes_at_a_stall_and_at_an_end_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedbg.cli.record._AFTER_S", 0.0)

    def names(*states: VerdictState) -> list[str]:
        folder = tmp_path / "-".join(state.value for state in states)
        folder.mkdir()
        box = BlackBox(RingRecorder(folder / "r", "box", "t", last_s=60))
        for state in states:
            verdict = Verdict(state=state, sentence="s")
            box.take(Update(EMPTY, Diagnosis(verdict=verdict, findings={}), 0.0, False))
            box.check()
        box.finish()
        return sorted(path.name for path in folder.iterdir())

    good, stuck, dead = VerdictState.RUNNING, VerdictState.STALLED, VerdictState.CRASHED
    assert names(good) == ["r"]
    assert names(good, stuck, stuck) == ["r"]
    assert names(good, stuck, good, stuck) == ["r", "r-2"]
    assert names(stuck, good) == ["r"]
    assert names(stuck, dead) == ["r", "r-2"]
    assert len(names(*[good, stuck] * 15)) == 10


def test_record_last_writes_when_a_real_program_hangs(
    tmp_path: Path, spawn: Callable[..., Target], build_target: Callable[..., Path]
) -> None:
    target = spawn([build_target("hang_cases", "-std=c++17"), "lock-cycle"])
    path = tmp_path / "box.livedbg"
    words = ["record", str(target.pid), "--no-native", "--last", "10m", "-o", str(path)]
    with Livedbg(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        line = child.stderr.readline()
        child.send_signal(signal.SIGTERM)
        rest = child.stderr.read()
    assert line.startswith(f"{path} (deadlock): ")
    assert rest == ""  # the end shows the same
    assert child.returncode == 128 + signal.SIGTERM
    update, _ = last_update(path)
    assert update.diagnosis.verdict.state is VerdictState.DEADLOCK
