"""Exceptions that the same code catches and logs over and over; and what looks like it and ended the run."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

CRASHED = VerdictState.CRASHED
AT = "2026-11-21 03:{:02}:{:02},526"


def logged(second: int, outer: str = "update", error: str = "TypeError: no answer", head: str = "ERROR:{}:") -> str:
    """One exception that a logger wrote, of a function that caught it."""
    return (
        f"{head.format(AT.format(second // 60, second % 60))}Traceback (most recent call last):\n"
        f'  File "/w/env.py", line 47, in {outer}\n    self.extract(text)\n'
        f'  File "/w/env.py", line 27, in extract\n    raise\n{error}\n'
    )


def tagged(pid: int, text: str) -> str:
    return "".join(f"(Worker pid={pid}) {line}\n" for line in text.splitlines())


@pytest.mark.invariant("survived.V6")
def test_V6_the_last_of_many_that_a_worker_handled_is_handled() -> None:
    text = "".join(tagged(57, logged(second, error=f"ValueError: item {second}")) for second in range(0, 40, 10))
    assert verdict(text).state is not CRASHED


@pytest.mark.invariant("survived.V6")
def test_V6_three_are_too_few() -> None:
    text = "".join(tagged(57, logged(second, error=f"ValueError: item {second}")) for second in range(0, 30, 10))
    assert verdict(text).state is CRASHED


@pytest.mark.invariant("survived.V6")
def test_V6_many_workers_that_die_at_once_handled_nothing() -> None:
    assert verdict("".join(tagged(pid, logged(pid - 50)) for pid in range(50, 58))).state is CRASHED


@pytest.mark.invariant("survived.V6")
def test_V6_what_other_code_did_not_catch_is_a_crash() -> None:
    handled = "".join(tagged(57, logged(second, error=f"ValueError: item {second}")) for second in range(0, 50, 10))
    assert verdict(handled + tagged(57, logged(60, outer="main", error="RuntimeError: at the end"))).state is CRASHED


@pytest.mark.invariant("survived.V6")
def test_V6_what_python_prints_by_itself_is_a_crash() -> None:
    handled = "".join(tagged(57, logged(second, error=f"ValueError: item {second}")) for second in range(0, 50, 10))
    assert verdict(handled + tagged(57, logged(60, head="", error="RuntimeError: at the end"))).state is CRASHED


@pytest.mark.invariant("survived.V8")
@pytest.mark.parametrize(
    ("after", "crashed"),
    [
        ('10.0.0.7 - - "GET /price?sku=7 HTTP/1.1" 200 -\n', False),
        ('10.0.0.7 - - "GET /price?sku=7 HTTP/1.1" 500 -\n', True),
        ('10.0.0.7 - - "GET /healthz HTTP/1.1" 200 -\n', True),
    ],
)
def test_V8_a_server_that_answers_after_it_handled_it(after: str, crashed: bool) -> None:
    assert (verdict(logged(1) + after).state is CRASHED) is crashed
    assert verdict(logged(1, head="") + after).state is CRASHED  # nothing caught it


def test_V8_the_end_of_a_thread_is_as_what_a_logger_wrote() -> None:
    ended = """\
Exception in thread poll-1:
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/w/poll.py", line 14, in poll
    raise
TypeError: no answer
"""
    assert verdict(ended).state is CRASHED
    assert verdict(f'{ended}10.0.0.7 - - "GET /price?sku=7 HTTP/1.1" 200 -\n').state is not CRASHED


TIMED_OUT = "java.net.SocketTimeoutException: Read timed out\n\tat org.x.Load.fetch(Load.java:71)\n"


@pytest.mark.invariant("survived.V9")
@pytest.mark.parametrize(
    ("above", "after", "crashed"),
    [
        ("attempt 1 failed, retrying in 2 s\n", "loaded 1200 rows\n", False),
        ("attempt 1 failed, retrying in 2 s\n", "", True),
        ("attempt 3 failed, giving up retrying\n", "loaded 1200 rows\n", True),
        ("attempt 1 failed\n", "loaded 1200 rows\n", True),
        ("retrying in 2 s\nattempt 2\nattempt 3\n", "loaded 1200 rows\n", True),  # not right above it
    ],
)
def test_V9_what_is_tried_again_is_caught_if_its_log_goes_on(above: str, after: str, crashed: bool) -> None:
    assert (verdict(above + TIMED_OUT + after).state is CRASHED) is crashed


@pytest.mark.parametrize(
    ("after", "crashed"),
    [
        ("Scheduled restart job, restart counter is at 1.\nMar  4 10:00:07 h pump[9]: ready", False),
        ("Scheduled restart job, restart counter is at 1.\nMar  4 10:00:07 h systemd[1]: pump.service: %s", True),
        (
            "Scheduled restart job, restart counter is at 5.\n"
            "Mar  4 10:00:07 h systemd[1]: pump.service: Start request repeated too quickly.",
            True,
        ),
    ],
)
def test_a_service_that_systemd_started_again(after: str, crashed: bool) -> None:
    end = "Main process exited, code=exited, status=1/FAILURE"
    text = f"Mar  4 10:00:01 h systemd[1]: pump.service: {end}\nMar  4 10:00:06 h systemd[1]: pump.service: {after}\n"
    assert (verdict(text.replace("%s", end)).state is CRASHED) is crashed


RUN = "Loaded module: tanks/3.1\nLoaded module: valves/11.3\nfilling the tanks\n"
FAILED = 'Traceback (most recent call last):\n  File "fill.py", line %d, in <module>\n    fill()\nKeyError: %r\n'


@pytest.mark.invariant("survived.V14")
def test_V14_a_log_that_begins_again_is_of_further_runs() -> None:
    first, second = FAILED % (3, "tank"), FAILED % (9, "valve")
    assert "fill.py:9" in verdict(RUN + first + RUN + second).sentence
    assert verdict(f"{RUN}{first}{RUN}tank 3 is full\n").state is not CRASHED
    assert verdict(RUN + first + RUN).state is CRASHED  # it has only begun
    assert "fill.py:3" in verdict(RUN + first + second).sentence
    ranks = verdict(RUN * 3 + first + second).sentence  # all of them began before the first failed
    assert "fill.py:3" in ranks


@pytest.mark.invariant("survived.V13")
@pytest.mark.parametrize(("thread", "crashed"), [("nio-8082-exec-7", False), ("main", True)])
@pytest.mark.parametrize("gap", ["", "\n"])
def test_V13_a_thread_that_answers_requests_ends_no_program(thread: str, crashed: bool, gap: str) -> None:
    head = f"2026-03-04T10:00:00.598Z ERROR 1152 --- [{thread}] o.x.Handler : not handled\n"
    assert (verdict(head + gap + TIMED_OUT).state is CRASHED) is crashed


@pytest.mark.invariant("last_lines.E3")
def test_E3_an_error_that_the_log_says_all_along_ended_nothing() -> None:
    text = "".join(f"batch {n} took 0.{n} s\nError: <answer> tag not found in item {n}.\n" for n in range(9))
    said = verdict(text)
    assert said.state is VerdictState.UNKNOWN
    assert "tag not found" in said.sentence


@pytest.mark.invariant("last_lines.E3")
def test_E3_one_that_comes_at_the_end_alone_ended_the_run() -> None:
    text = "".join(f"batch {n} took 0.{n} s\n" for n in range(9)) + "Error: the answers can't be opened.\n"
    assert verdict(text).state is CRASHED


TESTS = "FAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed, 3 passed in 0.41s\n"
STAGES = "".join(f"[Stage] deploy {n} is left out\n" for n in "abcdef")


@pytest.mark.invariant("survived.V10")
@pytest.mark.parametrize(
    ("after", "tests"),
    [
        (f"{STAGES}ERROR: script returned exit code 1\n", True),
        (STAGES, False),
        (f"{STAGES}{TIMED_OUT}ERROR: script returned exit code 1\n", False),
    ],
)
def test_V10_after_tests_that_failed_come_a_launchers_lines_up_to_its_account(after: str, tests: bool) -> None:
    judged = verdict(TESTS + after)
    assert ("test_b" in judged.sentence) is tests


def test_an_attempt_that_is_started_again() -> None:
    failed = "Task failed with exception\n" + TIMED_OUT + "Task exited with return code 1\n"
    assert verdict(failed + "Starting attempt 2 of 3\n").state is not CRASHED
    assert verdict(failed + "attempt 3 of 3 failed\n").state is CRASHED


ASKED = 'Traceback (most recent call last):\n  File "/w/ask.py", line 4, in ask\n    raise Away(name)\nx.Away: no\n'
WAITS = "{} s: still waiting for the store\n"


@pytest.mark.invariant("survived.V11")
@pytest.mark.parametrize(
    ("text", "crashed"),
    [
        (WAITS.format(5) + ASKED + WAITS.format(10) + ASKED + WAITS.format(15), False),
        (WAITS.format(5) + ASKED + WAITS.format(10) + ASKED + WAITS.format(15) + "ready\n", False),
        (WAITS.format(5) + ASKED + WAITS.format(10) + ASKED + WAITS.format(15) + "make: *** [ask] Error 1\n", True),
        (WAITS.format(5) + ASKED + WAITS.format(10) + ASKED, True),  # the last try
        (WAITS.format(5) + ASKED + WAITS.format(10), True),  # another program may wait for the one that ended
        (ASKED + WAITS.format(10) + ASKED + "all others ended\n", True),
        (WAITS.format(5) + ASKED + WAITS.format(10) + ASKED + "waiting for all others to end\n", True),
    ],
)
def test_V11_what_is_tried_again_in_each_round_of_a_wait(text: str, crashed: bool) -> None:
    said = verdict(text)
    assert (said.state is CRASHED) is crashed
    assert (
        crashed
        or text.endswith("ready\n")
        or said.sentence.startswith("The log ends with the same wait 3 times, the first at 0.log:1: 15 s: st")
    )


DEEP = """\
Traceback (most recent call last):
  File "/w/train.py", line 88, in main
    export(net)
  File "/v/site-packages/shapes/guard.py", line 64, in evaluate
    raise Refused(size)
shapes.Refused: the size of axis 0 is not known here
"""


@pytest.mark.invariant("survived.V12")
def test_V12_what_was_logged_and_raised_again_is_said_where_it_ended_the_program() -> None:
    frames = DEEP.splitlines(keepends=True)
    caught = "ERROR:shapes:" + "".join(frames[:1] + frames[3:])
    said = verdict(caught + "more about shapes: shapes.txt\n" + DEEP).sentence
    assert said.startswith("Crashed in main (train.py:88): shapes.Refused: the size of axis 0")
    assert verdict(DEEP.replace("Traceback", "ERROR:shapes:Traceback") + caught[13:]).sentence.startswith(
        "Crashed in main"
    )
    other = caught.replace("axis 0", "axis 1")
    assert "axis 1" in verdict(other + DEEP).sentence


@pytest.mark.invariant("survived.V12")
def test_V12_a_traceback_without_a_name_is_said_by_the_later_one_that_has_it() -> None:
    frames = 'Traceback (most recent call last):\n  File "/w/train.py", line 88, in main\n    fill()\n{}'
    inner = '  File "/w/tank.py", line 7, in fill\n    raise Shut(3)\n'
    nameless = frames.format(inner) + "Will close all valves before the exception is raised.\n"
    assert verdict(nameless).sentence.startswith("Crashed in fill (tank.py:7): unknown: Will close all valves")
    said = verdict(nameless + frames.format(inner) + "tank.Shut: lid 3 is shut\n").sentence
    assert said.startswith("Crashed in fill (tank.py:7): tank.Shut: lid 3 is shut")
    other = frames.format(inner.replace("7", "9")) + "tank.Shut: lid 3 is shut\n"
    assert verdict(nameless + other).sentence.startswith("Crashed in fill (tank.py:7): unknown")
