"""The first sentence of a verdict: who, where, what for; short, and without addresses."""

from __future__ import annotations

import pytest

from livedbg.analysis import VerdictState
from livedbg.model import Frame, Stack
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World

LIBC = Frame(function="__futex_abstimed_wait", module="libc.so.6")


def stands(world: World, thread: str, line: int, file: str = "/src/server.cpp", *inner: Frame) -> None:
    own = Frame(function="serve(int)", file=file, line=line, module="server")
    stack = Stack(thread=thread, frames=(LIBC, *inner, own), taken_mono_ns=world.now_ns, source="glance")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))


def ring(*names: str, kinds: tuple[str, ...] = (), behind: int = 0) -> tuple[World, list[str]]:
    """Each thread holds a lock that the one before it waits for."""
    world = World()
    world.process(1)
    threads = [world.thread(11 + number, name) for number, name in enumerate(names)]
    locks = [world.lock(0x10 + n, kinds[n] if kinds else "mutex") for n in range(len(names))]
    for number, thread in enumerate(threads):
        world.holds(locks[number], thread)
        world.waits(thread, locks[(number + 1) % len(locks)])
    for number in range(behind):
        world.waits(world.thread(100 + number, "idle"), locks[0])
    return world.later(), threads


def first_sentence(world: World) -> str:
    verdict = world.diagnosis().verdict
    assert "0x" not in verdict.sentence
    assert len(verdict.sentence.partition(". ")[0].split()) <= 25
    return verdict.sentence.partition(". ")[0]


def test_a_deadlock_names_its_threads_in_order_and_their_lines() -> None:
    world, threads = ring("scheduler", "launcher", "allocator", behind=5)
    for thread, line in zip(threads, (31, 44, 58), strict=True):
        stands(world, thread, line)
    assert first_sentence(world) == (
        "Deadlock of 3 threads: scheduler → launcher → allocator → scheduler (serve server.cpp:31, :44, :58); "
        "5 more wait behind them"
    )
    assert world.diagnosis().verdict.state is VerdictState.DEADLOCK


def test_lines_are_left_out_where_one_is_unknown_and_named_by_file_where_they_differ() -> None:
    world, (a, b) = ring("a", "b")
    stands(world, a, 1)
    assert first_sentence(world) == "Deadlock of 2 threads: a → b → a (a in serve server.cpp:1)"
    library = Frame(function="wait", file="/usr/lib/python3.12/threading.py", line=355, language="python")
    stands(world, b, 7, "/src/train.py", library)
    assert first_sentence(world) == "Deadlock of 2 threads: a → b → a (serve server.cpp:1, train.py:7)"


@pytest.mark.parametrize(
    "file",
    [
        "/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h",  # Debian's libstdc++, inlined
        "/usr/include/c++/12/bits/std_mutex.h",
        "/opt/rh/gcc-toolset-13/root/usr/include/c++/13/mutex",  # another toolchain's
        "/opt/llvm/include/c++/v1/__mutex/mutex.h",
        "./nptl/pthread_mutex_lock.c",  # glibc's own paths
        "../sysdeps/unix/sysv/linux/futex-internal.h",
        "/usr/src/gdb-python/Modules/_threadmodule.c",
        "/venv/lib/python3.12/site-packages/torch/utils/data/dataloader.py",
    ],
)
def test_the_line_of_a_library_is_never_taken_for_the_users(file: str) -> None:
    world, (a, b) = ring("a", "b")
    for thread, line in ((a, 27), (b, 28)):
        stands(world, thread, line, "/home/me/server.cpp", Frame(function="lock", file=file, line=749, module="server"))
    assert first_sentence(world) == "Deadlock of 2 threads: a → b → a (serve server.cpp:27, :28)"


def test_threads_of_one_name_or_none_are_told_apart_by_number() -> None:
    assert first_sentence(ring("worker", "worker")[0]).endswith("worker 11 → worker 12 → worker 11")
    assert first_sentence(ring("", "worker")[0]).endswith("thread 11 → worker → thread 11")


@pytest.mark.parametrize(
    ("kinds", "over"),
    [
        (("mutex", "mutex"), ""),
        (("gil", "mutex"), " over the GIL and 1 mutex"),
        (("rwlock", "rwlock"), " over 2 read-write locks"),
    ],
)
def test_what_they_hold_is_named_if_it_is_not_mutexes_only(kinds: tuple[str, ...], over: str) -> None:
    assert first_sentence(ring("a", "b", kinds=kinds)[0]) == f"Deadlock of 2 threads{over}: a → b → a"


def test_a_cycle_that_is_no_ring_is_a_list() -> None:
    world, (a, b, _) = ring("a", "b", "c")
    world.waits(b, "mutex:box/1/0x10")
    assert a
    assert first_sentence(world) == "Deadlock of 3 threads: a, b, c"


def test_many_threads_are_cut_and_counted() -> None:
    names = tuple(f"w{n}" for n in range(40))
    assert first_sentence(ring(*names)[0]) == "Deadlock of 40 threads: w0 → w1 → w2 → w3 → w4 → w5 → … → w0"


def test_a_thread_that_holds_a_lock_in_a_call() -> None:
    world = World()
    world.process(1)
    me, lock = world.thread(11, "DataLoader_GPU0", waits_in="pause"), world.lock(0x10)
    world.holds(lock, me)
    world.waits(world.thread(12), lock)
    world.later(11 * SECOND)
    assert first_sentence(world) == (
        "Thread 11 (DataLoader_GPU0) holds a mutex, blocked in pause() for 11 s or more; 1 thread waits for it"
    )
    stands(world, me, 31)
    assert "blocked in pause() in serve (server.cpp:31) for 11 s" in first_sentence(world)


def test_frames_of_the_interpreter_are_nobody_s_own() -> None:
    world, (a, b) = ring("a", "b")
    inner = (
        Frame(
            function="PyThread_acquire_lock_timed",
            file="Python/thread_pthread.h",
            line=497,
            module="libpython3.11.so.1.0",
        ),
        Frame(function="acquire_timed", file="./Modules/_threadmodule.c", line=98, module="python3.11"),
    )
    for thread in (a, b):
        stands(world, thread, 7, "/src/train.py", *inner)
    assert first_sentence(world) == "Deadlock of 2 threads: a → b → a (all in serve train.py:7)"


@pytest.mark.parametrize("second", [1, 2])
def test_what_nothing_can_wake_is_said_in_one_short_sentence(second: int) -> None:
    world = World()
    wakers = tuple(f"process:box/{pid}" for pid in sorted({1, second}))
    for pid in {1, second}:
        world.process(pid, threads=3 - len(wakers), outside="")
    stands(world, world.thread(1, "python", timed=False, wakers=wakers), 7)
    world.thread(2, "worker", pid=second, timed=False, wakers=wakers)
    assert first_sentence(world.later(100 * SECOND)).startswith(
        "Main thread 1 (python) is blocked in pthread_mutex_lock() in serve (server.cpp:7) for"
    )
