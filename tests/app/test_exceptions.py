"""The Exceptions screen: setting and taking out catchpoints, hits merged by stack, their sheet; and pictures of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from livedbg.app.application import LivedbgApp
from livedbg.app.overlays import Prompt, SheetScreen
from livedbg.model import ExceptionHit, Frame, Process
from livedbg.model.catchpoints import Catchpoint, CatchpointState, Moment
from livedbg.model.errors import UsageError
from livedbg.model.events import CatchpointSeen, ExceptionSeen, ProcessSeen
from livedbg.model.intents import Catch, Resume, Uncatch
from livedbg.panels.catchpoints import CatchpointsPanel, group_of, merged, process_to_catch_in, sparkline
from livedbg.panels.draw_context import ASCII, CATCH_MARKS, UNICODE, DrawContext
from livedbg.panels.exceptions import HitsPanel, HitStackPanel
from livedbg.session.catch_options import presets, typed_catch
from tests.app.apps import answer, make_app, pressing, ready, text_of, until, view_of
from tests.app.fakes import S, stamp
from tests.app.hostile_strings import HOSTILE
from tests.app.scenarios import scenario
from tests.app.scenes.exceptions import hostile_hits
from tests.app.scenes.parts import PID, PROCESS, tid

SIZES = pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
_STACK = (Frame("f", "a.cpp", 1), Frame("main"))


def hit(number: int, at_s: int, *history: int, message: str = "", stack: tuple[Frame, ...] = _STACK) -> ExceptionHit:
    return ExceptionHit(
        id=f"h{number}", type="E", message=message, thread=f"t{number}", stack=stack, at_wall_ns=at_s * S,
        first_wall_ns=(at_s - len(history)) * S, count=sum(history) or 1, history=history,
    )  # fmt: skip


def by_id(*hits: ExceptionHit) -> dict[str, ExceptionHit]:
    return {one.id: one for one in hits}


async def screen_5(pilot: Pilot[int]) -> LivedbgApp:
    app = await ready(pilot)
    await pilot.press("5")
    return app


def test_hits_with_equal_stacks_are_one_and_keep_their_messages() -> None:
    hits = by_id(hit(1, 10, 1, 2, message="a"), hit(2, 12, 5, message="b"), hit(3, 11, 1, stack=(Frame("g"),)))
    groups = merged(hits)
    assert set(groups) == {"h1", "h3"}
    both = groups["h1"]
    assert (both.count, both.first_wall_ns, both.last_wall_ns) == (8, 8 * S, 12 * S)
    assert both.newest.id == "h2"
    assert both.messages == {"b": 5, "a": 3}
    assert both.threads == ("t2", "t1")
    assert both.history == (1, 2, 0, 5)  # each in its second
    assert group_of(hits, "h2") == both
    assert group_of(hits, "gone") is None
    assert set(merged(hits, apart=True)) == set(hits)


def test_without_a_stack_only_equal_messages_are_one() -> None:
    hits = by_id(*(hit(n, n, message=text, stack=()) for n, text in enumerate("aab", 1)))
    assert [group.count for group in merged(hits).values()] == [2, 1]


def test_sparkline_shows_the_newest_seconds_and_every_number_above_none() -> None:
    assert sparkline((9, 0, 1, 1000), 3, UNICODE.sparks) == " ▁█"
    assert sparkline((), 3, UNICODE.sparks) == ""
    assert sparkline((0, 0), 2, ASCII.sparks) == "  "
    assert ASCII.sparks.isascii()
    assert len(ASCII.sparks) == len(UNICODE.sparks)


def test_every_state_of_a_catchpoint_has_a_mark() -> None:
    assert {CATCH_MARKS[state].word for state in CatchpointState} == {state.value for state in CatchpointState}


@pytest.mark.parametrize(
    ("text", "pattern", "moment"),
    [
        (" std::bad_alloc ", "std::bad_alloc", None),
        ("/Error$/", "/Error$/", None),
        ("unsigned long", "unsigned long", None),
        ("rethrow c10::*", "c10::*", Moment.RETHROW),
        ("call ncclAllReduce", "ncclAllReduce", Moment.CALL),
        ("call", "call", None),
        ("abort", "abort", None),
    ],
)
def test_what_is_typed_is_what_is_caught(text: str, pattern: str, moment: Moment | None) -> None:
    assert typed_catch(text, PROCESS) == Catch(process=PROCESS, pattern=pattern, moment=moment)


@pytest.mark.invariant("catch_options.O1")
def test_O1_options_are_typed_as_on_the_command_line() -> None:
    text = '--stop --hold 30 c10::Error --message "don\'t fit" --count 2'
    assert typed_catch(text, PROCESS) == Catch(
        process=PROCESS, pattern="c10::Error", message="don't fit", count=2, stop=True, hold_s=30
    )
    assert typed_catch(r"/a\.b\d/ --follow", PROCESS) == Catch(process=PROCESS, pattern=r"/a\.b\d/", follow=True)
    assert typed_catch("any --stop", PROCESS).count == 1


@pytest.mark.parametrize(
    "text", ["", "  ", "/(/", "any --hold 3", "any --stop --follow", "any --nothing", "any --count x", "any 'open"]
)
def test_what_catches_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        typed_catch(text, PROCESS)


def test_it_catches_in_the_selected_process_or_the_only_one() -> None:
    view = scenario("nothing-set")
    view.start()
    assert process_to_catch_in(DrawContext(view.latest())) == PROCESS
    holder = Process(id="process:box/6000", host="box", pid=6000, command=("sleep",), target=False)
    view.feed([ProcessSeen(**stamp(44), process=holder)])
    assert process_to_catch_in(DrawContext(view.latest(), holder.id)) == PROCESS  # not one of the job
    other = Process(id="process:box/5000", host="box", pid=5000, command=("worker",))
    view.feed([ProcessSeen(**stamp(44), process=other)])
    context = DrawContext(view.latest())
    assert process_to_catch_in(context) is None
    assert process_to_catch_in(DrawContext(view.latest(), other.id)) == other.id
    assert process_to_catch_in(DrawContext(view.latest(), tid(PID + 1))) == PROCESS


@pytest.mark.parametrize("screen", ["1", "5"])
async def test_c_sets_a_catchpoint_from_any_screen_and_shows_the_exceptions(screen: str) -> None:
    app = make_app("nothing-set")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press(screen, "c")
        prompt = app.query_one(Prompt)
        assert all(name in prompt.placeholder for name in presets())
        assert all(name in text_of(app) for name in presets())
        await pilot.press(*"std::bad", "right")  # nothing to take over yet, or the completion
        await until(pilot, lambda: prompt.value.startswith("std::bad"))
        prompt.value = "std::bad_alloc"
        await pilot.press("enter")
        await until(pilot, lambda: app.current.id == "exceptions")
        assert view_of(app).sent == [Catch(process=PROCESS, pattern="std::bad_alloc")]
        assert not prompt.has_class("-open")


async def test_presets_and_caught_types_complete_what_is_typed() -> None:
    app = make_app("catching")
    async with app.run_test(size=(80, 24)) as pilot:
        await screen_5(pilot)
        prompt = app.query_one(Prompt)
        for typed, completed in (("nvf", "nvfuser"), ("std::len", "std::length_error")):
            await pilot.press("c", *typed)
            await until(pilot, lambda completed=completed: prompt._suggestion == completed)
            await pilot.press("right")
            assert prompt.value == completed
            await pilot.press("escape")
        await pilot.press("slash")
        assert prompt.suggester is None


async def test_escape_empty_and_wrong_texts_send_nothing_and_keep_the_rows() -> None:
    app = make_app("catching")
    async with app.run_test(size=(80, 24)) as pilot:
        await screen_5(pilot)
        hits = app.query_one(HitsPanel)
        for keys in (("c", "x", "escape"), ("c", "enter"), ("c", *"/(/", "enter")):
            await pilot.press(*keys)
            assert hits.has_focus
            assert hits.count() == 3
        assert view_of(app).sent == []
        assert any("not a regular expression" in notice.message for notice in app._notifications)


async def test_nothing_can_be_caught_in_a_recording() -> None:
    app = make_app("recording")
    async with app.run_test(size=(80, 24)) as pilot:
        await screen_5(pilot)
        await pilot.press("c")
        assert not app.query_one(Prompt).has_class("-open")
        assert any("recording" in notice.message for notice in app._notifications)


async def test_d_takes_the_catchpoint_of_the_row_out() -> None:
    app = make_app("catching")
    async with app.run_test(size=(120, 40)) as pilot:
        await screen_5(pilot)
        await pilot.press("d")  # the newest hit was seen by the second one
        await pilot.press("shift+tab")
        assert app.query_one(CatchpointsPanel).has_focus
        await pilot.press("d", "j", "delete")
        await until(pilot, lambda: len(view_of(app).sent) == 3)
    taken = [intent.catchpoint for intent in view_of(app).sent if isinstance(intent, Uncatch)]
    assert taken == ["catchpoint:box/4711/2", "catchpoint:box/4711/1", "catchpoint:box/4711/2"]


async def test_what_is_out_already_is_not_taken_out() -> None:
    app = make_app("denied")
    async with app.run_test(size=(120, 40)) as pilot:
        await screen_5(pilot)
        await pilot.press("d")  # no hit, so no catchpoint of one
        await until(pilot, lambda: any("no catchpoint here" in notice.message for notice in app._notifications))
        await pilot.press("shift+tab", "d")
        await until(pilot, lambda: any("already ended" in notice.message for notice in app._notifications))
    assert view_of(app).sent == []


async def test_the_stack_follows_the_hit_and_the_selection_its_thread() -> None:
    app = make_app("catching")
    async with app.run_test(size=(120, 40)) as pilot:
        await screen_5(pilot)
        stack = app.query_one(HitStackPanel)
        await until(pilot, lambda: "Pool::take" in text_of(app))
        await pilot.press("j")  # another hit of the same thread
        await until(pilot, lambda: "nvfuser::checkInlining" in text_of(app))
        assert "Pool::take" not in text_of(app)
        assert "Expected inlined position 3" in text_of(app)
        await pilot.press("j")
        await until(pilot, lambda: app.context.selection == tid(4713))
        assert stack.group is not None
        assert stack.group.count == 46_006
        assert "(1 of 4) queue 0 is empty" in text_of(app)
        await pilot.press("m")
        await until(pilot, lambda: app.query_one(HitsPanel).count() == 6)


async def test_a_hit_that_comes_in_moves_neither_cursor_nor_stack() -> None:
    app = make_app("catching")
    async with app.run_test(size=(120, 40)) as pilot:
        await screen_5(pilot)
        hits = app.query_one(HitsPanel)
        await pilot.press("j")
        await until(pilot, lambda: "nvfuser::checkInlining" in text_of(app))
        view_of(app).feed([ExceptionSeen(**stamp(44), hit=hit(77, 1_900_000_000, 1, message="news"))])
        await until(pilot, lambda: hits.count() == 4)
        assert hits.cursor == 2
        assert "nvfuser::checkInlining" in text_of(app)
        await pilot.press("slash", *"news", "enter")
        await until(pilot, lambda: hits.count() == 1 and "a.cpp:1" in text_of(app))


async def test_enter_opens_the_sheet_of_a_hit_and_leads_to_its_thread_catchpoint_and_log() -> None:
    app = make_app("catching")
    async with app.run_test(size=(120, 60)) as pilot:
        await screen_5(pilot)
        await pilot.press("j", "enter")
        await until(pilot, lambda: isinstance(app.screen, SheetScreen))
        text = text_of(app)
        for part in (
            "nvfuser::nvfError", "Expected inlined position 3", "12:03:23.000", "12:03:50.000", "not stopped for it",
            "thread 4712 train", "throw nvfuser", "fused_layer.py:88", "step 131 failed",
        ):  # fmt: skip
            assert part in text
        assert app.context.selection == tid(4712)
        assert isinstance(app.screen, SheetScreen)
        sheet = app.screen.panel
        sheet.move_to(next(n for n in range(sheet.count()) if sheet.entity(n) == "catchpoint:box/4711/1"))
        await pilot.press("enter")
        await until(pilot, lambda: "Catchpoint nvfuser" in text_of(app) and "48,211 seen, 3 hits" in text_of(app))
        await pilot.press("escape")
        sheet.move_to(next(n for n in range(sheet.count()) if sheet.entity(n) == tid(4712)))
        await pilot.press("enter")
        await until(pilot, lambda: "exceptions" in text_of(app) and "std::length_error ×1" in text_of(app))


async def test_the_header_tells_of_armed_catchpoints_where_there_is_room() -> None:
    for name, told in (("catching", True), ("denied", False), ("nothing-set", False)):
        app = make_app(name)
        async with app.run_test(size=(120, 30)) as pilot:
            await ready(pilot)
            assert ("tracing: 2" in text_of(app).splitlines()[0]) is told


async def test_the_header_tells_a_catchpoint_that_stops_from_listening() -> None:
    app = make_app("nothing-set")
    point = Catchpoint(id="c", process=PROCESS, pattern="any", engine="registers", state=CatchpointState.ARMED)
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot)
        view_of(app).feed([CatchpointSeen(**stamp(44), catchpoint=point)])
        await until(pilot, lambda: "tracing: 1" in text_of(app).splitlines()[0])
        view_of(app).feed([CatchpointSeen(**stamp(45), catchpoint=replace(point, engine="gdb"))])
        await until(pilot, lambda: "catching: 1" in text_of(app).splitlines()[0])


async def test_the_footer_has_room_for_every_screen() -> None:
    app = make_app("idle")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        footer = text_of(app).splitlines()[-1]
        assert all(f"{key} " in footer for key in "123456890?")
        assert "1 Over" in footer and "5 Exc " in footer and "0 Dev " in footer


async def test_failed_catchpoints_say_why_and_what_mends_it() -> None:
    app = make_app("denied")
    async with app.run_test(size=(80, 24)) as pilot:
        await screen_5(pilot)
        text = text_of(app)
        assert "does not let this user set probes" in text
        assert "sudo setcap cap_perfmon+ep" in text


async def test_foreign_text_is_clean_everywhere() -> None:
    app = make_app(hostile_hits())
    async with app.run_test(size=(160, 24)) as pilot:
        await screen_5(pilot)
        for _ in HOSTILE:
            await pilot.press("enter")
            assert all(line.isprintable() for line in text_of(app).split("\n"))
            await pilot.press("escape", "j")
        assert all(line.isprintable() for line in text_of(app).split("\n"))
        await pilot.press("shift+tab", "enter")
        assert all(line.isprintable() for line in text_of(app).split("\n"))


@SIZES
@pytest.mark.parametrize(
    ("name", "keys", "sight"),
    [("catching", "j", "checkInlining"), ("denied", "", "setcap"), ("nothing-set", "", "every C++ exception")],
    ids=["catching", "denied", "nothing-set"],
)
def test_picture(name: str, keys: str, sight: str, size: tuple[int, int], snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(make_app(name), terminal_size=size, run_before=pressing(f"5 {keys}", sight))


@pytest.mark.parametrize(("keys", "sight"), [("j enter", "caught by"), ("c", "--stop")], ids=["sheet", "prompt"])
def test_picture_over_it(keys: str, sight: str, snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(make_app("catching"), terminal_size=(80, 24), run_before=pressing(f"5 {keys}", sight))


async def test_what_a_thread_stood_for_is_shown_and_R_lets_it_go_on() -> None:
    app = make_app("nothing-set")
    async with app.run_test(size=(120, 40)) as pilot:
        await screen_5(pilot)
        thread = tid(PID + 1)
        stood = Frame("solve(int)", "/src/solve.cpp", 12, None, "native", 1, ("n=7",), ("int n = f();", "throw n;"), 11)
        point = Catchpoint(
            id="S1", process=PROCESS, pattern="int", engine="gdb", state=CatchpointState.ARMED, stopped_thread=thread,
            until_wall_ns=view_of(app).latest().snapshot.now().wall_ns + 75 * S, seen=1, hits=1,
        )  # fmt: skip
        one = ExceptionHit(
            id="h1", type="int", message="7", thread=thread, stack=(stood,), catchpoint="S1", at_wall_ns=S
        )
        view_of(app).feed([CatchpointSeen(**stamp(44), catchpoint=point), ExceptionSeen(**stamp(44), hit=one)])
        await until(pilot, lambda: "stopped" in text_of(app) and "R resumes it" in text_of(app))
        await until(pilot, lambda: "12 > throw n;" in text_of(app))
        assert re.search(r"gdb 7\ds", text_of(app))
        assert "THREAD STOPPED" in text_of(app)
        assert "n=7" in text_of(app) and "11   int n = f();" in text_of(app)
        await pilot.press("R")
        assert "goes on" in await answer(pilot)
        await until(pilot, lambda: view_of(app).sent == [Resume(catchpoint="S1")])
        await pilot.press("enter")
        await until(pilot, lambda: "caught by" in text_of(app))
        assert "12  throw n;" in text_of(app) and "n=7" in text_of(app)


async def test_R_says_where_nothing_stands() -> None:
    app = make_app("catching")
    async with app.run_test(size=(80, 24)) as pilot:
        await screen_5(pilot)
        await pilot.press("R")
        await until(pilot, lambda: any("No thread is stopped" in notice.message for notice in app._notifications))
        assert view_of(app).sent == []


def test_picture_in_ascii(snap_compare: Callable[..., bool]) -> None:
    app = make_app("catching", ascii_only=True)
    assert snap_compare(app, terminal_size=(120, 40), run_before=pressing("5 j", "checkInlining"))
