"""What a user does in the app, and what the session and the screen say then."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from msgspec import structs
from rich.cells import cell_len
from textual.widget import Widget

from livedbg.analysis.diagnosis import Diagnosis, Verdict, VerdictState
from livedbg.app.feed import Feed, is_verdict
from livedbg.app.overlays import SheetScreen
from livedbg.model import Frame, LogRecord, Stack
from livedbg.model.events import LogsSeen, StacksSeen, Tick
from livedbg.model.intents import Refresh, WantStacks
from livedbg.panels.base import Picked
from livedbg.panels.graph import GraphPanel
from livedbg.panels.logs import LogsPanel
from livedbg.panels.neighbourhood import MAX_NODES
from livedbg.panels.stack import StackPanel
from livedbg.panels.tasks import TasksPanel
from livedbg.panels.threads import ThreadsPanel
from livedbg.panels.waits import WaitsPanel
from livedbg.session.rulebook import diagnose
from livedbg.session.view import NOTHING_YET
from livedbg.state.store import Store
from tests.app.apps import make_app, offered, ready, text_of, until, view_of
from tests.app.fakes import FakeTimeline, stamp
from tests.app.scenarios import SCENARIOS, scenario
from tests.app.scenes.locks import idle
from tests.app.scenes.parts import PROCESS, tid


def written_names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_screen_shows_every_state_at_every_size(name: str) -> None:
    app = make_app(name)
    sizes = ((80, 24), (300, 20), (40, 10))  # 200x60: the snapshots
    async with app.run_test(size=sizes[0]) as pilot:
        await ready(pilot)
        for size in sizes:
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: app.size == size)
            for key in "1234569":
                await pilot.press(key)
                text = text_of(app)
                assert "livedbg" in text
                assert [line for line in text.split("\n") if cell_len(line) != size[0]] == []


async def test_real_diagnosis_is_shown() -> None:
    view = scenario("deadlock")
    view.judge = lambda store: diagnose(store.snapshot())
    app = make_app(view)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        assert view.latest().diagnosis.verdict.sentence[:30] in text_of(app)


@pytest.mark.invariant("application.A1")
async def test_A1_every_panel_follows_the_selection() -> None:
    app = make_app("ascend")
    async with app.run_test(size=(160, 50)) as pilot:
        await ready(pilot)
        assert app.context.selection == "task:ascend/r0t12"
        await pilot.press("j", "j")
        await until(pilot, lambda: app.context.selection == "task:ascend/r0t14")
        tree = app.query_one("#overview WaitsPanel", WaitsPanel)
        assert tree.entity(tree.cursor) == "task:ascend/r0t14"
        assert "all(" not in text_of(app)
        await pilot.press("3")
        graph = app.query_one(GraphPanel)
        await until(pilot, lambda: "task:ascend/r0t14" in graph.layout_.boxes)


@pytest.mark.invariant("application.A2")
async def test_A2_frozen_keeps_the_screen_and_takes_events_in() -> None:
    app = make_app("idle")
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("space")
        assert "FROZEN" in text_of(app)
        before = app.context
        view_of(app).feed(scenario("deadlock").events)
        await until(pilot, lambda: app._newest is not None and app._newest is not before.update)
        assert app.context is before
        await pilot.press("space")
        await until(pilot, lambda: len(app.context.snapshot.threads) == 13)


@pytest.mark.invariant("application.A3")
async def test_A3_the_session_starts_after_the_first_paint() -> None:
    view = idle()
    painted_before_start: list[bool] = []
    begin = view.start

    def start() -> None:
        painted_before_start.append(app._running and app.current.is_mounted)
        begin()

    view.start = start  # type: ignore[method-assign]
    app = make_app(view)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
    assert painted_before_start == [True]


@pytest.mark.invariant("feed.B2")
async def test_B2_a_burst_ends_with_the_newest_state() -> None:
    app = make_app("idle", interval_s=0.05)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        view = view_of(app)
        for _ in range(500):
            view.feed(idle().events[-1:])
        await until(pilot, lambda: app.context.update is view.latest())


async def test_evidence_opens_by_one_key_and_closes() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("e")
        assert isinstance(app.screen, SheetScreen)
        text = text_of(app)
        assert "lock-cycle" in text
        assert "owner word = 4713" in text
        await pilot.press("escape")
        assert not isinstance(app.screen, SheetScreen)


async def test_details_of_a_row_and_of_what_it_waits_for() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(120, 50)) as pilot:
        await ready(pilot)
        await pilot.press("enter")
        assert "thread 4712 transfer-a" in text_of(app)
        assert "pthread_mutex_lock" in text_of(app)
        assert isinstance(app.screen, SheetScreen)
        sheet = app.screen.panel
        link = next(n for n in range(sheet.count()) if (sheet.entity(n) or "").startswith("mutex:"))
        sheet.move_to(link)
        await pilot.press("enter")
        await until(pilot, lambda: "mutex 0x7f12a0e8" in text_of(app).splitlines()[8] or "kind" in text_of(app))


async def test_stacks_are_asked_of_the_session() -> None:
    app = make_app("gil")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("4", "s")
        await until(pilot, lambda: view_of(app).sent)
        assert view_of(app).sent == [WantStacks(process=PROCESS)]


async def test_stack_of_the_selected_thread_with_equal_ones_counted() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(160, 40)) as pilot:
        await ready(pilot)
        await pilot.press("4")
        app.post_message(Picked(tid(4715)))
        panel = app.query_one(StackPanel)
        await until(pilot, lambda: panel.thread == tid(4715))
        assert len(panel.same) == 8
        assert "Account::balance() const" in text_of(app)
        await pilot.press("m")
        threads = app.query_one("#threads ThreadsPanel", ThreadsPanel)
        assert threads.count() == 4  # bank, metrics, the two of the circle, nine tellers
        assert "×9 teller-1" in text_of(app)


async def test_filter_and_sort() -> None:
    app = make_app("ascend")
    async with app.run_test(size=(140, 40)) as pilot:
        await ready(pilot)
        await pilot.press("2")
        panel = app.query_one("#tasks TasksPanel", TasksPanel)
        await until(pilot, lambda: panel.count() == 4219)
        await pilot.press("slash", *"combine", "enter")
        await until(pilot, lambda: 0 < panel.count() < 700)
        assert panel.has_focus
        await pilot.press("escape")
        await until(pilot, lambda: panel.count() == 4219)
        await pilot.press("s")
        await until(pilot, lambda: panel.sort == "behind" and panel.entity(0) == "task:ascend/r0t12")


@pytest.mark.invariant("panels.P3")
async def test_P3_the_cursor_stays_on_its_row() -> None:
    app = make_app("ascend")
    async with app.run_test(size=(140, 40)) as pilot:
        await ready(pilot)
        panel = app.query_one("#overview TasksPanel", TasksPanel)
        await until(pilot, lambda: panel.count() == 4219)
        await pilot.press("j", "j", "j")
        entity = panel.entity(panel.cursor)
        await pilot.press("s", "s", "s")
        await until(pilot, lambda: panel.sort == "name" and panel._waiting is None)
        assert panel.entity(panel.cursor) == entity


async def test_copy_is_clean_text_of_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app("hostile")
    copied: list[str] = []
    monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
    async with app.run_test(size=(140, 40)) as pilot:
        await ready(pilot)
        for key in "1234569":
            await pilot.press(key, "y")
    assert copied
    assert all(part.isprintable() for text in copied for part in text.split("\n"))


async def test_export_writes_into_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = make_app("deadlock")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("x")
        await until(pilot, lambda: len(app._notifications) == 1 and len(written_names(tmp_path)) == 3)
    written = {Path(name).suffix: (tmp_path / name).read_text() for name in written_names(tmp_path)}
    assert set(written) == {".json", ".md", ".svg"}
    assert json.loads(written[".json"])["verdict"]["state"] == "deadlock"
    assert "transfer-a" in written[".svg"]
    assert "transfer-a" in written[".md"]


async def test_themes_by_key_and_palette() -> None:
    app = make_app("idle")
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("t")
        assert app.context.ink.palette.name == "contrast"
        await pilot.press("ctrl+p", *"colour-blind")
        await offered(pilot, "colour-blind")
        await pilot.press("enter")
        await until(pilot, lambda: app.context.ink.palette.name == "colour-blind")


async def test_palette_runs_the_commands_of_the_focused_panel() -> None:
    app = make_app("gil")
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+p", *"take stacks")
        await offered(pilot, "take stacks")
        await pilot.press("enter")
        await until(pilot, lambda: view_of(app).sent)


async def test_help_lists_every_key_of_the_screen() -> None:
    app = make_app("idle")
    async with app.run_test(size=(120, 120)) as pilot:
        await ready(pilot)
        await pilot.press("4", "question_mark")
        text = text_of(app)
        for key in (*ThreadsPanel.KEYS, *StackPanel.KEYS):
            assert key.help in text


async def test_replay_keys_move_the_time_line() -> None:
    app = make_app("recording")
    line = view_of(app).timeline
    assert isinstance(line, FakeTimeline)
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        assert "paused" in text_of(app)
        await pilot.press("p")
        assert line.playing
        at = line.position_wall_ns
        await pilot.press("greater_than_sign")
        assert line.position_wall_ns == at + 5_000_000_000
        await pilot.press("comma")
        assert line.position_wall_ns == at + 4_000_000_000
        assert not line.playing
        await pilot.press("asterisk")
        assert line.speed == 2
        await pilot.press("b")
        assert line.position_wall_ns == line.start_wall_ns


async def test_logs_follow_jump_search_and_filter() -> None:
    app = make_app("ascend")
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot)
        await pilot.press("6", "right_square_bracket", "right_square_bracket")
        panel = app.query_one(LogsPanel)
        assert panel.source == "log:box/device-0"
        await until(pilot, lambda: panel.count() == 43 and panel.cursor == 42)
        await until(pilot, lambda: "TIMEOUT_EXIT" in text_of(app))
        await pilot.press("g")
        await until(pilot, lambda: "task 60 " in text_of(app))
        assert not panel.following
        await pilot.press("slash", *"stall thread", "enter")
        await until(pilot, lambda: panel.cursor == 41)
        await pilot.press("slash", *"(", "enter")
        await pilot.press("v")
        await until(pilot, lambda: panel.count() == 2)
        await pilot.press("v")
        await until(pilot, lambda: panel.count() == 1)
        await pilot.press("f")
        assert panel.following


async def test_graph_never_draws_everything() -> None:
    app = make_app("hostile")
    async with app.run_test(size=(200, 60)) as pilot:
        await ready(pilot)
        await pilot.press("3")
        for _ in range(6):
            await pilot.press("plus")
        assert 1 < len(app.query_one(GraphPanel).layout_.boxes) <= MAX_NODES
        await pilot.press("w", "w", "j", "l", "h", "k")


async def test_mouse_selects_scrolls_and_chooses_a_screen() -> None:
    app = make_app("ascend")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.click("#overview TasksPanel", offset=(10, 4))
        await until(pilot, lambda: app.context.selection == "task:ascend/r0t14")
        await pilot.click("FooterBar", offset=(text_of(app).splitlines()[-1].index("Threads"), 0))
        await until(pilot, lambda: app.current.id == "threads")


async def test_notices_and_refresh() -> None:
    app = make_app("idle")
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("r")
        assert view_of(app).sent == [Refresh()]
        view_of(app).feed((), notice="gdb is not there\x1b]0;x\x07: [apt-get install gdb]")
        await until(pilot, lambda: any("apt-get" in n.message for n in app._notifications))
        assert all("\x1b" not in n.message for n in app._notifications)


async def test_quit_and_a_session_that_cannot_start() -> None:
    app = make_app("idle")
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("q")
    assert app.return_value == 0
    view = idle()
    view.error = RuntimeError("no such process")
    app = make_app(view)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app._exit)
    assert app.feed.error is view.error


async def test_updates_that_come_while_it_ends_do_no_harm() -> None:
    app = make_app("ascend")
    done = threading.Event()

    def load() -> None:
        while not done.is_set():
            view_of(app).feed(idle().events[-1:])

    worker = threading.Thread(target=load)
    try:
        async with app.run_test(size=(100, 30)) as pilot:
            await ready(pilot)
            worker.start()
            await pilot.press("j", "j", "q")
    finally:
        done.set()
        worker.join()
    assert app.return_value == 0


@pytest.mark.parametrize("key", ["1", "4"])
async def test_a_clock_that_ticks_while_it_ends_does_no_harm(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual takes the panels away one after the other, the innermost first, and the app's timers go on meanwhile."""
    app = make_app("deadlock")
    ended: list[str | None] = []
    removed = Widget._message_loop_exit

    async def tick(panel: Widget) -> None:
        await removed(panel)
        ended.append(panel.id)
        view_of(app).feed(idle().events[-1:])
        app._beat()

    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press(key)
        monkeypatch.setattr(Widget, "_message_loop_exit", tick)
    assert {"threads" if key == "4" else "overview", "views"} <= set(ended)


@pytest.mark.invariant("feed.B1")
async def test_B1_updates_do_not_wait_for_a_screen_that_is_busy() -> None:
    app = make_app("idle", interval_s=0.05)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        view = view_of(app)

        def feed() -> None:
            for _ in range(300):
                view.feed(idle().events[-1:])

        session = threading.Thread(target=feed)
        session.start()
        session.join(100)  # the app's own thread: nothing is painted meanwhile
        assert not session.is_alive()
        assert app.feed.take() is view.latest()
        assert app.feed.take() is None


@pytest.mark.invariant("feed.B3")
def test_B3_a_verdict_is_shown_at_once_and_numbers_with_the_clock() -> None:
    view = idle()
    view.judge = lambda store: diagnose(store.snapshot())
    woken: list[float | None] = []
    feed = Feed(view, lambda: woken.append(feed.due()), 5000.0)
    end = view.subscribe(feed._take)
    view.start()
    first = feed.take()
    assert first is not None and first.diagnosis.verdict.state is not VerdictState.DEADLOCK
    woken.clear()
    view.feed([Tick(**stamp(100))])
    assert feed.due() is None and not woken  # only the time has moved
    view.feed([LogsSeen(records=(LogRecord(source="log:box/x", text="news"),), **stamp(101))])
    due = feed.due()
    assert due is not None and 4000.0 < due <= 5000.0 and len(woken) == 1
    view.feed(scenario("deadlock").events)
    assert view.latest().diagnosis.verdict.state is VerdictState.DEADLOCK
    due = feed.due()
    assert due is not None and due <= 0.02 and len(woken) == 2
    assert feed.take() is view.latest()
    end()


@pytest.mark.invariant("feed.B3")
def test_B3_the_first_verdict_is_shown_at_once_though_it_is_unknown_as_before() -> None:
    said = Diagnosis(Verdict(state=VerdictState.UNKNOWN, sentence="Inconclusive."))
    looking = Diagnosis(Verdict(state=VerdictState.UNKNOWN, sentence="Looking."))
    before = structs.replace(NOTHING_YET, diagnosis=looking, part=said)
    after = structs.replace(NOTHING_YET, diagnosis=said)
    assert is_verdict(before, after)
    assert not is_verdict(before, before) and not is_verdict(after, after)


@pytest.mark.invariant("feed.B3")
def test_B3_what_moves_all_the_time_comes_with_the_clock_until_a_key_is_pressed() -> None:
    view = idle()
    woken: list[float | None] = []
    feed = Feed(view, lambda: woken.append(feed.due()), 5000.0)
    end = view.subscribe(feed._take)
    view.start()
    assert feed.take() is not None
    woken.clear()

    def moved(number: int) -> None:
        thread = next(iter(view.latest().snapshot.threads))
        stack = Stack(thread=thread, frames=(Frame(function=f"step_{number}"),), taken_mono_ns=number, source="x")
        view.feed([StacksSeen(stacks=(stack,), **stamp(100 + number))])

    moved(1)
    assert feed.due() is None and not woken
    feed.used()
    moved(2)
    due = feed.due()
    assert due is not None and due <= 5000.0 and len(woken) == 1
    end()


@pytest.mark.invariant("feed.B4")
def test_B4_a_job_that_runs_is_painted_every_few_seconds_until_something_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, now_s = idle(), [1000.0]
    monkeypatch.setattr("livedbg.app.feed.time.monotonic", lambda: now_s[0])
    roots: list[str] = []

    def judge(store: Store) -> Diagnosis:
        roots.append(f"thread:box/1/{len(roots)}")  # another one each time
        return Diagnosis(Verdict(state=VerdictState.RUNNING, sentence="Running.", roots=(roots[-1],)))

    view.judge = judge
    feed = Feed(view, lambda: None, 0.25)
    end = view.subscribe(feed._take)
    view.start()
    view.feed([Tick(**stamp(100))])
    assert not feed.calm() and feed.take() is not None  # the first verdict
    now_s[0] += 1
    view.feed([Tick(**stamp(101))])
    assert feed.due() is None and feed.calm()
    feed.used()
    assert not feed.calm()  # somebody is there
    now_s[0] += 10
    assert not feed.calm() and feed.take() is not None  # it has waited for long
    now_s[0] += 1
    view.feed([Tick(**stamp(102))])
    assert feed.calm()
    view.feed([LogsSeen(records=(LogRecord(source="log:box/x", text="news"),), **stamp(103))])
    assert not feed.calm() and feed.due() is not None
    assert feed.take() is not None
    now_s[0] += 1
    view.judge = lambda store: diagnose(store.snapshot())
    view.feed(scenario("deadlock").events)
    assert view.latest().diagnosis.verdict.state is VerdictState.DEADLOCK
    assert not feed.calm() and feed.due() is not None
    end()
