"""What a user stumbled over once: unseen lines, a selection that is not followed, cut words that matter."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from livedbg.analysis.diagnosis import Diagnosis
from livedbg.app.overlays import Prompt, SheetScreen
from livedbg.model import ThreadState
from livedbg.model import events as ev
from livedbg.panels.cells import shortened
from livedbg.panels.graph import GraphPanel
from livedbg.panels.logs import LogsPanel
from livedbg.panels.stack import StackPanel
from livedbg.state.store import Store
from livedbg.text.wording import many
from livedbg.themes import Role
from tests.app.apps import make_app, ready, text_of, until, view_of
from tests.app.fakes import stamp
from tests.app.scenarios import scenario
from tests.app.scenes.parts import thread, tid


async def test_what_is_typed_is_seen_and_the_screens_come_back() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("4", "slash", *"teller")
        await until(pilot, lambda: text_of(app).splitlines()[-1].strip() == "teller")
        await pilot.press("enter")
        await until(pilot, lambda: "1 Over" in text_of(app).splitlines()[-1])
        assert not app.query_one(Prompt).has_class("-open")


async def test_what_a_filter_leaves_is_what_is_selected() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("4")
        stack = app.query_one(StackPanel)
        assert stack.thread == tid(4712)
        await pilot.press("slash", *"teller-4")
        await until(pilot, lambda: stack.thread == tid(4717))
        await pilot.press("escape")
        threads = app.query_one("#threads ThreadsPanel")
        await until(pilot, lambda: "13 waiting" in str(threads.border_title))
        assert stack.thread == app.context.selection == tid(4717)


@pytest.mark.parametrize("size", [(80, 24), (60, 15), (110, 32)])
async def test_the_next_step_is_seen_however_long_the_sentence_is(size: tuple[int, int]) -> None:
    view = scenario("deadlock")
    judge = view.judge

    def long_winded(store: Store) -> Diagnosis:
        found = judge(store)
        verdict = msgspec.structs.replace(found.verdict, sentence=found.verdict.sentence * 6)
        return replace(found, verdict=verdict)

    view.judge = long_winded
    app = make_app(view)
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "Next livedbg stacks" in text_of(app))
        assert "transfer-a" in text_of(app)


def test_an_address_keeps_the_digits_that_tell_it_from_others() -> None:
    one, other = (f"mutex 0x55d9ddb471{n}0 (pthread_mutex_lock)" for n in "48")
    assert shortened(one, 60) == one
    assert shortened(one, 18) == "mutex 0x…47140 (pthread_mutex_lock)" != shortened(other, 18)
    assert shortened("core 0x40", 4) == "core 0x40"


def test_one_is_not_many() -> None:
    assert [many(n, "record") for n in (0, 1, 4201)] == ["0 records", "1 record", "4,201 records"]
    assert many(2, "touch") == "2 touches"


async def test_enter_shows_all_of_a_log_record_and_what_it_speaks_of() -> None:
    app = make_app("ascend")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("6", "enter")
        await until(pilot, lambda: "Record of device-0, line 43" in text_of(app))
        text = " ".join(text_of(app).replace("│", " ").split())
        assert "stuck_task_id=12 stuck_core=10" in text
        assert "r0t12 moe_gate" in text
        await pilot.press("escape", "1", "tab", "tab", "enter")
        await until(pilot, lambda: "Record of device-0" in text_of(app))
        assert isinstance(app.screen, SheetScreen)


async def test_every_line_of_a_circle_is_red() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("3")
        panel = app.query_one(GraphPanel)
        await until(pilot, lambda: len(panel.layout_.boxes) > 4)
        circle = [wire for wire in panel.layout_.wires if panel._closes(wire)]
        assert len(circle) == 4
        red = app.context.ink.style(Role.BAD)
        canvas = panel._paint()
        for wire in circle:
            x, y = wire.points[1]
            assert canvas._lines[x, y][1] == red


async def test_a_stack_says_when_its_thread_ran_since() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("4")
        assert "it ran since" not in text_of(app)
        moved = thread(4712, "transfer-a", ThreadState.RUNNING, cpu_s=9.0)
        view_of(app).feed([ev.ThreadsSeen(**stamp(50), threads=(moved,)), ev.Tick(**stamp(50))])
        await until(pilot, lambda: "it ran since; s: take again" in text_of(app))


async def test_a_source_is_read_in_full() -> None:
    app = make_app("ascend")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("9", "tab", "enter")
        text = " ".join(text_of(app).replace("│", " ").split())
        assert "ascend, partly: The argument dump is written only when the run drains" in text
        assert "fix livedbg launch --recipe ascend-dump" in text


async def test_a_search_that_finds_nothing_says_so_once() -> None:
    app = make_app("ascend")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("6", "slash", *"no such word", "enter")
        panel = app.query_one(LogsPanel)
        await until(pilot, lambda: "No line of the logs matches no such word" in text_of(app))
        assert panel.has_focus
        await pilot.press("escape", "right_square_bracket", "slash", *"no such word", "enter")
        await until(pilot, lambda: any("Not found" in n.message for n in app._notifications))


async def test_the_header_keeps_the_program_and_drops_its_folders() -> None:
    view = scenario("deadlock")
    view.title = "box:4711 /srv/build/of/a/very/long/name/bank --tellers 9"
    app = make_app(view)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        assert "box:4711 bank --tellers" in text_of(app).splitlines()[0]
