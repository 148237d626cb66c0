"""Which loops only their own end ends, by their source."""

from __future__ import annotations

import ast
import os
import time
from pathlib import Path
from textwrap import dedent, indent

import pytest

from livedbg.cpython import loop_source
from livedbg.cpython.loop_source import SourceLoop, Sources, command_of

POLLS = SourceLoop(True, False, polls=True)
COUNTS = SourceLoop(False, False, "k", "n", polls=True)


def around(source: str) -> list[SourceLoop]:
    """The loops around the line with `HERE`, of a function's body."""
    text = "def f(n, ready, self):\n" + indent(dedent(source).strip(), "    ") + "\n"
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "HERE" in one)
    found = loop_source.around(ast.parse(text), line).loops
    return [loop._replace(rests=frozenset(), pauses=frozenset()) for loop in found]


def ending(source: str) -> list[SourceLoop]:
    return [loop._replace(steady=False) for loop in around(source)]


@pytest.mark.invariant("loop_source.X1", "loop_source.X3")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for i in range(n):\n    HERE", SourceLoop(True, True)),
        ("for i in range(n):\n    if ready():\n        break\n    HERE", POLLS),
        (
            "for i in range(n):\n    try:\n        return ready()\n    except OSError:\n        HERE",
            POLLS,
        ),
        ("for i in n:\n    HERE\n    for j in n:\n        break", SourceLoop(True, True)),
        ("for i in n:\n    HERE\n    for j in n:\n        return", POLLS),
        (
            "for i in n:\n    HERE\n    for j in n:\n        pass\n    else:\n        break",
            POLLS,
        ),
        ("for i in n:\n    HERE\n    def g():\n        return 1", SourceLoop(True, True)),
        ("for i, x in enumerate(n):\n    HERE\n    if i >= self.n:\n        break", SourceLoop(True, True)),
        ("for i in n:\n    HERE\n    if i >= ready():\n        break", POLLS),
        ("for i in n:\n    HERE\n    if n >= 3:\n        break", POLLS),
        (
            "for i in n:\n    HERE\n    if i > 3:\n        pass\n    else:\n        break",
            POLLS,
        ),
        ("k = 0\nwhile k < n:\n    HERE\n    k += 1", SourceLoop(False, True, "k", "n")),
        ("k = 9\nwhile k > 0:\n    HERE\n    k -= 2", SourceLoop(False, True, "k", 0, falls=True)),
        ("k = 0\nwhile k < self.n:\n    HERE\n    k += 1", SourceLoop(False, True, "k", "")),
        ("while k < n:\n    HERE\n    k = ready()", SourceLoop(False, False, polls=True)),
        ("while k < n:\n    HERE\n    k += ready()", SourceLoop(False, False, polls=True)),
        ("while k < n and not ready:\n    HERE\n    k += 1", SourceLoop(False, False, polls=True)),
        (
            "while k < n:\n    HERE\n    k += 1\n    if ready:\n        break",
            COUNTS,
        ),
        ("while True:\n    HERE\n    k += 1\n    if k > n:\n        break", SourceLoop(False, True, "k", "n")),
        ("while True:\n    HERE", SourceLoop(False, False, endless=True)),
        ("while True:\n    HERE\n    if ready:\n        break", SourceLoop(False, False, polls=True)),
        ("while not ready:\n    HERE", SourceLoop(False, False, polls=True)),
    ],
)
def test_what_ends_a_loop(source: str, expected: SourceLoop) -> None:
    assert ending(source) == [expected]


def test_loops_are_those_of_the_function_outermost_first() -> None:
    inner = """
        for i in n:
            with self:
                def g():
                    for j in n:
                        try:
                            pass
                        except OSError:
                            while True:
                                HERE
    """
    assert [loop.is_for for loop in around(inner)] == [True, False]
    assert around("for i in n:\n    pass\nelse:\n    HERE") == []
    assert ending("match n:\n    case 1:\n        for i in n:\n            HERE") == [SourceLoop(True, True)]


@pytest.mark.invariant("loop_source.X2")
def test_a_file_that_was_changed_later_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text("pass\n")
    os.utime(file, (time.time() + 60, time.time() + 60))
    assert Sources(os.getpid()).loops(str(file), 1) is None
    os.utime(file, (1.0, 1.0))
    assert Sources(os.getpid()).loops(str(file), 1) is not None
    (tmp_path / "job.txt").write_text("pass\n")
    assert Sources(os.getpid()).loops(str(tmp_path / "job.txt"), 1) is None


@pytest.mark.invariant("loop_source.X7")
@pytest.mark.parametrize(
    ("source", "steady"),
    [
        ("for i in range(n):\n    HERE", True),
        ("for i in range(n):\n    HERE\n    if ready():\n        break", False),
        ("k = 0\nwhile k * k <= n:\n    HERE\n    k += 1", True),
        ("k = 0\nwhile k % 7 < n:\n    HERE\n    k += 1", False),
        ("k = 0\nwhile k * self.n < n:\n    HERE\n    k += 1", False),
        ("k = 0\nwhile k < n:\n    HERE\n    if ready:\n        k += 1", False),
        ("k = 0\nwhile k < n:\n    HERE\n    if not ready:\n        continue\n    k += 1", False),
        ("k = 0\nwhile k < n:\n    HERE\n    for i in n:\n        continue\n    k += 1", True),
        ("k = 0\nwhile k < n:\n    HERE\n    k += 1\n    if ready:\n        k = 0", False),
        ("while time.monotonic() < n:\n    HERE", True),
        ("stop = False\nwhile not stop and time.monotonic() < n:\n    HERE", True),
        ("stop = False\nwhile not stop or time.monotonic() < n:\n    HERE", False),
        ("while True:\n    HERE\n    if time.time() > n:\n        break", True),
        ("while time.monotonic() < n:\n    HERE\n    if ready():\n        return", False),
        ("while (k := n.get()) is not None:\n    HERE", True),
        ("while True:\n    k = n.get()\n    if k is None:\n        break\n    HERE", True),
        ("while True:\n    k = n.get()\n    if k is None:\n        continue\n    HERE", False),
        ("while True:\n    HERE", False),
        ("stop = False\nwhile not stop:\n    HERE", False),
    ],
)
def test_which_loops_wait_for_nothing_to_become_true(source: str, steady: bool) -> None:
    (loop,) = around(source)
    assert loop.steady is steady


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (("python", "-c", "x = 1"), "x = 1"),
        (("python", "-u", "-Wd", "-X", "dev", "-cx = 1", "a"), "x = 1"),
        (("python", "-uBc", "x = 1"), "x = 1"),
        (("python", "-Xtracemalloc", "-Werror::DeprecationWarning", "-c", "x = 1"), "x = 1"),
        (("python", "-m", "cmd", "-c", "x"), None),
        (("python", "job.py", "-c", "x"), None),
        (("python", "-"), None),
        (("python", "-c"), None),
        ((), None),
    ],
)
def test_the_program_of_a_command_line(words: tuple[str, ...], program: str | None) -> None:
    assert command_of(words) == program
