"""Logs that end with an error in a program's last words, and those that only seem to."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.rules.last_lines import ENDED_WITH_ERROR
from livedbg.logs.last_words import cells_of, telling_line
from tests.logs.reading import found, verdict

STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
CRASHED, UNKNOWN = VerdictState.CRASHED, VerdictState.UNKNOWN

ENDS = [
    "./bench: error while loading shared libraries: libnccl.so.2: cannot open shared object file\n",
    "./run: /lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by ./run)\n",
    "python3: symbol lookup error: /opt/libtorch.so: undefined symbol: cudnnGetVersion_v9\n",
    "/w/build.sh: line 4: nvcc: command not found\n",
    "tee: /scratch/log.txt: No space left on device\n",
    "Error response from daemon: write /var/lib/x/k.jar: no space left on device\n",
    "cp: error writing '/ckpt/model.bin': Disk quota exceeded\n",
    "tar: Error is not recoverable: exiting now\n",
    "train.py: error: unrecognized arguments: --lrr 1\n",
    "vllm serve: error: argument --port: invalid int value: 'x'\n",
    "Error: ShardCannotStart\n",
    "/src/ggml-cuda/ggml-cuda.cu:88: CUDA error\n",
    "/src/ggml.c:4021: GGML_ASSERT(buf != NULL) failed\n",
    "Got a CUTLASS error: Error Internal at: 310 (gemm.cu:310)\n",
    "src/init.cu:1021: non-zero status: 7 detect topo failed, aborting\n[gpu2:77] abort\n",
    "2026-03-04 10:00:01,250 - server - CRITICAL - no device\n",
    "2026-03-04 10:00:01,250 - server - ERROR - failed to start the engine\n",
    "F0304 10:00:01.000000       1 main.go:154] Could not start the operator: no devices\n",
    "[ERROR] ME(130:281,MainProcess):2026-12-26-14:22:26.839.923 [m/parallel/_api.py:268] Worker process 130 exit with "
    "exception.\n",
    "&&&& FAILED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=a.onnx\n",
    "Error in x[[5]] : subscript out of bounds\nCalls: fit -> predict\nExecution halted\n",
    "error[K71]: no such plan\n",
    "Pump Fatal error:   no pump is ready\n",
    " ERROR: the density is negative\n",  # Fortran begins each line with a space
    "\u2502 Error: no such image\n\u2502\n\u2502   with pump.main,\n",
    "2026/03/04 10:00:00 [emerg] 1#1: no such directive in pump.conf:4\n",
    "pump: [emerg] no such directive in pump.conf:4\n",
    "PUMP: fatal error in bracketing\n    please try smaller steps\n",
    "Error termination via Lnk1e in /opt/p/l1.exe.\n",
    "flag provided but not defined: -pump\nUsage of /app/pump:\n  -addr string\n",
    'time="2026-03-04T10:00:09Z" level=fatal msg="no pump is ready"\n',
    "PumpNotReadyError: \n\nNo pump of 3 has an error that is known.\n",
    "** (PumpError) no pump is ready\n    (pump 0.1.0) lib/pump.ex:27: Pump.start/1\n",
]

NOT = [
    "2026-03-04 10:00:00,250 - s - ERROR - failed to connect to storage, retrying in 5 s\n",
    "2026-03-04 10:00:00,250 - s - ERROR - loss went up by 3 %\n",
    "2026-03-04 10:00:00,250 - s - WARNING - failed to start the exporter\n",
    "fatal: not a git repository (or any of the parent directories): .git\n",
    "wandb: ERROR Error while calling W&B API: context deadline exceeded\n",
    "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.\n",
    "validation error: 0.31\n",
    "Error: none\n",
    "errors: 0, failed: 0\n",
    "[W112 09:14:03.1 socket.cpp:601] The client socket has failed to connect to [n0]:29500\n",
    "k.cc:1:10: note: a fatal error: is one that ends the compiler\n",
    "Aborted transfers: 3\n",
    "checked model.py:31 and found no errors\n",
    "thread 'worker' panicked at src/io.rs:8:1:\n",
    "pump: [notice] no such directive in pump.conf:4\n",
    'time="2026-03-04T10:00:09Z" level=warning msg="no pump is ready"\n',
    "EarlyStopping: epoch 12 was best\nEarly stopping.\n",
]


@pytest.mark.invariant("last_lines.E1", "last_words.G1")
@pytest.mark.parametrize("end", ENDS)
def test_E1_G1_a_log_that_ends_with_an_error_is_of_a_crash(end: str) -> None:
    said = verdict(STEPS + end)
    assert said.state is CRASHED, said.sentence
    assert verdict(STEPS + end + STEPS).state is not CRASHED


@pytest.mark.invariant("last_lines.E2", "last_words.G1")
@pytest.mark.parametrize("end", NOT)
def test_E2_G1_what_is_tried_again_or_ends_nothing(end: str) -> None:
    assert not found(ENDED_WITH_ERROR, STEPS + end)
    assert verdict(STEPS + end).state is UNKNOWN


def test_it_names_the_first_line_of_several_and_shows_what_is_beside_it() -> None:
    (finding,) = found(ENDED_WITH_ERROR, STEPS + "loading k.so\nError: no device found\nError: giving up on it\n")
    assert finding.sentence == "The log ends with an error, at 0.log:32: Error: no device found."
    assert "loading k.so" in [proof.text for proof in finding.evidence]
    assert finding.evidence[0].place == "0.log:32"


@pytest.mark.invariant("last_lines.E1")
@pytest.mark.parametrize("after", ["Training finished\n", "step 41 loss 0.2\n", "12 passed in 3.10s\n"])
def test_E1_what_comes_after_it_shows_that_it_ended_nothing(after: str) -> None:
    assert not found(ENDED_WITH_ERROR, f"{STEPS}Error: no device found\n{after}")


def test_of_errors_in_a_row_that_a_logger_wrote_the_first_is_what_ended_it() -> None:
    head = "2026-03-04 10:00:01,250 - server - ERROR - "
    row = f"{head}system error 13 of a file\n{head}no rights for it\n{head}failed to start the engine\n"
    (told,) = found(ENDED_WITH_ERROR, STEPS + row)
    assert told.claim.endswith("system error 13 of a file")
    (told,) = found(ENDED_WITH_ERROR, STEPS + row.replace(f"{head}no", "no"))
    assert told.claim.endswith("failed to start the engine")


def test_of_a_record_of_many_lines_the_one_that_calls_itself_an_error_is_named() -> None:
    text = "[+] Building 12.6s\n  step 1 of the plan\n  Error: no plan\nmake: *** [sim.mk:71: simulate] Error 2\n"
    assert not any("Building" in told.claim for told in found(ENDED_WITH_ERROR, STEPS + text))


@pytest.mark.invariant("last_lines.E10")
@pytest.mark.parametrize(
    ("below", "ends"),
    [
        ("Last command: run 10000\n", True),
        ("Input file: pump.in\nLine (of the input): 4x\n", True),
        ("SQL state  : 42P01\nError code : 0\nMessage    : none\nLine       : 1\n", True),
        ("Current pumps:\n  - p1\n", True),
        ("Mean pressure: 0.31\n", False),
        ("Result: ok\n", False),
        ("Loading plan: pump.in\n", False),
        ("Epoch: 41 of 90\n", False),
        ("First part: a\nSecond part: b\nThird part: c\n", False),
    ],
)
def test_E10_what_labels_a_detail_of_an_error_is_of_its_message(below: str, ends: bool) -> None:
    assert bool(found(ENDED_WITH_ERROR, f"{STEPS}ERROR: lost 12 atoms\n{below}")) is ends


ENDING = "srun: error: n7: task 0: Exited with exit code 1\n"
KILLED = "srun: error: n8: tasks 1-3: Killed\n"


@pytest.mark.invariant("last_lines.E5")
@pytest.mark.parametrize(
    "account",
    [
        f"{ENDING}{KILLED}",
        f"{ENDING}{KILLED}slurmstepd: error: *** STEP 8.0 ON n7 CANCELLED AT 2026-03-04T10:00:01 ***\n",
        f"{ENDING}It is usual to ask somebody about that.\nGood night\n",
    ],
)
def test_E5_what_stands_below_an_account_is_its_launcher_s(account: str) -> None:
    (told,) = found(ENDED_WITH_ERROR, f"{STEPS}Invariant failed in file pump.c at line 71: n > 0\n{account}")
    assert told.claim == "Invariant failed in file pump.c at line 71: n > 0"


def test_of_a_long_chain_of_causes_the_last_ones_are_said() -> None:
    chain = ": ".join(
        ("FATAL", "While making the image", *(f"step {'x' * 50} {n}" for n in range(5)), "write /t/a", "disk full")
    )
    (told,) = found(ENDED_WITH_ERROR, f"{STEPS}{chain}\n")
    steps = ": ".join(f"step {'x' * 50} {n}" for n in (3, 4))
    assert told.claim == f"FATAL: While making the image: …: {steps}: write /t/a: disk full"
    (other,) = found(ENDED_WITH_ERROR, f"{STEPS}FATAL: {'no table ' * 40}: see: the: manual\n")
    assert other.claim.startswith("FATAL: no table no table")


@pytest.mark.invariant("last_lines.E8")
def test_E8_what_was_killed_first_is_not_explained_by_an_error_above() -> None:
    assert not found(ENDED_WITH_ERROR, f"{STEPS}probe of port 3 failed\n{KILLED}{ENDING}")


@pytest.mark.invariant("last_lines.E5")
@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("error Command failed with exit code 134.\n", True),
        ("Exit code: 3\n", True),
        ("pump exited with status 2\n", True),
        ("2026-03-04 10:00:01,250 - pump - INFO - lint exited with status 2\n", False),
        ("Completed with 1 error and 0 warnings:\n", True),
        ("Completed with 0 errors and 2 warnings\n", False),
        ("pump 5.9 compiled with 2 errors in 210 ms\n", True),
        ('process "sh" did not complete successfully: exit code: 254\n', True),
        ("pump exited with status 0\n", False),
        ("pump exited with status 2, ignored\n", False),
    ],
)
def test_E5_a_status_counts_for_an_account_whoever_says_it(said: str, named: bool) -> None:
    assert bool(found(ENDED_WITH_ERROR, f"{STEPS}the plan could not be read\n{said}")) is named
    assert not any(one.claim in said for one in found(ENDED_WITH_ERROR, f"{STEPS}{said}"))


@pytest.mark.invariant("last_lines.E5")
@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("sim: *F,NOLIC: Unable to checkout license for the simulation.\n", True),
        ("the probe of port 3 failed; retrying in 5 s\n", False),
        ("0 checks failed\n", False),
        ("100 images, failed 0, mean latency 6.81 ms\n", False),
        ("12 images, failed 0.5 s after the start\n", True),
    ],
)
def test_E5_above_a_launcher_s_account_what_speaks_of_a_failure_is_what_failed(said: str, named: bool) -> None:
    told = found(ENDED_WITH_ERROR, f"{STEPS}{said}make: *** [sim.mk:71: simulate] Error 2\n")
    assert [one.claim for one in told] == [said.strip().rstrip(".")] * named


SAMPLE = """\
[03/04/2026-10:00:01] [W] [TRT] weights are cast down
[03/04/2026-10:00:01] [%s] [TRT] 4: [net.cpp::check::31] the network has no shapes
[03/04/2026-10:00:01] [E] Engine set up failed
&&&& FAILED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=a.onnx
"""


@pytest.mark.invariant("last_lines.E5")
@pytest.mark.parametrize(
    ("level", "claim"),
    [("E", "4: [net.cpp::check::31] the network has no shapes"), ("W", "Engine set up failed")],
)
def test_E5_above_a_sample_s_account_the_first_error_of_the_chain_is_what_failed(level: str, claim: str) -> None:
    (told,) = found(ENDED_WITH_ERROR, f"{STEPS}{SAMPLE % level}")
    assert told.claim == claim
    assert claim in verdict(f"{STEPS}{SAMPLE % level}").sentence


ACCOUNT = """\
Traceback (most recent call last):
  File "/w/build.py", line 31, in run_step
    subprocess.run(command, check=True)
%s
"""


@pytest.mark.invariant("last_lines.E5")
@pytest.mark.parametrize(
    ("above", "error", "named"),
    [
        ("tool: fatal: no shape file\n", "CalledProcessError: Command 'tool' returned non-zero exit status 2.", True),
        ("tool: fatal: no shape file\n", "KeyError: 'tool'", False),  # says itself why
        (
            "a.c:1:10: fatal error: x.h: No such file or directory\ncompilation terminated.\n",
            "CalledProcessError: Command 'gcc' returned non-zero exit status 1.",
            False,
        ),
    ],
)
def test_E5_above_an_exception_that_only_says_that_another_program_failed(above: str, error: str, named: bool) -> None:
    told = found(ENDED_WITH_ERROR, f"{STEPS}{above}{ACCOUNT % f'subprocess.{error}'}")
    assert [one.claim for one in told] == [above.strip().rstrip(".")] * named


@pytest.mark.invariant("last_lines.E8")
@pytest.mark.parametrize(
    ("account", "named"),
    [
        ("srun: error: n4: task 2: Segmentation fault (core dumped)", False),
        ("srun: error: n4: task 2: Exited with exit code 137", False),
        ("failed (exitcode: -11) local_rank: 0 (pid: 31) of binary: /w/python", False),
        ("failed (exitcode: -6) local_rank: 0 (pid: 31) of binary: /w/python", True),  # an abort has a reason
        ("failed (exitcode: 1) local_rank: 0 (pid: 31) of binary: /w/python", True),
        ("srun: error: n4: task 2: Exited with exit code 3\nsrun: error: n4: task 5: Exited with exit code 137", True),
    ],
)
def test_E8_no_program_ends_itself_by_such_a_signal_for_an_error_that_it_prints(account: str, named: bool) -> None:
    told = found(ENDED_WITH_ERROR, f"{STEPS}preload error: libfast.so was not taken\n{account}\n")
    assert [one.claim for one in told] == ["preload error: libfast.so was not taken"] * named


@pytest.mark.invariant("last_lines.E8")
def test_E8_but_an_error_that_speaks_of_what_the_signal_comes_from_counts() -> None:
    said = "arena error: heap of block 7 is corrupted"
    told = found(ENDED_WITH_ERROR, f"{STEPS}{said}\nsrun: error: n4: task 2: Segmentation fault (core dumped)\n")
    assert [one.claim for one in told] == [said]


def test_what_a_build_tool_calls_failed_is_no_reason() -> None:
    told = found(
        ENDED_WITH_ERROR,
        f"{STEPS}FAILED: gen/v.h\n/bin/sh: 1: mkv: not found\nninja: build stopped: subcommand failed.\n",
    )
    assert all("FAILED" not in one.claim for one in told)


ABOVE_ABORTS = [
    ('solver error: no table of weights for arch g7\n tables that are there:\n"/t/g5"\n', 1),
    ("solver error: no table of weights for arch g7\nsaving what is left\nloading the next mesh\n", 0),  # it went on
    ("the probe of port 3 failed; retrying in 5 s\n", 0),
    ("loading the next mesh\n", 0),
    ("solve: mesh.cpp:7: int solve(): Assertion `n > 0' failed.\n", 0),  # a decoder's
]


@pytest.mark.invariant("last_lines.E5", "causes.C5")
@pytest.mark.parametrize("abort", ["Aborted (core dumped)\n", "Fatal Python error: Aborted\n"])
@pytest.mark.parametrize(("above", "lines"), ABOVE_ABORTS)
def test_E5_C5_right_above_an_abort_stands_its_reason(above: str, lines: int, abort: str) -> None:
    told = found(ENDED_WITH_ERROR, f"{STEPS}{above}{abort}")
    assert [one.claim for one in told] == above.split("\n")[:lines]
    said = verdict(f"{STEPS}{above}{abort}")
    assert said.state is CRASHED
    assert all(one.claim in said.sentence for one in told)


REFERS = """\
Traceback (most recent call last):
  File "/w/train.py", line 9, in load
    shards = open_shards(path)
RuntimeError: The reader has failed. %s

-------------------------------
- Reader Error Message:
-------------------------------
[ERROR] no shard at /data/part7

-------------------------------
- C++ Call Stack:
-------------------------------
reader.cc(26).
"""


@pytest.mark.parametrize(
    ("refers", "says"),
    [
        ("Refer to 'Reader Error Message'.", "RuntimeError: The reader has failed: no shard at /data/part7."),
        ("See the `C++ Call Stack` below.", "RuntimeError: The reader has failed: reader.cc(26)."),
        ("Refer to 'Reader Help'.", "RuntimeError: The reader has failed. Refer to 'Reader Help'."),
        ("It is over.", "RuntimeError: The reader has failed. It is over."),
    ],
)
def test_an_exception_says_what_stands_in_the_section_that_it_refers_to(refers: str, says: str) -> None:
    said = verdict(STEPS + REFERS % refers)
    assert said.state is CRASHED
    assert said.sentence.startswith(f"Crashed in load (train.py:9): {says}")


def test_an_error_of_another_program_that_a_collector_stores_ends_nothing() -> None:
    stored = 'ts=2026-06-21T10:06:12.001Z level=info msg="stored" line="Error: no device"\n'
    assert not found(ENDED_WITH_ERROR, stored)


def test_an_exception_that_ended_the_run_is_told_alone() -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\nKeyError: 1\n'
    assert not found(ENDED_WITH_ERROR, f"{STEPS}{trace}Error: the launcher says so\n")


def test_the_last_lines_of_a_log_that_says_nothing() -> None:
    (finding,) = found("last-lines", "loading\n\nPlanning for 3 devices\n")
    assert finding.sentence == "0.log ends with: Planning for 3 devices."
    assert [proof.text for proof in finding.evidence] == ["loading", "Planning for 3 devices"]
    assert not found("last-lines", "loading\nTraining finished\n")


PLEA = "please report a bug with repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues."


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (f'h INTERNAL ASSERT FAILED at "/opt/cut.cpp":12, {PLEA} No scheduler.', "No scheduler (cut.cpp:12)"),
        (
            'x > 0 INTERNAL ASSERT FAILED at "a.cpp":3, please report a bug to PyTorch. ',
            "internal assertion x > 0 failed (a.cpp:3)",
        ),
        (
            f'thrown: " INTERNAL ASSERT FAILED at "a.cpp":3, {PLEA} No T3 Exception raised from get at a.cpp:3\n" x',
            'thrown: "No T3 (a.cpp:3)',
        ),
        (
            f'The call failed.\nRuntimeError: a != b INTERNAL ASSERT FAILED at "a.cpp":3, {PLEA} No T3',
            "The call failed; RuntimeError: No T3 (a.cpp:3)",
        ),
        (
            f"E   RuntimeError:  INTERNAL ASSERT FAILED at /w/a.cpp:3, {PLEA}\nE   Expected a == b . No T3",
            "RuntimeError: No T3 (a.cpp:3)",
        ),
        (
            f" INTERNAL ASSERT FAILED at /w/a.cpp:3, {PLEA}\nExpected a == b . \n\nWrong in 0\n  by 4",
            "Wrong in 0 (a.cpp:3)",
        ),
        (
            f" INTERNAL ASSERT FAILED at /w/a.cpp:3, {PLEA}\nExpected a == b . \nframe #0: f()",
            "Expected a == b (a.cpp:3)",
        ),
        (
            f" INTERNAL ASSERT FAILED at /w/a.cpp:3, {PLEA}\n// code\nf();\ncompile error: no i3",
            "compile error: no i3 (a.cpp:3)",
        ),
        (
            f'Error: INTERNAL ASSERT FAILED at "a.cpp":3, {PLEA} Bad. It is:\n  T3\nit said this error:\n"no"',
            "Error: Bad: no (a.cpp:3)",
        ),
        (
            f'INTERNAL ASSERT FAILED at "a.cpp":3, {PLEA} All:\n\n'
            f'Error from group 8:  INTERNAL ASSERT FAILED at "b.cpp":4, {PLEA} No T3',
            "Error from group 8: No T3 (b.cpp:4)",
        ),
        ("Error: INTERNAL ASSERT FAILED at /w/a.cpp:3, pl...", "Error: internal assertion failed (a.cpp:3)"),
        ("RuntimeError: Expected !shape.empty() . The reshape has none", "RuntimeError: The reshape has none"),
        ("Expected at most 3 rows. Got 4", "Expected at most 3 rows. Got 4"),
        ("No plan.\nframe #0: Error::Error() + 0x3 (0x5 in a.so)", "No plan."),
        ("INTERNAL ASSERT FAILED is a phrase", "INTERNAL ASSERT FAILED is a phrase"),
        ("please report a bug to us.", "please report a bug to us."),
    ],
)
def test_an_assertion_s_reason_is_said_without_what_it_says_of_every_failure(message: str, said: str) -> None:
    assert telling_line(message) == said


def test_a_line_that_ends_with_a_colon_goes_on_in_the_next_one() -> None:
    message = "The pipeline failed:\nWhen the pump ran, this happened:\nIn thread 2:\nthe water is cold\nIt ended."
    said = "The pipeline failed: When the pump ran, this happened: In thread 2: the water is cold"
    assert telling_line(message) == said


@pytest.mark.parametrize(
    ("behind", "said"),
    [
        ("Expected rows . The grid is not square\n", "The grid is not square (plan.cpp:71)"),
        ("Traceback (most recent call last):\n  File", "internal assertion failed (plan.cpp:71)"),
    ],
)
def test_the_reason_of_an_assertion_in_the_next_line_belongs_to_it(behind: str, said: str) -> None:
    trace = 'Traceback (most recent call last):\n  File "/w/t.py", line 3, in step\n    plan()\n'
    raised = f"RuntimeError:  INTERNAL ASSERT FAILED at /w/plan.cpp:71, {PLEA} \n"
    assert f"RuntimeError: {said}" in verdict(trace + raised + behind).sentence


def test_a_long_condition_does_not_hide_the_reason_of_an_assertion_that_a_log_ends_with() -> None:
    condition = " * ".join(f"grid.extent_of({axis})" for axis in range(20))
    line = (
        f'RuntimeError: {condition}INTERNAL ASSERT FAILED at "../w/grid.cpp":7, please report a bug to PyTorch. Need: 8'
    )
    assert verdict(f"step 3\n{line} but limited to 3\n").sentence.endswith(
        ": RuntimeError: Need: 8 but limited to 3 (grid.cpp:7)."
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("| net | 1 | READY |", "net, 1, READY"),
        (
            "| net  | 1 | UNAVAILABLE: Internal: no pl |\n|      |   | an for it                     |",
            "net, 1, UNAVAILABLE: Internal: no plan for it",
        ),
        ("| net | 1 |\nno row", "| net | 1 |\nno row"),
        ("| net | 1 |\n| net |", "| net | 1 |\n| net |"),
        ("step 4 | loss 3", "step 4 | loss 3"),
        ("|", "|"),
    ],
)
def test_a_cell_of_a_table_that_goes_on_below_is_whole(row: str, said: str) -> None:
    assert cells_of(row) == said


TABLE = """\
+------+---------+--------------------------------------+
| Name | Version | Status                               |
+------+---------+--------------------------------------+
| pre  | 1       | READY                                |
| net  | 1       | UNAVAILABLE: Internal: the plan of s |
|      |         | hape 3 failed to load                |
+------+---------+--------------------------------------+
serving on port 8000
"""


def test_the_row_of_a_table_is_what_failed_only_above_an_account() -> None:
    (told,) = found(ENDED_WITH_ERROR, f"{STEPS}{TABLE}error: creating server: Internal - failed to load all models\n")
    assert told.claim == "net, 1, UNAVAILABLE: Internal: the plan of shape 3 failed to load"
    assert not found(ENDED_WITH_ERROR, f"{STEPS}{TABLE}")


MADE_AT = "Graph execution error:\n\nDetected at node 'a/B' defined at (most recent call last):\n"
IN_FILE = '    File "fit.py", line 12, in <module>\n      model.fit(x)\n'


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (f"{MADE_AT}{IN_FILE}Node: 'a/B'\nno plan works", "Graph execution error: no plan works"),
        (f"{MADE_AT}{IN_FILE}\n{IN_FILE}\nshapes differ\n\t [[{{node a/B}}]]", "Graph execution error: shapes differ"),
        (
            f"{MADE_AT}{IN_FILE}Node: 'a/B'\n2 root error(s) found.\n  (0) LOST: no plan",
            "Graph execution error: (0) LOST: no plan",
        ),
    ],
)
def test_the_reason_stands_below_where_the_node_was_made(message: str, said: str) -> None:
    assert telling_line(message) == said
    assert telling_line(message.replace("Graph execution error:", "no")).startswith("no")


@pytest.mark.invariant("last_lines.E9")
@pytest.mark.parametrize(
    ("end", "claim"),
    [
        ("all jobs are finished, exiting\n", ""),
        ("Exiting...\n", ""),
        ("could not open /d/a.bin, exiting\n", "could not open /d/a.bin, exiting"),
        ("Execution halted\n", "Execution halted"),
        (
            "--> MESH FATAL ERROR: (v2)\nUnknown patch in inlet\n\n    From static select\n\nMESH exiting\n",
            "--> MESH FATAL ERROR: (v2) Unknown patch in inlet",
        ),
        ("solver error: no mesh\nstep 41 loss 0.2\nstep 42 loss 0.2\nexiting\n", ""),
    ],
)
def test_E9_that_a_program_exits_is_an_end_only_with_a_reason(end: str, claim: str) -> None:
    assert [one.claim for one in found(ENDED_WITH_ERROR, f"{STEPS}{end}")] == [claim] * bool(claim)


@pytest.mark.invariant("last_lines.E1")
@pytest.mark.parametrize(
    ("end", "claim"),
    [
        ("[app] [critical] device lost: queue 3\n", "[app] [critical] device lost: queue 3"),
        ("[app] [error] failed to allocate 3 GiB\n", "[app] [error] failed to allocate 3 GiB"),
        ("[app] [error] loss is high\n", ""),
        ("[app] [info] could not open the cache, exiting\n", ""),
        ("[app] [warning] failed to allocate 3 GiB\n", ""),
        (
            "daemon: Error response from the daemon: no such image\n",
            "daemon: Error response from the daemon: no such image",
        ),
        ("Error rate of the test: low enough\n", ""),
        ("Error using gather\nOut of memory on device.\n", "Error using gather Out of memory on device"),
        ("Error in solve(a) : \n  the matrix is singular\n", "Error in solve(a) : the matrix is singular"),
        (
            "Error: no model\n\nCaused by:\n    0: reading its file\n    1: No such file (os error 2)\n",
            "Error: no model: reading its file: No such file (os error 2)",
        ),
    ],
)
def test_E1_how_programs_put_what_ends_them(end: str, claim: str) -> None:
    assert [one.claim for one in found(ENDED_WITH_ERROR, f"{STEPS}{end}")] == [claim] * bool(claim)


@pytest.mark.invariant("last_lines.E5")
def test_E5_above_an_abort_of_mpi_stands_why() -> None:
    abort = "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n"
    said = verdict(f"{STEPS}ERROR: Lost atoms: 4000 and now 3999\nLast command: run 1000\n{abort}")
    assert said.sentence.startswith(
        "Rank 0: The log ends with an error, at 0.log:31: ERROR: Lost atoms: 4000 and now 3999."
    )
    assert verdict(f"{STEPS}{abort}").sentence.startswith("Rank 0 called MPI_Abort")


ACTOR = """\
(raylet) A worker died or was killed while executing a task by an unexpected system error.
Traceback (most recent call last):
  File "/w/main.py", line 6, in main
    ray.get(job)
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: Rollout
\tpid: 771

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
"""


@pytest.mark.invariant("last_lines.E5")
def test_E5_what_only_says_that_somebody_is_gone_is_left_to_a_decoder_that_knows_who() -> None:
    assert verdict(f"{STEPS}{ACTOR}").sentence.startswith("Ray actor Rollout (pid 771) died")


def test_a_bare_abort_has_its_reason_above_and_a_known_warning_between_does_not_hide_it() -> None:
    box = "-----\nAn error occurred in line 7 of file a.cc in function\n    run()\nThe cell 3 is empty.\n-----\n\n"
    said = "An error occurred in line 7 of file a.cc in function."
    assert verdict(f"{STEPS}{box}Aborting!\n").sentence.endswith(said)
    at = "[03/12/2026-14:06:47]"
    skipped = f"{at} [W] [TRT] Skipping tactic 0 due to exception autotuning: CUDA error 3 allocating 9-byte buffer\n"
    failed = f"{at} [E] Error[10]: no form of node 7\n{at} [E] Engine set up failed\n&&&& FAILED TensorRT.x # x\n"
    assert "no form of node 7" in verdict(STEPS + skipped + failed).sentence


@pytest.mark.invariant("last_lines.E11")
def test_E11_a_thread_that_panicked_above_an_end_is_its_reason() -> None:
    panic = "thread 'decoder-2' panicked at src/lib.rs:41:14:\nattempt to subtract with overflow\nnote: run with x\n"
    ended = verdict(f"{STEPS}{panic}Error: the decoder stopped\n")
    assert ended.state is CRASHED
    assert ended.sentence.startswith("A thread (decoder-2) panicked at lib.rs:41: attempt to subtract with overflow. ")
    assert verdict(f"{panic}{STEPS}").state is not CRASHED
    assert "panicked" not in verdict(f"{panic}{STEPS}Error: the decoder stopped\n").sentence


@pytest.mark.invariant("last_lines.E11")
def test_E11_a_known_warning_right_above_an_error_that_ended_the_log_is_its_reason() -> None:
    bind = "The server socket has failed to bind to [::]:29400 (errno: 98 - Address already in use)."
    busy = f"[W socket.cpp:46] [c10d] {bind}\n"
    ended = "[E socket.cpp:50] [c10d] The server socket has failed to listen on any local network address.\n"
    cut = 'Traceback (most recent call last):\n  File "/x/run.py", line 8, in <module>\n    sys.exit(main())\n'
    said = verdict(f"{STEPS}{busy}{ended}{cut}")
    assert said.state is CRASHED
    assert said.sentence.startswith("Port 29400 is in use: another job or an earlier start still holds it. ")
    assert "Port" not in verdict(f"{busy}{STEPS}{ended}{cut}").sentence
    assert verdict(f"{busy}{STEPS}").state is not CRASHED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"*** ERROR in Pump\n***   Reason:  valve 4 is shut\n{ENDING}", "*** ERROR in Pump: valve 4 is shut"),
        ("ERROR: the pump stops\nErrors:\n1) valve 4 is shut\n", "ERROR: the pump stops: 1) valve 4 is shut"),
        ("ERROR: the pump stops\n==> pump.a: stderr: no water\n", "ERROR: the pump stops: no water"),
        ("ERROR: the pump stops\nErrors: 0\n", "ERROR: the pump stops"),
        (
            "[11:04:35 FTL] The pump stopped\nDepot.NoWaterException: Tank 3 is empty.\n"
            "   at Depot.Tank.Take(Int32 n)\n   at Depot.Main() in /src/Depot/Main.cs:line 38\n",
            "The pump stopped: Depot.NoWaterException: Tank 3 is empty",
        ),
    ],
)
def test_a_reason_that_is_labelled_below_an_error_is_said_with_it(text: str, said: str) -> None:
    (told,) = found(ENDED_WITH_ERROR, f"{STEPS}{text}")
    assert told.claim == said


def test_the_place_of_a_script_s_stack_is_said_without_those_of_packages() -> None:
    stack = r"Error: no water\n    at take (/app/node_modules/tank/i.js:4:1)\n    at fill (/app/src/fill.js:88:5)"
    (told,) = found(
        ENDED_WITH_ERROR, f'{{"level":60,"time":1772359201400,"err":{{"stack":"{stack}"}},"msg":"it stops"}}\n'
    )
    assert told.sentence.endswith("it stops: Error: no water, in fill (fill.js:88).")


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("2026/03/04 10:00:02 Failed to copy with 2 errors: last error was: no bucket", CRASHED),
        ("2026/03/04 10:00:02 cannot bind the port: in use", CRASHED),
        ("2026/03/04 10:00:02 INFO: cannot bind the port: in use", UNKNOWN),
        ("2026/03/04 10:00:02 http: handshake error from 10.0.0.9: EOF", UNKNOWN),
        ("2026/03/04 10:00:02 copied 12 files with 0 errors", UNKNOWN),
    ],
)
def test_a_time_alone_before_a_line_is_no_level(line: str, state: VerdictState) -> None:
    assert verdict(f"2026/03/04 10:00:00 ERROR : a.bin: no bucket\n{line}\n").state is state


def test_frames_of_a_panic_s_stack_are_no_reason() -> None:
    begun = "2026-03-04T10:00:00.100000Z ERROR tank::startup: "
    frames = "   0: tank::startup::panic_hook::{{closure}}\n   1: rust_begin_unwind\n   2: tank::main\n"
    told = verdict(
        f"{begun}Panic backtrace:\n{frames}\n{begun}Panic occurred in file src/tank.rs at line 30: no water\n"
    )
    assert "Panic occurred in file src/tank.rs at line 30: no water" in told.sentence


@pytest.mark.parametrize(
    ("account", "unit"),
    [
        ("error: Recipe `tank` failed on line 31 with exit code 3\n", " in recipe tank"),
        ("Error in rule fill_tank:\n    (one of the commands exited with non-zero exit code)\n", " in rule fill_tank"),
        ("error: Recipe `pump` failed on line 31 with exit code 3\n", ""),  # the line names it itself
        ("srun: error: n7: task 0: Exited with exit code 1\n", ""),
        (f"ERROR [job tank] Job error:\n{ENDING}", ""),
        (f"Exiting because a job execution failed\n{ENDING}", ""),
    ],
)
def test_the_part_of_a_workflow_that_failed_is_named_with_the_error(account: str, unit: str) -> None:
    (told,) = found(ENDED_WITH_ERROR, f"{STEPS}pump: cannot open the valve\n{account}")
    assert told.sentence.startswith(f"The log ends with an error{unit}, at ")
    assert told.claim == "pump: cannot open the valve"


def test_a_database_client_s_error_is_said_with_its_detail() -> None:
    text = 'ERROR:  duplicate key violates "tank_pkey"\nDETAIL:  Key (id)=(41) already exists.\n'
    (told,) = found(ENDED_WITH_ERROR, f"{STEPS}{text}")
    assert told.claim == 'ERROR:  duplicate key violates "tank_pkey": Key (id)=(41) already exists'


@pytest.mark.parametrize(
    "text",
    [
        "thread 88 panic: no water\n/srv/tank/fill.zig:88:21: 0x1034c2a in fill (tank)\n    return take(4);\n",
        "Unhandled exception:\nRangeError: no water\n#1      fill (file:///srv/tank/fill.zig:88:17)\n",
        "Unhandled exception: no water (NoWater)\n  from src/fill.zig:88:5 in 'fill'\n",
    ],
)
def test_the_place_of_a_stack_in_any_of_these_forms_is_said(text: str) -> None:
    (told,) = found(ENDED_WITH_ERROR, f"{STEPS}{text}{ENDING}")
    assert "no water" in told.sentence
    assert told.sentence.endswith(", in fill (fill.zig:88).")


def test_the_table_below_an_error_of_intel_s_fortran_is_no_progress() -> None:
    table = (
        "Image              PC                Routine            Line        Source\n"
        "tank               00000000004A1C3B  fill_                      88  tank.f90\n"
        "libc.so.6          00002B27D309F630  Unknown               Unknown  Unknown\n"
    )
    told = verdict(f"{STEPS}forrtl: severe (24): end-of-file during read, unit 11, file /w/tank.in\n{table}")
    assert (told.state, "end-of-file during read" in told.sentence) == (CRASHED, True)


GO = "level={} ts=2026-03-04T10:00:{}Z caller=main.go:31 msg={}\n"


@pytest.mark.invariant("last_lines.E12")
@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            "E0304 10:00:01.000000 1 a.go:5] queues: forbidden\nF0304 10:00:01.100000 1 b.go:7] no start: no pump\n",
            ":32: no start: no pump, at b.go:7; before it: queues: forbidden.",
        ),
        (
            "E0304 10:00:01.000000 1 a.go:5] the pump is gone: EOF\nF0304 10:00:01.100000 1 b.go:7] cannot start\n",
            ":31: the pump is gone: EOF, at a.go:5.",
        ),
        (
            "03/04 10:00:01.000001 77 PMP ERROR failed to open the pump\n"
            "03/04 10:00:01.000002 77 PMP ERROR failed to start since its address is not known\n"
            "03/04 10:00:01.000003 77 PMP log module is closing\n",
            "failed to open the pump; then: 77 PMP ERROR failed to start since its address is not known.",
        ),
    ],
)
def test_E12_of_errors_in_a_row_the_one_that_says_why_is_said(row: str, says: str) -> None:
    (told,) = found(ENDED_WITH_ERROR, STEPS + row)
    assert told.sentence.endswith(says), told.sentence


_ITS_STACK = "#0 Tanks::at(int) const &\n   at tanks.h:73\n   [inlined by] fill_all\n   at gen/.../fill_all.cpp:59\n"


@pytest.mark.invariant("last_words.M2")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            f"[ERROR] FATAL: no water - the well is dry!\n  well: level=0\nAssertion failed: tank < tanks_\n"
            f"Location: src/tanks.h:73\n{_ITS_STACK}",
            "FATAL: no water - the well is dry!; then: Assertion failed: tank < tanks_, in Tanks::at (tanks.h:73), "
            "called by fill_all (fill_all.cpp:59).",
        ),
        (
            f"FATAL: no water in the well!\n{_ITS_STACK}error: the plan has ended\nLocation: src/plan.cpp:5\n",
            "FATAL: no water in the well!, in Tanks::at (tanks.h:73), called by fill_all (fill_all.cpp:59).",
        ),
        ("fatal: the well is dry\nCHECK(level > 0) failed\nLocation: src/well.cpp:5\n", "the well is dry."),
        ("fatal: the well is dry\nerror: no plan\n  Location: src/plan.cpp:5\n", "the well is dry."),
        ("fatal: the well is dry\n  its level is 0\nLocation: src/well.cpp:5\n", "the well is dry, at src/well.cpp:5."),
    ],
)
def test_M2_the_place_of_a_later_error_is_not_that_of_the_first(text: str, says: str) -> None:
    (told,) = found(ENDED_WITH_ERROR, STEPS + text)
    assert told.sentence.endswith(says), told.sentence


@pytest.mark.invariant("last_lines.E13")
@pytest.mark.parametrize("stop", ["bye", "agent: Exit code: code=1", "shutting down", "server stopped"])
def test_E13_an_error_that_only_lines_of_a_stop_follow_ended_the_program(stop: str) -> None:
    begun, error = "2026-03-04T10:00:00.100Z [INFO] up\n", "2026-03-04T10:00:01.100Z [ERROR] pump: no water in tank 3\n"
    ended = f"2026-03-04T10:00:01.200Z [INFO] {stop}\n"
    (told,) = found(ENDED_WITH_ERROR, begun + error + ended)
    assert told.claim.endswith("pump: no water in tank 3")
    for asked in ("received SIGTERM", "shutdown requested", "shutting down", "all 3 parts finished"):
        assert not found(ENDED_WITH_ERROR, f"{begun}2026-03-04T10:00:00.900Z [INFO] {asked}\n{error}{ended}")
    for goes_on in ("tank 4 is full", "GET /v1/tanks 200"):
        assert not found(ENDED_WITH_ERROR, f"{begun}{error}2026-03-04T10:00:01.150Z [INFO] {goes_on}\n{ended}")
    assert not found(ENDED_WITH_ERROR, f"{begun}{error.replace('[ERROR]', '[WARN]')}{ended}")
    later = ended.replace("01.200", "02.900")  # a request failed, then somebody pressed Ctrl-C
    assert not found(ENDED_WITH_ERROR, begun + error + later)
    stampless = "".join(line.partition(" ")[2] for line in (begun, error, ended))
    assert not found(ENDED_WITH_ERROR, stampless)


@pytest.mark.invariant("last_lines.E13")
@pytest.mark.parametrize(
    ("head", "level"),
    [("2026-03-04 10:00:01,1{} - sched - {} - ", "INFO"), ("2026-03-04T10:00:01.1{}Z  {} pump::tank: ", "INFO")],
)
def test_E13_what_stands_between_the_time_and_the_message_does_not_hide_the_stop(head: str, level: str) -> None:
    text = head.format("00", "ERROR") + 'column "owner" does not exist\n' + head.format("20", level) + "Stopped\n"
    ended = text + head.format("30", level) + "Shutting down\n"
    (told,) = found(ENDED_WITH_ERROR, ended)
    assert 'column "owner" does not exist' in told.claim
    assert not found(ENDED_WITH_ERROR, text + head.format("30", level) + "Loading 3 plans\n")


def test_an_error_while_a_program_stops_as_it_was_asked_to_ended_nothing() -> None:
    text = (
        GO.format("info", "00", '"starting"')
        + GO.format("info", "08", '"received SIGTERM"')
        + GO.format("error", "09", '"read failed" err="context canceled"')
        + GO.format("info", "09", '"server stopped"')
        + GO.format("info", "09", '"shutdown complete"')
    )
    assert verdict(text).state is UNKNOWN


@pytest.mark.parametrize(
    ("end", "claim"),
    [
        (
            "Error: no model\n\nCaused by:\n    0: row 2\n    1: no such column\n\nLocation:\n    src/plan.rs:61\n",
            "Error: no model: row 2: no such column, at src/plan.rs:61",
        ),
        (
            "Error:\n   0: no model\n   1: its file: EOF\n\nLocation:\n   src/plan.rs:61\n\n"
            "Backtrace omitted. Run with RUST_BACKTRACE=1 environment variable to display it.\n",
            "Error: no model: its file: EOF, at src/plan.rs:61",
        ),
        ("ERROR: call from fill() in tank 3\n>>> no water!\n", "ERROR: call from fill() in tank 3: no water!"),
        (
            "ERROR: no water in tank 3\nterminate called after throwing an instance of 'std::runtime_error'\n"
            "  what():\nAborted (core dumped)\n",
            "ERROR: no water in tank 3",
        ),
        (
            f"The run ended on task=3, function read(), file src/io.cc, line 212: the tank is empty\n{ENDING}",
            "The run ended on task=3, function read(), file src/io.cc, line 212: the tank is empty",
        ),
        (
            f'Error in "Tank::read()":\n------\nLine 7: invalid name of a pump.\n\n---- Error Exit ----\n{ENDING}',
            'Error in "Tank::read()": Line 7: invalid name of a pump',
        ),
        (
            "10:00:01 [fatal] [pump]: no water in tank 3\nFAIL\texample.com/pump\t1.3s\nFAIL\n",
            "10:00:01 [fatal] [pump]: no water in tank 3",
        ),
        (
            "[2026-03-04 10:00:01.1] [info] (core) Error: uncaught exception: no water\n"
            "[2026-03-04 10:00:01.2] [error] (main) the core died: 1/null\n"
            "[2026-03-04 10:00:01.3] [info] (main) quit\n",
            "[info] (core) Error: uncaught exception: no water",
        ),
        (
            "fatal error in /w/site/tank.pump, line 12: no water\n",
            "fatal error in /w/site/tank.pump, line 12: no water",
        ),
        (
            " *** USER FATAL MESSAGE 9050 (PUMP)\n     NO WATER\n1     * * * END OF JOB * * *\n",
            "*** USER FATAL MESSAGE 9050 (PUMP) NO WATER",
        ),
        (
            f"Tank abort: Unknown form of a tank: 'v9'\n ... in function: fill()\n"
            f" ... in file: /src/tank.cpp:45\n{ENDING}",
            "Tank abort: Unknown form of a tank: 'v9', at /src/tank.cpp:45",
        ),
        (
            "ERROR: [Tank 8-4] module 'fifo' not found [/w/top.v:41]\n"
            "ERROR: [Tank 8-6] failed to make 'top' [/w/top.v:1]\n"
            "fill failed\nINFO: [Tank 17] releasing\n"
            "ERROR: [Tank 17-6] Command failed: see the run log file for details\n",
            "ERROR: [Tank 8-4] module 'fifo' not found [/w/top.v:41]",
        ),
        (
            "[error] /w/Pump.scala:41:9: not found: water\n[warn] one warning found\n[error] one error found\n"
            "[error] Compilation failed\n[error] Total time: 9 s\n",
            "/w/Pump.scala:41:9: not found: water",
        ),
        (
            'ASSERT failed, cond="n > 0", file=../src/tank.cc, line=214\nFATAL, terminating\n'
            "terminate called without an active exception\n",
            'ASSERT failed, cond="n > 0", file=../src/tank.cc, line=214',
        ),
        (
            "2026/03/04 10:00:09 run: fill tank 3: open valve: turn lid: it is stiff\nexit status 1\n",
            "run: fill tank 3: open valve: turn lid: it is stiff",
        ),
        (
            'tank.errors.Duplicate: column "pump" already exists\nstart: plans failed, not starting\nstart: exit 3\n',
            'tank.errors.Duplicate: column "pump" already exists',
        ),
        ("[1795259482] pumpd[14:0] fatal error: no water in tank 3\n", "pumpd[14:0] fatal error: no water in tank 3"),
    ],
)
def test_E1_E5_where_programs_put_the_reason(end: str, claim: str) -> None:
    (told,) = found(ENDED_WITH_ERROR, STEPS + end)
    assert told.claim == claim


@pytest.mark.parametrize(
    "end",
    [
        " Error norms: L2 = 1.02E-05  Linf = 4.41E-04\n",
        "Error estimates: Linf = small enough\n",
        "The plan is in file src/io.cc, line 212\n",
        "run: fill tank 3: open valve: turn lid: it is stiff\n",
        "start: exit 0\n",
        "2026-03-04T10:00:00Z [ERROR] a stale tank\n2026-03-04T10:00:20Z [INFO] shutting down\n",
        "   ** Warning ** the tank is old\n   ** Severe  ** the pump is old\n   Pump Completed Successfully.\n",
        "[error] the tank is old\n[info] the pump is new\n[success] Total time: 9 s\n",
        "Caused by: a change of the plan\n",
        "ok      example.com/pump        1.3s\n",
    ],
)
def test_E1_what_only_looks_like_an_end(end: str) -> None:
    assert not found(ENDED_WITH_ERROR, STEPS + end)


def test_a_wait_of_one_writer_is_seen_between_the_lines_of_others() -> None:
    waits = "".join(
        f"pump-1  | 10:00:{n:02} still trying to connect to tank:80\n"
        f"dns-1   | 10:00:{n:02} [ERROR] no answer for tank\n"
        f"dns-1   | cache of {n} names, {n * n} bytes {'x' * n}\n"
        for n in range(10, 15)
    )
    assert verdict(waits).sentence.startswith("The log ends with the same wait 5 times")


@pytest.mark.invariant("last_lines.E14")
def test_E14_the_errors_above_a_table_say_why_its_row_failed() -> None:
    errors = (
        "E0304 10:00:01.000000 7 valve.cc:40] the lid was made for tank 9\n"
        "E0304 10:00:01.100000 7 tank.cc:654] failed to fill 'tank-3'\n"
    )
    table = (
        "I0304 10:00:01.200000 7 server.cc:676] plans of 2 tanks\n+--------+----------+\n"
        "| tank-3 | UNAVAILABLE: unable to fill it |\n"
        "| tank-4 | READY |\n+--------+----------+\nerror: creating server: Internal - failed to fill all tanks\n"
    )
    (told,) = found(ENDED_WITH_ERROR, errors + table + ENDING)
    assert told.sentence.endswith("; before it: the lid was made for tank 9."), told.sentence
    (told,) = found(ENDED_WITH_ERROR, errors.replace("tank-3", "tank-4") + table + ENDING)
    assert "before it" not in told.sentence
    understood = "E0304 10:00:01.100000 7 m.cc:640] failed to load 'llm' version 3: Internal: no plan for it\n"
    aborted = "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n"
    assert verdict(understood + table + aborted).sentence.startswith("Rank 2: Triton's server could not load model llm")


def test_the_place_of_an_error_stands_below_it() -> None:
    text = "PumpLib ERROR: unsupported shape of a tank\n\tin function pumpFill, fill_utils.cpp(573)\nexit status 255\n"
    assert verdict(text).sentence.endswith("PumpLib ERROR: unsupported shape of a tank, at fill_utils.cpp(573).")


def test_a_stop_that_compose_was_asked_for_is_no_end() -> None:
    text = "db ready\nGracefully stopping... (press Ctrl+C again to force)\nAborting on container exit...\n"
    assert verdict(text).state is VerdictState.UNKNOWN


NODE = """\
/srv/node_modules/pump/lib/open.js:111
  throw new PumpError(lines)
  ^

PumpError:
Invalid call of `pump.open()`:


No tank answers at `tank:5432`

Make sure that one runs there.
    at Pump.open (/srv/node_modules/pump/lib/open.js:111:1)
    at async main (/srv/src/seed.js:12:3) {
  version: "5.1"
}
""".replace("PumpError:\n", "PumpError: \n")


@pytest.mark.invariant("last_lines.E15")
def test_E15_above_a_stack_of_V8_the_lines_up_to_the_error_are_its_message() -> None:
    judged = verdict(f"seeding 3 tanks\n{NODE}\nNode.js v18.17.0\n")
    assert judged.state is VerdictState.CRASHED
    assert "Invalid call of `pump.open()`: No tank answers at `tank:5432`" in judged.sentence


@pytest.mark.invariant("last_lines.E15")
def test_E15_not_so_if_its_program_goes_on() -> None:
    after = "".join(f"tank {n} is filled, level 0.{n}\n" for n in range(9))
    assert verdict(NODE + after).state is VerdictState.UNKNOWN


def test_a_wait_with_a_few_other_lines_in_it_is_a_wait() -> None:
    wait = "connecting to tank 3 (retrying ...)\n"
    judged = verdict(f"plant is up\n{wait * 4}valve 2 is oiled\n{wait}")
    assert "the same wait 5 times" in judged.sentence
    assert "the same wait" not in verdict(f"{wait * 4}plant is up\nvalve 2 is oiled\nvalve 3 is oiled\n{wait}").sentence


_LIDS = "[W312 09:31:07.{}00412 Plant.cpp:88] WARNING: {}\n"
_OPEN = "the lid is still waiting for its valve"


@pytest.mark.invariant("last_lines.E18")
@pytest.mark.parametrize(
    ("lines", "waits"),
    [
        ([f"[rank{rank}]:" + _LIDS.format(f"{200 + rank}", _OPEN) for rank in range(8)], False),
        ([f"[rank{rank}]:" + _LIDS.format("200", _OPEN) for rank in range(4)] * 3, False),
        ([_LIDS.format(f"20{n}", _OPEN) for n in range(4)], False),
        ([_LIDS.format(f"{n}00", _OPEN) for n in range(2, 6)], True),
        ([f"[rank{rank}]:" + _LIDS.format(f"{n}00", _OPEN) for n in range(2, 6) for rank in range(4)], True),
        ([f"[rank{rank}]:{_OPEN}\n" for rank in range(8)], False),
        ([f"[rank{n % 2}]:{_OPEN}\n" for n in range(8)], True),
        (
            [
                _LIDS.format(f"{n}00", "lids were not shut. Shut them to ensure any pending water came")
                for n in range(2, 6)
            ],
            False,
        ),
    ],
)
def test_E18_what_each_rank_says_once_or_what_takes_no_time_is_no_wait(lines: list[str], waits: bool) -> None:
    said = verdict("plant is up\n" + "".join(lines))
    assert said.state is UNKNOWN
    assert ("the same wait" in said.sentence) is waits


@pytest.mark.invariant("last_lines.E15")
def test_E15_not_so_below_what_a_server_prints_of_an_error_that_it_handled() -> None:
    assert verdict(f"{NODE}(pump) Warning: model Tank declares its fields twice\n").state is VerdictState.UNKNOWN


REPORTED = """\
        return pump(level)
E       plant.errors.PumpError: no plan for the pump: valve 4: got KeyError('level 3')
E       from user code:
E          File "/w/plant/pumps.py", line 70, in inner
E           return fill(*levels)
E          File "/w/plant/tanks.py", line 338, in fill
E           drain(levels)

/w/plant/errors.py:55: PumpError
"""


@pytest.mark.invariant("last_lines.E16")
def test_E16_what_the_exception_says_that_the_last_line_only_names() -> None:
    judged = verdict(REPORTED)
    assert judged.state is VerdictState.CRASHED
    assert (
        "PumpError: no plan for the pump: valve 4: got KeyError('level 3'), in fill (tanks.py:338)" in judged.sentence
    )


@pytest.mark.invariant("last_lines.E16")
def test_E16_not_what_another_exception_says() -> None:
    assert "got KeyError" not in verdict(REPORTED.replace("55: PumpError", "55: TankError")).sentence


def test_an_error_right_above_an_assertion_of_something_false_has_its_place() -> None:
    text = "copy of the tank failed: invalid symbol\nfeed: ./pump/fill.cu:147: void fill(int*): Assertion `0' failed.\n"
    found = verdict(text)
    assert found.state is VerdictState.CRASHED
    assert found.sentence.endswith("copy of the tank failed: invalid symbol, in fill (fill.cu:147)."), found.sentence


def test_a_frame_or_a_line_of_a_source_is_no_reason_of_an_abort() -> None:
    text = "0x00007748fc0ea42f in wait (pid=2) at pump.c:30\n    raise ValveError(name)\nAborted (core dumped)\n"
    assert verdict(text).sentence == "Crashed: SIGABRT: Aborted."


DEBUGGED = """
Thread 1 (Thread 0x7f21b4a3c740 (LWP 4711) "solve"):
#0  0x00007f21b41e0e9b in wait_for_valve () from /opt/lib/libplant.so
#1  0x000055d0c0ffee30 in fill (this=0x7f) at pump.cpp:12
"""


@pytest.mark.invariant("last_lines.E17")
@pytest.mark.parametrize(
    ("prompt", "asked", "ran", "said"),
    [
        ("(gdb)", "valves", "run", 'Error occurred in Python command: No symbol "valve" in current context.'),
        ("(gdb)", "p valve->lid", "c", "Error: the valve is none that this script knows"),
        ("(cuda-gdb)", "info cuda kernels", "continue", "fatal: no device is in focus"),
        ("(lldb)", "expr lid", "process launch", "error: use of undeclared identifier 'lid'"),
        ("(gdb)", "source plant.py", "q", "ImportError: cannot import name 'Valve' from 'plant'"),
    ],
)
def test_E17_what_a_debugger_says_of_itself_is_no_error_of_the_program(
    prompt: str, asked: str, ran: str, said: str
) -> None:
    listed = f"{prompt} thread apply all bt\n{DEBUGGED}"
    assert not found(ENDED_WITH_ERROR, f"{STEPS}{listed}{prompt} {asked}\n{said}\n")
    assert found(ENDED_WITH_ERROR, f"{STEPS}{prompt} {ran}\n{said}\n")


AT = '  File "/w/check.py", line 3, in check\n    same(a, b)\n'
_TORCH = "Tensor-likes are not close!\n\nMismatched elements: 3 / 16 (18.8%)\nGreatest absolute difference: 0.5 at (1,)"
_NUMPY = "\nNot equal to tolerance rtol=1e-07, atol=0\n\nMismatched elements: 2 / 4 (50%)\nMax absolute difference: 0.3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"Traceback (most recent call last):\n{AT}AssertionError: {_TORCH}", "close!; Mismatched elements: 3 / 16"),
        (
            f"Traceback (most recent call last):\n{AT}RuntimeError: Failed to import /w/t.py\n"
            "IndentationError: expected a block (t.py, line 9)",
            "t.py; IndentationError: expected a block (t.py, line 9)",
        ),
        (f"Traceback (most recent call last):\n{AT}AssertionError: {_NUMPY}", "atol=0; Mismatched elements: 2 / 4"),
        (f"FAILED tests/test_plan.py::test_mul - AssertionError: {_TORCH}", "close!: Mismatched elements: 3 / 16"),
    ],
)
def test_how_many_elements_differ_stands_below_an_empty_line(text: str, said: str) -> None:
    """Of torch.testing and numpy.testing: it is of the message, and the sentence has it."""
    assert said in verdict(text).sentence


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("open_plan", "Crashed in open_plan (plan.c:12): assert: Assertion `x > 0' failed."),
        ("void tank::Plan::open(const std::string &, int)", "Crashed in tank::Plan::open (plan.c:12): "),
        ("T tank::pool<T>::get(const K &) [with T = int; K = std::pair<int, int>]", "Crashed in tank::pool::get (pl"),
    ],
)
def test_an_assertion_says_in_which_function(function: str, said: str) -> None:
    assert verdict(f"run: /w/plan.c:12: {function}: Assertion `x > 0' failed.\n").sentence.startswith(said)


def test_an_assertion_in_a_header_of_the_library_has_the_place_in_its_text() -> None:
    text = "/usr/include/c++/12/bits/stl_deque.h:9: T& deque<T>::front() [with T = int]: Assertion '!empty()' failed.\n"
    assert verdict(text).sentence == "Crashed: assert: stl_deque.h:9: Assertion '!empty()' failed."


def test_an_assertion_that_python_called_has_both_places() -> None:
    text = (
        "python: /w/ops/cast.cpp:5: int cast(int): Assertion `v' failed.\nFatal Python error: Aborted\n\n"
        'Current thread 0x00007f24cd1ff740 (most recent call first):\n  File "/w/run.py", line 3 in forward\n'
    )
    said = "Crashed in forward (run.py:3), in cast (cast.cpp:5): assert: Assertion `v' failed."
    assert verdict(text).sentence == said


def test_what_glibc_aborts_is_told_with_what_it_said_last_and_how_many() -> None:
    twice = "corrupted size vs. prev_size\n" * 2
    heap = "Crashed: SIGABRT: corrupted size vs. prev_size (the heap is corrupt, as glibc found in free)"
    assert verdict(f"pump 3 is closed\n{twice}").sentence == f'{heap} (in 2 processes), after "pump 3 is closed".'
    assert verdict(twice).sentence == f"{heap} (in 2 processes)."


def test_a_place_without_a_line_takes_nothing_from_the_reason() -> None:
    stack = "*** SIGABRT received at time=1 on cpu 1 ***\n    @     0x55d1f9a5a1b  pool::give()\n"
    said = verdict(f"free(): double free detected in tcache 2\n{stack}").sentence
    reason = "free(): double free detected in tcache 2 (the heap is corrupt, as glibc found in free)"
    assert said == f"Crashed in pool::give: SIGABRT: {reason}."


@pytest.mark.parametrize(
    "behind", ["", "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(9)), "4 passed in 3.0s\n"]
)
def test_a_comparison_that_failed_is_said_and_is_no_verdict_on_a_run(behind: str) -> None:
    """A tuner compares what it rejects: the run goes on, or ends well."""
    said = verdict(f"allclose: False\n{behind}")
    assert said.state is (VerdictState.EXITED if "passed" in behind else VerdictState.UNKNOWN)
    assert behind or said.sentence.startswith("Results differ: allclose says no.")


def test_a_warning_in_a_message_is_not_what_it_tells() -> None:
    said = "the stage failed:\n/w/a.mlir:3:8: warning: no cast of 'f16'\n{}"
    assert telling_line(said.format("cannot fill: no lid")) == "the stage failed: cannot fill: no lid"
    assert telling_line("/w/a.mlir:3:8: warning: no cast") == "/w/a.mlir:3:8: warning: no cast"
