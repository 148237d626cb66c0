"""`v` in Threads: the variables of the selected thread are asked for, shown below their frames, and stay."""

from __future__ import annotations

from msgspec import structs

from livedbg.app.application import LivedbgApp
from livedbg.model import Stack
from livedbg.model import events as ev
from livedbg.model.intents import WantStacks
from livedbg.panels.base import Picked
from livedbg.panels.stack import StackPanel
from tests.app.apps import make_app, ready, text_of, until, view_of
from tests.app.fakes import T0_MONO, S, stamp
from tests.app.scenes.parts import PROCESS, tid


def taken(app: LivedbgApp, number: int, after_s: float, *values: str) -> Stack:
    """The stack of a thread as it is, with variables of its third frame."""
    stack = app.context.snapshot.stacks[tid(number)]
    frames = list(stack.frames)
    frames[2] = structs.replace(frames[2], local_variables=values)
    return structs.replace(stack, frames=tuple(frames), taken_mono_ns=T0_MONO + round(after_s * S))


async def test_variables_are_asked_for_shown_and_kept_while_the_stack_is_the_same() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 20)) as pilot:
        await ready(pilot)
        await pilot.press("4")
        app.post_message(Picked(tid(4715)))
        panel = app.query_one(StackPanel)
        await until(pilot, lambda: panel.thread == tid(4715))
        await pilot.press("v")
        view = view_of(app)
        await until(pilot, lambda: view.sent)
        assert view.sent == [WantStacks(process=PROCESS, threads=(tid(4715),), local_variables=True)]
        view.feed([ev.StacksSeen(**stamp(44), stacks=(taken(app, 4715, 44, "this=0x7f12a0c0", "cents=5"),))])
        await until(pilot, lambda: "cents=5" in text_of(app))
        assert "Account::balance() const" in panel.copy_text() and "this=0x7f12a0c0" in panel.copy_text()
        view.feed([ev.StacksSeen(**stamp(46), stacks=(taken(app, 4715, 46),))])
        await until(pilot, lambda: panel.stack is not None and panel.stack.taken_mono_ns == T0_MONO + 46 * S)
        assert "cents=5" in text_of(app), "a later sample came without variables"
        await pilot.press("v")
        await until(pilot, lambda: "cents=5" not in text_of(app))
        assert len(view.sent) == 1
        app.post_message(Picked(tid(4716)))
        await until(pilot, lambda: panel.thread == tid(4716))
        assert "cents=5" not in panel.copy_text()


async def test_why_there_are_none() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("4")
        app.post_message(Picked(tid(4715)))
        panel = app.query_one(StackPanel)
        await until(pilot, lambda: panel.thread == tid(4715))
        await pilot.press("v")
        await until(pilot, lambda: view_of(app).sent)
        assert "no variables" not in text_of(app), "they have not been read yet"
        view_of(app).feed([ev.StacksSeen(**stamp(44), stacks=(taken(app, 4715, 44),))])
        await until(pilot, lambda: "no variables: " in text_of(app))
