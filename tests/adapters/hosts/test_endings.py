"""How a job ended, as kernels, schedulers, launchers and shells log it; and lines that look like it and are none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from livedbg.adapters.hosts.decoder import HostsDecoder
from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.logs.clock import SourceClock
from livedbg.logs.crashes import CrashDecoder
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.model import LogSource, Process, TaskState
from livedbg.model.events import LogSourceSeen, LogsSeen, ProcessSeen
from livedbg.session.log_formats import known_log_formats
from livedbg.session.rulebook import diagnose
from tests.analysis.world import World

MPIRUN = (
    "--------------------------------------------------------------------------\n"
    "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n"
    "  Process name: [[51234,1],3]\n  Exit code:    7\n"
    "--------------------------------------------------------------------------\n"
)
HYDRA = (
    "===================================================================================\n"
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 6606 RUNNING AT n12\n=   EXIT CODE: {}\n"
    "=   CLEANING UP REMAINING PROCESSES\n=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES\n"
)
INTEL = (
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 2 PID 88 RUNNING AT n1\n"
    "=   KILLED BY SIGNAL: {}\n"
)
BY_WHOM = "by whom isn't said, often it is the kernel for memory."
OPEN_MPI_ABORT = (
    "--------------------------------------------------------------------------\n"
    "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n{}\n\n"
    "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n"
)
OOM = (
    "[ 8123.120001] Out of memory: Killed process 4711 (python3) total-vm:92160000kB, anon-rss:61865984kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:150000kB oom_score_adj:0\n"
)
TRACEBACK = "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    f()\nKeyError: 'x'\n"

RESTARTED = "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"

SAID = [
    (OOM, "The kernel killed process 4711 (python3), which had 59.0 GiB: the host had no memory left."),
    (
        "Memory cgroup out of memory: Kill process 12 (worker) score 1 or sacrifice child\n",
        "The kernel killed process 12 (worker): it reached the memory limit of its cgroup.",
    ),
    (
        "slurmstepd: error: *** JOB 77 ON n3 CANCELLED AT 2026-03-01T09:00:00 DUE TO TIME LIMIT ***\n",
        "Slurm cancelled job 77 on n3: its time limit was reached (TIME LIMIT, 2026-03-01T09:00:00).",
    ),
    (
        "slurmstepd: error: *** JOB 77 ON n3 CANCELLED AT 2026-03-01T09:00:00 DUE TO NODE FAILURE, "
        "SEE SLURMCTLD LOG FOR DETAILS ***\n",
        "Slurm cancelled job 77 on n3: a node failed (NODE FAILURE, 2026-03-01T09:00:00).",
    ),
    (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=512.batch. Some of the step tasks have been OOM "
        "Killed.\n",
        "The kernel killed a process of Slurm's step 512.batch for memory.",
    ),
    (
        "slurmstepd: error: Detected 3 oom-kill event(s) in step 512.0 cgroup. Some of your processes may have been "
        "killed by the cgroup out-of-memory handler.\n",
        "The kernel killed 3 processes of Slurm's step 512.0 for memory.",
    ),
    (
        "slurmstepd: error: Job 91 exceeded memory limit (4300000 > 4194304), being killed\n",
        "Slurm killed 91: it exceeded its memory limit.",
    ),
    ("srun: error: n7: task 5: Out Of Memory\n", "Task 5 on n7 was killed for memory."),
    ("srun: error: n7: tasks 0-3,6: Killed\n", "Tasks 0-3,6 on n7 were killed by SIGKILL."),
    ("srun: error: n7: task 2: Exited with exit code 134\n", "Task 2 on n7 ended with exit code 134."),
    ("srun: error: Node failure on n9\n", "Node n9 failed."),
    (
        "srun: error: Task launch for StepId=77.0 failed on node n3: Invalid job credential\n",
        "Slurm could not launch step 77.0 on n3: Invalid job credential.",
    ),
    (
        "srun: error: Unable to create step for job 812: More processors requested than permitted\n",
        "Slurm could not create a step of job 812: More processors requested than permitted.",
    ),
    (
        "prterun noticed that process rank 0 with PID 511 on node a exited on\nsignal 11 (Segmentation fault).\n",
        "Rank 0 on a ended by signal 11 (SIGSEGV).",
    ),
    (
        "mpirun noticed that process rank 4 with PID 0 on node a exited on signal 9 (Killed).\n",
        "Rank 4 on a was killed by signal 9 (SIGKILL); by whom isn't said, often it is the kernel for memory.",
    ),
    (MPIRUN, "Rank 3 ended first, with exit code 7."),
    (
        OPEN_MPI_ABORT.format("with errorcode -5."),
        "Rank 1 called MPI_Abort(MPI_COMM_WORLD, -5): the program ended the job itself.",
    ),
    (
        OPEN_MPI_ABORT.format("  Proc: [[3,1],1]\n  Errorcode: 2"),
        "Rank 1 called MPI_Abort(MPI_COMM_WORLD, 2): the program ended the job itself.",
    ),
    (
        "Abort(4) on node 2 (rank 2 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 4) - process 2\n",
        "Rank 2 called MPI_Abort(MPI_COMM_WORLD, 4): the program ended the job itself.",
    ),
    (HYDRA.format(139), "Process 6606 on n12 ended with exit code 139 (SIGSEGV: Segmentation fault)."),
    (
        INTEL.format("9 (Killed)"),
        "Rank 2 on n1 was killed by signal 9 (SIGKILL); by whom isn't said, often it is the kernel for memory.",
    ),
    (INTEL.format("11 (Segmentation fault)"), "Rank 2 on n1 ended by signal 11 (SIGSEGV)."),
    (
        "      Reason:       OOMKilled\n      Exit Code:    137\n",
        "The container was killed: it reached its memory limit (OOMKilled).",
    ),
    (
        '  "State": {"OOMKilled": true, "ExitCode": 137}\n',
        "The container was killed: it reached its memory limit (OOMKilled).",
    ),
    (
        "trainer-0   0/1     OOMKilled   0          12m\n",
        "The container was killed: it reached its memory limit (OOMKilled).",
    ),
    (
        "Containers:\n  train:\n    State:          Waiting\n      Reason:       CrashLoopBackOff\n" + RESTARTED,
        "Container train was killed: it reached its memory limit (OOMKilled).",
    ),
    (
        "train.service: A process of this unit has been killed by the OOM killer.\n",
        "The kernel killed a process of train.service for memory.",
    ),
    (
        "step 3\nKilled\n",
        "A process of the job was killed by signal 9 (SIGKILL), as a shell says; " + BY_WHOM,
    ),
    (
        "run.sh: line 12: 31337 Killed                  python train.py --big\n",
        "Process 31337 (python train.py --big) was killed by signal 9 (SIGKILL), as a shell says; " + BY_WHOM,
    ),
]

NONE = [
    "Containers:\n  train:\n    State:          Running\n      Started:      Mon\n" + RESTARTED,
    ' {"lastState": {"terminated": {"reason": "OOMKilled"}}, "state": {"running": {"startedAt": "x"}}}\n',
    '  "State": {"OOMKilled": false, "ExitCode": 0}\n',
    "INFO: restart policy: restart the pod when it is OOMKilled\n",
    "Killed 3 idle connections\n",
    "INFO the worker was Killed by the user's request, started another\n",
    "Killed in action: a novel\n",
    "slurmstepd: info: the time limit is 2 hours\n",
    "srun: error: n7: tasks 0-3: Terminated\n",
    "raise RuntimeError('Out of memory: kill something')\n",
    "note: MPI_Abort may be called by an error handler\n",
    "usage: application called with MPI_Abort(comm, code)\n",
    "the OOM killer is disabled on this host\n",
]


def seen(*logs: str, world: World | None = None, process: Process | None = None) -> World:
    """A world that has read logs."""
    world = world or World()
    decoding = Decoding((CrashDecoder(), HostsDecoder()))
    if process is not None:
        world.store.apply(ProcessSeen(process=process, **world.stamp()))
    for number, text in enumerate(logs, len(world.snapshot().log_sources)):
        source = LogSource(id=f"log:box/{number}", name=f"{number}.log", path=f"/logs/{number}.log")
        decoding.opened(source, world.stamp())
        assembler, cutter = RecordAssembler(source.id, SourceClock(), known_log_formats()), LineCutter()
        records = [*assembler.feed([*cutter.feed(text.encode()), *cutter.flush()]), *assembler.flush()]
        fed = decoding.feed(records, world.stamp())
        world.store.apply(LogsSeen(records=tuple(fed), **world.stamp()))
        world.store.apply(LogSourceSeen(source=replace(source, lines=text.count("\n")), **world.stamp()))
    decoding.flush(world.stamp())
    world.store.apply_all(decoding.take())
    return world


def ended(world: World) -> list[Finding]:
    """What the rule says, the chief finding first."""
    return [one for one in diagnose(world.snapshot()).findings.values() if one.rule == "host-ended"]


@pytest.mark.parametrize(("text", "said"), SAID)
def test_each_form(text: str, said: str) -> None:
    world = seen(text)
    verdict = diagnose(world.snapshot()).verdict
    assert (verdict.state, verdict.sentence) == (VerdictState.CRASHED, said)


@pytest.mark.parametrize("prefix", ["[rank1]: ", "[1,0]<stderr>:", "(Worker pid=9) "])
def test_behind_the_prefix_of_a_rank(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in HYDRA.format(1).splitlines())
    assert ended(seen(text))[0].sentence == "Process 6606 on n12 ended with exit code 1."


@pytest.mark.invariant("host_endings.N1")
@pytest.mark.parametrize("text", NONE)
def test_N1_lines_that_only_speak_of_it(text: str) -> None:
    assert ended(seen(text)) == []


@pytest.mark.invariant("host_rules.H2")
def test_H2_what_a_launcher_sums_up_follows_from_the_program_s_own_error() -> None:
    world = seen(TRACEBACK + MPIRUN)
    assert "KeyError" in diagnose(world.snapshot()).verdict.sentence
    (summary,) = ended(world)
    assert summary.state is None and summary.sentence.endswith("It follows from: KeyError: 'x'.")


@pytest.mark.invariant("host_rules.H2")
def test_H2_the_signal_of_a_launcher_follows_from_the_kernel_s_line() -> None:
    text = OOM + "mpirun noticed that process rank 4 with PID 0 on node a exited on signal 9 (Killed).\n"
    cause, killed = ended(seen(text))
    assert cause.state is VerdictState.CRASHED and "no memory left" in cause.sentence
    assert killed.state is None


@pytest.mark.invariant("host_rules.H2")
def test_H2_the_processes_that_are_killed_after_an_abort_are_no_cause() -> None:
    text = "application called MPI_Abort(MPI_COMM_WORLD, 0) - process 1\nKilled\n"
    first, second = ended(seen(text))
    assert first.sentence.startswith("Rank 1 called MPI_Abort") and second.state is None


def test_the_kernel_s_line_counts_where_another_log_says_that_something_was_killed() -> None:
    cause, *_ = ended(seen(OOM, "step 1\nstep 2\nKilled\n"))
    assert cause.state is VerdictState.CRASHED and "no memory left" in cause.sentence


@pytest.mark.invariant("host_rules.H1")
def test_H1_the_kernel_s_line_of_a_process_that_no_other_log_names_is_unknown() -> None:
    (found,) = ended(seen(OOM, "step 1\nstep 2\n"))
    assert found.state is VerdictState.UNKNOWN and "do not name that process" in found.sentence
    for number in ("step 4711\n", "pid 14711 begins\n", "worker 47110 begins\n"):
        assert [one.state for one in ended(seen(OOM, number))] == [VerdictState.UNKNOWN]
    (known,) = ended(seen(OOM, "worker 4711 begins\nstep 2\n"))
    assert known.state is VerdictState.CRASHED


@pytest.mark.invariant("host_rules.H1")
def test_H1_while_the_target_lives_a_line_decides_nothing() -> None:
    world = World()
    world.process(1)
    alive = ended(seen("Killed\n", world=world))
    assert [one.state for one in alive] == [None] and "The target lives." in alive[0].sentence


@pytest.mark.invariant("host_rules.H1")
def test_H1_a_line_of_another_process_decides_nothing() -> None:
    world = World()
    world.process(1)
    gone = replace(world.snapshot().processes["process:box/1"], exited=True, exit_status=-9)
    (found,) = ended(seen(OOM, world=world, process=gone))
    assert found.state is None and "no process of the target" in found.sentence


def test_a_job_that_goes_on_was_not_ended() -> None:
    steps = "".join(f"epoch {n} of 50, loss 0.{n}\n" for n in range(10, 40))
    (found,) = ended(seen("run.sh: line 12: 31337 Killed                  python helper.py\n" + steps))
    assert found.state is None and "handled or survived" in found.sentence


@pytest.mark.parametrize(
    ("after", "state"),
    [
        ("", VerdictState.CRASHED),
        ("srun: error: n1: task 0: Exited with exit code 137\nreal 0m3.1s\n", VerdictState.CRASHED),
        ("the cache is warm now\n", VerdictState.UNKNOWN),
        ("the cache is warm now\nall is done\n", VerdictState.UNKNOWN),
    ],
)
def test_a_shell_may_go_on_after_a_helper_was_killed(after: str, state: VerdictState) -> None:
    found = ended(seen("step 1\nKilled\n" + after))
    assert found[0].state is state and "as a shell says" in found[0].sentence


CANCELLED = "slurmstepd: error: *** STEP 9.0 ON n1 CANCELLED AT 2026-03-01T09:00:00 ***\n"


@pytest.mark.parametrize(
    "killed", ["", "srun: error: n1: tasks 0-3: Killed\n", "srun: error: n1: tasks 0-3: Terminated\n"]
)
def test_a_job_that_somebody_cancelled_is_no_crash(killed: str) -> None:
    states = {one.state for one in ended(seen("step 1\n" + CANCELLED + killed))}
    assert VerdictState.UNKNOWN in states and states <= {VerdictState.UNKNOWN, None}


@pytest.mark.parametrize("number", [1, 2, 15])
def test_a_rank_that_was_asked_to_end_has_not_crashed(number: int) -> None:
    (one,) = ended(seen(f"mpirun noticed that process rank 0 with PID 8 on node a exited on signal {number} (x).\n"))
    assert one.state is VerdictState.UNKNOWN and "Rank 0 on a was asked to end (SIG" in one.sentence


@pytest.mark.parametrize("before", [TRACEBACK, "srun: error: n1: task 2: Exited with exit code 3\n"])
def test_what_is_cancelled_since_a_part_failed_follows_from_that(before: str) -> None:
    world = seen(before + CANCELLED)
    verdict = diagnose(world.snapshot()).verdict
    assert verdict.state is VerdictState.CRASHED and "Slurm" not in verdict.sentence
    assert "follows from" in ended(world)[-1].sentence and ended(world)[-1].state is None


def test_the_time_limit_of_a_job_that_hung_is_not_its_verdict() -> None:
    world = World()
    world.task("g1", TaskState.RUNNING, 0)
    limit = "slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT 2026-03-01T09:00:00 DUE TO TIME LIMIT ***\n"
    (found,) = ended(seen(limit, world=world))
    assert found.state is None and "still running" in found.sentence
    world = World()
    world.task("g1", TaskState.RUNNING, 0)
    (memory,) = ended(seen(OOM, world=world))
    assert memory.state is VerdictState.CRASHED


def test_a_thousand_ranks_are_one_finding() -> None:
    lines = "".join(f"srun: error: n{n}: task {n}: Exited with exit code 1\n" for n in range(1000))
    (found,) = ended(seen(lines))
    assert found.sentence == "Task 0 on n0 ended with exit code 1. 199 more lines of this kind."
