"""From a hit to its thread, to what was logged around it, and to its task."""

from __future__ import annotations

from msgspec.structs import replace
from textual.pilot import Pilot

from livedbg.app.application import LivedbgApp
from livedbg.model import LogRecord, LogSource, Task, TaskState, ThreadState
from livedbg.model import events as ev
from livedbg.panels.logs import LogsPanel
from livedbg.panels.tasks import TasksPanel
from livedbg.panels.threads import ThreadsPanel
from tests.app.apps import make_app, ready, text_of, until, view_of
from tests.app.fakes import T0_WALL, S, stamp
from tests.app.scenes.parts import PROCESS, thread, tid

TRAIN, OTHER = "log:box/train", "log:box/other"


async def at_the_hit(pilot: Pilot[int]) -> LivedbgApp:
    """Screen 5, on the hit of nvFuser in thread 4712 at 12:03:50."""
    app = await ready(pilot)
    await pilot.press("5", "g", "j")
    await until(pilot, lambda: "nvfuser::checkInlining" in text_of(app))
    return app


def record(text: str, at_s: float | None, *, tid_: int | None = None, source: str = OTHER) -> LogRecord:
    wall_ns = None if at_s is None else T0_WALL + round(at_s * S)
    return LogRecord(source=source, text=text, wall_ns=wall_ns, tid=tid_)


def said(app: LivedbgApp, words: str) -> bool:
    return any(words in notice.message for notice in app._notifications)


async def test_T_leads_to_the_thread() -> None:
    app = make_app("catching")
    async with app.run_test(size=(80, 24)) as pilot:
        await at_the_hit(pilot)
        await pilot.press("T")
        await until(pilot, lambda: app.current.id == "threads")
        panel = app.query_one("#threads ThreadsPanel", ThreadsPanel)
        assert panel.has_focus and panel.entity(panel.cursor) == app.context.selection == tid(4712)


async def test_T_leads_to_a_thread_that_a_filter_hid() -> None:
    app = make_app("catching")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("4", "slash", *"loader", "enter")
        panel = app.query_one("#threads ThreadsPanel", ThreadsPanel)
        await until(pilot, lambda: panel.count() == 2)
        await at_the_hit(pilot)
        await pilot.press("tab", "T")  # from the stack too
        await until(pilot, lambda: app.current.id == "threads" and panel.entity(panel.cursor) == tid(4712))
        assert panel.count() == 4


async def test_T_says_that_a_thread_has_ended() -> None:
    app = make_app("catching")
    async with app.run_test(size=(80, 24)) as pilot:
        await at_the_hit(pilot)
        gone = replace(thread(4712, "train", ThreadState.DEAD), exited=True)
        view_of(app).feed([ev.ThreadsSeen(**stamp(44), threads=(gone,))])
        await until(pilot, lambda: app.context.snapshot.threads[tid(4712)].exited)
        await pilot.press("T")
        await until(pilot, lambda: said(app, "thread 4712 train has exited"))
        assert app.current.id == "exceptions"


async def test_L_leads_to_what_the_thread_logged_around_that_time() -> None:
    app = make_app("catching")
    async with app.run_test(size=(120, 30)) as pilot:
        await at_the_hit(pilot)
        revision = app.context.snapshot.revision
        mine = [record(f"own {n}", n, tid_=4712, source=TRAIN) for n in (5, 36, 41, 60)]
        view_of(app).feed([ev.LogsSeen(**stamp(60), records=(*mine, record("of another", 39, tid_=4713)))])
        await until(pilot, lambda: app.context.snapshot.revision > revision)
        await pilot.press("L")
        await until(pilot, lambda: app.current.id == "logs")
        panel = app.query_one(LogsPanel)
        await until(pilot, lambda: panel.only == tid(4712))
        at = panel.record(panel.cursor)
        assert at is not None and at.text.startswith("step 131 failed") and not panel.following
        assert "own 60" in text_of(app) and "of another" not in text_of(app)
        assert "of thread 4712 train (Escape shows all)" in text_of(app)
        await pilot.press("escape")
        await until(pilot, lambda: "of another" in text_of(app))


async def test_L_leads_to_the_process_and_then_to_all_logs_where_the_thread_logged_nothing_then() -> None:
    app = make_app("catching")
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot)
        await pilot.press("5", "j", "j")  # thread 4713, at 12:03:53
        await until(pilot, lambda: app.context.selection == tid(4713))
        await pilot.press("L")
        panel = app.query_one(LogsPanel)
        await until(pilot, lambda: said(app, "around that time: all logs"))
        assert panel.only is None
        source = LogSource(id=OTHER, name="other", process=PROCESS)
        news = (record("near", 41), record("far", 90), record("old", 0, tid_=4713))
        view_of(app).feed([ev.LogSourceSeen(**stamp(90), source=source), ev.LogsSeen(**stamp(90), records=news)])
        await until(pilot, lambda: "near" in text_of(app))
        await pilot.press("5", "L")
        await until(pilot, lambda: panel.only == PROCESS)
        at = panel.record(panel.cursor)
        assert at is not None and at.text == "near"


async def test_L_says_what_has_no_time_stamps() -> None:
    app = make_app("catching")
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot)
        await pilot.press("5", "j", "j")
        view = view_of(app)
        revision = app.context.snapshot.revision
        hit = max(view.latest().snapshot.exceptions.values(), key=lambda one: one.at_wall_ns or 0)
        later = replace(hit, at_wall_ns=T0_WALL + 900 * S)
        plain = record("plain line", None)
        source = LogSource(id=OTHER, name="other", process=PROCESS)
        view.feed(
            [
                ev.LogSourceSeen(**stamp(90), source=source),
                ev.LogsSeen(**stamp(90), records=(plain,)),
                ev.ExceptionSeen(**stamp(91), hit=later),
            ]
        )
        await until(pilot, lambda: app.context.snapshot.revision > revision)
        await pilot.press("L")
        await until(pilot, lambda: said(app, "without time stamps"))
        assert app.query_one(LogsPanel).only == PROCESS


async def test_L_says_that_no_log_is_read() -> None:
    app = make_app("hostile-hits")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("5", "L")
        await until(pilot, lambda: said(app, "No logs are read"))
        assert app.current.id == "exceptions"


async def test_W_leads_to_the_task_that_the_thread_works_on_and_says_why_not() -> None:
    app = make_app("catching")
    async with app.run_test(size=(120, 30)) as pilot:
        await at_the_hit(pilot)
        await pilot.press("W")
        await until(pilot, lambda: said(app, "no runtime reports any"))
        other = Task(id="task:demo/1", system="demo", name="t1", state=TaskState.RUNNING, where=("core:demo/1",))
        view_of(app).feed([ev.TasksSeen(**stamp(44), tasks=(other,))])
        await until(pilot, lambda: len(app.context.snapshot.tasks) == 1)
        await pilot.press("W")
        await until(pilot, lambda: said(app, "No task is known for thread 4712 train"))
        over = replace(other, id="task:demo/2", name="t2", state=TaskState.COMPLETED, where=(tid(4712),))
        failed = replace(other, id="task:demo/3", name="t3", state=TaskState.FAILED, where=(tid(4712),))
        view_of(app).feed([ev.TasksSeen(**stamp(45), tasks=(over, failed))])
        await until(pilot, lambda: len(app.context.snapshot.tasks) == 3)
        await pilot.press("W")
        await until(pilot, lambda: app.current.id == "tasks" and app.context.selection == failed.id)
        panel = app.query_one("#tasks TasksPanel", TasksPanel)
        assert panel.entity(panel.cursor) == failed.id


async def test_without_a_hit_the_keys_say_so() -> None:
    app = make_app("nothing-set")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("5", "T", "L", "W", "tab", "T")
        await until(pilot, lambda: said(app, "Nothing is selected"))
        assert app.current.id == "exceptions"
