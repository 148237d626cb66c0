"""The ledger holds every stop, and the report and the header show its sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livedbg.adapters.exceptions import ExceptionsAdapter, StoppingAdapter
from livedbg.adapters.glance import GlanceAdapter
from livedbg.adapters.proc import ProcAdapter
from livedbg.model import Intrusion
from livedbg.model.catchpoints import CatchpointState
from livedbg.model.intents import Catch, Glance
from livedbg.report.build import build
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from tests.adapters.exceptions.catching import take_time
from tests.conftest import Target, eventually, settled
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")


@contextmanager
def session(pid: int) -> Iterator[LiveView]:
    request = Request(host="box", processes=(TargetProcess(pid),), stacks="none")
    view = LiveView(request, adapters=[ProcAdapter(), GlanceAdapter(), ExceptionsAdapter(), StoppingAdapter()])
    view.start()
    try:
        eventually(lambda: bool(view.latest().snapshot.threads))
        yield view
    finally:
        view.stop()


def ledger(view: LiveView) -> dict[str, list[Intrusion]]:
    """The touches by what they were, once the report says the same."""
    update = view.latest()
    found: dict[str, list[Intrusion]] = {}
    for touch in update.snapshot.intrusions:
        found.setdefault(touch.what, []).append(touch)
        assert touch.measured and (touch.paused_ns > 0) == (touch.stops > 0), touch
    told = build(update).intrusions
    assert told.paused_ms == pytest.approx(sum(touch.paused_ns for touch in update.snapshot.intrusions) / 1e6)
    assert told.stops == sum(touch.stops for touch in update.snapshot.intrusions)
    assert len(told.touches) == len(update.snapshot.intrusions)
    return found


def test_glances_are_in_the_ledger_with_each_thread_that_was_stopped(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    target = spawn([build_target("spinners"), "2"])
    settled(target.pid, but=set(map(int, target.words[1:-1])))  # but those that spin
    with session(target.pid) as view:
        for number in (1, 2):
            view.send(Glance(process=f"process:box/{target.pid}"))
            eventually(lambda number=number: len(view.latest().snapshot.intrusions) == number)  # type: ignore[misc]
        glances = ledger(view)
        assert set(glances) == {"glance"} and {touch.stops for touch in glances["glance"]} <= {2, 3}


def test_who_listens_stops_nothing_and_is_in_the_ledger_all_the_same(
    build_target: Callable[..., Path], spawn: Callable[..., Target], tmp_path: Path
) -> None:
    target = spawn([build_target("thrower"), tmp_path / "counters"])
    with session(target.pid) as view:
        view.send(Catch(process=f"process:box/{target.pid}", pattern="std::runtime_error", count=3))
        eventually(lambda: [p.state for p in view.latest().snapshot.catchpoints.values()] == [CatchpointState.DONE])
        (touch,) = ledger(view)["probe"]
        assert touch.stops == 0 and view.latest().snapshot.paused_ns == 0


def test_threads_that_stand_at_a_throw_are_in_the_ledger_also_those_that_nobody_wanted(
    build_target: Callable[..., Path], spawn: Callable[..., Target], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_time(monkeypatch)
    target = spawn([build_target("thrower"), tmp_path / "counters"])
    with session(target.pid) as view:
        view.send(Catch(process=f"process:box/{target.pid}", pattern="std::runtime_error", stop=True, count=3))
        eventually(lambda: [p.state for p in view.latest().snapshot.catchpoints.values()] == [CatchpointState.DONE])
        (point,) = view.latest().snapshot.catchpoints.values()
        found = ledger(view)
        (attached,) = found["attach"]
        assert attached.stops >= 4
        assert len(found["stop"]) == point.hits == 3
        assert sum(touch.stops for touch in found.get("pass", [])) >= point.lost
