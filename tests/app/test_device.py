"""The screen Device: what runs there, and the key that has a dump taken."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from livedbg.adapters.cuda.cudagdb.core_dump import open_core, sort_cores
from livedbg.model import SourceHealth, SourceStatus
from livedbg.model import events as ev
from livedbg.model.devices import DUMP_READY, DeviceState
from livedbg.model.intents import DumpDevice
from livedbg.panels.device import DevicePanel
from tests.adapters.cuda.cudagdb.conftest import core_bytes, program_that_plays
from tests.app.apps import answer, make_app, ready, text_of, until, view_of
from tests.app.fakes import stamp
from tests.app.scenarios import scenario

PROCESS = "process:box/4711"


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DeviceState]:
    """What was seen in the sessions of the fixtures."""
    folder = tmp_path_factory.mktemp("cores")
    core = folder / "gpu.core"
    core.write_bytes(core_bytes())
    gpu, _ = sort_cores([core])

    def seen(name: str) -> DeviceState:
        program = program_that_plays(name, Path(tmp_path_factory.mktemp(name)))
        return asyncio.run(open_core(program, gpu, None, PROCESS))

    return {name: seen(name) for name in ("hang", "illegal-address")}


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
@pytest.mark.parametrize("ascii_only", [False, True], ids=["unicode", "ascii"])
async def test_it_says_where_all_warps_stand(
    states: dict[str, DeviceState], size: tuple[int, int], ascii_only: bool
) -> None:
    view = scenario("deadlock")
    app = make_app(view, ascii_only=ascii_only)
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        await pilot.press("0")
        assert "No GPU state yet" in text_of(app)
        view.feed([ev.DeviceSeen(device=states["hang"], **stamp(50))])
        await until(pilot, lambda: "All 64 warps of kernel 0 spin" in text_of(app))
        text = text_of(app)
        assert "spin.cu:12" in text and "2 divergent" in text and "8 of 132 SMs" in text
        assert "wait_for(int volatile*)" in text and "polls" in text
        assert size == (80, 24) or ("Focus is blocked on a Warp" in text and "BSYNC B0" in text)
        assert text.splitlines()[-1].count("0 Dev") == 1
        assert text.isascii() or not ascii_only
        await pilot.press("slash", *"spin.cu:18", "enter")
        await until(pilot, lambda: "100 %" not in text_of(app))


async def test_exceptions_come_first_and_the_panel_beside_it_follows(states: dict[str, DeviceState]) -> None:
    view = scenario("deadlock")
    app = make_app(view)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        other = DeviceState(target="file:/a", source="core dump", notes=("That is all.",))
        view.feed([ev.DeviceSeen(device=s, **stamp(50)) for s in (other, states["illegal-address"])])
        await pilot.press("f10")
        await until(pilot, lambda: "CUDA exception 14" in text_of(app))
        panel = app.query_one(DevicePanel)
        assert panel.pointed == PROCESS and "memcheck" in text_of(app)
        await pilot.press("end")
        await until(pilot, lambda: "note: That is all." in text_of(app) and "memcheck" not in text_of(app))


async def test_D_asks_first_and_then_for_a_dump() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("0", "D")
        assert "stops the kernels of" in await answer(pilot, "escape")
        assert view_of(app).sent == []
        await pilot.press("D")
        await answer(pilot)
        await until(pilot, lambda: bool(view_of(app).sent))
        (process,) = [p.id for p in app.context.snapshot.processes.values() if p.target]
        assert view_of(app).sent == [DumpDevice(process=process)]
        await pilot.press("D")
        await answer(pilot, "escape")
        assert len(view_of(app).sent) == 1


async def test_of_several_processes_the_one_that_takes_orders_is_dumped() -> None:
    view = scenario("idle")
    app = make_app(view)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        (first,) = [p for p in app.context.snapshot.processes.values() if p.target]
        other = structs.replace(first, id="process:box/5000", pid=5000)
        view.feed([ev.ProcessSeen(process=other, **stamp(50))])
        await pilot.press("0", "D")
        await until(pilot, lambda: any("Select a thread" in said.message for said in app._notifications))
        status = SourceStatus(source="cudagdb", target=other.id, health=SourceHealth.OK, code=DUMP_READY)
        view.feed([ev.StatusSeen(status=status, **stamp(51))])
        await until(pilot, lambda: any(said.code == DUMP_READY for said in app.context.snapshot.statuses.values()))
        await pilot.press("D")
        await answer(pilot)
        await until(pilot, lambda: view.sent == [DumpDevice(process=other.id)])


async def test_of_a_recording_nothing_is_asked() -> None:
    app = make_app("recording")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("0", "D", "D")
        await until(pilot, lambda: any("this is a recording" in said.message for said in app._notifications))
        assert view_of(app).sent == []
        assert app.screen is app.main
        assert not any("Requesting" in said.message for said in app._notifications)


async def test_a_dump_is_taken_of_the_process_that_the_question_named() -> None:
    """Whatever is selected in between."""
    view = scenario("deadlock")
    app = make_app(view)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        (first,) = [p for p in app.context.snapshot.processes.values() if p.target]
        other = structs.replace(first, id="process:box/5000", pid=5000)
        await pilot.press("0", "D")
        view.feed(
            [
                ev.ProcessExited(id=first.id, status=0, **stamp(50)),
                ev.ProcessSeen(process=other, **stamp(50)),
            ]
        )
        await until(pilot, lambda: other.id in app.context.snapshot.processes)
        assert "4711" in await answer(pilot)
        await until(pilot, lambda: view.sent == [DumpDevice(process=first.id)])
        await pilot.press("D")
        assert "5000" in await answer(pilot)
        await until(pilot, lambda: view.sent[1:] == [DumpDevice(process=other.id)])
