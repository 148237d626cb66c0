"""A traceback below a warning: of what it logs, or of the end of the program, which Python prints without a header."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import read, verdict

TRACE = (
    'Traceback (most recent call last):\n  File "/w/train.py", line 9, in step\n    x = y[3]\n'
    "IndexError: list index out of range\n"
)
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))

ENDED = [
    "2026-01-01 10:00:01,000 - train - WARNING - learning rate is high\n",
    "WARNING:train:learning rate is high\n",
    "W0301 10:00:00.000000 12 data.py:160] shuffle is off\n",
    "W0301 10:00:00.000000 12 torch/multiprocessing/spawn.py:160] Terminating process 13 via signal SIGTERM\n",
    "[W socket.cpp:464] [c10d] The client socket has failed to connect\n",
    "[W207 10:00:00.123456789 socket.cpp:464] [c10d] The client socket has failed to connect\n",
    "W0301 10:00:00.000000 12 retry.cc:160] could not connect, trying again\n",
]
LOGGED = [
    "2026-01-01 10:00:01,000 - train - WARNING - upload failed, it is tried again\n",
    "WARNING:train:could not read the cache\n",
    "W0301 10:00:00.000000 12 data.py:160] an exception was ignored\n",
]


@pytest.mark.parametrize("warning", ENDED)
def test_the_program_ended_after_a_warning_of_something_else(warning: str) -> None:
    judged = verdict(STEPS + warning + TRACE)
    assert judged.state is VerdictState.CRASHED
    assert judged.sentence == "Crashed in step (train.py:9): IndexError: list index out of range, in `x = y[3]`."


@pytest.mark.parametrize("warning", LOGGED)
def test_what_a_warning_logs_is_no_crash(warning: str) -> None:
    assert verdict(STEPS + warning + TRACE).state is VerdictState.UNKNOWN


@pytest.mark.parametrize("warning", [*ENDED, *LOGGED])
def test_a_log_that_goes_on_is_no_crash(warning: str) -> None:
    assert verdict(warning + TRACE + STEPS).state is not VerdictState.CRASHED


def test_what_was_first_a_warning_and_then_ended_the_program() -> None:
    bound = (
        "[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address in use).\n"
    )
    bound = bound.replace("Address in use", "Address already in use")
    thrown = TRACE.replace("IndexError: list index out of range\n", "torch.distributed.DistNetworkError: ") + bound[27:]
    assert verdict(bound).state is VerdictState.UNKNOWN
    judged = verdict(bound + thrown)
    assert judged.state is VerdictState.CRASHED and judged.sentence.startswith("Port 29500 is in use")


@pytest.mark.parametrize(
    "where",
    [
        "in: <function Pool.__del__ at 0x7f0d1f9a3c4d>",
        "in sys.unraisablehook: <built-in function unraisablehook>",
        "in atexit callback: <function f at 0x7f0d1f9a3c4d>",
        "on calling ctypes callback function: <function f at 0x7f0d1f9a3c4d>",
    ],
)
def test_an_exception_that_python_ignored_ended_nothing(where: str) -> None:
    ignored = f"Exception ignored {where}\n{TRACE}"
    assert verdict(STEPS + ignored).state is VerdictState.UNKNOWN
    assert verdict(STEPS + "training finished\n" + ignored).state is VerdictState.EXITED
    judged = verdict(STEPS + TRACE.replace("IndexError: list", "KeyError: no") + ignored)
    assert judged.state is VerdictState.CRASHED and "KeyError: no index out of range" in judged.sentence


def test_an_error_after_one_that_was_ignored_counts() -> None:
    ignored = f"Exception ignored in: <function Pool.__del__ at 0x7f0d1f9a3c4d>\n{TRACE}"
    judged = verdict(STEPS + ignored + "step 91\n" + TRACE.replace("IndexError: list", "KeyError: no"))
    assert judged.state is VerdictState.CRASHED and "KeyError" in judged.sentence


START = (
    "Traceback (most recent call last):\n{first}"
    '  File "/w/tank/valves.py", line 7, in <module>\n    from pump.seals import Ring\n'
    "ModuleNotFoundError: No module named 'pump.seals'\n"
)
SCRIPT = '  File "/usr/local/bin/fill", line 3, in <module>\n    from tank.cli import main\n'
MODULE = '  File "<frozen runpy>", line 198, in _run_module_as_main\n'
USER = '  File "/w/fill.py", line 3, in <module>\n    import tank\n'
PACKAGED = '  File "/opt/v/lib/python3.12/site-packages/tank/ops.py", line 20, in <module>\n    import pump\n'
OWN = '  File "/w/tank/kernels.py", line 20, in <module>\n    import pump\n'
PLACED = 'WARNING 03-01 10:00:00 [kernels.py:20] Failed to import pump._C with ImportError("no pump._C")\n'
NAMED = "2026-01-01 10:00:01,000 - tank - WARNING - could not import pump._C: ImportError\n"


@pytest.mark.invariant("records.R4")
@pytest.mark.parametrize("warning, first", [(PLACED, SCRIPT), (PLACED, USER), (PLACED, MODULE), (NAMED, SCRIPT)])
def test_a_traceback_from_the_beginning_of_the_program_is_not_what_a_warning_logs(warning: str, first: str) -> None:
    judged = verdict(STEPS + warning + START.format(first=first))
    assert judged.state is VerdictState.CRASHED
    assert judged.sentence == "Crashed in valves.py:7: ModuleNotFoundError: No module named 'pump.seals'."
    assert verdict(warning + START.format(first=first) + STEPS).state is not VerdictState.CRASHED


@pytest.mark.invariant("records.R4")
@pytest.mark.parametrize(
    "warning, first", [(PLACED, OWN), (PLACED, PACKAGED), (NAMED, USER), (NAMED, OWN), (NAMED, f"\n{MODULE}")]
)
def test_a_traceback_that_the_warning_may_have_logged_is_no_crash(warning: str, first: str) -> None:
    assert verdict(STEPS + warning + START.format(first=first)).state is VerdictState.UNKNOWN


@pytest.mark.invariant("records.R2")
def test_a_traceback_that_is_parted_from_a_warning_keeps_its_line() -> None:
    world = read(STEPS + PLACED + START.format(first=SCRIPT))
    hits = list(world.store.snapshot().exceptions.values())
    assert [(hit.first_line, hit.line) for hit in hits] == [(32, 37)]
