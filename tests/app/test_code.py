"""The code of the culprit on the Overview: whose it is, its source and its calls, why there is none."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
from livedbg.logs.tracebacks import innermost_raised
from livedbg.model import Evidence, ExceptionHit, LogSource, Severity, ThreadState
from livedbg.model import events as ev
from livedbg.panels.details import AboutPanel
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.stack import CodePanel
from livedbg.panels.verdict import code_place
from tests.app.apps import make_app, ready, text_of, until, view_of
from tests.app.fakes import FakeView, stamp
from tests.app.scenarios import scenario
from tests.app.scenes.parts import PROCESS, healthy, judge, process, stack, thread, tid
from tests.app.test_thread_rows import ROOT, job


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_source_of_the_culprit_with_its_line_marked(size: tuple[int, int]) -> None:
    app = make_app("deadlock")
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "std::lock_guard held(mutex_);" in text_of(app))
        text = text_of(app)
        (marked,) = [line for line in text.splitlines() if "▶" in line]
        assert "31 " in marked and "lock_guard" in marked
        assert "thread 4712 transfer-a at bank.cpp:31" in text
        assert ("transfer  bank.cpp:48" in text) == (size == (200, 60)), "calls where there is room"
        panel = app.query_one(CodePanel)
        panel.focus()
        await pilot.press("enter")
        await until(pilot, lambda: "thread:box/4711/4712" in text_of(app))


async def test_the_reason_where_there_is_no_source() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        view_of(app).feed([ev.StacksSeen(**stamp(44), stacks=(stack(4712, ("run", "bank.cpp", 31)),))])
        await until(pilot, lambda: "No source: bank.cpp was not read" in text_of(app))
        assert "0 run  bank.cpp:31" in text_of(app)


async def test_no_code_where_nothing_is_wrong() -> None:
    app = make_app("gil")
    async with app.run_test(size=(120, 50)) as pilot:
        await ready(pilot)
        running = scenario("idle")
        running.start()
        assert code_place(DrawContext(update=running.latest())) is None
        assert app.query_one(CodePanel).has_class("hidden") == (code_place(app.context) is None)


def test_the_culprit_is_the_first_root_with_a_stack() -> None:
    view = job()
    view.start()
    assert (place := code_place(DrawContext(update=view.latest()))) is not None and place.entity == ROOT
    view = scenario("deadlock")
    view.start()
    assert (place := code_place(DrawContext(update=view.latest()))) is not None and place.entity == tid(4712)


_TRACEBACK = """Traceback (most recent call last):
  File "/src/fail2.py", line 20, in <module>
    build({"names": []})
    ~~~~~^^^^^^^^^^^^^^^
  File "/src/fail2.py", line 11, in build
    return config["missing"]
           ~~~~~~^^^^^^^^^^^
KeyError: 'missing'"""


def _crash(*, sampled: int | None = None, named: bool = True) -> FakeView:
    """A process that sat in `load`, and ended by an exception in `build`, as its log says.

    Args:
        sampled: the line around which a stack that was taken has source.
        named: the verdict rests on the log's exception.
    """
    raised = innermost_raised(_TRACEBACK.split("\n"))
    assert raised is not None
    hit = ExceptionHit(
        id="x1", type=raised.type, message=raised.message, stack=raised.stack, source="log:err", line=8, first_line=1,
        raised_line=8,
    )  # fmt: skip
    old = stack(4711, ("load", "/src/fail2.py", 5), source=(0, 5, ["    return [name for name in names]"]))
    if sampled is not None:
        lines = [f"line {n}" if n != 11 else '    return config["missing"]' for n in range(sampled - 3, sampled + 4)]
        old = stack(4711, ("load", "/src/fail2.py", sampled), source=(0, sampled - 3, lines))
    log = Evidence(kind="log", file="stderr", line=8, text="KeyError: 'missing'", log="log:err")
    memory = Evidence(kind="proc", source="/proc/4711/stat", text="exit status 1")
    finding = Finding(
        rule="crash", severity=Severity.CRITICAL, sentence="Crashed in build (fail2.py:11): KeyError: 'missing'.",
        entities=(PROCESS,), evidence=(log if named else memory,), state=VerdictState.CRASHED,
    )  # fmt: skip
    verdict = Verdict(state=VerdictState.CRASHED, sentence=finding.sentence, roots=(PROCESS,))
    events = [
        process("python", "/src/fail2.py", threads=1),
        ev.ThreadsSeen(**stamp(1), threads=(thread(4711, "python", ThreadState.DEAD),)),
        ev.StacksSeen(**stamp(1), stacks=(old,)),
        ev.LogSourceSeen(**stamp(1), source=LogSource(id="log:err", name="stderr")),
        ev.ExceptionSeen(**stamp(1), hit=hit),
        *healthy(),
    ]
    return FakeView("box:4711 python fail2.py", events, judge(verdict, finding))


@pytest.mark.invariant("culprit.V1")
@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_V1_after_a_crash_the_line_of_the_traceback_is_marked_and_no_line_of_an_older_stack(
    size: tuple[int, int],
) -> None:
    app = make_app(_crash())
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "KeyError at fail2.py:11 build" in text_of(app))
        text = text_of(app)
        (marked,) = [line for line in text.splitlines() if "▶" in line]
        assert '11 return config["missing"]' in marked
        assert "names" not in text.partition("Threads")[0].partition("Code")[2].partition("build")[0]
        app.query_one(CodePanel).focus()
        await pilot.press("enter")
        await until(pilot, lambda: "fail2.py:20" in text_of(app) and app.screen is not app.main)


@pytest.mark.invariant("culprit.V1")
async def test_V1_the_lines_around_come_from_a_stack_that_has_the_same_line() -> None:
    app = make_app(_crash(sampled=10))
    async with app.run_test(size=(120, 50)) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "line 13" in text_of(app))
        (marked,) = [line for line in text_of(app).splitlines() if "▶" in line]
        assert 'return config["missing"]' in marked


@pytest.mark.invariant("culprit.V1")
async def test_V1_what_has_ended_shows_no_older_stack_where_no_traceback_is_named() -> None:
    app = make_app(_crash(named=False))
    async with app.run_test(size=(120, 50)) as pilot:
        await ready(pilot)
        assert code_place(app.context) is None
        assert app.query_one(CodePanel).has_class("hidden")


async def test_beside_a_table_what_is_known_of_the_selected_row() -> None:
    app = make_app("ascend")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("2")
        await until(pilot, lambda: "About  r0t12 moe_gate" in text_of(app))
        await pilot.press("down")
        await until(pilot, lambda: "About  r0t13 moe_route" in text_of(app))
        assert "waits for      r0t12 moe_gate" in text_of(app)


@pytest.mark.parametrize(("height", "shown"), [(31, False), (32, True)])
async def test_it_is_shown_where_there_is_room(height: int, shown: bool) -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(120, height)) as pilot:
        await ready(pilot)
        await pilot.press("3")
        await until(pilot, lambda: "▲" in text_of(app))
        assert ("About  thread 4712 transfer-a" in text_of(app)) == shown
        if shown:
            assert "std::lock_guard held(mutex_);" in app.query_one(AboutPanel).copy_text()
