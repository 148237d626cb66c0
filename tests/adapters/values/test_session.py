"""Dumps in a session: found beside the logs, looked at and compared when it is asked for, and recorded."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from livedbg.adapter import Request
from livedbg.adapters.logfiles import LogAdapter
from livedbg.adapters.values import ValuesAdapter
from livedbg.intents import VALUES_GOLDEN, CompareValues, LookAtValues, Refresh
from livedbg.live import LiveView
from livedbg.recording import Recorder
from livedbg.replay import ReplayView
from livedbg.snapshot import Snapshot
from livedbg.view import SessionView

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


def seen(view: SessionView, what: Callable[[Snapshot], object]) -> Snapshot:
    end_s = time.monotonic() + 60
    while not what(view.latest().snapshot):
        assert time.monotonic() < end_s, view.latest().snapshot.statuses
        time.sleep(0.05)
    return view.latest().snapshot


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
        view.send(LookAtValues(path=path, number=last.number))
        look = seen(view, lambda shot: shot.value_looks).value_looks[path, last.number]
        assert (
            ("min", "10") in look.statistics and look.counts == (256,) and look.numbers == ("[10 10 10 ... 10 10 10]",)
        )
        view.send(CompareValues(path=path, golden=str(good)))
        found = seen(view, lambda shot: shot.comparisons).comparisons[path]
        assert found.first == "task:ascend/r0t1" and "that dependency is lost" in found.headline
        view.send(CompareValues(path=path, golden=str(tmp_path / "nowhere")))
        again = seen(view, lambda shot: shot.comparisons[path].problem).comparisons[path]
        assert "nowhere can't be read" in again.problem and again.first is None
        view.send(LookAtValues(path="/etc/shadow", number=0))  # not of this session
        notices: list[str] = []
        view.subscribe(lambda update: notices.append(update.notice))
        seen(view, lambda _: any("There is no dump" in notice for notice in notices))
    recorder.close()
    replay = ReplayView(recording)
    replay.start()
    try:
        assert seen(replay, lambda shot: shot.comparisons).value_looks[path, last.number] == look
    finally:
        replay.stop()


def test_what_is_given_as_golden_is_compared_at_once() -> None:
    with session(ASCEND / "09_dep_lost", golden=str(ASCEND / "09_dep_good")) as view:
        (found,) = seen(view, lambda shot: shot.comparisons).comparisons.values()
    assert [task.verdict for task in found.tasks] == ["order"]


def test_a_dump_that_is_written_later_or_again_or_is_damaged(tmp_path: Path) -> None:
    with session(tmp_path) as view:
        target = tmp_path / "run" / "dfx"
        shutil.copytree(ASCEND / "09_dep_lost" / "dfx", target)
        manifest = target / "args_dump" / "args_dump.json"
        view.send(Refresh())
        assert seen(view, lambda shot: str(manifest) in shot.dumps).dumps[str(manifest)].count == 5
        manifest.write_bytes(manifest.read_bytes()[:900])
        view.send(Refresh())
        cut = seen(view, lambda shot: shot.dumps[str(manifest)].problems).dumps[str(manifest)]
        assert 0 < cut.count < 5
        manifest.write_bytes(b"\x00\xff" * 100)
        view.send(Refresh())
        wrong = seen(view, lambda shot: [s for s in shot.statuses.values() if s.source == "values"])
        assert all(status.sentence for status in wrong.statuses.values())
