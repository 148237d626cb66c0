"""What MPI writes as processes and nodes fail, and with which status a program ended; and lines that are none."""

from __future__ import annotations

import pytest

from livedbg.adapters.hosts.endings import endings
from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

CRASHED, UNKNOWN = VerdictState.CRASHED, VerdictState.UNKNOWN
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\nKeyError: 3\n'
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
RULE = "-" * 74 + "\n"
BY_SIGNAL = (
    "[n4:07215] *** Process received signal ***\n[n4:07215] Signal: {}\n"
    "[n4:07215] Signal code: Address not mapped (1)\n[n4:07215] Failing at address: (nil)\n"
    "[n4:07215] [ 0] /lib64/libpthread.so.0(+0xf710)[0x7fcd4f7c8710]\n[n4:07215] *** End of error message ***\n"
)
CALL = (
    "[n1:21445] *** An error occurred in MPI_Send\n[n1:21445] *** reported by process [{}]\n"
    "[n1:21445] *** on communicator MPI_COMM_WORLD\n[n1:21445] *** MPI_ERR_RANK: invalid rank\n"
    "[n1:21445] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"
    "[n1:21445] ***    and potentially your MPI job)\n"
)
LOST = (
    "{} has lost communication with a remote daemon.\n\n  HNP daemon   : [[7,0],0] on node n1\n"
    "  Remote daemon: [[7,0],3] on node n4\n\nThis is usually due to either a failure of the TCP network\n"
    "connection to the node, or possibly an internal failure of\nthe daemon itself. We cannot recover from this.\n"
)
IMPROPER = (
    "prterun has exited due to process rank 2 with PID 1705 on node n3 exiting\n"
    "improperly. There are three reasons this could occur:\n"
)
MPICH = (
    "Abort(69) on node 1 (rank 1 in comm 0): Fatal error in PMPI_Recv: Message truncated, error stack:\n"
    "PMPI_Recv(177).........: MPI_Recv(buf=0x7ffd, count=1, MPI_INT, src=0, tag=7) failed\n"
    "MPIDI_CH3U_Receive(254): Message from rank 0 and tag 7 truncated; 40 bytes received but buffer size is 4\n"
)

SAID = [
    (BY_SIGNAL.format("Segmentation fault (11)"), "Process 7215 on n4 got signal 11 (SIGSEGV: Segmentation fault)."),
    (BY_SIGNAL.format("Aborted (6)"), "Process 7215 on n4 got signal 6 (SIGABRT: Aborted)."),
    (CALL.format("1432223745,28"), "Rank 28 failed in MPI_Send on MPI_COMM_WORLD: MPI_ERR_RANK: invalid rank."),
    (
        CALL.format("139981018365953,21474836480"),
        "Process 21445 on n1 failed in MPI_Send on MPI_COMM_WORLD: MPI_ERR_RANK: invalid rank.",
    ),
    (
        "*** An error occurred in MPI_Init_thread\n*** on a NULL communicator\n*** MPI_ERRORS_ARE_FATAL (processes in "
        "this communicator will now abort,\n***    and potentially your MPI job)\n",
        "MPI_Init_thread failed, which MPI takes for fatal.",
    ),
    (RULE + LOST.format("ORTE") + RULE, "mpirun lost its daemon on n4: the node, its network or the daemon failed."),
    (LOST.format("PRTE"), "mpirun lost its daemon on n4: the node, its network or the daemon failed."),
    (RULE + IMPROPER, "Rank 2 on n3 ended without MPI_Finalize."),
    (
        RULE + "There are not enough slots available in the system to satisfy the 8\nslots that were requested by the "
        "application:\n\n  ./a.out\n",
        "mpirun did not start the program: fewer than 8 slots are free on its hosts.",
    ),
    (
        "mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\n"
        "Executable: ./solver\nNode: n1\n\nwhile attempting to start process rank 0.\n",
        "mpirun could not start the program (Executable: ./solver).",
    ),
    (
        MPICH,
        "Rank 1 failed in PMPI_Recv: Message truncated.",
    ),
    (
        "command terminated with exit code 137\n",
        "A command that was run in a container was killed (exit code 137: SIGKILL); by whom isn't said, often it is "
        "for memory.",
    ),
    ("train-1 exited with code 139\n", "train-1 ended with exit code 139 (SIGSEGV)."),
    ("Inference server exited with code 3\n", "Inference server ended with exit code 3."),
    ("##[error]Process completed with exit code 2.\n", "The program ended with exit code 2."),
    ("ERROR: Job failed: exit code 1\n", "The program ended with exit code 1."),
    ("Process finished with exit code 134\n", "The program ended with exit code 134 (SIGABRT)."),
    ("Command exited with non-zero status 1\n", "The timed command ended with exit code 1."),
    ("Command terminated by signal 11\n", "The timed command ended by signal 11 (SIGSEGV)."),
    (
        "2026-03-01 09:00:00,120 INFO exited: trainer (exit status 1; not expected)\n",
        "Program trainer of supervisord ended with exit code 1.",
    ),
    (
        "2026-03-01 09:00:00,120 INFO exited: trainer (terminated by SIGSEGV; not expected)\n",
        "Program trainer of supervisord ended by signal 11 (SIGSEGV).",
    ),
    (
        "ERROR ~ Error executing process > 'ALIGN (s1)'\n\nCaused by:\n  Process `ALIGN (s1)` terminated with an error "
        "exit status (1)\n",
        "Nextflow's process ALIGN (s1) ended with exit code 1.",
    ),
    ("Error in rule align:\n    jobid: 4\n", "Snakemake's rule align failed."),
    ("\t(0) Abnormal termination (signal 6)\n", "The job of HTCondor ended by signal 6 (SIGABRT)."),
]

NONE = [
    "Process finished with exit code 0\n",
    "train-1 exited with code 0\n",
    "train-1 exited with code 1 (restarting)\n",
    "INFO exited: warmup (exit status 0; expected)\n",
    "INFO exited: warmup (exit status 3; expected)\n",
    "the tool exits with code 3 where nothing matched\n",
    "Signal: strong (90 %)\n",
    "[n4:07215] Signal: none\n",
    "what to do: An error occurred in MPI_Send may mean that the rank is invalid\n",
    "if mpirun has lost communication with a remote daemon, look at the node\n",
    "grep: there is no 'Error in rule' in the log\n",
    "Fatal error in the plan: there is none\n",
    "exit code 0.5\n",
]


@pytest.mark.parametrize(("text", "said"), SAID)
def test_each_form(text: str, said: str) -> None:
    judged = verdict(text)
    assert (judged.state, judged.sentence) == (CRASHED, said)


@pytest.mark.invariant("host_exits.E1")
@pytest.mark.parametrize("text", NONE)
def test_E1_lines_that_only_speak_of_it(text: str) -> None:
    assert endings(text) == [] and verdict(text).state is UNKNOWN


@pytest.mark.parametrize("code", [129, 130, 143])
def test_what_was_asked_to_end_has_not_crashed(code: int) -> None:
    judged = verdict(f"command terminated with exit code {code}\n")
    assert judged.state is UNKNOWN and "was asked to end" in judged.sentence


@pytest.mark.parametrize("before", ["helper-1 exited with code 1\n", "Error in rule warm_up:\n", LOST.format("PRTE")])
def test_a_job_that_goes_on_was_not_ended_by_it(before: str) -> None:
    assert verdict(before + STEPS).state is not CRASHED


def test_a_helper_s_end_after_a_run_that_completed_is_no_crash_of_it() -> None:
    judged = verdict(STEPS + "training finished\nboard-1 exited with code 137\n")
    assert judged.state is not CRASHED


@pytest.mark.parametrize("after", ["train-1 exited with code 1\n", IMPROPER, BY_SIGNAL.format("Aborted (6)")])
def test_the_program_s_own_error_comes_first(after: str) -> None:
    judged = verdict(TRACE + after)
    assert judged.state is CRASHED and judged.sentence.startswith("Crashed in train.py:9: KeyError: 3.")


def test_a_lost_daemon_follows_from_the_signal_before_it() -> None:
    assert verdict(BY_SIGNAL.format("Bus error (7)") + LOST.format("ORTE")).sentence.startswith(
        "Process 7215 on n4 got"
    )
