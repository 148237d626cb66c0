"""Which debug symbols a report says are missing: once, for what it shows of the culprits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from livedbg.linux.maps import parse_maps
from livedbg.model import Frame, Stack
from livedbg.model import events as ev
from livedbg.report import missing_symbols as module
from livedbg.report.missing_symbols import symbol_limits
from livedbg.session.view import Update
from livedbg.unwind.missing_symbols import MissingSymbols, missing_symbols
from tests.analysis.world import World
from tests.conftest import Target, settled

FUTEX = Frame(function="__futex_wait", module="libc.so.6", address=0x10)
MAIN = Frame(function="main", module="server", address=0x20)
QUERY = Frame(function="PQexec", module="libpq.so.5", address=0x30)
NAMELESS = Frame(function="0x40", module="libpq.so.5", address=0x40)
SOURCED = Frame(function="step", file="/src/step.cpp", line=3, module="libstep.so", address=0x50)


def deadlock(*frames: Frame) -> tuple[World, Update]:
    """Two threads that wait for each other, at a place."""
    world = World()
    world.process(1)
    a, b = world.thread(11, "alpha"), world.thread(12, "beta")
    one, two = world.lock(0x10), world.lock(0x20)
    world.holds(one, a)
    world.holds(two, b)
    world.waits(a, two)
    world.waits(b, one)
    idle = world.thread(13, "idle")
    other = Frame(function="0x60", module="libother.so", address=0x60)
    for thread, stack in ((a, frames), (b, frames), (idle, (other,))):
        seen = Stack(thread=thread, frames=stack, taken_mono_ns=world.now_ns, source="test")
        world.store.apply(ev.StacksSeen(stacks=(seen,), **world.stamp()))
    world.later()
    return world, Update(world.snapshot(), world.diagnosis())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The addresses that were asked for; of each file of them symbols are missing."""
    found: list[int] = []
    files = {frame.address: frame.module or "" for frame in (FUTEX, MAIN, QUERY, NAMELESS, SOURCED)}

    def missing(pid: int, addresses: list[int]) -> list[MissingSymbols]:
        found.extend(addresses)
        names = dict.fromkeys(files[address] for address in addresses)
        packages = {"libpq.so.5": "libpq5-dbgsym", "libc.so.6": "libc6-dbg"}
        return [MissingSymbols(name, "ab12", packages.get(name, "")) for name in names]

    monkeypatch.setattr(module, "missing_symbols", missing)
    return found


def test_each_package_is_named_once(asked: list[int]) -> None:
    _, update = deadlock(FUTEX, QUERY, NAMELESS, MAIN)
    said = [(one.code, one.sentence, one.remedy.partition("  ")[0]) for one in symbol_limits(update)]
    sentence = "Symbols of libpq.so.5 are missing: package libpq5-dbgsym."
    assert said == [("no-symbols", sentence, "apt install libpq5-dbgsym")]


def test_without_a_package_the_build_id_is_said(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "missing_symbols", lambda pid, at: [MissingSymbols("libpq.so.5", "ab12", "")])
    (one,) = symbol_limits(deadlock(FUTEX, NAMELESS)[1])
    assert (one.sentence, one.remedy) == ("Symbols of libpq.so.5 are missing (build id ab12).", "")


def test_nothing_is_said_of_what_has_lines_or_of_a_program_without_debug_information_of_its_own(
    asked: list[int],
) -> None:
    assert symbol_limits(deadlock(FUTEX, SOURCED, MAIN)[1]) == ()
    assert asked and set(asked) == {MAIN.address}


def test_of_shown_threads_the_culprits_count_and_else_the_first(asked: list[int]) -> None:
    world, update = deadlock(FUTEX, QUERY)
    threads = sorted(world.snapshot().threads)
    assert symbol_limits(update, threads) == symbol_limits(update, threads[:1]) == symbol_limits(update)
    assert symbol_limits(update, []) == ()


def test_files_of_a_process_that_lack_debug_information(
    build_target: Callable[..., object], spawn: Callable[..., Target]
) -> None:
    for options, lacks in (("-s",), True), (("-g",), False):
        file = build_target("stacks", *options, "-Wl,--build-id", output=f"stacks{options[0]}")
        target = spawn([file, "1"])
        settled(target.pid)
        code = next(one for one in parse_maps(target.pid) if one.executable and one.path == str(file))
        found = missing_symbols(target.pid, [code.start, code.start + 8])
        assert [(one.module, len(one.build_id), one.package) for one in found] == [("stacks-s", 40, "")][: int(lacks)]
