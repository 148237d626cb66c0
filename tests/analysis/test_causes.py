"""What came first: the errors of several ranks, logs and hosts, ranked by class and time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import Diagnosis, Finding, VerdictState
from livedbg.analysis.wording import brief, followers_said
from livedbg.model import Severity
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView
from tests.waiting import WALL_S


def look(folder: Path, logs: dict[str, str]) -> Diagnosis:
    for name, text in logs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    view = LiveView(Request(host="box", logs=(str(folder),), once=True))
    view.start()
    try:
        assert view.wait_settled(WALL_S)
        return view.latest().diagnosis
    finally:
        view.stop()


def traceback(error: str, line: int = 31, function: str = "collate") -> str:
    return f'Traceback (most recent call last):\n  File "/w/train.py", line {line}, in {function}\n    run()\n{error}\n'


def at(clock: str, text: str, level: str = "ERROR") -> str:
    return f"2026-01-01 {clock},000 {level} train: said\n{text}"


def of_rank(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


KEY = traceback("KeyError: 'input_ids'")
CLOSED = traceback("ConnectionResetError: [Errno 104] Connection reset by peer", 12, "step")
SUMMED = traceback("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", 8, "main")
KILLED = "Jan  1 {} box kernel: Out of memory: Killed process 4711 (python) total-vm:9kB, anon-rss:9437184kB\n"


def of(found: Diagnosis, word: str) -> Finding:
    [finding] = [one for one in found.findings.values() if word in one.sentence.partition(". ")[0]]
    return finding


def test_the_first_rank_and_why_then_who_followed(tmp_path: Path) -> None:
    text = "".join(of_rank(rank, CLOSED) for rank in (0, 1)) + of_rank(3, KEY) + of_rank(2, CLOSED) + SUMMED
    found = look(tmp_path, {"run.log": text})
    said = found.verdict.sentence
    assert said.startswith("Rank 3 crashed in collate (train.py:31): KeyError: 'input_ids'.")
    assert "inferred from the kind of error" in said
    assert "Ranks 0-2 followed: ConnectionResetError: [Errno 104] Connection reset by peer" in said
    assert of(found, "ChildFailedError").sentence.endswith("It follows from: rank 3: KeyError: 'input_ids'.")
    assert [finding.state for finding in found.findings.values()].count(VerdictState.CRASHED) == 1
    [chief] = [finding for finding in found.findings.values() if finding.state is VerdictState.CRASHED]
    assert [(proof.place, proof.log[-7:]) for proof in chief.evidence[:1]] == [("run.log:12", "run.log")]
    assert chief.evidence[1].text == "collate (train.py:31)"


@pytest.mark.invariant("causes.C1")
def test_C1_of_logs_with_times_the_earlier_error_comes_first(tmp_path: Path) -> None:
    logs = {"a.log": at("10:10:00", traceback("ValueError: late")), "b.log": at("10:00:03", KEY)}
    found = look(tmp_path, logs)
    assert found.verdict.sentence.startswith("Crashed in collate (train.py:31): KeyError: 'input_ids'.")
    assert "It came first, 10 min before the others" in found.verdict.sentence
    assert of(found, "ValueError: late").sentence.endswith("It came after: KeyError: 'input_ids'.")


@pytest.mark.invariant("causes.C1")
def test_C1_without_times_nobody_is_said_to_be_first(tmp_path: Path) -> None:
    found = look(tmp_path, {"a.log": KEY, "b.log": traceback("ValueError: other")})
    assert "Which of these errors came first is not known" in found.verdict.sentence
    states = [finding.state for finding in found.findings.values() if finding.rule == "crash"]
    assert states == [VerdictState.CRASHED] * 2


@pytest.mark.invariant("causes.C16")
@pytest.mark.parametrize("text", [KEY + of_rank(3, KEY), of_rank(3, KEY) + KEY], ids=["plain first", "plain last"])
def test_C16_an_exception_that_is_printed_plain_and_with_its_rank_is_that_ranks(text: str, tmp_path: Path) -> None:
    found = look(tmp_path, {"run.log": text})
    assert found.verdict.sentence == "Rank 3 crashed in collate (train.py:31): KeyError: 'input_ids'."
    [crash] = [finding for finding in found.findings.values() if finding.rule == "crash"]
    assert crash.evidence[0].place == "run.log:4"


@pytest.mark.invariant("causes.C16")
def test_C16_two_ranks_with_the_same_stay_two(tmp_path: Path) -> None:
    found = look(tmp_path, {"run.log": KEY + KEY + of_rank(3, KEY) + of_rank(5, KEY)})
    said = found.verdict.sentence
    assert said.startswith("Rank 3 crashed in collate (train.py:31): KeyError: 'input_ids'.")
    assert said.endswith("Rank 5 followed with the same.")


@pytest.mark.invariant("causes.C16")
def test_C16_the_same_error_elsewhere_is_another_one(tmp_path: Path) -> None:
    found = look(tmp_path, {"run.log": traceback("KeyError: 'input_ids'", 77) + of_rank(3, KEY)})
    assert found.verdict.sentence.startswith("Crashed in collate (train.py:77): KeyError: 'input_ids'.")
    assert "Rank 3 followed" in found.verdict.sentence


def test_a_traceback_that_its_writer_prints_again_is_no_second_crash(tmp_path: Path) -> None:
    found = look(tmp_path, {"run.log": KEY + KEY})
    assert found.verdict.sentence == "Crashed in collate (train.py:31): KeyError: 'input_ids' (printed 2 times)."


RUNS = "[ RUN      ] Net.Two\n[Passes] Running Fold...\n[Passes] Finished Fold.\n"
FAULT = "./many.sh: line 9: 51 {}      (core dumped) bin/test_net\n"


@pytest.mark.invariant("causes.C6")
def test_C6_each_of_several_runs_is_said_with_its_own_end(tmp_path: Path) -> None:
    logs = {
        "gpu0.log": f"{RUNS}[       OK ] Net.Two (4 ms)\n[==========] 1 test from 1 test suite ran. (9 ms total)\n"
        "[  PASSED  ] 1 test.\n",
        "gpu1.log": f"{RUNS}[Passes] Running Split...\n{FAULT.format('Segmentation fault')}",
        "gpu2.log": f"{RUNS}{KEY}",
        "gpu3.log": f"{RUNS}[Passes] Running Split...\n{FAULT.format('Bus error')}",
    }
    said = look(tmp_path, logs).verdict.sentence
    fault = 'bin/test_net, in test Net.Two, after "[Passes] Running Split"'
    assert said.startswith(f"gpu1.log: Crashed: SIGSEGV: Segmentation fault: {fault}. ")
    assert "gpu0.log: the test run passed (1 test); gpu2.log: KeyError: 'input_ids'; " in said
    assert f"gpu3.log: SIGBUS: Bus error: {fault}. " in said


@pytest.mark.invariant("causes.C6")
@pytest.mark.parametrize("end", ["[Passes] Finished Fold.\n", "[Passes] Running Split...\nlayer 3 of 4\n"])
def test_C6_what_was_over_before_a_fault_is_not_said_to_be_open(end: str, tmp_path: Path) -> None:
    said = look(tmp_path, {"run.log": f"{RUNS}{end}{FAULT.format('Segmentation fault')}"}).verdict.sentence
    assert said == "Crashed: SIGSEGV: Segmentation fault: bin/test_net, in test Net.Two."


@pytest.mark.invariant("causes.C6")
def test_C6_the_same_failure_of_several_runs_is_said_once(tmp_path: Path) -> None:
    linked = "ld.lld: error: undefined reference due to --no-allow-shlib-undefined: fill\n>>> referenced by lib{}.so\n"
    said = look(tmp_path, {"a.log": linked.format("pump"), "b.log": linked.format("tank")}).verdict.sentence
    assert said == "a.log: The linker failed: undefined reference to fill (libpump.so). b.log: the same (libtank.so)."
    other = {"a.log": linked.format("pump"), "b.log": linked.replace("fill", "drain").format("tank")}
    assert (
        "b.log: The linker failed: undefined reference to drain (libtank.so)." in look(tmp_path, other).verdict.sentence
    )


_TANK = '  File "/opt/lib/python3/site-packages/tank/pool.py", line 46, in fill\n    self._fill(\n'
_PLANT = '  File "plant.forward_3", line 70, in forward\n  File "/w/plant.py", line 9, in run\n    fill()\n'
_DRY = "RuntimeError: tank 0x{:x} was not filled in parallel.\nUse PLANT_DISABLE=parallel_fill to print {}.\n"


@pytest.mark.invariant("exceptions.X1")
@pytest.mark.parametrize("longer", ["b.log", "a.log"])
def test_X1_one_traceback_of_which_two_logs_have_more_or_less_is_one_error(longer: str, tmp_path: Path) -> None:
    head = "Traceback (most recent call last):\n"
    other = "a.log" if longer == "b.log" else "b.log"
    error = _DRY.format(0x7F01, "the message")
    logs = {other: f"{head}{_TANK}{_DRY.format(0x55D2, 'the message')}", longer: f"{head}{_PLANT}{_TANK}{error}"}
    said = look(tmp_path, logs).verdict.sentence
    assert said.startswith(f"{longer}: Crashed in run (plant.py:9)")
    assert said.endswith(f"{other}: the same.")
    logs[other] = f"{head}{_TANK.replace('46', '48')}{error}"
    apart = look(tmp_path, logs).verdict.sentence
    assert ": the same" not in apart
    assert "Which of these errors came first is not known" in apart


@pytest.mark.invariant("exceptions.X2")
@pytest.mark.parametrize(
    ("below", "step", "hidden"),
    [
        ("Use PLANT_DISABLE=parallel_fill to print the message.", "PLANT_DISABLE=parallel_fill COMMAND   prints", True),
        ("Run again with --plain-fill to see the underlying error", "COMMAND --plain-fill   prints the un", True),
        ("Set the environment variable PLANT_FULL=1 for a complete stack trace.", "PLANT_FULL=1 COMMAND ", False),
        ("Set PLANT_LOG=2 to show the full error message.", "PLANT_LOG=2 COMMAND   prints the full", False),
        ("Set PLANT_LOG=2 for speed.", "", False),
        ("Use --force-fill to ignore the error.", "", False),
    ],
)
def test_X2_the_switch_that_a_message_names_is_a_step(below: str, step: str, hidden: bool, tmp_path: Path) -> None:
    found = look(tmp_path, {"a.log": f"{traceback('RuntimeError: no water')}{below}\n"})
    chief = of(found, "no water")
    assert any(one.startswith(step) for one in chief.next)
    assert (len(chief.next) == 2) == bool(step)
    assert ("Its reason is not printed." in found.verdict.sentence) == hidden


def test_a_comparison_that_failed_before_its_script_ended_diverges(tmp_path: Path) -> None:
    differs = "[ERROR] Mismatch: max diff=3.5 at 4\n[ERROR] pump_fp8: compare failed\n"
    ended = look(tmp_path, {"a.log": f"{differs}run command failed with return code 2\n"}).verdict
    assert ended.state is VerdictState.DIVERGED
    assert ended.sentence.startswith("Results differ in pump_fp8: max diff=3.5 at 4.")
    (tmp_path / "a.log").unlink()
    alone = look(tmp_path, {"b.log": f"{differs}[INFO] the next candidate is tried\n"}).verdict
    assert alone.state is not VerdictState.DIVERGED


@pytest.mark.invariant("causes.C6")
def test_C6_what_stands_beside_a_failure_is_said_of_its_own_log(tmp_path: Path) -> None:
    dump = "Stack dump:\n0.\tProgram arguments: /w/bin/pump-opt /w/{0}.mlir -o /w/{0}.out\n"
    error = "/w/{0}.mlir:3:8: error: cannot fill {0}\n"
    logs = {f"{name}.log": error.format(name) + dump.format(name) for name in ("pump", "tank")}
    said = look(tmp_path, logs).verdict.sentence
    assert said.index("pump-opt /w/pump.mlir") < said.index("tank.log: ")


@pytest.mark.invariant("causes.C6")
def test_C6_ranks_are_no_runs_beside_each_other(tmp_path: Path) -> None:
    said = look(tmp_path, {"rank0.log": KEY, "rank1.log": traceback("ValueError: other")}).verdict.sentence
    assert not said.startswith("rank0.log: ")


@pytest.mark.invariant("causes.C1")
def test_C1_times_of_one_log_alone_order_nothing(tmp_path: Path) -> None:
    found = look(tmp_path, {"a.log": at("10:00:00", KEY), "b.log": traceback("ValueError: other")})
    assert "Which of these errors came first is not known" in found.verdict.sentence


@pytest.mark.invariant("causes.C1")
def test_C1_stamps_of_two_time_zones_are_not_compared(tmp_path: Path) -> None:
    logs = {"job.log": at("10:00:00", KEY), "node.log": at("12:00:04", CLOSED)}
    assert "inferred from the kind of error" in look(tmp_path, logs).verdict.sentence
    earlier = {"job.log": at("12:00:00", KEY), "node.log": at("10:00:04", CLOSED)}
    assert "KeyError" in look(tmp_path, earlier).verdict.sentence.partition(". ")[0]


def test_what_a_host_logs_some_seconds_later_is_the_cause(tmp_path: Path) -> None:
    logs = {"job.log": at("10:00:00", CLOSED), "kern.log": KILLED.format("10:00:09"), "w.log": "worker pid 4711\n"}
    found = look(tmp_path, logs)
    assert found.verdict.sentence.startswith("The kernel killed process 4711")
    assert of(found, "Connection reset by peer").state is None


@pytest.mark.invariant("causes.C3")
def test_C3_what_a_host_logs_long_after_it_is_no_cause(tmp_path: Path) -> None:
    logs = {"job.log": at("10:00:00", CLOSED), "kern.log": KILLED.format("10:42:09"), "w.log": "worker pid 4711\n"}
    found = look(tmp_path, logs)
    assert "Connection reset by peer" in found.verdict.sentence.partition(". ")[0]
    assert "It came after: " in of(found, "The kernel killed process 4711").sentence


@pytest.mark.parametrize("text", [KEY, CLOSED, SUMMED])
@pytest.mark.invariant("causes.C2")
def test_C2_an_error_that_is_alone_stays_a_crash(text: str, tmp_path: Path) -> None:
    assert look(tmp_path, {"run.log": text}).verdict.state is VerdictState.CRASHED


@pytest.mark.invariant("causes.C2")
def test_C2_what_was_handled_is_the_cause_of_nothing(tmp_path: Path) -> None:
    steps = "".join(f"step {n} loss 0.{n} lr 0.001\n" for n in range(8))
    found = look(tmp_path, {"run.log": KEY + steps + CLOSED})
    assert "Connection reset by peer" in found.verdict.sentence.partition(". ")[0]
    assert "follows" not in found.verdict.sentence


@pytest.mark.parametrize(
    ("sentence", "claim", "said"),
    [
        ("Rank 3 crashed in collate (train.py:31): KeyError: 'a'.", "KeyError: 'a'", "KeyError: 'a'"),
        ("Node n3 failed.", "", "Node n3 failed."),
        ("x" * 100, "", "x" * 100),
        ("Failed.", "x" * 101, f"{'x' * 99}…"),
    ],
)
def test_what_a_finding_reports_is_its_claim(sentence: str, claim: str, said: str) -> None:
    """Else all of it; at most 100 letters."""
    assert brief(Finding(rule="x", severity=Severity.ERROR, sentence=sentence, claim=claim)) == said


def test_who_followed_is_grouped_by_what_was_reported() -> None:
    following = [("rank 0", "Closed 10.0.0.1"), ("rank 1", "Closed 10.0.0.2"), ("worker TP3", "Timed out"), ("", "Sum")]
    assert followers_said("rank 7", following) == "Ranks 0-1 followed: Closed 10.0.0.1. Worker TP3 followed: Timed out."
    assert followers_said("rank 0", [("rank 0", "again"), ("", "x")]) == ""
    assert followers_said("rank 7", following[:1], own=following[0][1]) == "Rank 0 followed with the same."
    long = "A time limit was reached (0:10:00), and the main thread is then found in"
    said = followers_said("rank 7", [("rank 0", f"{long} wait"), ("rank 1", f"{long} load")])
    assert said == f"Rank 0 followed: {long} wait. Rank 1 followed: {long} load."


XID = (
    "Jan  1 10:00:05 box kernel: NVRM: Xid (PCI:0000:09:00): 31, pid=9188, name=browser, channel 0x2a, intr 0. "
    "MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_PROP_0 faulted @ 0x0_00100000. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_WRITE\n"
)


@pytest.mark.parametrize(
    ("log", "state", "said"),
    [
        ("step 1 loss 0.1\nTraining finished\n", VerdictState.UNKNOWN, "The run beside it completed."),
        ("step 1 loss 0.1\n", VerdictState.UNKNOWN, "The other logs do not name that process, and report no error."),
        ("worker pid=9188 started\nstep 1 loss 0.1\n", VerdictState.CRASHED, ""),
        (KEY, VerdictState.CRASHED, ""),
    ],
)
def test_a_gpu_s_fault_of_another_program(log: str, state: VerdictState, said: str, tmp_path: Path) -> None:
    found = look(tmp_path, {"kern.log": XID, "run.log": log})
    assert found.verdict.state is state
    assert said in of(found, "Xid 31").sentence


def test_a_collector_that_stores_the_errors_of_others_has_not_failed(tmp_path: Path) -> None:
    stored = 'ts=2026-06-21T10:06:12.001Z caller=forward.go:77 level=info msg="stored" line="{}"\n'
    log = "".join(map(stored.format, ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "KeyError: 1")))
    assert look(tmp_path, {"run.log": log}).findings == {}


@pytest.mark.invariant("causes.C4", "naming.N2")
def test_C4_N1_an_older_run_in_the_same_folder_decides_nothing(tmp_path: Path) -> None:
    good = "".join(f"2026-01-01 11:00:{n:02},000 INFO train: step {n} loss 0.1\n" for n in range(5))
    found = look(tmp_path, {"slurm-17.out": at("10:00:00", KEY), "slurm-23.out": good})
    assert found.verdict.state is VerdictState.UNKNOWN
    assert of(found, "KeyError").sentence == (
        "An older run ended with KeyError: 'input_ids' (slurm-23.out begins after its end)."
    )
    attempts = {f"attempt_{n}/3/stderr.log": traceback(f"ValueError: at start {n}") for n in (0, 1)}
    found = look(tmp_path / "b", attempts)
    assert found.verdict.sentence.startswith("Rank 3 crashed in collate (train.py:31): ValueError: at start 1.")
    assert of(found, "at start 0").state is None


@pytest.mark.invariant("causes.C4")
def test_N1_ranks_that_end_at_different_times_are_of_one_run(tmp_path: Path) -> None:
    logs = {"rank_0.log": at("10:00:00", KEY), "rank_1.log": at("10:09:00", CLOSED)}
    assert "KeyError" in look(tmp_path, logs).verdict.sentence.partition(". ")[0]


ABORTED = (
    'Fatal Python error: Aborted\n\nCurrent thread 0x7f (most recent call first):\n  File "/w/loop.py", line 9 in f\n'
)
STUCK = (
    "[rank1]:[F702 10:11:14.9 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's "
    "watchdog got stuck for 480 seconds without making progress.\n"
)


@pytest.mark.invariant("causes.C5")
@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (STUCK + ABORTED, "Rank 1's NCCL watchdog thread was stuck for 480 s"),
        (ABORTED, "Rank 1 crashed in f (loop.py:9): Fatal Python error: Aborted"),
        (
            STUCK + ABORTED.replace("Aborted", "Segmentation fault"),
            "Rank 1 crashed in f (loop.py:9): Fatal Python error: Segmentation fault",
        ),
        (ABORTED + STUCK, "Rank 1 crashed in f (loop.py:9): Fatal Python error: Aborted"),
    ],
)
def test_C5_what_a_process_said_before_it_aborted_is_the_cause(tmp_path: Path, text: str, begins: str) -> None:
    found = look(tmp_path, {"rank0.log": "[rank0]: step 1\n", "rank1.log": text})
    assert found.verdict.sentence.startswith(begins)


TIMEOUT = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for"
)


@pytest.mark.invariant("causes.C5")
def test_C5_the_abort_of_one_of_several_that_timed_out(tmp_path: Path) -> None:
    told = "".join(
        f"[rank{rank}]:[E812 03:22:41.{rank}00 P.cpp:632] [Rank {rank}] {TIMEOUT} 600029 milliseconds before\n"
        for rank in (6, 3)
    )
    text = f"{told}{of_rank(3, '*** SIGABRT received at time=1754968962 on cpu 37 ***' + chr(10))}"
    assert look(tmp_path, {"job.log": text}).verdict.sentence.startswith("Ranks 3,6 timed out in all_reduce #7")


LATER = (
    "[rank4]:[E812 03:31:09.100000001 ProcessGroupNCCL.cpp:1743] [Rank 4] ProcessGroupNCCL's watchdog "
    "got stuck for 480 seconds without\n"
)


@pytest.mark.invariant("causes.C3")
def test_C3_stamps_go_before_the_order_of_lines_that_writers_mixed(tmp_path: Path) -> None:
    early = (
        f"[rank6]:[E812 03:22:41.600000001 ProcessGroupNCCL.cpp:632] [Rank 6] {TIMEOUT} 600029 milliseconds before\n"
    )
    for text in (LATER + early, early + LATER):
        said = look(tmp_path, {"job.log": text}).verdict.sentence
        assert said.startswith("Rank 6 timed out in all_reduce #7") and "Rank 4 followed" in said
        assert "was ended" not in said
    first = LATER.replace("03:31", "03:11")
    assert look(tmp_path, {"job.log": early + first}).verdict.sentence.startswith("Rank 4's NCCL watchdog thread")


FAILED = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\n{}\n'


@pytest.mark.parametrize(
    ("last", "begins"),
    [
        (
            "ops.Failed: Bash command failed. The command returned a non-zero exit code 1.",
            "Crashed in f (a.py:3): KeyError",
        ),
        ("RuntimeError: Job train-7 failed with exit code 1", "Crashed in f (a.py:3): KeyError"),
        (
            "RuntimeError: Exception thrown from user defined Python function in dataset.",
            "Crashed in f (a.py:3): KeyError",
        ),
        ("RuntimeError: MPI group 0 exited before READY (status 134)", "Crashed in f (a.py:3): KeyError"),
        ("sagemaker.exceptions.UnexpectedStatusException: Error for Training job t", "Crashed in f (a.py:3): KeyError"),
    ],
)
def test_what_reports_that_another_program_failed_is_an_account(tmp_path: Path, last: str, begins: str) -> None:
    texts = {"train.log": FAILED.format("KeyError: 'lr'"), "client.log": FAILED.format(last)}
    assert look(tmp_path, texts).verdict.sentence.startswith(begins)


@pytest.mark.parametrize(
    "text", ["job submission failed with status code 500", "the server's session ended with status 503"]
)
def test_a_request_that_failed_with_a_status_is_no_account(tmp_path: Path, text: str) -> None:
    first = FAILED.format(f"RuntimeError: {text}")
    found = look(tmp_path, {"a.log": first + FAILED.format("AttributeError: no x")})
    assert found.verdict.sentence.startswith(f"Crashed in f (a.py:3): RuntimeError: {text}")


def test_what_a_system_says_names_the_rank_that_wrote_it(tmp_path: Path) -> None:
    text = 'Error from segmentation group 3:  INTERNAL ASSERT FAILED at "/w/csrc/id.cpp":7, please report a bug with '
    text += "repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues. No path for i3\n"
    said = look(tmp_path, {"run.log": of_rank(2, traceback(f"RuntimeError: {text}"))}).verdict.sentence
    assert said.startswith("Rank 2: Segmentation group 3 of a fusion")
    said = look(tmp_path, {"run.log": traceback(f"RuntimeError: {text}")}).verdict.sentence
    assert said.startswith("Segmentation group 3")


UCX = "[n7:2330:0:2330] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81)\n"
WHAT = "terminate called after throwing an instance of 'plan::Bad'\n  what():  no pump for 3\n" + "".join(
    f"{number}       0x7fb4aebbeb71 plan::open(int) + 82\n" for number in range(1, 9)
)
FATAL = "[2026-03-01 10:00:00] [FATAL] pump: cannot open plan.h5: no such file\n"
SIGNALS = "[n7:2330] *** Process received signal ***\n[n7:2330] Signal: {}\n[n7:2330] *** End of error message ***\n"


@pytest.mark.invariant("causes.C5")
@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (UCX + SIGNALS.format("Aborted (6)"), "A transfer of UCX failed (process 2330 on n7"),
        (UCX + SIGNALS.format("Segmentation fault (11)"), "Process 2330 on n7 got signal 11"),
        (SIGNALS.format("Aborted (6)"), "Process 2330 on n7 got signal 6"),
        (WHAT + SIGNALS.format("Aborted (6)"), "Crashed: plan::Bad: no pump for 3."),
        (FATAL + SIGNALS.format("Aborted (6)\n[n7:2330] Signal code:  (-6)"), "The log ends with an error"),
        (FATAL + SIGNALS.format("Segmentation fault (11)"), "Process 2330 on n7 got signal 11"),
    ],
)
def test_C5_an_abort_that_a_launcher_reports(tmp_path: Path, text: str, begins: str) -> None:
    assert look(tmp_path, {"job.log": text}).verdict.sentence.startswith(begins)


LUSTRE = (
    "[8001.2] Lustre: scratch-OST0007-osc-f: Connection to scratch-OST0007 (at 10.0.0.7@o2ib) was lost; in progress "
    "operations using this service will wait for recovery to complete\n"
)


NOTICED = "mpirun noticed that process rank {} with PID 8 on node n1 exited on signal {} (said).\n"


@pytest.mark.invariant("causes.C7")
@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (
            "free(): invalid pointer\n" + NOTICED.format(3, 6),
            "Rank 3: Crashed: SIGABRT: free(): invalid pointer (the heap is corrupt, as glibc found in free).",
        ),
        (KEY + NOTICED.format(3, 11), "Crashed in collate"),  # no signal is spoken of
        ("free(): invalid pointer\n" + NOTICED.format(3, 6) + NOTICED.format(4, 6), "Crashed: SIGABRT"),
        (f"free(): invalid pointer\n{KEY}{NOTICED.format(3, 6)}", "Crashed: SIGABRT"),
        (of_rank(1, KEY) + NOTICED.format(3, 6), "Rank 1 crashed in collate"),
    ],
)
def test_C7_an_error_that_names_nobody_is_of_the_rank_that_its_account_names(
    tmp_path: Path, text: str, begins: str
) -> None:
    assert look(tmp_path, {"run.log": text}).verdict.sentence.startswith(begins)


PANIC = "thread 'pool-3' panicked at src/pool.rs:88:14:\nno device\n"
MADE = "make: *** [Makefile:3: run] Error 101\n"
UNLOADED = "E0301 10:00:00.000000 1 model_lifecycle.cc:640] failed to load 'llm' version 3: Internal: no plan for it\n"
TOLD = "| llm | UNAVAILABLE |\nMPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n"
LINK = (
    "n7:4711:4733 [2] transport/net_ib.cc:1310 NCCL WARN NET/IB : Got completion from peer 10.4.1.9<3> with status=12 "
    "opcode=0 len=0 vendor err 129 (Recv)\nn7:4711:4733 [2] NCCL INFO proxy.cc:698 -> 6\n"
)
LOST = (
    "[rank2]:[E304 02:11:08.401 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group "
    "watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL "
    "version 2.21.5\nncclRemoteError: A call failed possibly due to a network error.\n"
    "Last error:\nNET/IB : Got completion from peer 10.4.1.9<3> with status=5 opcode=32616 len=0\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
)
FAULTED = (
    "[ 9550.864] amdgpu 0000:65:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:88 vmid:3 pasid:32787)\n"
    "[ 9550.865] amdgpu 0000:65:00.0: amdgpu:  Process solve pid 4711 thread worker 0 pid 4715\n"
    "[ 9550.866] amdgpu 0000:65:00.0: amdgpu:   in page starting at address 0x0000000000000000 from client 10\n"
    "[ 9550.867] amdgpu 0000:65:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x008012B0\n"
    + "".join(f"[ 9550.87{at}] amdgpu 0000:65:00.0: amdgpu: \t {name}: 0x0\n" for at, name in enumerate("ABCDEF"))
)
RESET = (
    "[ 9552.867] amdgpu 0000:65:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE\n"
    "[ 9552.868] amdgpu 0000:65:00.0: amdgpu: MES might be in unrecoverable state, issue a GPU reset\n"
    "[ 9552.869] amdgpu 0000:65:00.0: amdgpu: GPU reset begin!\n"
)


@pytest.mark.invariant("causes.C8")
@pytest.mark.parametrize(
    ("text", "state", "begins"),
    [
        (PANIC + MADE, VerdictState.CRASHED, "A thread (pool-3) panicked at pool.rs:88: no device"),
        (PANIC, VerdictState.UNKNOWN, "A thread (pool-3) panicked at pool.rs:88: no device"),
        (
            PANIC + "a further line\n" * 4 + MADE,
            VerdictState.CRASHED,
            "A thread (pool-3) panicked at pool.rs:88: no device",
        ),
        (PANIC + "a further line\n" * 6 + MADE, VerdictState.CRASHED, "The build failed: make"),
        (UNLOADED + TOLD, VerdictState.CRASHED, "Rank 2: Triton's server could not load model llm: no plan"),
        (UNLOADED + "loaded 3 models\n" * 6 + TOLD, VerdictState.CRASHED, "Rank 2 called MPI_Abort"),
        (UNLOADED, VerdictState.UNKNOWN, "Triton's server could not load model llm: no plan"),
        (
            LINK + LOST,
            VerdictState.CRASHED,
            "NCCL on n7 (pid 4711, GPU 2): InfiniBand transfer with 10.4.1.9<3> failed",
        ),
        (LINK, VerdictState.UNKNOWN, "NCCL on n7 (pid 4711, GPU 2): InfiniBand transfer with 10.4.1.9<3> failed"),
        (FAULTED + RESET, VerdictState.CRASHED, "GPU 0000:65:00.0: a page fault of process 4711 (solve)"),
        (FAULTED, VerdictState.UNKNOWN, "GPU 0000:65:00.0: a page fault of process 4711 (solve)"),
        (FAULTED.replace("vmid:3", "vmid:8") + RESET, VerdictState.CRASHED, "GPU 0000:65:00.0: a page fault of"),
    ],
)
def test_C8_what_stands_right_above_an_account_failed(
    tmp_path: Path, text: str, state: VerdictState, begins: str
) -> None:
    verdict = look(tmp_path, {"run.log": text}).verdict
    assert (verdict.state, verdict.sentence[: len(begins)]) == (state, begins)


def _dump(rank: int, place: str) -> str:
    lines = ("Timeout (0:10:00)!", "Thread 0x00007f1234567740 (most recent call first):", f"  File {place}")
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


_REDUCES, _LOADS = '"/w/step.py", line 77 in reduce_all', '"/w/loader.py", line 212 in fetch'


@pytest.mark.invariant("causes.C9")
@pytest.mark.parametrize(
    ("places", "begins"),
    [
        ((_REDUCES, _REDUCES, _LOADS, _REDUCES), "Rank 2: A time limit"),
        ((_LOADS, _REDUCES, _REDUCES), "Rank 0: A time limit"),
        ((_REDUCES, _LOADS), "Rank 0: A time limit"),
        ((_REDUCES, _LOADS, _LOADS, _REDUCES), "Rank 0: A time limit"),
    ],
)
def test_C9_the_one_that_stands_elsewhere_leads(tmp_path: Path, places: Sequence[str], begins: str) -> None:
    text = "".join(_dump(rank, place) for rank, place in enumerate(places))
    verdict = look(tmp_path, {"run.log": text}).verdict
    assert (verdict.state, verdict.sentence[: len(begins)]) == (VerdictState.STALLED, begins)


_ACCOUNT = "##[error]Process completed with exit code 4.\n"


@pytest.mark.invariant("causes.C11")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("pump: valve 4 needs 3 bar, has 1.1\n", " The line before that is: pump: valve 4 needs 3 bar, has 1.1."),
        ("step 31 loss 0.1\n", ""),
        ("----\n", ""),
        ("----- ---- ---- ---- ----\n", ""),
        ("pump-0    1/1     Running     0     10.2.0.4     n2     41m\n", ""),  # a row of a table
    ],
)
def test_C11_the_line_above_a_mere_account_is_quoted(tmp_path: Path, line: str, sentence: str) -> None:
    verdict = look(tmp_path, {"run.log": f"pump 2.1\n{line}{_ACCOUNT}"}).verdict
    assert verdict.sentence == f"The program ended with exit code 4.{sentence}"


@pytest.mark.invariant("causes.C11")
def test_C11_the_line_above_a_kernel_s_account_is_quoted_only_if_it_speaks_of_a_failure(tmp_path: Path) -> None:
    up = "[ 9552.864] eth4: the link came up at 10000 Mbps\n"
    down = "[ 9552.864] eth4: failed to bring the link up\n"
    assert "eth4" not in look(tmp_path, {"run.log": up + RESET}).verdict.sentence
    assert "eth4: failed to bring" in look(tmp_path, {"run.log": down + RESET}).verdict.sentence


@pytest.mark.invariant("causes.C11")
@pytest.mark.parametrize(
    ("above", "abort", "quoted"),
    [
        ("pump: ERROR: valve 4 is stuck\n", "Fatal Python error: Aborted\n", True),
        ("copy to tank failed: no such valve\n", "pump: tank.c:14: fill: Assertion `0' failed.\n", True),
        ("copy to tank failed: no such valve\n", "pump: tank.c:14: fill: Assertion `n > 0' failed.\n", False),
        ("test_fill (tank.Test) ... ok\n", "terminate called without an active exception\n", False),
        ("step 31 loss 0.1\n", "Fatal Python error: Aborted\n", False),
        ("pump: ERROR: valve 4 is stuck\nlid 3 of 4\n", "Fatal Python error: Aborted\n", True),
        ("pump: ERROR: valve 4 is stuck\nstep 31 loss 0.1\n", "Fatal Python error: Aborted\n", False),
        (
            "pump: ERROR: valve 4 is stuck\n",
            "[n3:471] *** Process received signal ***\n[n3:471] Signal: Aborted (6)\n[n3:471] Signal code:  (-6)\n",
            True,
        ),
    ],
)
def test_C11_the_line_above_an_abort_without_a_reason_is_quoted_if_it_tells_one(
    tmp_path: Path, above: str, abort: str, quoted: bool
) -> None:
    verdict = look(tmp_path, {"run.log": f"pump 2.1\n{above}{abort}"}).verdict
    assert verdict.state is VerdictState.CRASHED
    assert (above.strip().partition("\n")[0] in verdict.sentence) is quoted, verdict.sentence


@pytest.mark.invariant("causes.C11")
def test_C11_the_reason_of_an_abort_leads(tmp_path: Path) -> None:
    log = "pump 2.1\npump: ERROR: valve 4 is stuck\nlid 3 of 4\nFatal Python error: Aborted\n"
    verdict = look(tmp_path, {"run.log": log}).verdict
    assert verdict.sentence == "pump: ERROR: valve 4 is stuck. Crashed: Fatal Python error: Aborted."


_UP = 'Traceback (most recent call last):\n  File "/w/serve.py", line 22, in start\n    raise Bad\nRuntimeError: {}\n'


@pytest.mark.invariant("causes.C11")
@pytest.mark.parametrize(
    ("above", "raised", "leads"),
    [
        (
            "2026-03-01 10:00:05 ERROR valve table 3 has 12 rows, and 16 are needed\n",
            "start failed. See root cause above.",
            True,
        ),
        (
            "2026-03-01 10:00:05 ERROR valve table 3 has 12 rows, and 16 are needed\n",
            "the tank's error is reported as above",
            True,
        ),
        ("2026-03-01 10:00:05 ERROR the worker failed to start\n", "the tank has no valve", False),
        ("2026-03-01 10:00:05 INFO 16 tanks are open\n", "see root cause above", False),
    ],
)
def test_C11_what_only_points_upwards_does_not_lead(tmp_path: Path, above: str, raised: str, leads: bool) -> None:
    verdict = look(tmp_path, {"run.log": f"pump 2.1\n{above}{_UP.format(raised)}"}).verdict
    assert verdict.state is VerdictState.CRASHED
    assert verdict.sentence.startswith("Crashed in start (serve.py:22)") is not leads, verdict.sentence


_CUT = 'Traceback (most recent call last):\n  File "/w/fill.py", line 7, in fill\n    pump.run()\n'
_ABORTED = "Abort(1) on node 2 (rank 2 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 2\n"
_STEPS = "".join(f"step {number} loss 0.1\n" for number in range(8))
_FULL = "CUDA error !!! <out of memory> !!!\n"


@pytest.mark.invariant("causes.C8")
@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (f"{_FULL}{_ABORTED}", "Rank 2: CUDA error: out of memory"),
        (f"{_FULL}lid 3 of 4\n{_CUT}", "CUDA error: out of memory"),
        (f"{_FULL}{_STEPS}{_ABORTED}", "Rank 2 called MPI_Abort"),
    ],
)
def test_C8_an_error_above_an_end_without_a_reason_is_what_failed(tmp_path: Path, text: str, begins: str) -> None:
    verdict = look(tmp_path, {"run.log": f"pump 2.1\n{text}"}).verdict
    assert verdict.state is VerdictState.CRASHED
    assert verdict.sentence.startswith(begins), verdict.sentence


@pytest.mark.parametrize(
    ("last", "state"), [("step 3 loss 0.1\n", VerdictState.STALLED), ("training finished\n", VerdictState.UNKNOWN)]
)
def test_what_a_host_waits_for_is_no_stall_of_a_job_that_completed(
    tmp_path: Path, last: str, state: VerdictState
) -> None:
    found = look(tmp_path, {"train.log": f"step 1 loss 0.3\nstep 2 loss 0.2\n{last}", "dmesg.txt": LUSTRE})
    assert found.verdict.state is state


QUIET = (
    "(EngineCore_DP1 pid=31) INFO 03-04 10:00:11 [shm_broadcast.py:5] No available shared memory broadcast block found "
    "in 60 seconds.\n"
)
WORKER = "(Worker_DP1_TP0 pid=47) ERROR 03-04 {}:02 [executor.py:7] {}\n"
NOTIFY = (
    "The error from device(chipId:3, dieId:0), serial number is 4, notify wait timeout occurred during task execution, "
    "stream_id:9, sq_id:9, task_id:5, notify_id=7, timeout=90s.[FUNC:A][FILE:a.cc][LINE:1]"
)


@pytest.mark.invariant("causes.C13")
@pytest.mark.parametrize("clock", ["10:00", "10:09"])
def test_C13_who_waits_leads_over_no_failure_of_another_one(tmp_path: Path, clock: str) -> None:
    raised = "".join(WORKER.format(clock, line) for line in traceback("ValueError: no such expert: 9").splitlines())
    for number, (text, begins) in enumerate(((raised, "ValueError"), (WORKER.format(clock, NOTIFY), "stream 9"))):
        found = look(tmp_path / str(number), {"serve.log": QUIET + text})
        assert found.verdict.state is VerdictState.CRASHED
        assert begins in found.verdict.sentence.partition(". ")[0]
        if clock == "10:09":
            assert not any(word in found.verdict.sentence for word in ("Engine core", "came first"))
        word = "waited before that" if clock == "10:09" else "follows from"
        assert word in of(found, "No worker has taken").sentence


@pytest.mark.invariant("causes.C13")
@pytest.mark.parametrize(
    "last", ["", WORKER.format("10:09", "Process 47 was killed by signal 15"), KILLED.format("10:09:02")]
)
def test_C13_who_waits_for_what_only_was_ended_stays_a_stall(tmp_path: Path, last: str) -> None:
    assert look(tmp_path, {"serve.log": QUIET, "other.log": last}).verdict.state is VerdictState.STALLED


@pytest.mark.invariant("causes.C13")
def test_C13_a_wait_of_the_writer_itself_leads_if_it_came_long_before(tmp_path: Path) -> None:
    own = WORKER.replace("Worker_DP1_TP0 pid=47", "EngineCore_DP1 pid=31")
    text = "".join(own.format("10:09", line) for line in traceback("ValueError: no such expert: 9").splitlines())
    assert look(tmp_path, {"serve.log": QUIET + text}).verdict.state is VerdictState.STALLED


_REFUSED = "n7:4711:4733 [2] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.4.1.9<45763> failed : Connection refused\n"  # noqa: E501
_CUT = 'Traceback (most recent call last):\n  File "/w/serve.py", line 17, in run_tank\n'


@pytest.mark.invariant("causes.C8")
def test_C8_of_a_peer_comes_before_an_end_without_a_reason(tmp_path: Path) -> None:
    said = look(tmp_path, {"run.log": _REFUSED + _CUT}).verdict.sentence
    assert said.startswith(
        "NCCL on n7 (pid 4711, GPU 2): connecting to 10.4.1.9<45763> failed: Connection refused, at run_tank"
    )


@pytest.mark.invariant("causes.C8")
def test_C8_not_so_if_the_log_went_on_or_the_end_has_a_reason(tmp_path: Path) -> None:
    went_on = _REFUSED + "".join(f"step {step} loss 2.1\n" for step in range(5)) + _CUT
    assert "crashed in run_tank" in look(tmp_path / "a", {"run.log": went_on}).verdict.sentence.lower()
    assert "KeyError: 'input_ids'" in look(tmp_path / "b", {"run.log": _REFUSED + KEY}).verdict.sentence


def test_a_rank_whose_traceback_is_cut_off_is_not_said_to_follow(tmp_path: Path) -> None:
    said = look(tmp_path, {"run.log": of_rank(1, KEY) + of_rank(7, _CUT)}).verdict.sentence
    assert said.startswith("Rank 1 crashed in collate (train.py:31): KeyError: 'input_ids'.")
    assert said.endswith("Rank 7: a traceback that is cut off, in run_tank (serve.py:17).") and "followed" not in said


def _waits(clock: str, *cores: str) -> str:
    said = "INFO 03-10 {} [shm_broadcast.py:456] No available shared memory broadcast block found in 60 seconds."
    return "".join(f"(EngineCore_{core} pid={40 + at}) {said.format(clock)}\n" for at, core in enumerate(cores))


@pytest.mark.invariant("causes.C15")
def test_C15_equal_waits_of_one_minute_are_one_statement_without_an_order(tmp_path: Path) -> None:
    said = look(tmp_path, {"engine.log": _waits("07:20:45", "DP3", "DP0", "DP4", "DP1", "DP2")}).verdict.sentence
    assert said.startswith("5 engine cores (DP3, DP0, DP4 and 2 more): No worker has taken a message")
    assert "first" not in said and "followed" not in said


@pytest.mark.invariant("causes.C15")
def test_C15_equal_waits_that_are_far_apart_keep_their_order(tmp_path: Path) -> None:
    log = _waits("07:20:45", "DP3") + _waits("07:29:45", "DP0")
    said = look(tmp_path, {"engine.log": log}).verdict.sentence
    assert said.startswith("Engine core DP3: No worker") and "Engine core DP0 followed" in said


@pytest.mark.invariant("causes.C3")
def test_C3_what_another_log_says_before_a_wait_does_not_follow_from_it(tmp_path: Path) -> None:
    cut = "".join(
        f"(APIServer_0 pid=77) WARNING 03-10 07:19:43 [serving.py:64] {line}\n"
        for line in (
            "Giving the tank back failed.",
            "Traceback (most recent call last):",
            '  File "/w/p.py", line 6, in give',
            "    out()",
        )
    )
    found = look(tmp_path, {"api.log": cut, "engine.log": _waits("07:20:45", "DP3", "DP0")})
    said = found.verdict.sentence
    assert said.startswith("Engine core DP3 and engine core DP0: No worker") or said.startswith(
        "2 engine cores (DP3, DP0)"
    )
    assert "first" not in said and not any("follows from" in one.sentence for one in found.findings.values())


@pytest.mark.invariant("causes.C1")
def test_C1_an_account_in_another_log_without_times_only_may_follow(tmp_path: Path) -> None:
    failed = "/w/pump.cpp:9:4: error: member reference type 'Pump *' is a pointer; did you mean to use '->'?\n"
    built = "8 errors generated.\nmake[2]: *** [CMakeFiles/t.dir/build.make:76: CMakeFiles/t.dir/t.cpp.o] Error 1\n"
    found = look(tmp_path, {"pump.log": failed, "tank.log": built})
    assert "It may follow from: " in of(found, "The build failed").sentence
    found = look(tmp_path / "one", {"both.log": failed + built})
    assert not any("may follow" in one.sentence for one in found.findings.values())
