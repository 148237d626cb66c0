"""Who gives what somebody waits for: programs in which a giver sleeps, and those that look the same."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from textwrap import dedent

import pytest

from livedbg.cpython.givers import ends_of
from livedbg.cpython.loop_source import Ahead, file_of
from tests.conftest import TARGETS, Target
from tests.reports import at_rest, report_of, report_when

PROGRAM = TARGETS / "py_givers.py"


@pytest.mark.invariant("givers.V1", "givers.V2", "givers.V4", "behaviour.L19")
@pytest.mark.parametrize(
    ("word", "where"),
    [
        ("feeds_by_an_argument", "feed"),
        ("feeds_a_global", "work"),
        ("notifies_in_a_method", "notifies_in_a_method"),
        ("sets_once_later", "work"),
        ("a_task_feeds", "produce"),
        ("a_thread_feeds_a_task", "work"),
    ],
)
def test_who_waits_for_one_that_sleeps_and_gives_is_asleep(word: str, where: str, spawn: Callable[..., Target]) -> None:
    said = report_when(
        spawn([sys.executable, str(PROGRAM), word]).pid, lambda one: one["verdict"]["state"] == "running"
    )
    assert said["exit"] == 0 and f" is in sleep() in {where} (py_givers.py:" in said["verdict"]["sentence"], said[
        "verdict"
    ]


@pytest.mark.invariant("givers.V5", "behaviour.L19")
@pytest.mark.parametrize(
    ("word", "where"),
    [
        ("processes_feed", "put"),
        ("processes_send", "send"),
        ("processes_write", "write"),
        ("processes_shout", "shout"),
    ],
)
def test_who_reads_what_other_processes_will_write_is_asleep(
    word: str, where: str, spawn: Callable[..., Target]
) -> None:
    target = spawn([sys.executable, str(PROGRAM), word])
    said = report_when(target.pid, lambda one: one["verdict"]["state"] == "running")
    assert said["exit"] == 0 and f" is in sleep() in {where} (py_givers.py:" in said["verdict"]["sentence"], said


def test_who_waits_for_one_that_pauses_and_gives_is_asleep(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, str(PROGRAM), "feeds_between_pauses"])
    said = report_when(target.pid, lambda one: one["verdict"]["state"] == "running")
    assert said["exit"] == 0 and "feed_between_pauses (py_givers.py:" in said["verdict"]["sentence"], said


@pytest.mark.invariant("givers.V1", "givers.V2", "givers.V3", "behaviour.L19")
@pytest.mark.parametrize(
    "word",
    [
        "looks_on",
        "fed_before",
        "feeds_if_a_file_has_come",
        "feeds_unless_it_fails",
        "feeds_another_queue",
        "feeds_a_queue_far_away",
        "a_task_feeds_another",
        "a_thread_looks_at_a_task",
        "pauses_beside_a_lost_wait",
        "processes_feed_another",
        "processes_receive",
    ],
)
def test_who_only_looks_on_gives_nothing(word: str, spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, str(PROGRAM), word])
    at_rest(target.pid)
    said = report_of(target.pid)
    assert (said["verdict"]["state"], said["exit"]) == ("unknown", 5), said["verdict"]


SOURCE = dedent(
    """
    class Feeder:
        def push(self, box):
            make().put(2)

    def feed(self, box):
        self.inbox.put(0)
        while True:
            time.sleep(1)
            self.push(box)
            queues[0].put(1)
            if ready:
                box.maybe.set()
        self.inbox.never()

    def maybe():
        box.set()

    def once():
        early.set()
        with slots:
            nap()
            late.set()
    """
)


@pytest.mark.invariant("givers.V2")
def test_what_the_code_ahead_names() -> None:
    def ahead(words: str) -> Ahead:
        line = next(number for number, one in enumerate(SOURCE.splitlines(), 1) if words in one)
        return file_of(ast.parse(SOURCE)).names_ahead(line)

    looped = ahead("time.sleep")
    assert looped.attributes == {("time", "sleep"), ("self", "push"), ("queues", "put"), ("", "put")}
    assert looped.variables == {"time", "self", "box", "queues", "make"}
    assert ahead("nap()").attributes == {("late", "set"), ("slots", "release")}


def test_which_methods_end_a_wait() -> None:
    assert ends_of("Queue", "get") == ends_of("asyncio.Queue", "Queue.get") == {"put", "put_nowait"}
    assert ends_of("Queue", "put") == {"get", "get_nowait"} and ends_of("Event", "wait") == {"set"}
    assert ends_of("Condition", "wait_for") == {"notify", "notify_all"} and ends_of("Future", "result") == frozenset()
