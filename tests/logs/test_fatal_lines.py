"""Ends of processes as libraries of C++ write them, and lines that look like it and are none."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

CRASHED, UNKNOWN = VerdictState.CRASHED, VerdictState.UNKNOWN
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
TRACE = (
    "*** Check failure stack trace: ***\n    @     0x7f0d1f9a3c4d  (unknown)\n    @     0x55d1f9a5a1b  app::Step()\n"
)
DATE = '*** Aborted at 1741087710 (unix time) try "date -d @1741087710" if you are using GNU date ***\n'
DUMP = (
    "PLEASE submit a bug report to https://example.org/issues/ and include the crash backtrace.\nStack dump:\n"
    "0.\tProgram arguments: opt --convert in.mlir\n"
    " #0 0x000055d0c0ffee00 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) /b/llvm/Signals.inc:723:13\n"
    " #1 0x000055d0c0ffee10 llvm::sys::RunSignalHandlers() /b/llvm/Signals.cpp:106:18\n"
    " #2 0x000055d0c0ffee20 SignalHandler(int) /b/llvm/Signals.inc:413:1\n"
    " #3 0x00007f00deadbeef __restore_rt sigaction.c:0:0\n"
    "{} #6 0x000055d0c0ffee30 mlir::Value::getType() const /b/mlir/Value.cpp:31:5\n"
)

SAID = [
    (
        "F0305 10:11:23.530112   29891 client.cc:812] Non-OK-status: status: INTERNAL: kernels failed\n" + TRACE,
        "Crashed: fatal error at client.cc:812: Non-OK-status: status: INTERNAL: kernels failed.",
    ),
    (
        "F0305 10:11:23.530112   29891 solver.cc:12] Check failed: rows == columns (3 vs. 4) not square\n" + TRACE,
        "Crashed: check failed at solver.cc:12: rows == columns (3 vs. 4) not square.",
    ),
    (
        "F20260305 10:11:23.530112 29891 solver.cc:12] Check failed: x != nullptr\n" + TRACE,
        "Crashed: check failed at solver.cc:12: x != nullptr.",
    ),
    ("F0305 10:11:23.5 9 a/b.cc:7] no space\n" + TRACE, "Crashed: fatal error at a/b.cc:7: no space."),
    (
        DATE
        + "PC: @     0x7f0d1f9a3c4d app::Step()\n*** SIGSEGV (@0x8) received by PID 4711 (TID 0x7f0d1f) from PID 8; "
        "stack trace: ***\n    @     0x7f0d1f9a3c4d app::Step()\n",
        "Crashed: SIGSEGV: Segmentation fault, in app::Step().",
    ),
    (
        "*** SIGBUS received at time=1741087710 on cpu 12 ***\nPC: @     0x7f0d1f9a3c4d  (unknown)  (unknown)\n"
        "    @     0x7f0d1f9a5a1b       1888  absl::lts_20230802::AbslFailureSignalHandler()\n"
        "    @     0x55d0c0ffee00        212  app::main_loop()\n",
        "Crashed: SIGBUS: Bus error, in app::main_loop().",
    ),
    (
        DUMP.format(""),
        "Crashed in mlir::Value::getType (Value.cpp:31): a signal: LLVM wrote its stack, in `opt --convert in.mlir`.",
    ),
    (
        DUMP.format(" #4 0x00007f00deadbe00 raise (/lib/libc.so.6+0x36207)\n #5 0x7f abort (/lib/libc.so.6+0x378f8)\n"),
        "Crashed in mlir::Value::getType (Value.cpp:31): SIGABRT: LLVM wrote its stack, in `opt --convert in.mlir`.",
    ),
]

NONE = [
    "*** SIGTERM received at time=1741087710 on cpu 1 ***\n    @     0x55d0c0ffee00        212  app::main_loop()\n",
    "*** SIGINT (@0x3e8) received by PID 4711 (TID 0x7f) from PID 8; stack trace: ***\n",
    "I0305 10:11:23.530112   29891 solver.cc:12] Check failed nowhere\n",
    "W0305 10:11:23.530112   29891 solver.cc:12] Check failed: rows == columns, computed again\n",
    "Check failure stack trace: see the manual\n",
    "Stack dump: off\n",
    "0.\tProgram arguments: opt in.mlir\n1.\tparsed\n",
]


@pytest.mark.parametrize(("text", "said"), SAID)
def test_each_form(text: str, said: str) -> None:
    judged = verdict("step 3 loss 0.1\n" + text)
    assert (judged.state, judged.sentence) == (CRASHED, said)


@pytest.mark.invariant("crashes.D1")
@pytest.mark.parametrize("text", NONE)
def test_D1_what_is_no_end(text: str) -> None:
    assert verdict(text).state is UNKNOWN


@pytest.mark.parametrize("number", range(len(SAID)))
def test_a_log_that_goes_on_is_no_crash(number: int) -> None:
    assert verdict(SAID[number][0] + STEPS).state is not CRASHED


def test_the_check_comes_before_the_shell_s_word() -> None:
    judged = verdict(SAID[1][0] + "Aborted (core dumped)\n")
    assert judged.sentence.startswith("Crashed: check failed at solver.cc:12")


def test_a_shell_s_word_of_a_process_that_aborted() -> None:
    judged = verdict("step 3\n./run.sh: line 34:  1930 Aborted                 (core dumped) ./solve in.dat\n")
    assert (judged.state, judged.sentence) == (CRASHED, "Crashed: SIGABRT: Aborted: ./solve in.dat.")
    assert verdict("Aborted transfers: 3\n").state is UNKNOWN
    assert verdict("see run.sh: line 34: the 2 Aborted runs\n").state is UNKNOWN
