"""Ends of containers and of programs on Windows, transfers that failed; and lines that are none."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

CRASHED = VerdictState.CRASHED
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
POD = "Name: job-0\nContainers:\n  main:\n    State:          {}\n"
ENDED = "Terminated\n      Reason:       Error\n      Exit Code:    {}\n      Started:      Tue, 04 Mar 2026 10:41:00\n"
RETRY = "[n7:2330:0:2330] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81)\n"

SAID = [
    (
        POD.format(ENDED.format(137)),
        "Container main was killed (exit code 137: SIGKILL); by whom isn't said, often it is for memory, reason Error.",
    ),
    (POD.format(ENDED.format(1)), "Container main ended with exit code 1, reason Error."),
    (
        POD.format("Waiting\n      Reason:       CrashLoopBackOff\n    Last State:     " + ENDED.format(139)),
        "Container main ended with exit code 139 (SIGSEGV), reason Error.",
    ),
    (
        "NAME  READY  STATUS  RESTARTS  AGE\ntrainer-0   0/1     Error    0     12m\n",
        "Pod trainer-0 is in state Error.",
    ),
    (
        "Process finished with exit code -1073741819 (0xC0000005)\n",
        "A process ended by an access violation (exit code -1073741819, 0xC0000005).",
    ),
    ("worker exited with code 3221226505\n", "A process ended by a stack buffer overrun, or abort() (exit code "),
    (
        RETRY,
        "A transfer of UCX failed (process 2330 on n7, port mlx5_0:1/IB): transport retry count exceeded: the peer, or "
        "the network to it, did not answer.",
    ),
]

NONE = [
    POD.format("Terminated\n      Reason:       Completed\n      Exit Code:    0\n"),
    "trainer-0   1/1     Running   0     12m\n",
    "step 3221225477 of 4000000000\n",
    "set UCX_RC_RETRY_COUNT: a retry count exceeded on purpose\n",
]


@pytest.mark.parametrize(("text", "said"), SAID)
def test_each_form(text: str, said: str) -> None:
    found = verdict(text)
    assert found.state is CRASHED
    assert found.sentence.startswith(said)


@pytest.mark.parametrize("text", NONE)
def test_lines_that_are_none(text: str) -> None:
    assert verdict(STEPS + text).state is not CRASHED


@pytest.mark.invariant("container_endings.K2")
def test_K2_a_container_that_runs_again() -> None:
    again = POD.format("Running\n      Started:      Tue\n    Last State:     " + ENDED.format(137))
    assert verdict(again).state is not CRASHED


def test_what_is_killed_after_a_fault_is_killed_for_it() -> None:
    line = (
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK {} PID {} RUNNING AT n1\n"
        "=   KILLED BY SIGNAL: {}\n\n"
    )
    said = verdict(line.format(0, 219, "7 (Bus error)") + line.format(1, 220, "9 (Killed)"))
    assert said.sentence.startswith("Rank 0 on n1 ended by signal 7 (SIGBUS)")
