"""Ends of runs of tests."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

CRASHED = VerdictState.CRASHED
GTEST = (
    "[==========] Running 2 tests from 1 test suite.\n[ RUN      ] Net.One\n[       OK ] Net.One (3 ms)\n"
    "[ RUN      ] Net.Two\n/w/test_net.cpp:31: Failure\nExpected equality of these values:\n  a\n    Which is: 3\n"
    "[  FAILED  ] Net.Two (3 ms)\n[==========] 2 tests from 1 test suite ran. (9 ms total)\n[  PASSED  ] 1 test.\n"
    "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Net.Two\n\n 1 FAILED TEST\n"
)
JEST = (
    " PASS  ./a.test.js\n FAIL  ./web/b.test.js\n  ● math › adds\n\n    expect(received).toBe(expected)\n\n"
    "    Expected: 4\n\n      at Object.<anonymous> (web/b.test.js:12:22)\n\n"
    "Test Suites: 1 failed, 1 passed, 2 total\nTests:       1 failed, 3 passed, 4 total\nTime:        0.97 s\n"
)
PIECE = "t/test_tank.py:41:\n_ _ _ _ _ _\nsrc/tank.py:17: in fill\n    raise bad\nE   ValueError: no lid\n"
ABORT = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
FAILED = [
    (GTEST, "Net.Two, at /w/test_net.cpp:31: Expected equality of these values: a Which is: 3. 1 test failed."),
    (
        ".F\n======\nFAIL: test_x (test_m.T)\n------\nTraceback (most recent call last):\n"
        '  File "/w/test_m.py", line 6, in test_x\n    self.assertEqual(1, 2)\nAssertionError: 1 != 2\n\n------\n'
        "Ran 2 tests in 0.001s\n\nFAILED (failures=1)\n",
        "test_x (test_m.T), at test_m.py:6: AssertionError: 1 != 2. FAILED (failures=1).",
    ),
    ("case 90 of 90: pass\nsummary: 89 passed, 1 failed (colmax)\n", "summary: 89 passed, 1 failed (colmax)."),
    (
        "2/2 Test #2: gather ......***Exception: SegFault  0.41 sec\n\n50% tests passed, 1 tests failed out of 2\n",
        "gather: Exception: SegFault. 50% tests passed, 1 tests failed out of 2.",
    ),
    (
        "FAILED t/test_a.py::test_x[3] - assert 4 == 6\nERROR t/test_b.py - OSError: no\n1 failed, 1 error in 4.0s\n",
        "t/test_a.py::test_x[3]: assert 4 == 6; t/test_b.py: OSError: no. 1 failed, 1 error in 4.0s.",
    ),
    (  # each test has the reason of its own section, whole; the list below cuts it off
        "=== FAILURES ===\n___ TestNet.test_a[fp16] ___\nt/test_a.py:7: in test_a\n    run()\n"
        'E       RuntimeError:  INTERNAL ASSERT FAILED at "/w/a.cpp":4, please report a bug with repro script to '
        "NVFuser at https://x.org/issues. Detected exception while compiling fusion segments in parallel.\nE       \n"
        'E       Error from segmentation group 9:  INTERNAL ASSERT FAILED at "/w/id.cpp":10, please report a bug '
        "with repro script to NVFuser at https://x.org/issues. No path for i3\n"
        "E       Exception raised from f at /w/id.cpp:10 (most recent call first):\nE       frame #0: f() + 0x1 (0x5)"
        "\n___ ERROR at setup of test_b ___\nE   net.LinkError: no answer\nE   Last error:\nE   connect to n7 failed\n"
        "=== short test summary info ===\nFAILED t/test_a.py::TestNet::test_a[fp16] - RuntimeError:  INTERNAL ASSE...\n"
        "ERROR t/test_a.py::test_b - net.LinkError: no answer\n1 failed, 1 error in 4.0s\n",
        "t/test_a.py::TestNet::test_a[fp16]: Error from segmentation group 9: No path for i3 (id.cpp:10); "
        "t/test_a.py::test_b: net.LinkError: connect to n7 failed. 1 failed, 1 error in 4.0s.",
    ),
    (  # the reason stands below the plea, in the lines of one record; what was compared is said with how much differs
        "[gw3] [ 12%] FAILED t/test_a.py::test_a\n___ test_a ___\n[gw3] linux -- Python 3.12.3 /usr/bin/python\n"
        "E   RuntimeError:  INTERNAL ASSERT FAILED at c/a.cpp:4, please report a bug with repro script to NVFuser at "
        "https://x.org/issues. \nE   Expected a != b . No room for T5\n___ test_b ___\nE   AssertionError: not close!\n"
        "E   \nE   Mismatched elements: 17 / 4096 (0.4%)\nFAILED t/test_a.py::test_a - RuntimeError:  INTERNAL AS...\n"
        "FAILED t/test_a.py::test_b - AssertionError: not close!\n2 failed in 4.0s\n",
        "t/test_a.py::test_a: RuntimeError: No room for T5 (a.cpp:4); t/test_a.py::test_b: AssertionError: not close!; "
        "Mismatched elements: 17 / 4096 (0.4%). 2 failed in 4.0s.",
    ),
    (  # of two exceptions, one raised while the other was handled, the list names the last one
        "___ test_a ___\nE   KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n"
        "t/test_a.py:7: in test_a\nE   OSError: no\n1 failed in 4.0s\n",
        "test_a: OSError: no. 1 failed in 4.0s.",
    ),
    (
        "--- FAIL: TestSum (0.00s)\n    sum_test.go:12: got 3, want 4\nFAIL\nFAIL\tacme.org/sum\t0.004s\n",
        "TestSum: sum_test.go:12: got 3, want 4. FAIL\tacme.org/sum\t0.004s.",
    ),
    (
        "test sum::adds ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; finished in 0.02s\n",
        "sum::adds. Test result: FAILED. 1 passed; 1 failed.",
    ),
    ("50% tests passed, 1 tests failed out of 2\n", "50% tests passed, 1 tests failed out of 2."),
    (
        JEST,
        "math › adds, at web/b.test.js:12: expect(received).toBe(expected). Test Suites: 1 failed, 1 passed, 2 total.",
    ),
    (
        " FAIL  ./App.test.js\n  ● Test suite failed to run\n\n    /w/App.test.js: Unexpected token (7:35)\n\n"
        "Test Suites: 1 failed, 1 passed, 2 total\nTests:       3 passed, 3 total\nTime:        0.97s\n",
        "Test suite failed to run: /w/App.test.js: Unexpected token (7:35). Test Suites: 1 failed, 1 passed, 2 total.",
    ),
    ("  math\n    ✓ subs\n    1) adds\n\n  1 passing (8ms)\n  1 failing\n", "1 failing."),
    (
        'tests/m.cpp(12): error: in "math/adds": check a == 4 has failed [5 != 4]\n\n'
        '*** 1 failure is detected in the test module "math"\n',
        "math/adds, at tests/m.cpp:12: check a == 4 has failed [5 != 4]. 1 failure is detected in the test module "
        '"math".',
    ),
    (
        "tests/m.cpp:11: FAILED:\n  REQUIRE( a == 4 )\nwith expansion:\n  5 == 4\n\n"
        "test cases: 3 | 2 passed | 1 failed\nassertions: 9 | 8 passed | 1 failed\n",
        "tests/m.cpp:11: REQUIRE( a == 4 ). Test cases: 3 | 2 passed | 1 failed.",
    ),
    (
        "[ERROR] org.x.Sums.adds  Time elapsed: 0.01 s  <<< FAILURE!\norg.x.Failed: expected: <4>\n"
        "\tat org.x.Sums.adds(Sums.java:12)\n\n[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0\n",
        "org.x.Sums.adds: org.x.Failed: expected: <4>. Tests run: 3, Failures: 1, Errors: 0, Skipped: 0.",
    ),
    (
        "  1) test adds (SumsTest)\n     test/s.exs:5\n     Assertion with == failed\n\n3 tests, 1 failure\n",
        "adds (SumsTest), at test/s.exs:5: Assertion with == failed. 3 tests, 1 failure.",
    ),
    (  # the place and the reason of the second test are not those of the first
        "  ● math › subs\n\n  ● math › adds\n\n    expect(a).toBe(b)\n\n      at t (web/b.test.js:12:22)\n\n"
        "Test Suites: 1 failed, 1 total\nTests:       2 failed, 2 total\n",
        "math › subs; math › adds, at web/b.test.js:12: expect(a).toBe(b). Test Suites: 1 failed, 1 total.",
    ),
    (
        "[ RUN      ] Net.One\nunknown file: Failure\n"
        'C++ exception with description " INTERNAL ASSERT FAILED at /w/net.cpp:7, please report a bug to PyTorch. \n'
        "Expected rows == columns . \n\nthe grid is not square\nException raised from plan at /w/net.cpp:7 (most "
        'recent call first):\nframe #0: plan() + 0x1 (0x5 in net)\n" thrown in the test body.\n\n'
        "[  FAILED  ] Net.One (3 ms)\n[ RUN      ] Net.Three\n/w/test_net.cpp:31: Failure\n"
        "Expected: (a) < (b), actual: 3 vs 2\n[  FAILED  ] Net.Three (3 ms)\n"
        "[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] Net.One\n[  FAILED  ] Net.Three\n",
        "Net.One: the grid is not square (net.cpp:7); Net.Three, at /w/test_net.cpp:31: Expected: (a) < (b), actual: 3 "
        "vs 2. 2 tests failed.",
    ),
    (  # a log from which the line that names no file was taken out
        '[ RUN      ] Net.One\nC++ exception with description "no plan for 3 tiles" thrown in the test body.\n\n'
        "[  FAILED  ] Net.One (3 ms)\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Net.One\n",
        "Net.One: no plan for 3 tiles. 1 test failed.",
    ),
    (
        "[ RUN      ] Net.One\n/w/test_net.cpp:31: Failure\nFailed\nno entry for 3\nException raised from find at "
        "/w/net.cpp:7 (most recent call first):\nframe #0: find() + 0x1 (0x5 in net)\n\n[  FAILED  ] Net.One (3 ms)\n"
        "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Net.One\n",
        "Net.One, at /w/test_net.cpp:31: no entry for 3, raised in find (net.cpp:7). 1 test failed.",
    ),
    (
        "FAILED t.py::test_fill - plan.Bad: Error invoking iree-compile\nError code: 1\nStderr diagnostics:\n"
        "/w/tank.mlir:3:8: error: 'pump.fill' op has no valve\n1 failed in 4.0s\n",
        "t.py::test_fill: /w/tank.mlir:3:8: error: 'pump.fill' op has no valve. 1 failed in 4.0s.",
    ),
    (
        "".join(f"FAILED t.py::{name} - assert {name}\n" for name in "abcde") + "5 failed in 1.0s\n",
        "t.py::a: assert a; t.py::b: assert b; t.py::c: assert c; and 2 more. 5 failed in 1.0s.",
    ),
]


@pytest.mark.invariant("crashes.D3")
@pytest.mark.parametrize(("text", "said"), FAILED)
def test_a_run_in_which_tests_failed(text: str, said: str) -> None:
    found = verdict(text)
    assert (found.state, found.sentence) == (CRASHED, f"The test run failed: {said}")


def test_a_time_limit_is_said_with_the_tests_that_had_not_ended() -> None:
    tests = "".join(f"[1,{rank}]<stdout>:[ RUN      ] Net.Two\n" for rank in range(3))
    limit = "The user-provided time limit for job execution has been reached:\n\n  Timeout: 300 seconds\n\n"
    said = verdict(f"{tests}[1,2]<stdout>:[       OK ] Net.Two (3 ms)\n{limit}").sentence
    assert said.endswith("time limit was reached (300 seconds). Begun and not ended: Net.Two (rank 0 and rank 1).")
    assert "Begun" not in verdict(limit).sentence
    limit = "timeout: sending signal TERM to command 'bin/test_net'\n"
    said = verdict(f"[ RUN      ] Net.Two\n{limit}Terminated\n").sentence
    assert said == "timeout ended bin/test_net: its time limit was reached (SIGTERM). Begun and not ended: Net.Two."


def test_the_tests_of_one_rank_are_not_those_of_another() -> None:
    lines = [
        "[1,{}]<stdout>:[ RUN      ] Net.One".format,
        "[1,{}]<stdout>:/w/test_net.cpp:31: Failure".format,
        "[1,{}]<stdout>:Expected: (a) < (b), actual: 3 vs 2".format,
        "[1,{}]<stdout>:[  FAILED  ] Net.One (3 ms)".format,
        "[1,{}]<stdout>:[  FAILED  ] 1 test, listed below:".format,
    ]
    passed = "[1,0]<stdout>:[       OK ] Net.One (3 ms)"
    text = "\n".join([lines[0](0), *(line(1) for line in lines[:3]), passed, *(line(1) for line in lines[3:])])
    said = "Net.One, at /w/test_net.cpp:31: Expected: (a) < (b), actual: 3 vs 2. 1 test failed."
    assert verdict(f"{text}\n").sentence == f"Rank 1: The test run failed: {said}"


@pytest.mark.invariant("crashes.D2")
@pytest.mark.parametrize(
    "end",
    [
        "[==========] 2 tests from 1 test suite ran. (9 ms total)\n[  PASSED  ] 2 tests.\n",
        "Ran 2 tests in 0.001s\n\nOK\n",
        "summary: 90 passed, 0 failed\n",
        "100% tests passed, 0 tests failed out of 2\n",
        "Test Suites: 2 passed, 2 total\nTests:       7 passed, 7 total\n",
        "test result: ok. 3 passed; 0 failed; 0 ignored\n\n   Doc-tests sums\n\nrunning 0 tests\n\n"
        "test result: ok. 0 passed; 0 failed; 0 ignored\n",
    ],
)
def test_T3_an_exception_before_the_end_of_a_good_run_was_a_test_s(end: str) -> None:
    assert verdict(ABORT).state is CRASHED
    assert verdict(ABORT + end).state is not CRASHED


SIGNAL = "./run.sh: line 14: 22101 Segmentation fault      (core dumped) bin/test_net\n"

ALONE = (
    '[ RUN      ] Net.One\nunknown file: Failure\nC++ exception with description "Expected rows.same(columns) to be '
    "true, but got false.\nException raised from TestBody at /w/net.cpp:7 (most recent call first):\nframe #0: plan() "
    '+ 0x1 (0x5 in net)\n" thrown in the test body.\n[  FAILED  ] Net.One (61 ms)\n'
)


def test_the_end_of_a_failed_test_ends_a_log_that_was_cut_behind_it() -> None:
    said = verdict(ALONE)
    assert said.state is CRASHED
    assert "Net.One: Expected rows.same(columns) to be true, but got false, raised in Te" in said.sentence


@pytest.mark.parametrize("after", ["[ RUN      ] Net.Two\n", "[       OK ] Net.Two (2 ms)\n"])
def test_it_fails_its_run_whatever_tests_follow(after: str) -> None:
    said = verdict(ALONE + after)
    assert said.state is CRASHED and "Net.One: Expected" in said.sentence


def test_a_signal_with_its_frames_is_told_with_its_test() -> None:
    frames = " 0 0x42520 __sigaction()  ???:0\n 1 0x9f384f plan::fit()  /w/plan.cpp:15\n"
    caught = "[n1:7 :0:7] Caught signal 8 (Floating point exception: integer divide by zero)\n"
    text = f"[ RUN      ] Pump.Fill\n{caught}==== backtrace (tid: 7) ====\n{frames}"
    assert (
        verdict(text).sentence
        == "Crashed in plan::fit (plan.cpp:15): SIGFPE: Floating point exception, in test Pump.Fill."
    )


def test_a_failed_test_may_pass_on_another_rank() -> None:
    text = "[ RUN      ] Pump.Fill\nt.cpp:4: Failure\nExpected: (a) < (b), actual: 2 vs 1\n"
    said = verdict(f"{text}[       OK ] Pump.Fill (9 ms)\n[  FAILED  ] Pump.Fill (9 ms)\n")
    assert said.state is CRASHED and "Pump.Fill, at t.cpp:4: Expected: (a) < (b)" in said.sentence
    assert verdict(f"{text}[       OK ] Pump.Drain (9 ms)\n").state is not CRASHED


@pytest.mark.parametrize(
    "after",
    [
        SIGNAL,
        "[==========] 2 tests ran.\n[  PASSED  ] 2 tests.\n",
        "[       OK ] Net.Two (2 ms)\n"
        + "".join(f"the {name} is filled\n" for name in ("tank", "pump", "vat", "lid", "pipe")),
    ],
)
def test_but_not_if_another_end_follows(after: str) -> None:
    assert "Net.One: Expected" not in verdict(ALONE + after).sentence


@pytest.mark.parametrize(
    "line",
    [
        "a plan: 89 tests in 3 groups\n",
        "the check: Failure is an option\n",
        "3 shards passed, 0 to go\n",
        "  3 probes failing of 9\n",
    ],
)
def test_lines_that_only_speak_of_tests(line: str) -> None:
    assert verdict(line).state is not CRASHED


@pytest.mark.parametrize(
    ("before", "named"),
    [
        ("[ RUN      ] Net.Two\n", True),
        ("[ RUN      ] Net.One\n[       OK ] Net.One (3 ms)\n[ RUN      ] Net.Two\nlayer 3\n", True),
        ("[ RUN      ] Net.Two\n[       OK ] Net.Two (3 ms)\n", False),
        ("[ RUN      ] Net.Two\n[  SKIPPED ] Net.Two (0 ms)\n", False),
        ("[ RUN      ] Net.Two\nx.cpp:3: Failure\n[  FAILED  ] Net.Two (3 ms)\n", False),
    ],
)
def test_a_signal_is_said_with_the_test_that_runs(before: str, named: bool) -> None:
    said = verdict(before + SIGNAL).sentence
    assert "Segmentation fault" in said
    assert (", in test Net.Two" in said) is named


@pytest.mark.parametrize(
    ("before", "named"),
    [
        ("[ RUN      ] A.B\n[       OK ] A.B (3 ms)\n[==========] 1 test from 1 test suite ran. (3 ms total)\n", True),
        ("===== 7 passed in 0.31s =====\n", True),
        ("[  PASSED  ] 1 test.\n[ RUN      ] A.B\n[       OK ] A.B (3 ms)\n", False),
        ("step 7\n", False),
    ],
)
def test_a_signal_is_said_to_come_after_the_tests(before: str, named: bool) -> None:
    said = verdict(before + SIGNAL).sentence
    assert "Segmentation fault" in said
    assert (", after its tests had ended" in said) is named


DEAD = (
    "{}FAILED t/test_p.py::test_a - EngineDeadError: the engine has died. See stack trace above\n"
    "========================= 1 failed, 3 passed in 7.22s =========================\n"
)
FAULT = (
    'Traceback (most recent call last):\n  File "/w/core.py", line 8, in run\n    step()\n'
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
)


def test_a_test_that_failed_since_a_peer_died_is_said_with_the_error_above_it() -> None:
    said = verdict(DEAD.format(FAULT)).sentence
    assert said.startswith("The test run failed: t/test_p.py::test_a: CUDA error: an illegal memory access")
    assert "it led to EngineDeadError" in said
    assert "it led to" not in verdict(DEAD.format("")).sentence
    assert (
        "it led to"
        not in verdict(
            DEAD.format(FAULT).replace("EngineDeadError: the engine has died. See stack trace above", "assert 4 == 6")
        ).sentence
    )


def test_a_log_that_ends_in_a_test_says_which() -> None:
    begun = "[ RUN      ] Net.One\n[       OK ] Net.One (3 ms)\n[ RUN      ] Net.Two\n"
    found = verdict(begun)
    assert (found.state, found.sentence.endswith("is unknown. Begun and not ended: Net.Two.")) == (
        VerdictState.UNKNOWN,
        True,
    )
    assert "Begun" not in verdict(f"{begun}[       OK ] Net.Two (3 ms)\n").sentence


BELOW = (
    "FAILED tests/test_a.py::test_b - RuntimeError: segments failed. Messages from all threads are printed below.\n"
    "\nError from segmentation group 9:  no path for i3\nError from segmentation group 11:  no path for i4\n\n"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BELOW, "tests/test_a.py::test_b: Error from segmentation group 9: no path for i3"),
        (BELOW.partition("\n")[0] + "\n", "tests/test_a.py::test_b."),
        (
            "FAILED [0.44s] tests/test_a.py::A::test_b - plan.Bad: no pump\n",
            "tests/test_a.py::A::test_b: plan.Bad: no pump.",
        ),
        ("[gw3] [ 52%] FAILED tests/test_a.py::test_b[3]\n", "tests/test_a.py::test_b[3]."),
    ],
)
def test_the_spellings_of_pytest_and_its_plugins(text: str, said: str) -> None:
    judged = verdict(f"{text}1 failed, 3 passed in 0.41s\n")
    assert judged.state is CRASHED
    assert judged.sentence.startswith(f"The test run failed: {said}")


@pytest.mark.parametrize(
    ("quoted", "why", "said"),
    [
        (
            "self.assertTrue(pump.on)",
            "AssertionError: False is not true",
            "AssertionError: False is not true: self.assertTrue(pump.on)",
        ),
        ("assert pump.on  # by now", "assert False", "assert pump.on"),
        ("assert pump.on(", "assert False", "assert False"),
        ("assert pump.lids == 4", "assert 3 == 4", "assert 3 == 4"),
        ("run(pump)", "AssertionError: False is not true", "AssertionError: False is not true"),
    ],
)
def test_of_a_test_in_which_something_is_only_false_the_quoted_line_is_said(quoted: str, why: str, said: str) -> None:
    text = (
        f"=== FAILURES ===\n___ TestPump.test_on ___\n    def test_on(self):\n>       {quoted}\nE       {why}\n\n"
        f"t/test_a.py:4: AssertionError\nFAILED t/test_a.py::TestPump::test_on - {why}\n1 failed in 0.1s\n"
    )
    assert verdict(text).sentence == f"The test run failed: t/test_a.py::TestPump::test_on: {said}. 1 failed in 0.1s."


CTEST = "{}/2 Test #{}: {} .............................{}    0.04 sec\n"
RAISED = (
    'Traceback (most recent call last):\n  File "/w/t.py", line 12, in main\n    fill()\nValueError: the lid is shut\n'
)
PASSED, FAILED = "   Passed", "***Failed"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            (CTEST.format(1, 1, "fill", PASSED), CTEST.format(2, 2, "drain", FAILED), RAISED),
            "ValueError: the lid is shut",
        ),
        (
            (CTEST.format(1, 1, "fill", PASSED), RAISED, CTEST.format(2, 2, "drain", FAILED)),
            "ValueError: the lid is shut",
        ),
        ((RAISED, CTEST.format(1, 1, "fill", PASSED), CTEST.format(2, 2, "drain", FAILED)), "Failed"),
        ((RAISED, CTEST.format(2, 2, "drain", "***Timeout")), "Timeout"),
    ],
)
def test_why_a_test_failed_of_which_its_runner_says_no_more_stands_in_its_own_output(
    lines: tuple[str, ...], why: str
) -> None:
    said = verdict("".join(lines) + "\n50% tests passed, 1 tests failed out of 2\n").sentence
    assert said.startswith(f"The test run failed: drain: {why}. 50% tests passed")


LISTED = (
    "[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] Pump.Fill\n[  FAILED  ] Pump.Drain/0, where GetParam() = 4\n"
)


def test_D3_tests_that_are_named_only_behind_the_summary() -> None:
    assert verdict(LISTED).sentence == "The test run failed: Pump.Fill; Pump.Drain/0. 2 tests failed."
    whole = (
        f"[==========] 7 tests from 1 test suite ran. (9 ms total)\n[  PASSED  ] 5 tests.\n{LISTED}\n 2 FAILED TESTS\n"
    )
    assert verdict(whole).sentence == "The test run failed: Pump.Fill; Pump.Drain/0. 2 tests failed."


def test_D3_what_is_said_of_them_further_below() -> None:
    text = f"{LISTED}\n[ RUN      ] Pump.Drain/0\npump.cpp:7: Failure\nExpected equality of these values:\n  3\n  4\n"
    assert verdict(text).sentence.startswith("The test run failed: Pump.Drain/0, at pump.cpp:7: Expected equality")


def test_D3_another_run_below_such_a_list_has_tests_of_its_own() -> None:
    again = "[ RUN      ] Tank.Open\ntank.cpp:7: Failure\nno lid\n[  FAILED  ] Tank.Open (3 ms)\n"
    assert verdict(f"{LISTED}{again}").sentence == "The test run failed: Pump.Fill; Pump.Drain/0. 2 tests failed."


def test_D3_what_the_test_that_ran_said_is_its_reason_though_only_the_list_says_that_it_failed() -> None:
    threw = '[ RUN      ] Pump.Drain/0\nunknown file: Failure\nC++ exception with description "no lid\n'
    assert verdict(threw + LISTED).sentence == "The test run failed: Pump.Drain/0: no lid; Pump.Fill. 2 tests failed."
    another = threw.replace("Drain/0", "Open") + LISTED
    assert "Pump.Fill: no lid" not in verdict(another).sentence


CUT = [  # what was pasted ends where the reason is said, before its runner names the test
    (  # with no line that names it
        'C++ exception with description "Expected the pump to be open\nException raised from fill at '
        "/w/aten/src/tank.cpp:96 (most recent call first):\nframe #0: fill() + 0x1 (0x5 in tank)\n",
        "Expected the pump to be open, raised in fill (tank.cpp:96).",
    ),
    ('C++ exception with description "no lid" thrown in the test body.\n', "no lid."),
    (
        "[ RUN      ] Pump.Fill\nunknown file: Failure\n"
        'C++ exception with description "no lid" thrown in the test body.\n',
        "Pump.Fill: no lid.",
    ),
    (
        '[ RUN      ] Pump.Fill\nunknown file: Failure\nC++ exception with description "open INTERNAL ASSERT FAILED at '
        '"../plant/tank.cpp":96, please report a bug to PyTorch. This tank holds only water.\nframe #0: fill() + 0x1\n',
        "Pump.Fill: This tank holds only water (tank.cpp:96).",
    ),
    (
        "[ RUN      ] Pump.Fill\n/w/tank.cpp:31: Failure\nExpected: (level) < (3), actual: 4 vs 3\n",
        "Pump.Fill, at /w/tank.cpp:31: Expected: (level) < (3), actual: 4 vs 3.",
    ),
    (
        "[ RUN      ] Pump.Drain\n/w/tank.cpp:7: Failure\nExpected: (a) < (b), actual: 2 vs 1\n"
        "[  FAILED  ] Pump.Drain (1 ms)\n"
        "[ RUN      ] Pump.Fill\n/w/tank.cpp:31: Failure\nExpected: (level) < (3), actual: 4 vs 3\n",
        "Pump.Drain, at /w/tank.cpp:7: Expected: (a) < (b), actual: 2 vs 1; Pump.Fill, at /w/tank.cpp:31: Expected: "
        "(level) < (3), actual: 4 vs 3.",
    ),
    (  # the lines that name failed tests were not copied
        "[ RUN      ] Pump.Drain\n/w/tank.cpp:7: Failure\nExpected: (a) < (b), actual: 2 vs 1\n\n"
        "[ RUN      ] PumpDeathTest.Fill\n/w/tank.cpp:31: Failure\nDeath test: fill(3)\n    Result: failed to die.\n"
        " Error msg:\n[  DEATH   ] \n[  DEATH   ] [ RUN      ] Pump.Inner\n[  DEATH   ] [       OK ] Pump.Inner\n",
        "Pump.Drain, at /w/tank.cpp:7: Expected: (a) < (b), actual: 2 vs 1; PumpDeathTest.Fill, at /w/tank.cpp:31: "
        "`fill(3)` failed to die: [ RUN ] Pump.Inner.",
    ),
    (
        "[ RUN      ] Pump.Drain\n/w/tank.cpp:7: Failure\nExpected: (a) < (b), actual: 2 vs 1\n"
        "[ RUN      ] Pump.Fill\n",
        "Pump.Drain, at /w/tank.cpp:7: Expected: (a) < (b), actual: 2 vs 1.",
    ),
    (
        "_____ ERROR collecting tests/tank.py _____\ntests/tank.py:43: in <module>\nE   RuntimeError: no lid\n",
        "tests/tank.py: RuntimeError: no lid.",
    ),
    (
        "_____ test_fill _____\nE   AssertionError: 3 != 4\n\nt/test_tank.py:9: AssertionError\n"
        "_____ test_drain _____\nE   ValueError: no lid\n",
        "test_fill: AssertionError: 3 != 4; test_drain: ValueError: no lid.",
    ),
    (
        '[ RUN      ] Pump.Fill\nunknown file: Failure\nC++ exception with description "Expected a.same(b) to be true, '
        "but got false.  (Could this error message be improved?  If so, please report an enhancement request to X.)\n"
        '" thrown in the test body.\n',
        "Pump.Fill: Expected a.same(b) to be true, but got false.",
    ),
    ("FAILED t/test_tank.py::test_fill - ValueError: no lid\n", "t/test_tank.py::test_fill: ValueError: no lid."),
    (
        "    def test_fill(pump):\n>       fill(pump)\n\nt/test_tank.py:41: \n_ _ _ _ _ _ _ _\n\n    def fill(pump):\n"
        '>       raise ValueError("no lid")\nE       ValueError: no lid\n\nsrc/tank.py:17: ValueError\n',
        "test_fill, at t/test_tank.py:41: ValueError: no lid.",
    ),
    (PIECE, "t/test_tank.py:41: ValueError: no lid."),
    (
        "    def test_fill(pump):\n>       assert fill(pump) == 4\nE       assert 3 == 4\n\n"
        "t/test_tank.py:41: AssertionError\n",
        "test_fill, at t/test_tank.py:41: assert 3 == 4.",
    ),
    (  # of such a report, only where the innermost frame is
        ">     tank = plant.fill(  # all of it\n          pump, 3)\n"
        "E     plant.FillError: INVALID: can't fill it;\nE     \n"
        "E     From the compiler: <unknown>:0: error: 'pump.fill' has no valve\nE     <unknown>:0: note: see it: \nE\n",
        "`tank = plant.fill(`: plant.FillError: INVALID: can't fill it; 'pump.fill' has no valve.",
    ),
    (
        ">       raise bad\nE       ValueError: no lid\n\nsrc/tank.py:17: ValueError\n",
        "src/tank.py:17: ValueError: no lid.",
    ),
    (
        ">       raise bad\nE       ValueError: no lid\nE       from user code:\nE          "
        'File "/w/plant/tanks.py", line 8, in fill\nE           lid()\n\nsrc/tank.py:17: ValueError\n',
        "fill (tanks.py:8): ValueError: no lid.",
    ),
]


@pytest.mark.invariant("crashes.D4")
@pytest.mark.parametrize(("text", "said"), CUT)
def test_D4_a_text_that_ends_in_what_is_printed_of_a_failed_test(text: str, said: str) -> None:
    found = verdict(text)
    assert (found.state, found.sentence) == (CRASHED, f"The test run failed: {said}")


@pytest.mark.invariant("crashes.D4")
@pytest.mark.parametrize(
    "text",
    [
        f"{CUT[0][0]}[       OK ] Pump.Drain (2 ms)\n",
        f"{CUT[0][0]}[==========] 2 tests from 1 test suite ran. (9 ms total)\n[  PASSED  ] 2 tests.\n",
        f"{CUT[0][0]}[ RUN      ] Pump.Drain\n[       OK ] Pump.Drain (2 ms)\n"
        "[==========] 2 tests from 1 test suite ran. (9 ms total)\n[  PASSED  ] 2 tests.\n",
        "= XFAILURES =\n_____ test_fill _____\nE   AssertionError: 3 != 4\n\n"
        "===== 3 passed, 1 xfailed in 0.31s =====\n",
        f"{PIECE}===== 3 passed, 1 xfailed in 0.31s =====\n",
        f"t/test_run.py::test_inner[2] the inner run printed:\n{PIECE}PASSED   [100%]\n==== 1 passed in 0.02s ====\n",
        f"t/test_run.py::test_inner[2] the inner run printed:\n{PIECE}",
        ">       fill()\nE       ValueError: no lid\n===== 3 passed, 1 xfailed in 0.31s =====\n",
        ">       fill it at three\nE       and then at four\n",
        "E       ValueError: no lid\n",
        PIECE + "".join(f"step {step} loss 0.{step}\n" for step in range(1, 9)),
    ],
)
def test_D4_not_of_one_below_which_the_run_goes_on_or_ends_well(text: str) -> None:
    assert verdict(text).state is not CRASHED


def test_the_test_of_pytest_is_said_of_what_a_compiler_says_in_its_report_or_below_its_name() -> None:
    said = "plant.mlir:4:2: error: failed to legalize operation 'pump.fill'\n"
    name = "t/test_fill.py::test_fill[cuda-a b]"
    listed = f"FAILED {name} - plan.Bad: Error invoking plan-compile\n{said}"
    assert verdict(listed).sentence.startswith("MLIR failed: failed to legalize operation 'pump.fill' (plant.mlir:4:2)")
    assert f", in test {name}." in verdict(listed).sentence
    assert ", in test TestFill.test_fill[2]" in verdict(f"____ TestFill.test_fill[2] ____\n{said}").sentence
    ended = f"____ TestFill.test_fill[2] ____\nE   KeyError: 3\n1 failed in 2.0s\n{said}"
    assert "in test" not in verdict(ended).sentence


@pytest.mark.parametrize(("regex", "got"), [("Expected regex", "Actual message"), (" Regex", " Input")])
def test_what_was_raised_instead_is_quoted_and_fails_nothing_itself(regex: str, got: str) -> None:
    raised = 'n >= 0 INTERNAL ASSERT FAILED at "/opt/Fuser/csrc/fill.cpp":31, please report a bug to PyTorch. No tank'
    report = (
        "____ test_errors[3] ____\nt/test_fill.py:7: in test_errors\n    with raises(RuntimeError, match='n > 0'):\n"
        f"E   AssertionError: Regex pattern did not match.\nE    {regex}: 'n > 0'\nE    {got}: '{raised}'\n"
    )
    said = f"test_errors[3]: AssertionError: Regex pattern did not match; {got.strip()}: 'n >= 0 INTERNAL ASSERT"
    assert f"The test run failed: {said}" in verdict(f"{report}1 failed in 2.0s\n").sentence
    passed = verdict("t/test_fill.py .  [100%]\n1 passed in 2.0s\n")
    assert passed.state is VerdictState.EXITED


def test_a_section_of_pytest_is_as_wide_as_the_terminal() -> None:
    line = "_" * 240
    text = f"{line} test_fill {line}\nE   ValueError: no lid\n\n==== 1 failed in 0.31s ====\n"
    assert verdict(text).sentence.startswith("The test run failed: test_fill: ValueError: no lid.")


def test_a_test_below_ctests_number_is_that_of_the_abort_of_a_rank() -> None:
    abort = "Abort(7) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Recv: Message truncated, error stack:\n"
    found = verdict(f"5: [ RUN      ] Pump.Fill/1\n5: {abort}")
    assert found.sentence == "Rank 0 failed in PMPI_Recv: Message truncated, in test Pump.Fill/1."
    passed = verdict(f"5: [ RUN      ] Pump.Fill/1\n5: [       OK ] Pump.Fill/1 (3 ms)\n5: {abort}")
    assert "in test" not in passed.sentence


LIT = "******************** TEST 'PUMP :: fill.cpp' FAILED ********************\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"TIMEOUT: PUMP :: fill.cpp (3 of 9)\n{LIT}Exit Code: -9\nTimeout: Reached timeout of 90 seconds\n\n",
            "PUMP :: fill.cpp: it was killed at its time limit of 90 seconds.",
        ),
        ("TIMEOUT: PUMP :: fill.cpp (3 of 9)\n", "PUMP :: fill.cpp: it ran into its time limit."),
        (
            f"PASS: PUMP :: a.cpp (2 of 9)\nXPASS: PUMP :: fill.cpp (3 of 9)\n{LIT}Exit Code: 0\n\n",
            "PUMP :: fill.cpp: it passed, and was expected to fail.",
        ),
    ],
)
def test_a_result_of_lit_says_why_its_test_failed(text: str, said: str) -> None:
    found = verdict(text)
    assert (found.state, found.sentence) == (CRASHED, f"The test run failed: {said}")


OUTPUT = "Command Output (stderr):\n--\n+ {}pump-opt --drain /w/fill.mlir\n{}--\n\n********************\n"
ABORTS = (
    "pump-opt: /w/lib/Tank.h:304: Tank &Tanks::at(int): Assertion `n < size()' failed.\n"
    "PLEASE submit a bug report to https://pump.example/ and include the crash backtrace.\nStack dump:\n"
    "0.\tProgram arguments: pump-opt --drain /w/fill.mlir\n0  libpump.so 0x00007f219bd93c88 drain(int) + 40\n"
)
LISTS = "********************\nFailed Tests ({}):\n  PUMP :: fill.mlir\n"


@pytest.mark.invariant("crashes.D6")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (OUTPUT.format("", ABORTS) + LISTS.format(1), ": assert: Tank.h:304: Assertion `n < size()' failed"),
        (OUTPUT.format("not --crash ", ABORTS) + LISTS.format(1), ""),
        (OUTPUT.format("", ABORTS) + f"{LISTS.format(2)}  PUMP :: drain.mlir\n", "; PUMP :: drain.mlir"),
        (OUTPUT.format("", "no lid\n") + LISTS.format(1), ""),
        (f"{ABORTS}the tools are built\n{LISTS.format(1)}", ""),  # before the tests
        (OUTPUT.format("", "no lid\n") + f"PASS: PUMP :: a.mlir (2 of 9)\n{ABORTS}{LISTS.format(1)}", ""),
    ],
)
def test_D6_what_ended_the_program_of_a_failed_test_is_its_reason(text: str, why: str) -> None:
    found = verdict(text)
    assert found.state is CRASHED
    said = found.sentence.replace(", in `pump-opt --drain /w/fill.mlir`", "")
    assert said.startswith(f"The test run failed: PUMP :: fill.mlir{why}. Failed Tests (")


@pytest.mark.invariant("crashes.D6")
@pytest.mark.parametrize("command", ["", "not --crash "])
def test_D6_a_crash_that_a_test_wants_is_not_why_it_failed(command: str) -> None:
    named = "FAIL: PUMP :: fill.mlir (3 of 9)\n" + LIT.replace("cpp", "mlir")
    found = verdict(named + OUTPUT.format(command, ABORTS) + LISTS.format(1))
    assert found.state is CRASHED
    assert ("Assertion" in found.sentence) == (command == "")


_CTEST = (
    "    Start 1: fill\n1/2 Test #1: fill .......{}\n{}    Start 2: lid\n2/2 Test #2: lid ......   Passed    0.01 sec\n"
)
_ONE_OF_TWO = "\n50% tests passed, 1 tests failed out of 2\n\nThe following tests FAILED:\n\t  1 - fill ({})\n"


@pytest.mark.invariant("crashes.D6")
@pytest.mark.parametrize(
    ("how", "printed", "why"),
    [
        (
            "Subprocess aborted***Exception:   0.10 sec",
            f"level 3\n{ABORTS}\n",
            "assert: Tank.h:304: Assertion `n < size()'",
        ),
        ("Subprocess aborted***Exception:   0.10 sec", "level 3\n\n", "Subprocess aborted"),
        ("***Timeout   9.10 sec", f"level 3\n{ABORTS}\n", "Timeout"),
    ],
)
def test_D6_why_ctests_program_aborted_is_what_it_printed(how: str, printed: str, why: str) -> None:
    status = how.partition("***")[0] or "Timeout"
    found = verdict(_CTEST.format(how, printed) + _ONE_OF_TWO.format(status))
    assert found.sentence.startswith(f"The test run failed: fill: {why}")
    wanted = "".join(f"1: {line}\n" for line in ABORTS.splitlines())  # its runner shows what each test prints
    ran = _CTEST.format("   Passed    0.10 sec", "").replace("fill\n", f"fill\n{wanted}", 1)
    passed = verdict(f"{ran}\n100% tests passed, 0 tests failed out of 2\n")
    assert passed.state is not CRASHED


@pytest.mark.parametrize(
    "text",
    [
        "XFAIL: PUMP :: fill.cpp (3 of 9)\nTimeout: Reached timeout of 90 seconds\n",
        "FLAKYPASS: PUMP :: fill.cpp (3 of 9)\nUNSUPPORTED: PUMP :: drain.cpp (4 of 9)\n",
    ],
)
def test_other_results_of_lit_fail_nothing(text: str) -> None:
    assert verdict(text).state is not CRASHED


@pytest.mark.parametrize(
    ("text", "state", "said"),
    [
        (
            "[PASS] fill\n[FAIL] drain: 3 litres are left\n[PASS] lid\nPassed: 2, Failed: 1\n",
            "crashed",
            "drain: 3 litres",
        ),
        ("fill      OK\ndrain     FAIL  litres are left\nOK=1  FAIL=1  SKIP=0\n", "crashed", "drain: litres are left"),
        ("37 of 38 checks passed\n", "crashed", "37 of 38 checks passed"),
        ("Passed: 9800, Failed: 200\n", "unknown", ""),  # rows of a table, or answers of a model
        ("requests: passed=98 failed=2\n", "unknown", ""),
        ("step 1 loss 3\nValidation FAILED\nstep 2 loss 2\n", "unknown", ""),  # the program goes on
        ("[1/2] fill: FAIL\n[2/2] drain: PASS\n", "unknown", ""),
        ("fill  OK\ndrain  FAIL  litres are left\n", "crashed", "drain: litres are left"),
        ("fill  OK\ndrain  FAIL  litres are left\nfilled tank 1\nfilled tank 2\n", "unknown", ""),  # a check of health
        ("OK=0 FAIL=0 SKIP=3\n", "unknown", ""),
    ],
)
def test_results_that_a_script_counts_itself(text: str, state: str, said: str) -> None:
    seen = verdict(f"filling the tank\n{text}")
    assert seen.state.value == state, seen.sentence
    assert said in seen.sentence


_ROW = 'DONE {{"operator": "fill_tank", "repeat": 1, "status": "{}", "error": "3 litres are missing"}}\n'


def test_rows_of_json_that_failed_before_a_last_word() -> None:
    last = "COMPLETE /w/runs/pump-3/measured\n"
    assert verdict(_ROW.format("PASSED") + last).state == "exited"
    told = verdict(_ROW.format("FAILED") + last)
    assert told.state == "crashed" and "fill_tank" in told.sentence and "3 litres are missing" in told.sentence
