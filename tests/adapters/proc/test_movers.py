"""What counts as news of a look at a process."""

from __future__ import annotations

from livedbg.adapters.proc.movers import Movers
from livedbg.model import Process, Thread
from livedbg.model.events import EdgesReplaced, Event, ProcessSeen, Stamper, ThreadsExited, ThreadsSeen

STAMP = Stamper("box")()


def ran(*numbers: int) -> list[Event]:
    threads = tuple(Thread(id=f"thread:box/7/{tid}", process="process:box/7", tid=tid) for tid in numbers)
    return [ThreadsSeen(threads=threads, **STAMP)] if threads else []


def test_threads_that_run_at_every_look_are_no_news() -> None:
    movers = Movers()
    assert movers.news(ran(7, 8))
    assert not movers.news(ran(7, 8))
    assert not movers.news(ran(8))
    assert not movers.news([])
    assert not movers.news([ProcessSeen(process=Process(id="process:box/7", host="box", pid=7), **STAMP), *ran(7)])


def test_a_thread_that_wakes_after_a_long_sleep_is_news() -> None:
    movers = Movers()
    assert movers.news(ran(7, 8))
    quiet = [movers.news(ran(7)) for _ in range(20)]
    assert not any(quiet)
    assert movers.news(ran(7, 8))
    assert not movers.news(ran(8, 7))


def test_whatever_is_no_number_is_news() -> None:
    movers = Movers()
    assert movers.news(ran(7))
    assert movers.news([*ran(7), EdgesReplaced(scope="s", edges=(), **STAMP)])
    assert movers.news([ThreadsExited(ids=("thread:box/7/8",), **STAMP)])
    assert movers.news(ran(9))
