"""Adapters that sleep until something shows their system."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

from livedbg.logs.decoder import LogDecoder
from livedbg.model import LogRecord, Process
from livedbg.model.events import Event, ProcessSeen, Stamp
from livedbg.model.intents import Intent, OpenLog, SampleFaster
from livedbg.session import waking
from livedbg.session.adapter import Adapter, Context, Request, TargetProcess
from livedbg.session.session import Session
from livedbg.session.waking import Sleeper

PROCESS = Process(id="process:box/1", host="box", pid=1, named=True)


class _Decoder(LogDecoder):
    def __init__(self) -> None:
        self.ended = 0

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        return (), ()

    def over(self) -> None:
        self.ended += 1


class _Toy(Adapter):
    """Settles when it is told so."""

    name: ClassVar[str] = "toy"
    sees: ClassVar[str] = "toys"
    cost: ClassVar[str] = "none"
    handles: ClassVar[tuple[type[Any], ...]] = (OpenLog,)

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        self.decoder = _Decoder()

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        return (self.decoder,)

    async def run(self, context: Context) -> None:
        await self.go.wait()
        context.settled()
        await asyncio.sleep(3600)

    async def handle(self, intent: Intent, context: Context) -> None:
        self.asked.set()


class _Finder(Adapter):
    """Sees a process; then does something with its context, and goes on."""

    name: ClassVar[str] = "finder"
    sees: ClassVar[str] = "a process"
    cost: ClassVar[str] = "none"

    def __init__(self, work: Callable[[Context], object] = bool) -> None:
        self._work = work

    async def run(self, context: Context) -> None:
        context.emit(ProcessSeen(process=PROCESS, **context.stamp()))
        self._work(context)
        context.settled()
        await asyncio.sleep(3600)


class _Box:
    """A session with an adapter that sleeps."""

    def __init__(self, work: Callable[[Context], object] = bool, *, once: bool = False) -> None:
        self.made: list[_Toy] = []
        self.woken = asyncio.Event()
        request = Request(host="box", processes=(TargetProcess(1),), once=once)
        sleeper = Sleeper("toy", self._make)
        self.session = Session(request, [_Finder(work)], lambda _update: None, None, [sleeper])
        self.running = asyncio.create_task(self.session.run())

    def _make(self) -> _Toy:
        self.made.append(_Toy())
        self.woken.set()
        return self.made[-1]

    async def until_made(self) -> _Toy:
        await self.woken.wait()
        return self.made[0]

    async def until_settled(self) -> None:
        """Its first look is complete."""
        await asyncio.sleep(0)  # it begins
        await self.session.settled.wait()

    async def end(self) -> None:
        self.session.stop()
        await self.running


@pytest.mark.invariant("waking.A1")
async def test_A1_no_sign_and_it_sleeps_and_a_sign_that_comes_later_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[set[str]] = []

    def shown(_snapshot: object, _known: object = ()) -> set[str]:
        looks.append({"toy"} if len(looks) > 1 else {"other"})
        return looks[-1]

    monkeypatch.setattr(waking, "_shown", shown)
    box = _Box()
    await box.until_settled()
    assert not box.made and looks == [{"other"}]
    await box.until_made()
    assert looks[-1] == {"toy"} and len(box.made) == 1
    await box.end()


@pytest.mark.invariant("waking.A1")
@pytest.mark.parametrize("over", [False, True])
async def test_A1_a_log_wakes_it_and_it_is_told_when_no_log_is_read(over: bool) -> None:
    def read(context: Context) -> None:
        if over:
            context.logs_over()
        assert context.decoders

    box = _Box(read)
    toy = await box.until_made()
    assert box.session.decoders == (toy.decoder,)
    assert toy.decoder.ended == over  # also where the logs were over before it woke
    await box.end()


@pytest.mark.invariant("waking.A1")
async def test_A1_what_no_adapter_that_runs_can_do_wakes_it() -> None:
    box = _Box()
    await box.until_settled()
    assert not box.made
    box.session.send(SampleFaster())  # an offer, which nobody has to take
    assert not box.made
    box.session.send(OpenLog(path="x"))
    toy = await box.until_made()
    await toy.asked.wait()
    await box.end()


@pytest.mark.invariant("waking.A2")
@pytest.mark.parametrize("once", [False, True])
async def test_A2_the_first_look_waits_for_what_was_woken(once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "_shown", lambda _snapshot, _known: {"toy"})
    box = _Box(once=once)
    toy = await box.until_made()
    await asyncio.sleep(0)
    assert not box.session.settled.is_set() and not box.running.done()
    toy.go.set()
    await box.until_settled()
    await box.end()


def test_the_state_of_a_program_without_a_system_imports_no_rules_of_one() -> None:
    """In a process of its own: of a session of this very process, which is Python and nothing else."""
    program = (
        "import os, sys\n"
        "from livedbg.commands.signals import running\n"
        "from livedbg.model.request import Request, TargetProcess\n"
        "with running(Request(host='box', processes=(TargetProcess(int(sys.argv[1])),), once=True)) as view:\n"
        "    assert view.wait_settled(200)\n"
        "ours = [name for name in sys.modules if name.startswith('livedbg.')]\n"
        "rules = [name for name in ours if name.startswith('livedbg.adapters.') and name.endswith('.rules')]\n"
        "print(rules, len(ours))\n"
    )
    quiet = subprocess.DEVNULL
    with subprocess.Popen(["sleep", "1000"], stdin=quiet, stdout=quiet, stderr=quiet) as target:
        command = [sys.executable, "-c", program, str(target.pid)]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        target.kill()
    rules, _, modules = said.stdout.rpartition(" ")
    assert rules == "[]", said.stderr
    assert int(modules) <= 430  # may only fall; 654 when every system was imported for every program
