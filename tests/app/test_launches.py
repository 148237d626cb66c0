"""Launches on the screen Device: nothing until it is asked for, then the newest of each thread."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.model import SourceHealth, SourceStatus
from livedbg.model import events as ev
from livedbg.model.intents import WatchLaunches
from livedbg.model.launches import Launch, LaunchTrail
from tests.app.apps import make_app, ready, text_of, until
from tests.app.fakes import stamp
from tests.app.scenarios import scenario

PROCESS, THREAD = "process:box/4711", "thread:box/4711/4712"


def _trail(ago_s: float, thread: str = THREAD, kernel: str | None = "moe::gate_kernel(float*)") -> ev.LaunchesSeen:
    when = stamp(50 - ago_s)
    launch = Launch(
        function="cudaLaunchKernel", kernel=kernel, handle=0xBEEF, grid=(7, 2, 1), block=(128, 1, 1), stream=0x55,
        mono_ns=when["mono_ns"], wall_ns=when["wall_ns"],
    )  # fmt: skip
    trail = LaunchTrail(thread=thread, process=PROCESS, count=1_234, rate_per_s=200.0, last=(launch,))
    return ev.LaunchesSeen(trails=(trail,), **stamp(50))


def _status(health: SourceHealth, sentence: str) -> ev.StatusSeen:
    status = SourceStatus(source="launches", target=PROCESS, health=health, code="launches", sentence=sentence)
    return ev.StatusSeen(status=status, **stamp(50))


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
async def test_a_key_begins_and_ends_it(size: tuple[int, int]) -> None:
    view = scenario("deadlock")
    app = make_app(view)
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        await pilot.press("0")
        await until(pilot, lambda: "Launches are not traced. Press l" in text_of(app))
        await pilot.press("l")
        assert view.sent[-1] == WatchLaunches(process=PROCESS, on=True)
        view.feed([_status(SourceHealth.OK, "Traces launches in libcuda.so.1."), _trail(2.5)])
        await until(pilot, lambda: "1,234" in text_of(app))
        text = text_of(app)
        assert "moe::gate_kernel" in text and "7,2,1" in text and "2.5 s" in text
        await pilot.press("l")
        assert view.sent[-1] == WatchLaunches(process=PROCESS, on=False)


async def test_in_a_recording_nobody_is_told_to_press_a_key() -> None:
    app = make_app("recording")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("0")
        await until(pilot, lambda: "The recording contains no launches up to here." in text_of(app))
        assert "press l" not in text_of(app)


async def test_who_launched_nothing_for_longest_stands_first_and_too_high_a_rate_is_said() -> None:
    view = scenario("deadlock")
    app = make_app(view)
    async with app.run_test(size=(200, 60)) as pilot:
        await ready(pilot)
        await pilot.press("0")
        idle = _trail(40, "thread:box/4711/4713", kernel=None)
        view.feed([_trail(0.5), idle, _status(SourceHealth.DEGRADED, "Launches are only counted: at 9,000 a second.")])
        await until(pilot, lambda: "kernel 0xbeef" in text_of(app))
        text = text_of(app)
        assert text.index("kernel 0xbeef") < text.index("moe::gate_kernel")
        assert "only counted: at 9,000 a second" in text


async def test_what_nobody_looks_at_is_not_0() -> None:
    view = scenario("deadlock")
    app = make_app(view)
    async with app.run_test(size=(200, 60)) as pilot:
        await ready(pilot)
        await pilot.press("0")
        (trail,) = _trail(2.5).trails
        view.feed([ev.LaunchesSeen(trails=(structs.replace(trail, seen=False),), **stamp(50))])
        await until(pilot, lambda: "moe::gate_kernel" in text_of(app))
        line = next(line for line in text_of(app).splitlines() if "moe::gate_kernel" in line)
        assert line.count("?") == 2 and "2.5 s" not in line


async def test_the_sheet_of_a_thread_has_what_it_launched() -> None:
    view = scenario("deadlock")
    app = make_app(view)
    async with app.run_test(size=(160, 50)) as pilot:
        await ready(pilot)
        view.feed([_trail(1)])
        await pilot.press("4", "enter")
        await until(pilot, lambda: "<<<(7,2,1), (128,1,1)>>>  stream 0x55  by cudaLaunchKernel" in text_of(app))
