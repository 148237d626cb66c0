"""What the lines that say how a job ended amount to, beside the program's own errors and each other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.model import TaskState
from livedbg.model.events import ProcessSeen
from livedbg.session.rulebook import diagnose
from tests.analysis.world import World
from tests.logs.reading import found, read, verdict

CRASHED = VerdictState.CRASHED
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
TRACEBACK = "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    f()\nKeyError: 'x'\n"
OOM = (
    "[ 8123.120001] Out of memory: Killed process 4711 (python3) total-vm:92160000kB, anon-rss:61865984kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:150000kB oom_score_adj:0\n"
)
CANCELLED = "slurmstepd: error: *** STEP 9.0 ON n1 CANCELLED AT 2026-03-01T09:00:00 ***\n"
KILLED = (
    "[ 8123.120001] Out of memory: Killed process 4711 ({}) total-vm:92160000kB, anon-rss:61865984kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:1000 pgtables:150000kB oom_score_adj:0\n"
)
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\nKeyError: 3\n'
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
BY_SIGNAL = (
    "[n4:07215] *** Process received signal ***\n[n4:07215] Signal: {}\n"
    "[n4:07215] Signal code: Address not mapped (1)\n[n4:07215] Failing at address: (nil)\n"
    "[n4:07215] [ 0] /lib64/libpthread.so.0(+0xf710)[0x7fcd4f7c8710]\n[n4:07215] *** End of error message ***\n"
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


def ended(world: World) -> list[Finding]:
    """What the rule says, the chief finding first."""
    return [one for one in diagnose(world.snapshot()).findings.values() if one.rule == "host-ended"]


@pytest.mark.invariant("host_rules.H1")
def test_H1_a_line_of_another_process_decides_nothing() -> None:
    world = World()
    world.process(1)
    gone = replace(world.snapshot().processes["process:box/1"], exited=True, exit_status=-9)
    world.store.apply(ProcessSeen(process=gone, **world.stamp()))
    (one,) = ended(read(OOM, world=world))
    assert one.state is None and "no process of the target" in one.sentence


@pytest.mark.parametrize("prefix", ["[rank1]: ", "[1,0]<stderr>:", "(Worker pid=9) "])
def test_behind_the_prefix_of_a_rank(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in HYDRA.format(1).splitlines())
    assert ended(read(text))[0].sentence == "Process 6606 on n12 ended with exit code 1."


@pytest.mark.invariant("host_rules.H2")
def test_H2_what_a_launcher_sums_up_follows_from_the_program_s_own_error() -> None:
    world = read(TRACEBACK + MPIRUN)
    assert "KeyError" in diagnose(world.snapshot()).verdict.sentence
    (summary,) = ended(world)
    assert summary.state is None and summary.sentence.endswith("It follows from: KeyError: 'x'.")


@pytest.mark.invariant("host_rules.H2")
def test_H2_the_signal_of_a_launcher_follows_from_the_kernel_s_line() -> None:
    text = OOM + "mpirun noticed that process rank 4 with PID 0 on node a exited on signal 9 (Killed).\n"
    cause, killed = ended(read(text))
    assert cause.state is VerdictState.CRASHED and "no memory left" in cause.sentence
    assert killed.state is None


@pytest.mark.invariant("host_rules.H2")
def test_H2_the_processes_that_are_killed_after_an_abort_are_no_cause() -> None:
    text = "application called MPI_Abort(MPI_COMM_WORLD, 0) - process 1\nKilled\n"
    first, second = ended(read(text))
    assert first.sentence.startswith("Rank 1 called MPI_Abort") and second.state is None


@pytest.mark.parametrize(("rank", "apart", "first"), [(2, 0, "Rank 2"), (2, 30, "Rank 3")])
def test_of_ranks_that_a_launcher_sums_up_the_one_with_a_fault_is_the_first(rank: int, apart: int, first: str) -> None:
    said = "rank {0} in job 7  n4_40123   caused collective abort of all ranks\n"
    said += "  exit status of rank {0}: killed by signal {1}\n"
    text = said.format(3, 9) + "note\n" * apart + said.format(rank, 11)
    assert ended(read(text))[0].sentence.startswith(first)


def test_the_kernel_s_line_counts_where_another_log_says_that_something_was_killed() -> None:
    cause, *_ = ended(read(OOM, "step 1\nstep 2\nKilled\n"))
    assert cause.state is VerdictState.CRASHED and "no memory left" in cause.sentence


@pytest.mark.invariant("host_rules.H1")
def test_H1_the_kernel_s_line_of_a_process_that_no_other_log_names_is_unknown() -> None:
    (one,) = ended(read(OOM, "step 1\nstep 2\n"))
    assert one.state is VerdictState.UNKNOWN and "do not name that process" in one.sentence
    for number in ("step 4711\n", "pid 14711 begins\n", "worker 47110 begins\n"):
        assert [one.state for one in ended(read(OOM, number))] == [VerdictState.UNKNOWN]
    (known,) = ended(read(OOM, "worker 4711 begins\nstep 2\n"))
    assert known.state is VerdictState.CRASHED


@pytest.mark.invariant("host_rules.H1")
def test_H1_while_the_target_lives_a_line_decides_nothing() -> None:
    world = World()
    world.process(1)
    alive = ended(read("Killed\n", world=world))
    assert [one.state for one in alive] == [None] and "The target lives." in alive[0].sentence


def test_a_job_that_goes_on_was_not_ended() -> None:
    steps = "".join(f"epoch {n} of 50, loss 0.{n}\n" for n in range(10, 40))
    (one,) = ended(read("run.sh: line 12: 31337 Killed                  python helper.py\n" + steps))
    assert one.state is None and "handled or survived" in one.sentence


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
    told = ended(read("step 1\nKilled\n" + after))
    assert told[0].state is state and "reported by the shell" in told[0].sentence


@pytest.mark.parametrize(
    "killed", ["", "srun: error: n1: tasks 0-3: Killed\n", "srun: error: n1: tasks 0-3: Terminated\n"]
)
def test_a_job_that_somebody_cancelled_is_no_crash(killed: str) -> None:
    states = {one.state for one in ended(read("step 1\n" + CANCELLED + killed))}
    assert VerdictState.UNKNOWN in states and states <= {VerdictState.UNKNOWN, None}


@pytest.mark.parametrize("number", [1, 2, 15])
def test_a_rank_that_was_asked_to_end_has_not_crashed(number: int) -> None:
    (one,) = ended(read(f"mpirun noticed that process rank 0 with PID 8 on node a exited on signal {number} (x).\n"))
    assert one.state is VerdictState.UNKNOWN and "Rank 0 on a was asked to end (SIG" in one.sentence


@pytest.mark.parametrize("before", [TRACEBACK, "srun: error: n1: task 2: Exited with exit code 3\n"])
def test_what_is_cancelled_since_a_part_failed_follows_from_that(before: str) -> None:
    world = read(before + CANCELLED)
    said = diagnose(world.snapshot()).verdict
    assert said.state is CRASHED and "Slurm" not in said.sentence
    assert "follows from" in ended(world)[-1].sentence and ended(world)[-1].state is None


def test_the_time_limit_of_a_job_that_hung_is_not_its_verdict() -> None:
    world = World()
    world.task("g1", TaskState.RUNNING, 0)
    limit = "slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT 2026-03-01T09:00:00 DUE TO TIME LIMIT ***\n"
    (one,) = ended(read(limit, world=world))
    assert one.state is None and "still running" in one.sentence
    world = World()
    world.task("g1", TaskState.RUNNING, 0)
    (memory,) = ended(read(OOM, world=world))
    assert memory.state is VerdictState.CRASHED


def test_a_thousand_ranks_are_one_finding() -> None:
    lines = "".join(f"srun: error: n{n}: task {n}: Exited with exit code 1\n" for n in range(1000))
    (one,) = ended(read(lines))
    assert one.sentence == "Task 0 on n0 ended with exit code 1. 199 more lines of this kind."


def test_the_kernel_s_line_and_a_job_s_log_that_ends_with_killed_are_one_thing() -> None:
    said = verdict(KILLED.format("python3"), "step 1\nstep 2\nKilled\n")
    assert said.state is CRASHED and said.sentence.startswith("The kernel killed process 4711 (python3)")


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("uwsgi", "step 1\nKilled\n"),
        ("python3", "step 1\n"),
        ("python3", "step 1\nrun.sh: line 12: 31337 Killed                  python train.py\n"),
    ],
)
def test_the_kernel_s_line_of_another_process_stays_another_one(name: str, job: str) -> None:
    kernel = next(one for one in found("host-ended", KILLED.format(name), job) if "The kernel killed" in one.sentence)
    assert kernel.state is not CRASHED


@pytest.mark.parametrize("before", ["helper-1 exited with code 1\n", "Error in rule warm_up:\n", LOST.format("PRTE")])
def test_a_job_that_goes_on_was_not_ended_by_it(before: str) -> None:
    assert verdict(before + STEPS).state is not CRASHED


def test_a_helper_s_end_after_a_run_that_completed_is_no_crash_of_it() -> None:
    judged = verdict(STEPS + "training finished\nboard-1 exited with code 137\n")
    assert judged.state is not CRASHED


@pytest.mark.parametrize("after", ["train-1 exited with code 1\n", IMPROPER, BY_SIGNAL.format("Aborted (6)")])
def test_the_program_s_own_error_comes_first(after: str) -> None:
    judged = verdict(TRACE + after)
    first = judged.sentence.removeprefix("Rank 2: ")  # whom Open MPI names
    assert judged.state is CRASHED and first.startswith("Crashed in train.py:9: KeyError: 3.")


def test_a_lost_daemon_follows_from_the_signal_before_it() -> None:
    assert verdict(BY_SIGNAL.format("Bus error (7)") + LOST.format("ORTE")).sentence.startswith(
        "Process 7215 on n4 got"
    )


def test_what_is_killed_after_a_fault_is_killed_for_it() -> None:
    line = (
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK {} PID {} RUNNING AT n1\n"
        "=   KILLED BY SIGNAL: {}\n\n"
    )
    said = verdict(line.format(0, 219, "7 (Bus error)") + line.format(1, 220, "9 (Killed)"))
    assert said.sentence.startswith("Rank 0 on n1 ended by signal 7 (SIGBUS)")


def test_two_lines_of_a_kind_are_both_said() -> None:
    lines = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n"
        "srun: error: c3-17: task 2: Out Of Memory\n"
    )
    (one,) = ended(read(lines))
    assert one.sentence == (
        "The OOM killer killed a process of Slurm's step 7.0 (out of memory). "
        "Task 2 on c3-17 was killed: out of memory."
    )


SPY = """\
Process {pid}: python train.py
Python v3.11.2 (/w/bin/python3.11)

Thread {pid} (idle): "MainThread"
    {at}
    <module> (train.py:31)

"""


def test_stacks_that_somebody_printed_are_said_the_rarest_place_first() -> None:
    dumps = [
        SPY.format(pid=pid, at=f"{at}")
        for pid, at in ((7, "join (r.py:3)"), (8, "join (r.py:3)"), (9, "read (d.py:5)"))
    ]
    said = verdict(f"{STEPS}{''.join(dumps)}")
    assert said.state is VerdictState.UNKNOWN
    assert said.sentence.startswith("Stacks printed: thread 9 in read (d.py:5), thread 7 and 1 other in join (r.py:3).")


@pytest.mark.parametrize(("after", "state"), [(STEPS, None), (TRACE, CRASHED)])
def test_a_printed_stack_decides_nothing_where_the_log_goes_on_or_an_error_follows(
    after: str, state: VerdictState | None
) -> None:
    dump = SPY.format(pid=7, at="join (r.py:3)")
    (told,) = found("stacks-printed", f"{STEPS}{dump}{after}")
    assert told.state in (None, VerdictState.UNKNOWN)
    assert state is None or verdict(f"{STEPS}{dump}{after}").state is state
    assert state is not None or told.state is None


LOCKED = """\
Thread {number} (Thread 0x7fc513d65700 (LWP {pid})):
#0  0x00007fc51414254d in __lll_lock_wait () from /lib64/libpthread.so.0
#1  0x00007fc51413dd68 in pthread_mutex_lock () from /lib64/libpthread.so.0
#2  0x0000000000400927 in {at}
"""
IDLE = LOCKED.replace("__lll_lock_wait", "poll").replace("pthread_mutex_lock", "wait_for_work")
JOINS = IDLE.replace("wait_for_work", "pthread_join").replace("poll", "__futex_wait")


@pytest.mark.invariant("blocks.J3")
@pytest.mark.parametrize("apart", ["", "\n"])
def test_J3_of_the_threads_that_gdb_lists_those_that_wait_for_a_lock_are_said_beside_the_main_one(apart: str) -> None:
    stacks = [
        LOCKED.format(number=4, pid=14, at="fill (tank=0x0,\n    lid=3) at plant.c:15"),
        IDLE.format(number=3, pid=13, at="serve () at plant.c:40"),
        LOCKED.format(number=2, pid=12, at="drain (tank=0x0) at plant.c:35"),
        JOINS.format(number=1, pid=11, at="main () at plant.c:60"),
    ]
    said = verdict(
        f"(gdb) thread apply all bt\n\n{apart.join(stacks)}(gdb) lids\nError: no lid is known to this script\n"
    )
    assert said.state is VerdictState.UNKNOWN
    assert said.sentence.startswith(
        "Stacks printed: thread 14 waits in fill (plant.c:15), for a mutex, thread 12 waits in drain (plant.c:35), "
        "for a mutex, thread 11 waits in main (plant.c:60), for the end of a thread."
    )
    assert (
        verdict(f"(gdb) thread apply all bt\n\n{apart.join(stacks)}(gdb) c\nContinuing.\n{STEPS}").state is not CRASHED
    )


DOWN = """\
Thread {number} (Thread 0x7fc513d65700 (LWP {pid})):
#0  futex_wait (private=0, expected=0, futex_word=0x7fc5100) at ../sysdeps/nptl/futex-internal.h:88
#1  __pthread_cond_wait_common (abstime={limit}, mutex=0x7fc510,
    cond=0x7fc510) at pthread_cond_wait.c:502
#2  {call} (cond=0x7fc510, mutex=0x7fc5108) at pthread_cond_wait.c:655
#3  0x000055d0c0ffe927 in {at}
#4  0x000055d0c0ffe9ff in ?? ()
"""
ENDLESS = DOWN.replace("{limit}", "0x0").replace("{call}", "__pthread_cond_wait")
TIMED = DOWN.replace("{limit}", "0x7fc513d64d10").replace("{call}", "__pthread_cond_timedwait")
_CONDITION = "on a condition variable without a time limit"


def test_threads_that_wait_without_a_limit_are_said_where_no_main_one_is_listed() -> None:
    two = (
        ENDLESS.format(number=9, pid=19, at="tank_down ()") + "\n" + ENDLESS.format(number=8, pid=18, at="tank_down ()")
    )
    said = verdict(f"(gdb) thread apply all bt\n\n{two}")
    assert said.state is VerdictState.UNKNOWN
    assert said.sentence == f"Stacks printed: 2 threads wait in tank_down, {_CONDITION}."
    main = IDLE.format(number=1, pid=11, at="main () at plant.c:60")
    assert "tank_down" not in verdict(f"(gdb) thread apply all bt\n\n{two}{main}").sentence  # a pool's, perhaps
    assert verdict(f"(gdb) thread apply all bt\n\n{two}\n{STEPS}").state is not CRASHED
    assert not found("stacks-printed", TIMED.format(number=9, pid=19, at="tank_down ()"))


@pytest.mark.parametrize(
    ("stack", "says"),
    [
        (ENDLESS, f"waits in fill (plant.c:9), {_CONDITION}."),
        (TIMED, "in fill (plant.c:9), in __pthread_cond_timedwait (pthread_cond_wait.c:655)."),
        (
            DOWN.replace("{limit}", "<optimized out>").replace("{call}", "f"),
            "in f (pthread_cond_wait.c:655), in __pthread_cond_wait_common (",
        ),
    ],
)
@pytest.mark.invariant("printed_waits.W1")
def test_W1_only_a_call_without_a_time_limit_is_a_wait(stack: str, says: str) -> None:
    frames = stack.partition("\n")[2].format(at="fill () at plant.c:9")
    assert verdict(frames).sentence.startswith(f"A stack printed: a thread {says}")


_LOCKS = """Thread {number} (Thread 0x7f21b4a3c7{number}0 (LWP 471{number}) "pump-worker-{number}"):
#0  futex_wait (private=0, expected=2, futex_word=0x5584c0ffee10) at ../sysdeps/nptl/futex-internal.h:146
#1  __GI___lll_lock_wait (futex=futex@entry=0x5584c0ffee10, private=0) at ./nptl/lowlevellock.c:49
#2  0x00007f21b41e0101 in lll_mutex_lock_optimized (mutex=0x5584c0ffee10) at ./nptl/pthread_mutex_lock.c:48
#3  ___pthread_mutex_lock (mutex=0x5584c0ffee10) at ./nptl/pthread_mutex_lock.c:93
#4  0x00005584c0a3eaa4 in plant::Tank::valveOf(int) ()
#5  0x00005584c0a3f98b in plant::Tank::drain() ()
"""


def test_the_only_stack_that_waits_for_a_mutex_tells_which_and_who_asked_and_that_the_holder_is_not_there() -> None:
    said = verdict(_LOCKS.format(number=2)).sentence
    assert said == (
        "A stack printed: thread 4712 (pump-worker-2) waits in plant::Tank::valveOf, for a mutex, called by "
        "plant::Tank::drain. Who holds the mutex is not shown."
    )
    two = verdict(_LOCKS.format(number=2) + "\n" + _LOCKS.format(number=3)).sentence
    assert "not shown" not in two and "Tank::valveOf, for a mutex" in two


def test_a_stack_whose_first_frames_were_cut_off_waits_as_well() -> None:
    below = ENDLESS.format(number=9, pid=19, at="fill () at plant.c:9").partition("#2 ")[2]
    said = verdict(f"#2 {below}#5  0x000055d0c0ffea01 in main () at plant.c:60\n")
    assert said.sentence == f"A stack printed: a thread waits in fill (plant.c:9), {_CONDITION}."


_WHERE = {
    "the standard library, by py-spy": (
        'Thread 7 (idle): "MainThread"\n    wait (threading.py:327)\n    get (queue.py:171)\n    fill (plant.py:9)\n',
        "thread 7 in fill (plant.py:9), in get (queue.py:171)",
    ),
    "a package, by faulthandler": (
        "Current thread 0x00007f01 (most recent call first):\n"
        '  File "/v/lib/python3.12/site-packages/pump/valve.py", line 80 in shut\n'
        '  File "/v/lib/python3.12/site-packages/pump/lid.py", line 8 in close\n  File "/w/plant.py", line 9 in fill\n',
        "a thread in fill (plant.py:9), in shut (valve.py:80)",
    ),
    "without a heading": (
        '[worker3|1]:  File "/w/lid/__init__.py", line 80 in shut\n[worker3|1]:  File "/w/plant.py", line 9 in fill\n',
        "rank 3 in shut (lid/__init__.py:80)",
    ),
    "Visual Studio": (
        " \tntdll.dll!NtWaitForAlert()\tUnknown\n \tplant.exe!lid_shut(lid_t * lid) Line 30\tC\n"
        ">\tplant.exe!main(int argc, char * * argv) Line 12\tC++\n",
        "a thread in lid_shut (plant.exe), in NtWaitForAlert (ntdll.dll)",
    ),
    "a call of a library that turns in it": (
        "(gdb) bt\n#0  0x00007f21 in turn () from /lib/libturn.so\n#1  0x00007f22 in PMPI_Wait (r=0x1) at wait.c:6\n"
        "#2  0x000055d0 in fill_tanks (n=3) at plant.c:31\n#3  0x000055d1 in main () at plant.c:90\n",
        "a thread waits in MPI_Wait (wait.c:6), in fill_tanks (plant.c:31)",
    ),
    "a call that gdb shows to wait": (
        "0x00007f21 in MPIDI_CH3I_Progress () from /usr/lib/libmpi.so.12\n"
        "#0  0x00007f21 in MPIDI_CH3I_Progress () from /usr/lib/libmpi.so.12\n"
        "#1  0x00007f22 in MPIC_Wait () from /usr/lib/libmpi.so.12\n"
        "#2  0x00007f23 in PMPI_Allreduce_c () from /usr/lib/libmpi.so.12\n"
        "#3  0x000055d0 in fill_tanks (n=3) at plant.c:31\n",
        "a thread waits in MPI_Allreduce (libmpi.so.12), in fill_tanks (plant.c:31)",
    ),
    "a call that only looks": (
        "(gdb) bt\n#0  0x00007f21 in opal_progress () from /lib/libopen-pal.so\n"
        "#1  0x00007f22 in PMPI_Test () at test.c:6\n"
        "#2  0x000055d0 in fill_tanks (n=3) at plant.c:31\n",
        "a thread in fill_tanks (plant.c:31), in PMPI_Test (test.c:6)",
    ),
    "a call that works": (
        "(gdb) bt\n#0  0x00007f21 in copy_tanks () from /lib/libmpi.so\n#1  0x00007f22 in PMPI_Bcast () at bcast.c:6\n"
        "#2  0x000055d0 in fill_tanks (n=3) at plant.c:31\n",
        "a thread in fill_tanks (plant.c:31), in PMPI_Bcast (bcast.c:6)",
    ),
}


def test_a_thread_in_a_collective_is_said_before_the_main_one() -> None:
    other = 'Thread 9 (idle): "lids"\n    wait (threading.py:327)\n    shut (lids.py:3)\nThread 10 (idle)\n'
    main = 'Thread 7 (idle): "MainThread"\n    backward (torch/autograd/__init__.py:66)\n    fill (plant.py:9)\n'
    inner = "Thread 8 (active)\n    all_reduce (torch/distributed/distributed_c10d.py:27)\n    drain (tanks.py:2)\n"
    said = verdict(STEPS + main + other + inner)
    assert said.sentence.startswith(
        "Stacks printed: thread 8 in the collective all_reduce (distributed_c10d.py:27), in drain (tanks.py:2), "
        "thread 7 in fill (plant.py:9)"
    )


@pytest.mark.invariant("library_calls.L1")
@pytest.mark.parametrize("name", _WHERE)
def test_a_printed_stack_is_told_by_the_user_s_place_and_what_was_called_there(name: str) -> None:
    dump, said = _WHERE[name]
    assert verdict(STEPS + dump).sentence.startswith(f"A stack printed: {said}.")
    begins = "[worker3|1]: " if dump[0] == "[" else ""
    (told,) = found("stacks-printed", STEPS + dump + "".join(f"{begins}{line}\n" for line in STEPS.splitlines()))
    assert told.state is None


def test_what_an_exception_says_of_a_helper_has_the_place_in_the_user_s_code() -> None:
    loader = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 61, in train\n    for batch in loader:\n'
        '  File "/v/site-packages/torch/utils/data/dataloader.py", line 1243, in _try_get_data\n    raise\n'
        "RuntimeError: DataLoader worker (pid 372) is killed by signal: Bus error. It is possible that dataloader's\n"
    )
    assert verdict(loader).sentence.endswith("/dev/shm is full or too small, at train (train.py:61).")


BOX = (
    "-"
    * 74
    + "\nA requested component was not found, or was unable to be opened.  This\nmeans that this component is either "
    "not installed or is unable to be\nused on your system.\n\nHost:      n12\nFramework: btl\nComponent: openib\n"
    + "-"
    * 74
)


@pytest.mark.parametrize("below", ["", "step 1 loss 3.2\nstep 2 loss 3.1\n"])
def test_what_open_mpi_may_do_without_is_not_said_to_have_ended_the_job(below: str) -> None:
    assert verdict(f"{BOX}\n{below}").state is VerdictState.UNKNOWN
    assert verdict(f"{BOX}\n{MPIRUN}").state is CRASHED


def test_a_wait_that_its_waiter_reports_again_is_told_with_how_often_and_for_how_long() -> None:
    line = (
        "2026-01-02 10:0{}:00 INFO [shm_broadcast.py:9] No available shared memory broadcast block found in 60 seconds."
    )
    said = verdict("".join(f"{line.format(minute)}\n" for minute in range(4)))
    assert said.state is VerdictState.STALLED
    assert said.sentence.endswith("takes long, said 4 times in 3 min.")
    assert "said" not in verdict(f"{line.format(0)}\n").sentence


@pytest.mark.parametrize(
    "begins",
    [
        "Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)\n",
        "Core was generated by `./plant'.\nProgram terminated with signal SIGSEGV, Segmentation fault.\n",
    ],
)
def test_the_stack_of_a_crash_is_none_that_somebody_printed_though_its_first_frame_waits(begins: str) -> None:
    stack = (
        "#0  0x00007fd512345678 in __pthread_mutex_lock () from /lib/libpthread.so.0\n"
        "#1  0x00007fd512345679 in fill () at plant.c:9\n#2  0x00007fd512345677 in main () at plant.c:19\n"
    )
    assert verdict(begins + stack).state is CRASHED
    assert verdict(stack).state is VerdictState.UNKNOWN


LSF = """
------------------------------------------------------------
Sender: LSF System <lsf@plant.example.org>
Subject: Job 4711: <fill> in cluster <plant> {}

Started at Mon Mar  2 11:39:37 2026
Your job looked like:

# LSBATCH: User input
module -s load python3
source ../plant/bin/activate
python fill.py

{}

Resource usage summary:

    CPU time :                                   33.03 sec.
    Max Swap :                                   -
    Max Processes :                              4
    Turnaround time :                            6479 sec.
"""


def test_what_a_batch_system_s_report_prints_is_no_progress_of_the_job() -> None:
    told = verdict(TRACE + LSF.format("Exited", "Exited with exit code 1."))
    assert (told.state, told.sentence) == ("crashed", "Crashed in train.py:9: KeyError: 3.")
    assert verdict("step 3\n" + LSF.format("Exited", "Exited with exit code 1.")).state == "crashed"
    assert verdict(TRACE + STEPS + LSF.format("Done", "Successfully completed.")).state == "exited"


_BATCH = """\
Process 4711: python train.py
Python v3.12.3 (/usr/bin/python3.12)

Thread {number}(idle): "MainThread"
    {inner}
    _try_get_data ({file}:1310)
    _next_data ({file}:1524)
    fill (plant.py:9)
Thread {number}(idle): "Thread-2 (_pin_memory_loop)"
    select (selectors.py:415)
"""
_LOADER = "torch/utils/data/dataloader.py"


@pytest.mark.invariant("printed_waits.W2")
@pytest.mark.parametrize("number", ["", "4711 "])
@pytest.mark.parametrize(
    "inner", ["wait (threading.py:359)\n    get (queue.py:180)", "select (selectors.py:415)\n    poll (c.py:257)"]
)
def test_W2_a_thread_waits_for_a_batch_of_its_data_loader(inner: str, number: str) -> None:
    who = f"thread {number.strip()}" if number else "a thread"
    said = verdict(_BATCH.format(number=number, inner=inner, file=_LOADER))
    assert said.state is VerdictState.UNKNOWN
    assert said.sentence == f"A stack printed: {who} waits in fill (plant.py:9), for the next batch of its DataLoader."


@pytest.mark.invariant("printed_waits.W2")
@pytest.mark.parametrize(
    ("inner", "file"),
    [
        ("rebuild_storage_fd (torch/multiprocessing/reductions.py:541)\n    get (queue.py:180)", _LOADER),
        ("wait (threading.py:359)\n    get (queue.py:180)", "plant/valves.py"),
    ],
)
def test_W2_not_where_it_reads_a_batch_or_in_other_code(inner: str, file: str) -> None:
    assert "next batch" not in verdict(_BATCH.format(number="", inner=inner, file=file)).sentence


_FEEDER = """\
Process 4711: {title}
Python v3.12.3 (/usr/bin/python3.12)

Thread 4711 (idle): "MainThread"
    poll (valves/poll.py:106)
    recv (plant/lids.py:2)
    next_order (plant/orders.py:87)
    <module> ({script})
"""
_ACTIVE = "Thread {} (active)\n    turn (plant/tanks.py:{})\n    run (threading.py:1016)\n"


@pytest.mark.parametrize(
    ("title", "who"), [("plant::Feeder", "plant::Feeder, thread 4711"), ("python run.py", "thread 4711")]
)
def test_a_process_has_the_name_that_it_gave_itself_and_who_asks_is_told(title: str, who: str) -> None:
    said = verdict(_FEEDER.format(title=title, script="run.py:3")).sentence
    assert said == f"A stack printed: {who} in next_order (orders.py:87), in recv (lids.py:2)."


def test_the_folder_of_the_script_is_the_user_s() -> None:
    said = verdict(_FEEDER.format(title="python", script="plant/bin/run.py:3")).sentence
    assert "thread 4711 in next_order (orders.py:87)" in said
    said = verdict(_FEEDER.format(title="python", script="works/run.py:3")).sentence
    assert "thread 4711 in run.py:3" in said


def test_the_one_thread_that_runs_is_told_beside_the_main_one() -> None:
    main = _FEEDER.format(title="python", script="run.py:3")
    assert ", thread 8 in turn (tanks.py:5)" in verdict(main + _ACTIVE.format(8, 5)).sentence
    assert "turn" not in verdict(main + _ACTIVE.format(8, 5) + _ACTIVE.format(9, 6)).sentence
    assert not found("stacks-printed", _ACTIVE.format(8, 5))
    assert verdict(_ACTIVE.format(8, 5)).state is VerdictState.UNKNOWN


_LLDB = "    frame #{}: 0x00007f3a10b2c4de libplant.so`{} at valve.c:178:12\n"


@pytest.mark.invariant("printed_waits.W3")
@pytest.mark.parametrize(
    ("innermost", "limit", "waits"),
    [
        ("valve_wait", "9223372036854775807", True),
        ("valve_wait", "5000", False),
        ("valve_turn", "9223372036854775807", False),
    ],
)
def test_W3_a_wait_for_as_long_as_a_number_can_say(innermost: str, limit: str, waits: bool) -> None:
    stack = _LLDB.format(1, f"{innermost}(lid=0x0000004a, deadline_ns={limit})") + _LLDB.format(2, "fill_tank(n=1)")
    said = verdict(stack).sentence
    assert (", without a time limit" in said) is waits
    assert said.startswith("A stack printed: a thread ")


def test_a_fault_of_the_kernel_is_told_and_ends_no_run_that_it_is_not_known_to_have_ended() -> None:
    """A kernel's log goes on, and other programs with it."""
    fault = "[ 100.000001] BUG: kernel NULL pointer dereference, address: 0000000000000040\n"
    on = "".join(f"[ {hour}000.1] usb 1-{hour}: new high-speed USB device number {hour}\n" for hour in range(1, 8))
    for text in (fault, fault + on):
        seen = verdict(text)
        assert seen.state == "unknown" and seen.sentence.startswith("The kernel faulted (oops)"), seen.sentence
