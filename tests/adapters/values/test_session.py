"""Dumps in a session: found beside the logs, looked at and compared when it is asked for, and recorded."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from livedbg.adapters.logfiles import LogAdapter
from livedbg.adapters.values import ValuesAdapter
from livedbg.adapters.values.adapter import Finder, Turn
from livedbg.model import SourceHealth
from livedbg.model.dumps import ValueComparison, ValuePreview
from livedbg.model.intents import VALUES_DUMP, VALUES_GOLDEN, CompareValues, PreviewValues, Refresh
from livedbg.model.snapshot import Snapshot
from livedbg.recording.recorder import Recorder
from livedbg.session.adapter import Request
from livedbg.session.filereaders import dump_readers
from livedbg.session.live import LiveView
from livedbg.session.replay import ReplayView
from livedbg.session.view import SessionView
from livedbg.values import state
from livedbg.values.tensor import go_on
from tests.conftest import seen_when
from tests.values.conftest import tensor, write_deps, write_dump

ASCEND = Path(__file__).parents[2] / "fixtures" / "ascend"
MANIFEST = Path("dfx", "args_dump", "args_dump.json")


@contextmanager
def session(folder: Path, *, golden: str = "", recorder: Recorder | None = None) -> Iterator[LiveView]:
    options = {VALUES_GOLDEN: golden} if golden else {}
    request = Request(host="box", logs=(str(folder),), options=options)
    view = LiveView(request, adapters=[LogAdapter(), ValuesAdapter()], sink=recorder)
    view.start()
    try:
        yield view
    finally:
        view.stop()


def over(shot: Snapshot) -> list[ValueComparison]:
    """The comparisons, once there are some and none goes on."""
    found = list(shot.comparisons.values())
    return [] if any(one.running for one in found) else found


def seen(view: SessionView, what: Callable[[Snapshot], object]) -> Snapshot:
    return seen_when(what, lambda: view.latest().snapshot, lambda: view.latest().snapshot.statuses)


@pytest.mark.invariant("values_adapter.V2")
def test_a_dump_is_listed_looked_at_and_compared(tmp_path: Path) -> None:
    lost, good = ASCEND / "09_dep_lost", ASCEND / "09_dep_good"
    path = str(lost / MANIFEST)
    recording = tmp_path / "r.livedbg"
    recorder = Recorder(recording, "box", "values")
    with session(lost, recorder=recorder) as view:
        dump = seen(view, lambda shot: shot.dumps).dumps[path]
        assert dump.count == 5 == len(dump.rows)
        last = dump.rows[-1]
        assert (last.name, last.kernel, last.stage, last.role, last.shape) == ("r0t1", "INC", "after", "inout", (256,))
        view.send(PreviewValues(path=path, number=last.number))
        look = seen(view, lambda shot: shot.value_previews).value_previews[path, last.number]
        assert (
            ("min", "10") in look.statistics and look.counts == (256,) and look.numbers == ("[10 10 10 ... 10 10 10]",)
        )
        view.send(CompareValues(path=path, golden=str(good)))
        (found,) = over(seen(view, over))
        assert found.first == "task:ascend/r0t1" and "that dependency is lost" in found.headline
        view.send(CompareValues(path=path, golden=str(tmp_path / "nowhere")))
        again = seen(view, lambda shot: shot.comparisons[path].problem).comparisons[path]
        assert "nowhere can't be read" in again.problem and again.first is None
        notices: list[str] = []
        view.subscribe(lambda update: notices.append(update.notice))
        view.send(PreviewValues(path="/etc/shadow", number=0))  # not of this session
        seen(view, lambda _: any("There is no dump" in notice for notice in notices))
    recorder.close()
    replay = ReplayView(recording)
    replay.start()
    try:
        assert seen(replay, lambda shot: shot.comparisons).value_previews[path, last.number] == look
    finally:
        replay.stop()


def test_what_is_given_as_golden_is_compared_at_once() -> None:
    with session(ASCEND / "09_dep_lost", golden=str(ASCEND / "09_dep_good")) as view:
        (found,) = over(seen(view, over))
    assert [task.verdict for task in found.tasks] == ["order"]


def test_a_dump_that_is_written_later_or_again_or_is_damaged(tmp_path: Path) -> None:
    with session(tmp_path) as view:
        target = tmp_path / "run" / "dfx"
        shutil.copytree(ASCEND / "09_dep_lost" / "dfx", target)
        manifest = target / "args_dump" / "args_dump.json"
        view.send(Refresh())
        seen(view, lambda shot: str(manifest) in shot.dumps and shot.dumps[str(manifest)].count == 5)
        manifest.write_bytes(manifest.read_bytes()[:900])
        view.send(Refresh())
        seen(view, lambda shot: (cut := shot.dumps[str(manifest)]).problems and 0 < cut.count < 5)
        manifest.write_bytes(b"\x00\xff" * 100)
        view.send(Refresh())
        wrong = seen(view, lambda shot: [s for s in shot.statuses.values() if s.source == "values"])
        assert all(status.sentence for status in wrong.statuses.values())


@pytest.mark.invariant("values_adapter.V1")
def test_a_cursor_that_moves_leaves_no_queue_of_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate, looked = threading.Event(), threading.Event(), []
    really = state.Previewer.previews

    def slow(looker: state.Previewer, path: Path, name: str, number: int) -> Iterator[ValuePreview]:
        looked.append(number)
        begun.set()
        assert gate.wait(100)
        go_on()
        yield from really(looker, path, name, number)

    monkeypatch.setattr(state.Previewer, "previews", slow)
    name = str(write_dump(tmp_path, [tensor(task, 0, "output", [task]) for task in range(60)]))
    with session(tmp_path) as view:
        seen(view, lambda shot: shot.dumps)
        view.send(PreviewValues(path=name, number=0))
        assert begun.wait(100)
        for number in range(1, 60):
            view.send(PreviewValues(path=name, number=number))
        view.send(CompareValues(path=name, golden=str(tmp_path / "nowhere")))  # taken after all of them
        seen(view, lambda shot: shot.comparisons)
        gate.set()
        shot = seen(view, lambda shot: shot.value_previews)
    assert looked == [0, 59] and list(shot.value_previews) == [(name, 59)], "the first was given up, the others dropped"


def test_a_comparison_is_known_to_go_on_and_ends_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def endless(*_: object) -> ValueComparison:
        try:
            while True:
                go_on()
                time.sleep(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(state, "compared", endless)
    name = str(write_dump(tmp_path, [tensor(0, 0, "output", [1])]))
    with session(tmp_path, golden=str(tmp_path / "golden")) as view:
        found = seen(view, lambda shot: shot.comparisons).comparisons[name]
        assert found.running and found.golden.endswith("golden") and found.first is None
        view.send(PreviewValues(path=name, number=0))
        assert seen(view, lambda shot: shot.value_previews), "tensors can be looked at meanwhile"
    assert ended.wait(100)


def test_ranks_are_compared_with_their_like_and_none_gives_way(tmp_path: Path) -> None:
    for run, wrong in (("good", 0), ("bad", 1)):
        for rank in range(2):
            folder = tmp_path / run / f"rank{rank}" / "d0"
            write_dump(folder, [tensor(0, 0, "output", [rank, wrong * rank])])
    with session(tmp_path / "bad", golden=str(tmp_path / "good")) as view:
        shot = seen(view, lambda s: len(s.comparisons) == 2 and not any(c.running for c in s.comparisons.values()))
    assert [dump.count for dump in shot.dumps.values()] == [1, 1]
    by_rank = {"rank1" in path: found for path, found in shot.comparisons.items()}
    assert not by_rank[False].problem and by_rank[False].first is None
    assert by_rank[True].first == "task:ascend/r0t0" and "good/rank1/d0" in by_rank[True].golden


def test_a_task_beyond_the_rows_that_are_listed_is_listed_when_it_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "ROWS", 20)

    def dump(run: str, last: float) -> Path:
        values = [*range(60), last]
        return write_dump(tmp_path / run, [tensor(task, 0, "output", [one]) for task, one in enumerate(values)])

    name, _ = str(dump("bad", 7)), dump("good", 8)
    with session(tmp_path / "bad", golden=str(tmp_path / "good")) as view:
        seen(view, lambda s: s.comparisons and not s.comparisons[name].running)
        shot = seen(view, lambda s: len(s.dumps[name].rows) > 20)
    assert shot.comparisons[name].first == "task:ascend/r0t60"
    assert [row.number for row in shot.dumps[name].rows[20:]] == [60] and shot.dumps[name].count == 61


class Evil:
    """Runs code when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)


def test_golden_data_name_the_culprit_and_code_in_them_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    name = str(write_dump(tmp_path / "run", [tensor(0, 0, "input", [1, 2]), tensor(0, 1, "output", [3, 5])]))
    write_deps(tmp_path / "run", [(0, [("INPUT", 1), ("OUTPUT_EXISTING", 2)])], [], count=2)
    for side, key, values in (("in", "a", [1, 2]), ("out", "f", [3, 4])):
        (tmp_path / "golden" / side).mkdir(parents=True)
        torch.save(torch.tensor(values, dtype=torch.float32), tmp_path / "golden" / side / f"{key}.pt")
    (tmp_path / "evil" / "out").mkdir(parents=True)
    torch.save(Evil(tmp_path / "ran"), tmp_path / "evil" / "out" / "f.pt")
    with session(tmp_path / "run") as view:
        seen(view, lambda shot: shot.dumps)

        def compared(folder: str) -> ValueComparison:
            view.send(CompareValues(path=name, golden=str(tmp_path / folder)))
            done = f"/{folder}"
            shot = seen(view, lambda s: (c := s.comparisons.get(name)) and not c.running and c.golden.endswith(done))
            return shot.comparisons[name]

        found = compared("golden")
        assert found.first == "task:ascend/r0t0" and [task.verdict for task in found.tasks] == ["culprit"]
        assert found.headline.startswith("FIRST DIVERGENCE: r0t0") and "2 of 2 golden tensors" in found.summary[0]
        found = compared("evil")
        assert "no golden tensor could be matched" in found.problem and "is refused" in found.problem
        assert found.first is None and not found.tasks and not (tmp_path / "ran").exists()


def test_a_payload_gives_way_to_its_manifest_and_what_is_mended_is_well_again(tmp_path: Path) -> None:
    manifest = write_dump(tmp_path, [tensor(0, 0, "output", [1])])
    whole, payload = manifest.read_bytes(), str(manifest.with_name("args.bin"))
    manifest.unlink()
    with session(tmp_path) as view:
        assert "no manifest" in seen(view, lambda shot: shot.dumps).dumps[payload].problems[0]
        manifest.write_bytes(b"nothing of it yet")
        view.send(Refresh())
        seen(view, lambda shot: [s for s in shot.statuses.values() if s.health is SourceHealth.DEGRADED])
        manifest.write_bytes(whole)
        view.send(Refresh())
        shot = seen(view, lambda shot: str(manifest) in shot.dumps and payload not in shot.dumps)
        seen(view, lambda s: all(one.health is not SourceHealth.DEGRADED for one in s.statuses.values()))
        assert shot.dumps[str(manifest)].count == 1
        shutil.rmtree(manifest.parent)
        view.send(Refresh())
        gone = seen(view, lambda shot: [s for s in shot.statuses.values() if s.code == "gone"])
        assert str(manifest) in gone.dumps, "what was read of it stays"


@pytest.mark.invariant("values_adapter.V2")
def test_a_folder_whose_name_is_no_text_can_be_recorded(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/\x1b]0;evil\x07\xff"))
    write_dump(folder, [tensor(0, 0, "output", [np.nan])])
    recorder = Recorder(tmp_path / "r.livedbg", "box", "values")
    with session(tmp_path, recorder=recorder) as view:
        (name,) = seen(view, lambda shot: shot.dumps).dumps
        assert name.isprintable() and "evil" not in name
        view.send(PreviewValues(path=name, number=0))
        (look,) = seen(view, lambda shot: shot.value_previews).value_previews.values()
    recorder.close()
    assert ("NaN", "1") in look.statistics


def test_only_so_many_dumps_are_shown_and_those_are_kept_up_to_date(tmp_path: Path) -> None:
    for number in range(70):
        folder = tmp_path / f"{number:02}"
        folder.mkdir()
        (folder / "args_dump.json").write_text("{}")
    finder = Finder(dump_readers().files)
    found = finder.changes([tmp_path], None)
    assert len(found.dumps) == 64 == len(finder.dumps) and "64 dumps" in found.left_out
    found.dumps[-1].write_text("{ }")
    assert finder.changes([tmp_path], None).dumps == [found.dumps[-1]]


def test_a_dump_of_any_name_is_shown_where_it_is_named(tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    shutil.copy(write_dump(tmp_path / "run", [tensor(0, 0, "output", [1])]), copy)
    request = Request(host="box", logs=(str(tmp_path / "run" / "args_dump"),), options={VALUES_DUMP: str(copy)})
    view = LiveView(request, adapters=[ValuesAdapter()])
    view.start()
    try:
        shot = seen(view, lambda shot: len(shot.dumps) == 2)
    finally:
        view.stop()
    assert next(iter(shot.dumps)) == str(copy) and shot.dumps[str(copy)].count == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_bug_leaves_no_screen_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise KeyError("\x1b[31m")

    monkeypatch.setattr(state, "statistics", wrong)
    monkeypatch.setattr(state, "compared", wrong)
    name = str(write_dump(tmp_path, [tensor(0, 0, "output", [1])]))
    with session(tmp_path) as view:
        seen(view, lambda shot: shot.dumps)
        view.send(PreviewValues(path=name, number=0))
        view.send(CompareValues(path=name, golden="x"))
        shot = seen(view, lambda s: s.value_previews and any(one.problem for one in s.comparisons.values()))
    problems = shot.value_previews[name, 0].problem, shot.comparisons[name].problem
    assert all("KeyError" in problem and problem.isprintable() for problem in problems)


@pytest.mark.invariant("values_adapter.V1")
async def test_V1_one_thread_reads_for_each_purpose() -> None:
    turn, inside, most = Turn(), 0, 0

    def read() -> bool:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.02)
        inside -= 1
        return True

    assert await asyncio.gather(*(turn.newest(read, f"dump {number}") for number in range(8))) == [True] * 8
    assert most == 1 and turn.idle
    adapter = ValuesAdapter()
    assert [name for name, value in vars(adapter).items() if isinstance(value, Turn)] == ["_previews", "_compares"]
