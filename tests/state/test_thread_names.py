"""The name that the author of a thread gave it, from its stacks."""

from __future__ import annotations

import pytest

from livedbg.adapters.python.pyspy import SpyThread, given_name
from livedbg.model import Stack, Thread
from livedbg.model import events as ev
from livedbg.state.store import Store
from tests.analysis.world import World

MAIN = "thread:box/1/1"


def seen(store: Store, world: World, name: str, layer: str = "python") -> None:
    stack = Stack(thread=MAIN, frames=(), taken_mono_ns=1, source="test", layer=layer, thread_name=name)
    store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))


def test_a_given_name_replaces_the_one_of_the_system_and_stays() -> None:
    world = World()
    world.thread(1, "python")
    seen(world.store, world, "loader")
    assert world.snapshot().threads[MAIN].title == "loader"
    world.thread(1, "python", cpu_ns=5)
    seen(world.store, world, "", "native")
    thread = world.snapshot().threads[MAIN]
    assert (thread.title, thread.name, thread.cpu_ns) == ("loader", "python", 5)
    world.store.apply(ev.ThreadRolesSeen(roles={MAIN: "core 8"}, **world.stamp()))
    assert world.snapshot().threads[MAIN].title == "core 8, loader"
    seen(world.store, world, "saver")
    assert world.snapshot().threads[MAIN].title == "core 8, saver"


def test_a_new_thread_of_an_old_number_has_no_name_yet() -> None:
    world = World()
    world.thread(1, "python")
    seen(world.store, world, "loader")
    world.store.apply(ev.ThreadsExited(ids=(MAIN,), **world.stamp()))
    world.thread(1, "python")
    assert world.snapshot().threads[MAIN].title == "python"


def test_a_stack_of_an_unknown_thread_names_nothing() -> None:
    world = World()
    seen(world.store, world, "loader")
    assert MAIN not in world.snapshot().threads
    assert Thread(id=MAIN, process="process:box/1", tid=1, given="a").title == "a"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("loader", "loader"),
        ("MainThread", ""),
        ("Thread-3 (work)", ""),
        ("Thread-12", ""),
        ("Dummy-1", ""),
        (None, ""),
        ("a\nb", "a b"),
        ("ThreadPoolExecutor-0_1", "ThreadPoolExecutor-0_1"),
    ],
)
def test_names_that_threading_makes_are_none(name: str | None, given: str) -> None:
    assert given_name(SpyThread(pid=1, thread_id=1, frames=(), thread_name=name)) == given
