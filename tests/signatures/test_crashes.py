"""The signatures of crashes: their examples, and what they cost on words that also stand in ordinary lines."""

from __future__ import annotations

from typing import Final

import pytest

from livedbg.signatures.check import problems
from livedbg.signatures.crashes import crash_book, crash_in, run_book
from livedbg.signatures.model import Ends, Example
from tests.logs.reading import verdict

EXAMPLES: Final = [
    pytest.param(example, entry.usual.kind, id=f"{entry.signature.id}-{number}")
    for entry in crash_book().entries
    for number, example in enumerate(entry.signature.examples)
]


def test_the_file_has_no_problem() -> None:
    assert list(problems(crash_book().rooms[0])) == []
    assert all(entry.usual.ends is Ends.PROCESS for entry in crash_book().entries)


@pytest.mark.invariant("crashes.D1")
@pytest.mark.parametrize(("example", "kind"), EXAMPLES)
def test_D1_each_example_is_one_crash_or_none(example: Example, kind: str) -> None:
    crash = crash_in(example.text.strip("\n"))
    if not example.says:
        assert crash is None
        return
    assert crash is not None
    assert crash[0].sentence == example.says
    judged = verdict(f"step 3 loss 0.1\n{example.text.lstrip(chr(10))}\n")
    assert judged.state == ("unknown" if kind == "sanitizer-warning" else "crashed")


def test_the_file_of_runs_of_tests_has_no_problem() -> None:
    assert list(problems(run_book().rooms[0])) == []


def test_libc_s_type_is_whole() -> None:
    crash = crash_in("libc++abi: terminating due to uncaught exception of type std::runtime_error: no device")
    assert crash is not None
    assert (crash[0].exception, crash[0].sentence) == ("std::runtime_error", "no device")
