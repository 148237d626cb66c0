"""Tests in a log, and the errors that stand within them, above their results and below those."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.logs.shapes import guess_severity
from livedbg.model import Severity
from tests.logs.reading import found, verdict

CRASHED, UNKNOWN, EXITED = VerdictState.CRASHED, VerdictState.UNKNOWN, VerdictState.EXITED

STARTS = "    Start {0}: {1}\n"
FAILED = " 2/3 Test #{0}: {1} .............***Failed    0.04 sec\n"
PASSED = " 3/3 Test #{0}: {1} .............   Passed    0.04 sec\n"
NOISE = "LLVMSymbolizer: error reading file: No such file or directory\n"
UBSAN = (
    "/w/plant/level.hpp:33:11: runtime error: signed integer overflow: 2000000 * 4000 cannot be represented in type "
    "'int'\n    #0 0x55759c2a8c66 in plant::level(long) /w/plant/level.hpp:33:11\n"
    "    #1 0x55759c2a793b in main /w/plant/main.cpp:76:24\n\n"
)
TSAN = (
    "==================\nWARNING: ThreadSanitizer: data race (pid=71)\n"
    "  Write of size 8 at 0x7ffc801d42b0 by thread T1:\n"
    "    #0 plant::fill() /w/plant/tank.cc:12:3 (tank_test+0x30ec22)\n"
)
ASAN = (
    "=================================================================\n"
    "==71==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010 at pc 0x55 bp 0x7f sp 0x7f\n"
    "READ of size 4 at 0x602000000010 thread T0\n    #0 0x4f in plant::drain(int*) /w/plant/tank.cc:41:9\n"
    "==71==ABORTING\n"
)
OVERFLOW = (
    "UndefinedBehaviorSanitizer: signed integer overflow, in plant::level(long) at level.hpp:33: 2000000 * 4000 cannot "
    "be represented in type 'int'"
)
RACE = "ThreadSanitizer: data race, in plant::fill() at tank.cc:12: Write of size 8"
VERBOSE = "test 7\n{0}\n7: Test command: /w/build/tank\n7: Test timeout computed to be: 1500\n{1}{2}"
MANY = "".join(f"the {name} is filled\n" for name in ("tank", "pump", "vat", "lid", "pipe", "hose"))


def _numbered(text: str) -> str:
    return "".join(f"7: {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (STARTS.format(7, "tank") + FAILED.format(7, "tank") + UBSAN, OVERFLOW),
        (VERBOSE.format(STARTS.format(7, "tank"), _numbered(UBSAN), FAILED.format(7, "tank")), OVERFLOW),
        (FAILED.format(7, "tank") + "[ RUN      ] Tank.Fill\n" + NOISE + TSAN, RACE),
        (FAILED.format(7, "tank") + MANY + NOISE + TSAN, RACE),
        (FAILED.format(7, "tank") + ASAN, "AddressSanitizer: heap-use-after-free, in plant::drain(int*) at tank.cc:41"),
        (FAILED.format(7, "tank") + TSAN + STARTS.format(8, "pump") + PASSED.format(8, "pump"), RACE),
        (FAILED.format(7, "tank") + MANY, "Failed"),
        (FAILED.format(7, "tank").replace("***Failed ", "***Exception: SegFault"), "Exception: SegFault"),
    ],
)
def test_what_a_test_of_ctest_printed_is_why_it_failed(text: str, why: str) -> None:
    said = verdict(text)
    assert said.state is CRASHED
    assert said.sentence.startswith(f"The test run failed: tank: {why}")


def test_what_the_next_test_prints_is_not_why_the_one_before_failed() -> None:
    text = FAILED.format(7, "tank") + STARTS.format(8, "pump") + UBSAN
    assert "level.hpp" not in verdict(text).sentence


def test_a_sanitizer_that_ends_nothing_leaves_the_end_open_without_a_result() -> None:
    assert verdict(STARTS.format(7, "tank") + UBSAN).state is UNKNOWN
    assert verdict(PASSED.format(7, "tank") + UBSAN).state is UNKNOWN


def test_a_test_that_passes_as_it_is_run_again_fails_no_run() -> None:
    again = "    Test #7: tank .............   Passed    0.04 sec\n"
    assert verdict(FAILED.format(7, "tank") + UBSAN + STARTS.format(7, "tank") + again).state is not CRASHED
    whole = FAILED.format(7, "tank") + UBSAN + again + "\n100% tests passed, 0 tests failed out of 3\n"
    assert verdict(whole).state is EXITED


@pytest.mark.parametrize("line", [NOISE.strip(), "llvm-symbolizer: error: 'tank': No such file or directory"])
def test_the_trouble_of_a_sanitizer_s_own_helper_is_no_error(line: str) -> None:
    assert guess_severity(line).rank < Severity.ERROR.rank
    assert guess_severity("tank: error reading file: No such file or directory") is Severity.ERROR


ABORT = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/w/t/test_tank.py", line 26, in test_fill\n    self._fill(3)\n'
    '  File "/w/t/test_tank.py", line 8, in _fill\n    step()\n  File "/w/plant/tank.py", line 81, in step\n'
    '    raise ValueError("no lid")\nValueError: no lid\n'
)
RUN, OK = "[ RUN      ] Tank.Fill\n", "[       OK ] Tank.Fill (3 ms)\n"
OTHER = "[ RUN      ] Tank.Drain\n"


@pytest.mark.invariant("tested.P1")
@pytest.mark.invariant("survived.V15")
@pytest.mark.parametrize(
    "text",
    [
        RUN + ABORT + OK,
        f"[pump] {RUN}".replace("[pump] ", "[2026-03-02 09:00:04] ") + ABORT + f"[2026-03-02 09:00:05] {OK}",
        STARTS.format(7, "tank") + ABORT + PASSED.format(7, "tank"),
        f"t/a.py::test_b \n--- live log call ---\n{TRACEBACK}PASSED                    [ 50%]\n",
        f"test_fill (t.Tanks) ... the pump is on\n{TRACEBACK}ok\n",
    ],
)
def test_P1_an_error_in_a_test_that_has_passed_is_none_of_the_run(text: str) -> None:
    assert verdict(text).state is UNKNOWN


@pytest.mark.invariant("tested.P1")
@pytest.mark.parametrize(
    "text",
    [
        RUN + OK + ABORT,
        RUN + ABORT,
        RUN + ABORT + "[  FAILED  ] Tank.Fill (3 ms)\n",
        RUN + RUN + ABORT + OK,
        RUN + OTHER + ABORT + OK,
        "[==========] Running 1 test from 1 test suite.\n" * 2 + RUN + ABORT + OK,
        STARTS.format(7, "tank") + STARTS.format(8, "pump") + ABORT + PASSED.format(7, "tank"),
        f"t/a.py::test_b \n{TRACEBACK}FAILED                    [ 50%]\n",
        f"test_fill (t.Tanks) ... the pump is on\n{TRACEBACK}",
        "".join(
            f"[1,{0 if line in (RUN.strip(), OK.strip()) else 1}]<stdout>:{line}\n"
            for line in (RUN + ABORT + OK).splitlines()
        ),
    ],
)
def test_P1_nor_behind_it_in_an_open_test_or_where_several_programs_write(text: str) -> None:
    assert verdict(text).state is CRASHED


@pytest.mark.invariant("tested.P2")
def test_P2_a_text_that_begins_within_a_test_which_has_passed() -> None:
    assert verdict(ABORT + OK).state is UNKNOWN
    assert verdict(ABORT + RUN + OK).state is CRASHED
    assert verdict(OK + ABORT + OK.replace("Fill", "Drain")).state is CRASHED


@pytest.mark.invariant("tested.P3")
def test_P3_the_output_of_a_failed_test_is_no_progress() -> None:
    assert verdict(FAILED.format(7, "tank") + MANY).state is CRASHED
    assert verdict(FAILED.format(7, "tank") + STARTS.format(8, "pump") + MANY).state is not CRASHED


@pytest.mark.parametrize("others", [1, 4])
def test_a_failed_test_stands_however_many_tests_follow(others: int) -> None:
    failed = (
        "[ RUN      ] Tank.Lid\nt.cpp:4: Failure\nExpected: (a) < (b), actual: 2 vs 1\n[  FAILED  ] Tank.Lid (9 ms)\n"
    )
    assert verdict(failed + (RUN + OK) * others).sentence.startswith("The test run failed: Tank.Lid, at t.cpp:4")


REFUSED = "[pump] tracing is refused (PUMP_ERROR_TWO_TRACERS): levels stay empty\n"
SUMMARY = "[==========] 1 test from 1 test suite ran. (3 ms total)\n[  PASSED  ] 1 test.\n"


def test_an_error_line_that_nobody_understands_does_not_outweigh_the_tests_that_passed_after_it() -> None:
    whole = RUN + REFUSED + OK + SUMMARY
    assert verdict(whole).state is EXITED
    assert verdict(f"{whole}[pump] wrote out/levels.json (62 bytes)\n").state is EXITED
    on = verdict(f"{whole}the plant opens\nthe tank fills\n")
    assert on.state is UNKNOWN and on.sentence.startswith("The test run passed (1 test)")
    assert "does not understand" in verdict(whole + REFUSED).sentence
    assert verdict(f"{whole}[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Tank.Lid\n").state is CRASHED
    assert verdict(RUN + REFUSED + "[  PASSED  ] 0 tests.\n").state is UNKNOWN


CLEAN = "========= COMPUTE-SANITIZER\n{}========= ERROR SUMMARY: 0 errors\n"
VALGRIND = "==71== ERROR SUMMARY: 0 errors from 0 contexts (suppressed: 0 from 0)\n"


@pytest.mark.invariant("completed.C4")
def test_C4_a_clean_summary_of_a_checker() -> None:
    assert verdict(RUN + OK + SUMMARY, CLEAN.format("")).state is EXITED
    assert verdict(RUN + OK + SUMMARY, VALGRIND).state is EXITED
    assert verdict(VALGRIND).state is UNKNOWN
    assert verdict(CLEAN.format("")).state is EXITED
    assert verdict(CLEAN.format("========= Target application returned an error\n")).state is not EXITED
    assert verdict(CLEAN.format(ABORT)).state is CRASHED


CTEST = "100% tests passed, 0 tests failed out of 3\n\n"
TAIL = "Label Time Summary:\nplant    =   3.96 sec*proc (2 tests)\n\nTotal Test time (real) =   3.97 sec\n"
TIME = "\nreal\t0m3.977s\nuser\t0m4.679s\nsys\t0m0.855s\n"
ROWS = (
    "1.31s call     tests/test_tank.py::test_fill\n0.02s setup    tests/test_tank.py::test_fill\n"
    "Name              Stmts   Miss  Cover   Missing\nplant/tank.py       120      3    98%   12-14\n"
)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (CTEST + TAIL + TIME, EXITED),
        (CTEST + "The following tests did not run:\n\t  3 - lid (Disabled)\n" + TAIL, EXITED),
        (f"==== 3 passed in 0.31s ====\n{ROWS}TOTAL               120      3    98%\n", EXITED),
        (f"{CTEST}{TAIL}the plant opens\n", UNKNOWN),
        (f"{CTEST}{TAIL}Building target tank\n", UNKNOWN),
        (CTEST + TAIL + ABORT, CRASHED),
    ],
)
def test_what_runners_and_shells_print_below_a_result(text: str, state: VerdictState) -> None:
    assert verdict(text).state is state


BANNER = "=========== FAILURES ===========\n______ TestTank.test_fill ______\n"
CAPTURED = "---------- Captured stderr call ----------\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BANNER + TRACEBACK, "TestTank.test_fill, at test_tank.py:8: ValueError: no lid."),
        (
            f"{BANNER}{TRACEBACK}FAILED t/test_tank.py::TestTank::test_fill - ValueError: no lid\n1 failed in 2.0s\n",
            "t/test_tank.py::TestTank::test_fill, at test_tank.py:8: ValueError: no lid. 1 failed in 2.0s.",
        ),
        (
            f"{BANNER}E   AssertionError: 3 != 4\n{CAPTURED}{TRACEBACK}",
            "TestTank.test_fill: AssertionError: 3 != 4.",
        ),
        (
            f"======\nERROR: test_fill (t.Tanks)\n------\n{TRACEBACK}\n",
            "test_fill (t.Tanks), at test_tank.py:8: ValueError: no lid.",
        ),
    ],
)
def test_a_plain_traceback_is_said_with_the_test_above_it(text: str, said: str) -> None:
    judged = verdict(text)
    assert (judged.state, judged.sentence) == (CRASHED, f"The test run failed: {said}")


def test_not_of_what_a_test_had_printed_nor_without_a_banner() -> None:
    assert verdict(f"==== PASSES ====\n____ test_fill ____\n{CAPTURED}{TRACEBACK}1 passed in 2.0s\n").state is EXITED
    assert verdict(f"==== PASSES ====\n____ test_fill ____\n{CAPTURED}{TRACEBACK}").state is UNKNOWN
    assert verdict(TRACEBACK).sentence.startswith("Crashed in ")


RULE, DOTS = f"{'-' * 79}\n", f"{'.' * 79}\n"
HEAD = f"{RULE}{{}} of a tank\n{RULE}/w/tank.cc:12\n{DOTS}\n"
REQUIRE = "/w/tank.cc:{0}: FAILED:\n  REQUIRE( level() == {0} )\nwith expansion:\n  4 == {0}\n\n"
FAULT = "Memory access fault by GPU node-4 (Agent handle: 0x2373990) on address 0x7f88a6dd5000. Reason: Unknown.\n"
GPU = "GPU node 4: a memory access failed, for an unknown reason."


@pytest.mark.invariant("causes.C12")
def test_C12_a_failed_test_stands_before_what_ended_its_program() -> None:
    fill = "The test run failed: Fill of a tank, at /w/tank.cc:5: REQUIRE( level() == 5 )"
    one = HEAD.format("Fill") + REQUIRE.format(5)
    assert verdict(one).sentence == f"{fill}."
    assert verdict(one + FAULT).sentence == f"{fill}. Then: {GPU}"
    assert verdict(FAULT + one).sentence.startswith(GPU[:-1])
    assert verdict(HEAD.format("Fill") + FAULT).sentence == GPU
    two = f"{one}{HEAD.format('Drain')}{REQUIRE.format(6)}test cases: 3 | 1 passed | 2 failed\n"
    assert verdict(two).sentence.startswith(f"{fill}; Drain of a tank, at /w/tank.cc:6: REQUIRE( level() == 6 ).")
    assert verdict(f"{one}test cases: 1 | 1 failed as expected\n").state is not CRASHED


def test_a_run_of_tests_that_passed_before_a_crash_is_not_said_to_have_ended_well() -> None:
    crash = "./run.sh: line 14: 22101 Segmentation fault      (core dumped) bin/test_tank\n"
    assert verdict(RUN + OK + SUMMARY + crash).state is CRASHED
    (note,) = found("run-completed", RUN + OK + SUMMARY + crash)
    assert note.sentence == "The test run passed (1 test), at 0.log:4."
    (well,) = found("run-completed", RUN + OK + SUMMARY)
    assert "no error is known" in well.sentence


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (RUN * 4, "Begun and not ended: Tank.Fill (4 times)."),
        (RUN * 4 + OK * 3, "Begun and not ended: Tank.Fill (1 of 4 times)."),
        (RUN * 2 + OK * 2 + OTHER, "Begun and not ended: Tank.Drain."),
        (STARTS.format(7, "tank") + STARTS.format(8, "pump") + PASSED.format(7, "tank"), "Begun and not ended: pump."),
    ],
)
def test_a_test_that_several_processes_began_is_counted(lines: str, said: str) -> None:
    judged = verdict(f"$ mpirun -np 4 bin/test_tank\n{lines}")
    assert judged.state is UNKNOWN and judged.sentence.endswith(said)
    assert "Begun" not in verdict(RUN * 4 + OK * 4).sentence


BOX = (
    "╷\n│ Error: creating Tank (t3): api error LimitExceeded: 4 tanks are there\n│ \n│   with plant_tank.spare,\n"
    '│   on tanks.tf line 31, in resource "plant_tank" "spare":\n│   31: resource "plant_tank" "spare" {\n╵\n'
)
DESTROYS = "".join(f"plant_tank.t{n}: destruction complete after {n}s\n" for n in range(30))
LISTED = (
    "==== short test summary info ====\nERROR tests/test_plant.py::test_spare - subprocess.CalledProcessError: Command "
    "'terraform apply -auto-approve' returned non-zero exit status 1.\n!!!!!!!!!!!! stopping after 1 failures "
    "!!!!!!!!!!!!\n==== 2 passed, 1 error in 400.60s ====\n"
)


def test_the_error_of_the_program_that_a_test_started_leads_over_its_exit_status() -> None:
    said = verdict(f"collected 3 items\n{BOX}{DESTROYS}{LISTED}")
    assert said.state is CRASHED
    reason = "Terraform failed: LimitExceeded: 4 tanks are there (tanks.tf:31, plant_tank.spare)"
    assert f"test_spare: {reason}; it led to" in said.sentence
    assert "line before" not in said.sentence
    assert verdict(f"collected 3 items\n{BOX}{DESTROYS}==== 3 passed in 400.60s ====\n").state is EXITED
    assert verdict(f"applying\n{BOX}").sentence == f"{reason}."
