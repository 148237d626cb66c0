"""Replay: the invariants of livedbg.recording.recorder and livedbg.session.replay."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.model import events as ev
from livedbg.model.intents import Refresh
from livedbg.model.snapshot import CounterKey
from livedbg.recording.recorder import Tape
from livedbg.session.replay import ReplayView, last_update
from livedbg.session.view import Update
from livedbg.state.store import Store
from tests.conftest import eventually
from tests.recording.test_recording import written
from tests.state.strategies import streams
from tests.state.test_store import plain

SECOND = 10**9
BEGIN = 10**18


@given(streams, st.lists(st.integers(0, 100), max_size=12))
@pytest.mark.invariant("recorder.T1")
def test_T1_every_state_is_the_fold_of_what_came_before(stream: list[ev.Event], asked: list[int]) -> None:
    tape = Tape()
    tape.extend(stream)
    for wanted in asked:
        count = min(wanted, len(stream))
        fold = Store()
        fold.apply_all(stream[:count])
        assert plain(tape.state(count).copy().snapshot()) == plain(fold.snapshot())
    assert len(tape) == len(stream)
    assert tape.times == sorted(tape.times) and tape.steps == sorted(set(tape.steps))


def counting(count: int) -> list[ev.Event]:
    """A counter that goes up by one every second."""
    return [
        ev.CounterSeen(
            entity="task:x/run", name="done", value=n, host="box", mono_ns=n * SECOND, wall_ns=BEGIN + n * SECOND
        )
        for n in range(count)
    ]


@pytest.mark.invariant("recorder.T2")
def test_T2_memory_is_of_the_packed_size_and_few_stores() -> None:
    tape = Tape()
    tape.extend(counting(20_000))
    for count in (*range(0, 20_000, 371), 7, 19_999, 3):
        assert value_of(tape.state(count).snapshot()) == (count - 1 if count else None)
    assert len(tape._stores) <= 25
    assert sum(map(len, tape._chunks)) < sum(len(ev.encode(event)) for event in counting(20_000)) / 5
    assert len(tape._open) < 1000


def value_of(snapshot: object) -> float | None:
    counter = snapshot.counters.get(CounterKey("task:x/run", "done"))  # type: ignore[attr-defined]
    return None if counter is None else counter.value


@contextmanager
def replaying(path: Path, **options: float | bool) -> Iterator[ReplayView]:
    view = ReplayView(path, **options)  # type: ignore[arg-type]
    view.start()
    try:
        yield view
    finally:
        view.stop()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.ldbg"
    written(path, counting(60))
    return path


def told(view: ReplayView) -> None:
    """Have the replay's thread take a turn: it says that nothing can be asked of a recording."""
    turns: list[Update] = []
    end = view.subscribe(turns.append)
    view.send(Refresh())
    eventually(lambda: any("recording" in update.notice for update in turns))
    end()


def stands_at(view: ReplayView, value: float) -> bool:
    return value_of(view.latest().snapshot) == value


@pytest.mark.invariant("replay.P1")
def test_P1_seek_and_step_show_the_state_of_that_moment(recording: Path) -> None:
    with replaying(recording) as view:
        eventually(lambda: stands_at(view, 59))
        assert (view.start_wall_ns, view.end_wall_ns) == (BEGIN, BEGIN + 59 * SECOND)
        for second in (10, 50, 0, 59, 30):
            view.seek(BEGIN + second * SECOND)
            eventually(lambda second=second: stands_at(view, second))
            assert view.position_wall_ns == BEGIN + second * SECOND
        view.step(3)
        eventually(lambda: stands_at(view, 33))
        view.step(-5)
        eventually(lambda: stands_at(view, 28))
        view.step(-500)
        eventually(lambda: value_of(view.latest().snapshot) in (None, 0))
        view.step(500)
        eventually(lambda: stands_at(view, 59))
        assert not view.playing


@pytest.mark.invariant("replay.P3")
def test_P3_play_pause_and_speed(tmp_path: Path) -> None:
    path, last = tmp_path / "long.ldbg", 5999
    written(path, counting(last + 1), 1000)
    with replaying(path) as view:
        eventually(lambda: stands_at(view, last))
        seen: set[float | None] = set()
        view.subscribe(lambda update: seen.add(value_of(update.snapshot)))
        view.set_speed(20)
        view.play()
        assert view.playing and view.speed == 20
        eventually(lambda: len(seen & set(range(1, last))) >= 3)
        view.pause()
        assert not view.playing
        held = view.position_wall_ns
        for _ in range(3):  # turns of the replay's thread
            told(view)
            assert view.position_wall_ns == held < BEGIN + last * SECOND
        view.set_speed(200_000)
        view.play()
        eventually(lambda: stands_at(view, last) and not view.playing)
        with pytest.raises(ValueError, match="above 0"):
            view.set_speed(0)


@pytest.mark.invariant("replay.P2")
def test_P2_a_growing_recording_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livedbg.recording.recorder._FLUSH_S", 0.0)
    path = tmp_path / "growing.ldbg"
    recorder = written(path, counting(5), close=False)
    with replaying(path) as view:
        eventually(lambda: stands_at(view, 4))
        recorder(counting(9)[5:])
        eventually(lambda: view.end_wall_ns == BEGIN + 8 * SECOND)
        eventually(lambda: stands_at(view, 8))
    recorder.close()


def test_nothing_can_be_asked_of_the_past(recording: Path) -> None:
    with replaying(recording) as view:
        eventually(lambda: stands_at(view, 59))
        view.send(Refresh())
        eventually(lambda: "recording" in view.latest().notice)


def test_a_cut_recording_is_replayed_up_to_its_last_whole_event(recording: Path) -> None:
    whole = recording.read_bytes()
    for cut in (1, 30, 200):
        recording.write_bytes(whole[:-cut])
        update, wrong = last_update(recording)
        assert update.ended and "recording" in wrong
        assert value_of(update.snapshot) in (None, *range(60))
    assert update.diagnosis.revision == update.snapshot.revision


@pytest.mark.invariant("replay.P1")
def test_P1_seek_while_playing_goes_on_from_there_and_beyond_the_ends_it_stays(recording: Path) -> None:
    with replaying(recording, playing=True, speed=0.001) as view:  # a recorded second takes longer than this test
        eventually(lambda: view.end_wall_ns == BEGIN + 59 * SECOND)
        assert view.playing
        view.seek(BEGIN + 30 * SECOND)
        eventually(lambda: view.position_wall_ns > BEGIN + 30 * SECOND and stands_at(view, 30))
        assert view.playing
        view.pause()
        view.seek(0)
        eventually(lambda: stands_at(view, 0))
        assert view.position_wall_ns == BEGIN
        view.seek(2 * BEGIN)
        eventually(lambda: stands_at(view, 59))
        assert view.position_wall_ns == BEGIN + 59 * SECOND


@pytest.mark.invariant("replay.P1")
def test_P1_play_at_the_end_begins_again_and_a_step_while_playing_stands_still(recording: Path) -> None:
    with replaying(recording, speed=0.001) as view:
        eventually(lambda: stands_at(view, 59))
        view.play()
        eventually(lambda: stands_at(view, 0))
        view.step(2)
        eventually(lambda: stands_at(view, 2))
        assert not view.playing
        told(view)
        assert view.position_wall_ns == BEGIN + 2 * SECOND


@pytest.mark.parametrize("count", [0, 1])
def test_a_recording_of_nothing_or_of_one_event_can_be_moved_on(tmp_path: Path, count: int) -> None:
    path = tmp_path / "short.ldbg"
    written(path, counting(count))
    with replaying(path) as view:
        updates: list[object] = []
        view.subscribe(updates.append)
        for move in (view.play, view.step, lambda: view.step(-1), lambda: view.seek(BEGIN), view.play):
            move()
        view.send(Refresh())
        eventually(lambda: bool(updates) and not view.playing)
        assert value_of(view.latest().snapshot) == (0 if count else None)


def test_a_damaged_recording_is_replayed_and_says_so_once(tmp_path: Path) -> None:
    path = tmp_path / "damaged.ldbg"
    written(path, counting(60))
    path.write_bytes(path.read_bytes()[:-1])
    with replaying(path) as view:
        eventually(lambda: "recording" in view.latest().notice)
        view.step(-5)
        eventually(lambda: not view.latest().notice)


@pytest.mark.invariant("view.V1", "view.V2")
def test_V1_V2_whole_updates_come_one_after_the_other_in_the_replays_thread(recording: Path) -> None:
    updates: list[Update] = []
    threads: set[int] = set()

    def note(update: Update) -> None:
        updates.append(update)
        threads.add(threading.get_ident())

    with replaying(recording) as view:
        eventually(lambda: stands_at(view, 59))
        view.subscribe(note)
        for second in (10, 50, 30):
            view.seek(BEGIN + second * SECOND)
            eventually(lambda second=second: stands_at(view, second))
        told(view)
    assert len(updates) >= 3 and len({update.snapshot.revision for update in updates}) == 3
    assert all(update.diagnosis.revision == update.snapshot.revision for update in updates)
    assert len(threads) == 1 and threading.get_ident() not in threads
