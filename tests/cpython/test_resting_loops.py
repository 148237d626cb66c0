"""Which loops wait for nothing, and where they rest."""

from __future__ import annotations

import ast
from textwrap import dedent, indent

import pytest

from livedbg.cpython.loop_source import Around, around, way_of
from livedbg.model import LoopWay

ENDLESS, ENDS, POLLS, NOTHING = LoopWay.RESTS, LoopWay.ENDS, LoopWay.POLLS, LoopWay.UNKNOWN
FLAGS = "stop = False\nrunning = []\ndef told(self):\n    self.running = True\n"


def here(source: str) -> tuple[Around, int]:
    """What is around the line with `HERE` in a function of a file, and that line."""
    text = FLAGS + "def f(self, q, done):\n" + indent(dedent(source).strip(), "    ") + "\n"
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "HERE" in one)
    return around(ast.parse(text), line), line


def way(source: str) -> LoopWay | None:
    """How the loop around the line with `HERE` goes on, in a function."""
    found, line = here(source)
    return way_of(found.loops, line)


@pytest.mark.invariant("loop_source.X4", "loop_source.X3")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("while True:\n    HERE", ENDLESS),
        ("while 1:\n    HERE\n    n += 1", ENDLESS),
        ("HERE", None),
        ("while done:\n    HERE", POLLS),
        ("for x in q:\n    HERE", ENDS),
        ("for x in q:\n    HERE\n    if done():\n        break", POLLS),
        ("async for x in q:\n    HERE", ENDS),
        ("while x > 1e-9:\n    x *= 0.99\n    HERE", ENDS),
        ("while x > 1e-9:\n    x = ask()\n    HERE", POLLS),
        ("while x > 1e-9:\n    x *= 0.99\n    x = ask()\n    HERE", POLLS),
        ("while x < 9 and not done:\n    x += 1\n    HERE", POLLS),
        ("while x != 9:\n    x += 1\n    HERE", POLLS),
        ("while True:\n    x += 1\n    if x > q:\n        break\n    HERE", ENDS),
        ("while True:\n    HERE\n    last = time.time() >= end\n    if last:\n        break", ENDLESS),
        ("while True:\n    HERE\n    last = ready() >= end\n    if last:\n        break", POLLS),
        ("while True:\n    HERE\n    last = time.time() >= end\n    last = done()\n    if last:\n        break", POLLS),
        ("while True:\n    HERE\n    if self.stop and done():\n        break", POLLS),
        ("while True:\n    HERE\n    if stop and done():\n        break", ENDLESS),
        ("while True:\n    HERE\n    if stop or done():\n        break", POLLS),
        ("while True:\n    HERE\n    x = q.recv()\n    if x and done(x):\n        break", POLLS),
        ("while left:\n    HERE\n    left -= len(q)", ENDLESS),
        ("while left:\n    HERE\n    left -= ask(q)", POLLS),
        ("while left:\n    HERE", POLLS),
        ("while (x := await q.get()) is not None:\n    HERE", ENDLESS),
        ("while x := await q.get():\n    HERE", ENDLESS),
        ("while x := q.get():\n    HERE", POLLS),
        ("while x := q.get(done):\n    HERE", POLLS),
        ("while x := q.recv(99):\n    HERE", ENDLESS),
        ("while line := await q.readline():\n    HERE", ENDLESS),
        ("while x := q.ask():\n    HERE", POLLS),
        ("while x := q.read(99):\n    HERE", ENDLESS),
        ("while x := q.read():\n    HERE", POLLS),
        ("while (x := q.get()) is None:\n    HERE", POLLS),
        ("while not (x := q.readline()):\n    HERE", POLLS),
        ("while True:\n    if (x := q.get()) is None:\n        break\n    HERE", ENDLESS),
        ("while True:\n    if (x := q.get()) is not None:\n        break\n    HERE", POLLS),
        ("while True:\n    if x := q.recv(99):\n        break\n    HERE", POLLS),
        ("while True:\n    left = end - time.time()\n    if left <= 0:\n        break\n    HERE", ENDLESS),
        ("while True:\n    left = max(0, end - time.time())\n    if left < 1:\n        break\n    HERE", ENDLESS),
        ("while True:\n    left = end - done()\n    if left <= 0:\n        break\n    HERE", POLLS),
        ("while True:\n    left = max(q, n)\n    if left <= 0:\n        break\n    HERE", POLLS),
        ("while True:\n    for x in HERE:\n        f(x)", ENDLESS),
        ("while True:\n    for x in f(HERE):\n        if x: break", POLLS),
        ("while not stop:\n    HERE", ENDLESS),
        ("while not self.stop:\n    HERE", POLLS),  # nothing shows that it is a flag
        ("while self.running:\n    HERE", ENDLESS),
        ("while running:\n    HERE", POLLS),
        ("while time.time() < end:\n    HERE", ENDLESS),
        ("while time.monotonic() - begun < 60:\n    HERE", ENDLESS),
        ("while datetime.now() < self.end and not stop:\n    HERE", ENDLESS),
        ("while time.time() < end and not done:\n    HERE", POLLS),
        ("while time.time() < ask():\n    HERE", POLLS),
        ("while time.time() == end:\n    HERE", POLLS),
        ("while time.time() < end:\n    if done():\n        break\n    HERE", POLLS),
        ("while True:\n    if time.time() > end or stop:\n        break\n    HERE", ENDLESS),
        ("while (item := q.get()) is not END:\n    HERE", ENDLESS),
        ("while (item := find()) is not END:\n    HERE", POLLS),
        ("while (item := q.get()) != END:\n    HERE", POLLS),
        ("while job.running:\n    HERE", POLLS),
        ("while not self._stop_event.is_set():\n    HERE", ENDLESS),
        ("while not done_event.is_set():\n    HERE", POLLS),
        ("while not job.shutdown.is_set():\n    HERE", POLLS),
        ("while not stop.get():\n    HERE", POLLS),
        ("while not stop and not done:\n    HERE", POLLS),
        ("while True:\n    HERE\n    if stop:\n        break", ENDLESS),
        ("while True:\n    HERE\n    if stop:\n        pass\n    else:\n        break", POLLS),
        ("while True:\n    HERE\n    if done():\n        return", POLLS),
        ("while True:\n    item = q.get()\n    if item is None:\n        break\n    HERE", ENDLESS),
        ("while True:\n    item = await q.get()\n    if item == END:\n        return\n    HERE", ENDLESS),
        ("while True:\n    item = q.get()\n    if not item:\n        break\n    HERE", POLLS),  # a flag may be asked so
        ("while True:\n    HERE\n    q.task_done()", LoopWay.WORKS),
        ("while True:\n    item = q.get()\n    if item == END:\n        break\n    HERE", POLLS),
        ("while True:\n    item = q.recv()\n    if not item:\n        break\n    HERE", ENDLESS),
        ("while True:\n    state = states.get(q)\n    if state == END:\n        break\n    HERE", POLLS),
        ("while True:\n    item = q.get()\n    if done is None:\n        break\n    HERE", POLLS),
        ("while True:\n    item = find()\n    if item is None:\n        break\n    HERE", POLLS),
        ("while True:\n    HERE\n    if done:\n        sys.exit()", NOTHING),
        ("while True:\n    HERE\n    yield q", None),  # its caller decides
        ("while time.time() < end:\n    HERE\n    yield q", None),
        ("while not q():\n    HERE\n    yield q", POLLS),
        ("while q():\n    for x in y:\n        HERE\n        yield x", POLLS),
        ("while True:\n    HERE\n    def g():\n        yield exit()", ENDLESS),
    ],
)
def test_X4_what_a_loop_waits_for(source: str, expected: LoopWay | None) -> None:
    assert way(source) is expected


@pytest.mark.invariant("loop_source.X5")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("while True:\n    with q:\n        HERE", ENDLESS),
        ("while True:\n    for x in q:\n        HERE", ENDLESS),
        ("while True:\n    try:\n        HERE\n    except OSError:\n        pass", ENDLESS),
        ("while True:\n    try:\n        q()\n    finally:\n        HERE", ENDLESS),
        ("while True:\n    try:\n        q()\n    except OSError:\n        HERE", NOTHING),
        ("while True:\n    if q:\n        HERE", NOTHING),
        ("while True:\n    match q:\n        case 1:\n            HERE", NOTHING),
        ("while True:\n    while not done:\n        HERE", POLLS),
        ("while not done:\n    while True:\n        HERE", POLLS),
        ("while True:\n    q(\n        1,\n        HERE,\n    )", ENDLESS),
    ],
)
def test_X5_a_line_that_each_round_comes_to(source: str, expected: LoopWay | None) -> None:
    assert way(source) is expected


@pytest.mark.invariant("loop_source.X6")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("while not self.stop.wait(5):  # HERE\n    q()", LoopWay.PAUSES),
        ("while True:\n    if stop.wait(5):  # HERE\n        break", LoopWay.PAUSES),
        ("while True:\n    stop.wait(5)  # HERE", LoopWay.PAUSES),
        ("while not self.stop.wait(timeout=5):  # HERE\n    q()", LoopWay.PAUSES),
        ("while True:\n    stop.wait()  # HERE", ENDLESS),
        ("while time.time() < end and not self.stopping.wait(9):  # HERE\n    q()", LoopWay.PAUSES),
        ("while not done.wait(5):  # HERE\n    q()", POLLS),
        ("while not done:\n    stop.wait(5)  # HERE", POLLS),
    ],
)
def test_X6_a_wait_to_be_told_to_stop(source: str, expected: LoopWay | None) -> None:
    assert way(source) is expected


@pytest.mark.invariant("loop_source.X6")
@pytest.mark.parametrize(
    ("source", "pauses"),
    [
        ("self._stop_event.wait()  # HERE", True),
        ("await shutdown.wait()  # HERE", True),
        ("return self.stop.wait(q)  # HERE", True),
        ("self.stopped.wait()  # HERE", False),  # until somebody has stopped
        ("job.stop.wait()  # HERE", False),
        ("done.wait()  # HERE", False),
        ("return done.wait(5)  # HERE", False),
        ("if stop.wait(5):  # HERE\n    q()", False),
    ],
)
def test_X6_a_statement_that_only_waits_to_be_told_to_stop(source: str, pauses: bool) -> None:
    assert way(source) is None and here(source)[0].pauses is pauses
