"""What calls itself an error in a log, and what only has the word."""

from __future__ import annotations

import pytest

from livedbg.logs.error_lines import EXPLICIT, ErrorLines, UnreadErrors, named_above
from livedbg.logs.shapes import guess_severity
from livedbg.model import LogRecord, Severity


@pytest.mark.parametrize(
    "line",
    [
        "[ERROR] cannot open the file",
        "ERR! network timed out",
        "[ERR] socket closed",
        "<ERR> a",
        "ld: error: undefined symbol: foo",
        "nvcc fatal   : Unsupported gpu architecture",
        'a.cu(12): error: identifier "x" is undefined',
        "a.c:3:5: error: expected ';'",
        "ptxas error   : Entry function uses too much shared data",
        "FAILED: kernel.o",
        "Error - could not start",
        "Error, could not start",
        "error - could not start",
        "aborted (core dumped)",
        "Segmentation fault (core dumped)",
        "worker 3: core dumped",
        "status: INTERNAL",
        "status: RESOURCE_EXHAUSTED",
        "RESOURCE_EXHAUSTED: out of memory",
        "INTERNAL: failed to compile",
        "error code: 7",
        "Error code 7",
        "Error 7 occurred",
        "failed with error code 3",
        "mod.cpp:12: FATAL: bad",
        "fatal error: Python.h: No such file or directory",
        "ERROR:root:bad",
        "2026-01-01 10:00:00,000 - train - ERROR - bad",
        "panic: runtime error",
        "thread 'main' panicked at src/main.rs:3",
        'Exception in thread "main" java.lang.RuntimeException',
        "Unhandled exception",
        "uncaught exception",
        "error[E0308]: mismatched types",
        "*** ERROR: x",
        "!!! ERROR x",
        'level=error msg="x"',
        '{"level":"error","msg":"x"}',
        "time=.. level=fatal msg=x",
        "srun: error: x",
        "make: *** [all] Error 2",
        "bash: line 3: nvcc: command not found",
        "OSError: [Errno 28] No space left on device",
        "CUDA_ERROR_X",
        "KeyError: 'x'",
        "npu.cpp:3 NPU function error: aclrtX, error code is 507018",
        "VK_ERROR_DEVICE_LOST",
        "UNAVAILABLE: x",
        "E0101 12:00:01.123456 123 x.cc:7] failed",
    ],
)
def test_a_line_that_calls_itself_an_error(line: str) -> None:
    assert EXPLICIT.search(line) is not None
    headed = line.startswith("E0")  # its severity is that of its header
    assert headed or guess_severity(line).rank >= Severity.ERROR.rank


@pytest.mark.parametrize(
    "line",
    [
        "0 errors",
        "0 errors, 3 warnings",
        "no errors found",
        "error=None",
        "errors: 0",
        "error: None",
        "error: 0.01",
        "loss error: 0.01",
        "ErrorHandler registered",
        "mean squared error: 0.12",
        "val_error: 0.3",
        "error rate 0.1",
        "test error: 12.3%",
        "Error rate: 0.1",
        "reconstruction error = 0.2",
        "relative error: 1e-5",
        "max abs error: 3.2e-06",
        "--error-format=json",
        "error_if_nonfinite=True",
        "fail_fast=False",
        "no error",
        "NCCL INFO ... error 0",
        "0 failed, 3 passed",
        "tests failed: 0",
        "failed=0",
        "on_error: continue",
        "INFO error handler installed",
        "retry on error: True",
        "Loading errors.json",
        "DEBUG aborted transactions: 0",
        "raise_on_error = False",
        "`ERROR` level messages are shown",
        "log level: ERROR",
        "set log_level=ERROR",
        "NCCL_DEBUG=ERROR",
        "ASCEND_GLOBAL_LOG_LEVEL=ERROR",
        "FATAL=0",
        "Abort on error disabled",
        "ignoring FATAL errors",
        "status: OK",
        "status: INTERNAL review",
        "exceptions are caught",
        "Number of errors: 0",
        "W0101 12:00:01 x] retrying",
        "train | error 0.1 | acc 0.9",
        "epoch 1 error: 0.2",
        "[INFO] ERROR_CODES loaded",
        "PASSED test_error",
        "Using error feedback compression",
        '48^done,value="0x95 <error: Cannot access memory at address 0x95>"',
        "RuntimeError",
    ],
)
def test_a_line_that_only_has_the_word(line: str) -> None:
    assert EXPLICIT.search(line) is None or guess_severity(line).rank < Severity.ERROR.rank


def test_error_lines_that_are_understood_later_are_not_counted() -> None:
    understood: set[int | None] = set()
    unread = UnreadErrors(lambda record: record.line in understood)
    for line in range(1, 4):
        unread.add(LogRecord(source="log:box/x", text=f"ERROR: {line}", line=line))
    assert unread.lines() == ErrorLines(3, 1, "ERROR: 1", "ERROR: 3")
    understood |= {1, 3}
    assert unread.lines() == ErrorLines(1, 2, "ERROR: 2", "ERROR: 2")
    understood.add(2)
    assert unread.lines() == ErrorLines()


def test_of_many_error_lines_all_are_counted() -> None:
    unread = UnreadErrors(lambda record: record.line == 1)
    for line in range(1, 2001):
        unread.add(LogRecord(source="log:box/x", text=f"ERROR: {line}", line=line))
    assert unread.lines() == ErrorLines(1999, 2, "ERROR: 2", "ERROR: 2000")


def test_an_assert_without_a_message_is_told_where_only_its_class_is_named() -> None:
    assert (
        named_above("t/test_a.py:7: AssertionError", [">   assert a == 4", "E   assert 3 == 4"]).said == "assert 3 == 4"
    )
    assert named_above("t/test_a.py:7: ValueError", ["E   assert 3 == 4"]).said == ""
