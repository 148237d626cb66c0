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


CTEST = """67% tests passed, 1 tests failed out of 3

Total Test time (real) =  48.53 sec

The following tests FAILED:
\t  3 - tank: opens a lid (SEGFAULT)
Errors while running CTest
"""


@pytest.mark.invariant("crashes.D3")
def test_D3_the_tests_that_ctest_names_below_its_counts_are_those_that_failed() -> None:
    assert verdict(CTEST).sentence.startswith("The test run failed: tank: opens a lid: SEGFAULT. 67% tests passed, 1")
    again = "    Start 1: valve\n1/1 Test #1: valve ............   Passed    9.81 sec\n\n100% tests passed, 0 tests"
    assert "valve" not in verdict(CTEST + again + " failed out of 1\n\nTotal Test time (real) =   9.90 sec\n").sentence
    counts = "\n".join(CTEST.splitlines()[:3])
    assert verdict(counts).sentence.startswith("The test run failed: 67% tests passed, 1 tests failed out of 3")


@pytest.mark.parametrize(
    ("above", "program"),
    [
        ("+ python3 -u ./plant/test_lid.py -v\nthe lid is open\n", ", as python3 test_lid.py ran"),
        ("++ date +%s\n+ ./fill 3\n", ", as fill ran"),
        ("+ ./fill 3\n+ export TANK=3\n", ""),
        ("+ ./fill 3\n+ TANK=3\n", ""),
        ("++ 3 pumps\n" * 0 + "the lid is open\n", ""),
    ],
)
def test_a_signal_without_a_place_is_of_the_command_that_the_shell_traced(above: str, program: str) -> None:
    told = verdict(f"{above}*** Received signal 11 ***\n")
    assert (told.state, told.sentence) == ("crashed", f"Crashed: SIGSEGV: Segmentation fault{program}.")
