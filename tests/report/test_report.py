"""Reports of small states: JSON, text and Markdown."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from livedbg.analysis import NO_DIAGNOSIS
from livedbg.analysis.diagnosis import Diagnosis
from livedbg.model import Frame, Intrusion, LogSource, SourceHealth, Stack, TaskState
from livedbg.model import events as ev
from livedbg.model.facts import LockFacts
from livedbg.model.snapshot import EMPTY
from livedbg.report.build import build, report_of
from livedbg.report.document import ReportDocument
from livedbg.report.text import to_markdown, to_text
from livedbg.session.view import NOTHING_YET, Update
from livedbg.state.retention import EXITED_PROCESSES, TOUCH_WINDOW
from livedbg.text.json_text import json_bytes
from livedbg.text.quantities import timestamp
from tests.analysis.world import SECOND, World, two_locks


def report(world: World) -> ReportDocument:
    return build(Update(world.snapshot(), world.diagnosis()))


def plain(world: World) -> Any:
    return json.loads(json_bytes(report(world)))


def full() -> World:
    """A deadlock with something of everything."""
    world = two_locks()
    world.status("gdb isn't installed.", SourceHealth.FAILED)
    world.exception("traceback", "process:box/1")
    frames = (Frame("work(int)", file="a.cpp", line=3, module="prog"), Frame("main"))
    stack = Stack(thread="thread:box/1/11", frames=frames, taken_mono_ns=1, source="no stop", partial=True)
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    log = LogSource(id="log:box/err.txt", name="stderr", path="/tmp/err.txt", lines=3)
    world.store.apply(ev.LogSourceSeen(source=log, **world.stamp()))
    touch = Intrusion(target="process:box/1", what="glance", why="asked for", paused_ns=400_000, stops=1)
    world.store.apply(ev.Touched(intrusion=touch, **world.stamp()))
    world.task("g1", TaskState.SUBMITTED, 0)
    return world


def test_a_deadlock_in_the_shape_of_the_schema() -> None:
    said = plain(two_locks())
    assert said["schema"] == "livedbg.report/1"
    assert said["taken_at"] == "2001-09-09T01:48:20.300Z"
    assert said["targets"] == [
        {
            "id": "process:box/1",
            "host": "box",
            "pid": 1,
            "rank": None,
            "command": ["prog1"],
            "state": "waiting",
        }
    ]
    assert said["verdict"]["state"] == "deadlock"
    assert said["verdict"]["findings"] == ["F1"]
    assert said["verdict"]["finding"] == "F1"
    assert (said["verdict"]["who"], said["verdict"]["certainty"]) == (said["verdict"]["roots"][0], "read")
    assert (said["verdict"]["where"], said["verdict"]["holder"]) == (None, said["verdict"]["roots"][1])
    assert said["verdict"]["since"] == "2001-09-09T01:48:20.000Z"
    assert said["findings"][0]["rule"] == "lock-cycle"
    assert said["findings"][0]["severity"] == "critical"
    alpha = said["entities"]["thread:box/1/11"]
    assert alpha["kind"] == "thread"
    assert alpha["waits_for"] == "mutex:box/1/0x20"
    assert alpha["stack"] == []
    assert alpha["waiters"] == 2
    assert {"kind", "from", "to", "state", "evidence"} <= set(said["edges"][0])
    assert said["intrusions"] == {"paused_ms": 0.0, "stops": 0, "touches": []}
    assert said["exceptions"] == []


def test_the_verdict_as_values() -> None:
    """Who waits where, and who had what it waits for: nobody has to read the sentence."""
    world = World()
    waiter = world.thread(11, "worker")
    world.waits(waiter, lock := world.lock(0x10, facts=LockFacts(ended_owner=77)))
    frames = (Frame("pthread_mutex_lock"), Frame("work(int)", file="a.cpp", line=3, module="prog"))
    stack = Stack(thread=waiter, frames=frames, taken_mono_ns=1, source="no stop")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    said = plain(world.later(20 * SECOND))["verdict"]
    assert (said["state"], said["roots"], said["finding"]) == ("stalled", [lock], "F1")
    assert (said["who"], said["holder"], said["certainty"]) == (waiter, "thread:box/1/77", "read")
    assert (said["where"]["function"], said["where"]["line"]) == ("work(int)", 3)


@pytest.mark.invariant("verdict.V2")
def test_V2_the_verdict_names_the_finding_whose_sentence_it_says() -> None:
    """Also where it is not the first one, and where the verdict says more than it; none where it rests on none."""
    blind = World()
    blind.thread(11, "worker")
    blind.status("The stacks of process 1 may not be read.", SourceHealth.FAILED)
    for world in (two_locks(), full(), blind.later(20 * SECOND)):
        diagnosis = world.diagnosis()
        says = [name for name, one in diagnosis.findings.items() if one.sentence in diagnosis.verdict.sentence]
        assert [diagnosis.verdict.chief or None] == (says[:1] or [None])
        assert plain(world)["verdict"]["finding"] == (diagnosis.verdict.chief or None)
    assert World().diagnosis().chief is None


def test_the_rest_of_the_report() -> None:
    said = plain(full())
    assert said["intrusions"]["paused_ms"] == pytest.approx(0.4)
    assert said["intrusions"]["stops"] == 1
    assert said["limits"][0]["remedy"] == "mend it"
    assert said["logs"][0]["path"] == "/tmp/err.txt"
    assert said["exceptions"][0]["type"] == "app::Error"
    assert said["exceptions"][0]["kind"] == "exception"
    assert said["entities"]["thread:box/1/11"]["stack"][0] == {
        "function": "work(int)",
        "file": "a.cpp",
        "line": 3,
        "module": "prog",
        "language": "native",
    }
    assert "partial" in said["entities"]["thread:box/1/11"]["stack_note"]


def test_what_the_state_no_longer_keeps_is_counted() -> None:
    world = full()
    touch = Intrusion(target="process:box/1", what="glance", why="asked for", paused_ns=1_000_000, stops=1)
    for _ in range(TOUCH_WINDOW):
        world.store.apply(ev.Touched(intrusion=touch, **world.stamp()))
    for pid in range(10, 11 + EXITED_PROCESSES):
        world.exits(world.process(pid), 0)
    said, gone = plain(world), 1 + EXITED_PROCESSES // 8
    assert said["omitted"]["touches"] == 1 and said["omitted"]["processes"] == gone
    assert len(said["intrusions"]["touches"]) == TOUCH_WINDOW
    assert said["intrusions"]["stops"] == TOUCH_WINDOW + 1
    assert said["intrusions"]["paused_ms"] == pytest.approx(TOUCH_WINDOW + 0.4)
    for text in (to_text(report(world)), to_markdown(report(world))):
        assert f"{gone} processes that exited earlier are not listed" in " ".join(text.split())


def test_every_entity_of_a_finding_is_described() -> None:
    said = plain(full())
    for finding in said["findings"]:
        assert set(finding["entities"]) <= set(said["entities"])


def test_several_alternatives_are_a_list() -> None:
    world = World()
    world.process(1)
    poller = world.thread(1, waits_in="poll of 2 descriptors")
    world.waits(poller, world.resource("pipe:box/1"), world.resource("pipe:box/2"))
    assert plain(world)["entities"][poller]["waits_for"] == ["pipe:box/1", "pipe:box/2"]


def test_json_comes_back_as_it_was() -> None:
    made = report(full())
    assert msgspec.json.decode(json_bytes(made), type=ReportDocument) == made
    assert msgspec.json.decode(json_bytes(made, pretty=True), type=ReportDocument) == made
    assert b"\n" not in json_bytes(made)


def test_a_report_of_nothing() -> None:
    empty = build(NOTHING_YET)
    assert empty.verdict.state == "unknown"
    assert to_text(empty)
    assert to_markdown(empty)
    assert report_of(EMPTY, Diagnosis(NO_DIAGNOSIS.verdict)) == empty


def test_text_fits_80_columns_and_tells_all() -> None:
    text = to_text(report(full()))
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("DEADLOCK since 2001-09-09T01:48:20.000Z\n")
    sections = ["Who waits for whom", "Evidence", "Next", "Also seen", "Could not be seen"]
    assert [line for line in text.splitlines() if line in sections] == sections
    assert "thread 11 (alpha)" in text
    assert "closes the cycle" in " ".join(text.split())
    assert "mend it" in text
    assert "target paused for 0.4 ms" in text


def test_text_of_a_very_wide_wait_stays_short() -> None:
    world = World()
    world.process(1)
    root = world.task("g0", TaskState.RUNNING, 0)
    for number in range(200):
        waiter = world.task(f"w{number}", TaskState.SUBMITTED, 0)
        world.waits(waiter, root)
    text = to_text(report(world.later(20 * 10**9)))
    assert "192 more" in text
    assert len(text.splitlines()) < 60


def test_markdown_can_not_be_broken_out_of() -> None:
    world = World()
    world.process(1)
    evil = "``` <script> [x](http://e) *a* | # @all"
    me, lock = world.thread(11, evil), world.lock(0x10)
    world.holds(lock, me)
    world.waits(me, lock)
    text = to_markdown(report(world.later()))
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert "[x](" not in text
    assert "\\@all" in text


def test_markdown_has_the_stacks_of_those_involved() -> None:
    assert "    #0 work(int) at a.cpp:3" in to_markdown(report(full()))


def test_timestamps() -> None:
    assert timestamp(1_767_225_600_000_999_999) == "2026-01-01T00:00:00.000Z"
    assert timestamp(1_767_225_600_999_999_999) == "2026-01-01T00:00:00.999Z"
