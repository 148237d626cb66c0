"""Ends of helpers of a job, and jobs that batch systems, Kubernetes or systemd ended; and lines that are none."""

from __future__ import annotations

import pytest

from livedbg.adapters.hosts.endings import endings
from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import found, verdict

CRASHED, UNKNOWN = VerdictState.CRASHED, VerdictState.UNKNOWN
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\n'
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
BY_WHOM = "by whom isn't said, often it is the kernel for memory."

SAID = [
    (
        "[2026-03-04 19:28:30,014 E 27497 27497] logging.cc:113: Unhandled exception: N5boost12system_errorEE. what(): "
        "thread: Resource temporarily unavailable [system:11] [repeated 2x across cluster] (Ray deduplicates logs)\n",
        "A process of Ray ended by an exception of C++ that nothing caught: thread: Resource temporarily unavailable "
        "[system:11].",
    ),
    (
        "RuntimeError: DataLoader worker (pid 2991) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory.\n",
        "DataLoader worker 2991 was ended by SIGBUS (Bus error): /dev/shm is full or too small.",
    ),
    (
        "RuntimeError: DataLoader worker (pid 2991) is killed by signal: Killed. \n",
        "DataLoader worker 2991 was killed by SIGKILL; " + BY_WHOM,
    ),
    (
        "RuntimeError: DataLoader worker (pid 2991) is killed by signal: Segmentation fault. \n",
        "DataLoader worker 2991 was ended by SIGSEGV (Segmentation fault).",
    ),
    (
        "RuntimeError: DataLoader worker (pid(s) 2991, 2992) exited unexpectedly\n",
        "DataLoader workers 2991, 2992 exited unexpectedly.",
    ),
    (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
        "(shm).\n",
        "A DataLoader worker met a bus error: /dev/shm is full or too small.",
    ),
    (
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the "
        "future was running or pending.\n",
        "A worker of a process pool died abruptly (BrokenProcessPool).",
    ),
    (
        "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor was "
        "unexpectedly terminated.\n",
        "A joblib worker died unexpectedly.",
    ),
    (
        "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGSEGV\n",
        "Spawned process 2 was ended by SIGSEGV.",
    ),
    (
        "[2026-03-01 11:12:29,269] [ERROR] [launch.py:321:sigkill_handler] ['/b/python', '-u', 'main.py'] exits with "
        "return code = -9\n",
        "A process of DeepSpeed's launcher was killed by SIGKILL; " + BY_WHOM[:-1] + " (return code -9).",
    ),
    (
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node "
        "(IP: 10.4.0.7, ID: 35af) where the task (task ID: 7f, name=f, pid=91, memory used=41.20GB) was running was "
        "478.12GB / 503.30GB (0.95), which exceeds the memory usage threshold of 0.95.\n",
        "Ray killed a worker on node 10.4.0.7, which ran low on memory: 478.12GB of 503.30GB.",
    ),
    (
        "(raylet) node_manager.cc:3069: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers "
        "crashed due to other reasons at node (ID: 351e, IP: 10.4.0.7) over the last time period.\n",
        "Ray killed 2 workers on node 10.4.0.7 for memory.",
    ),
    (
        "The node with node id: 4be1 and address: 10.4.0.9 and node name: 10.4.0.9 has been marked dead because the "
        "detector has missed too many heartbeats from it.\n",
        "Ray marked node 10.4.0.9 as dead: the detector has missed too many heartbeats from it.",
    ),
    (
        "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task.\n",
        "A Ray worker died while it executed a task.",
    ),
    (
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n",
        "A Ray actor died: its worker process ended.",
    ),
    (
        "=>> PBS: job killed: walltime 3610 exceeded limit 3600\n",
        "PBS killed the job: its time limit was reached (3610 of 3600).",
    ),
    (
        "=>> PBS: job killed: mem 8812kb exceeded limit 8192kb\n",
        "PBS killed the job: it exceeded its memory limit (8812kb of 8192kb).",
    ),
    (
        "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.\n",
        "LSF killed the job: it exceeded its memory limit (TERM_MEMLIMIT).",
    ),
    (
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n",
        "LSF killed the job: its time limit was reached (TERM_RUNLIMIT).",
    ),
    (
        'job 812.1 exceeds job hard limit "h_vmem" of queue "gpu.q@n1" (9.1G > limit:8.0G) - sending SIGKILL\n',
        "Grid Engine killed the job: it exceeded h_vmem.",
    ),
    (
        "Message: The node was low on resource: ephemeral-storage. Container main was using 9Gi.\n",
        "Kubernetes evicted the pod: its node was low on ephemeral-storage.",
    ),
    (
        "Job was active longer than specified deadline\n",
        "Kubernetes ended the job: its deadline was reached (activeDeadlineSeconds).",
    ),
    (
        "train.service: Main process exited, code=dumped, status=11/SEGV\n",
        "train.service was ended by SIGSEGV.",
    ),
    (
        "train.service: Watchdog timeout (limit 30s)!\n",
        "systemd ended train.service: it did not report to its watchdog in time.",
    ),
]

NONE = [
    "DataLoader worker (pid 5) is ready\n",
    "INFO the DataLoader has 8 workers\n",
    "raylet: 0 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at "
    "node (ID: 351e, IP: 10.4.0.7) over the last time period\n",
    "[launch.py:351:main] Process 77 exits successfully.\n",
    "[launch.py] exits with return code = 0\n",
    "train.service: Main process exited, code=exited, status=0/SUCCESS\n",
    "PBS: job 7 runs; walltime limit 3600\n",
    "TERM=xterm\n",
    "the epoch took longer than expected\n",
    "Watchdog enabled\n",
]


@pytest.mark.parametrize(("text", "sentence"), SAID)
def test_each_form(text: str, sentence: str) -> None:
    for log in (text, TRACE + text) if "Error" in text or "Exception" in text or "Pool" in text else (text,):
        said = verdict(log)
        assert (said.state, said.sentence) == (CRASHED, sentence)
        assert found("crash", log) == []


@pytest.mark.parametrize(("text", "sentence"), SAID)
def test_what_the_log_goes_on_after_is_no_crash(text: str, sentence: str) -> None:
    assert verdict(text + STEPS).state is not CRASHED


@pytest.mark.invariant("host_endings.N1")
@pytest.mark.parametrize("text", NONE)
def test_N1_lines_that_only_speak_of_it(text: str) -> None:
    assert endings(text) == []


@pytest.mark.invariant("host_kinds.K1")
@pytest.mark.parametrize(
    ("text", "shell", "limit"),
    [
        ("step 3\nKilled\n", True, False),
        ("srun: error: n7: tasks 0-3: Killed\n", False, False),
        ("slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT 2026-03-01T09:00:00 DUE TO TIME LIMIT ***\n", False, True),
        ("=>> PBS: job killed: walltime 3610 exceeded limit 3600\n", False, True),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\n", False, False),
        ("train.service: Main process exited, code=killed, status=9/KILL\n", False, False),
    ],
)
def test_K1_who_says_it_and_what_did_it_are_fields(text: str, shell: bool, limit: bool) -> None:
    (one,) = endings(text)
    assert (one.shell, one.limit) == (shell, limit)


def test_one_that_was_asked_to_end_is_no_crash() -> None:
    for text in (
        "train.service: Main process exited, code=killed, status=15/TERM\n",
        "TERM_OWNER: job killed by owner.\n",
        "RuntimeError: DataLoader worker (pid 5) is killed by signal: Terminated. \n",
    ):
        assert verdict(text).state is UNKNOWN


def test_a_step_that_slurm_ended_since_a_task_failed_is_a_summary() -> None:
    text = "slurmstepd: error: *** STEP 7.0 ON n3 CANCELLED AT 2026-03-01T09:00:00 DUE TO TASK FAILURE ***\n"
    assert verdict(text).sentence == "Slurm ended step 7.0 on n3: a task had failed."


OOM = (
    "[ 8123.120001] Out of memory: Killed process 4711 ({}) total-vm:92160000kB, anon-rss:61865984kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:1000 pgtables:150000kB oom_score_adj:0\n"
)


def test_the_kernel_s_line_and_a_job_s_log_that_ends_with_killed_are_one_thing() -> None:
    said = verdict(OOM.format("python3"), "step 1\nstep 2\nKilled\n")
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
    kernel = next(one for one in found("host-ended", OOM.format(name), job) if "The kernel killed" in one.sentence)
    assert kernel.state is not CRASHED
