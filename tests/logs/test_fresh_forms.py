"""Forms of logs that fresh texts showed: whose line it is, and what it says; with their look-alikes."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.logs.last_words import is_full, step_of
from tests.logs.reading import found, verdict
from tests.logs.test_crashes import hits
from tests.logs.test_wrapping import read

CRASHED, UNKNOWN = VerdictState.CRASHED, VerdictState.UNKNOWN


def who(text: str) -> set[tuple[str, int | None]]:
    return {(record.writer, record.rank) for record in read(text)}


def test_a_number_of_a_process_or_port_is_no_rank() -> None:
    lines = "".join(f"[{41000 + n % 2}] 2026-11-21 12:00:{n:02} INFO slot {n}\n" for n in range(20))
    assert who(lines) == {("process or port 41000", None), ("process or port 41001", None)}
    ranks = "".join(f"[{n % 2}] 2026-11-21 12:00:{n:02} INFO step {n}\n" for n in range(20))
    assert who(ranks) == {("rank 0", 0), ("rank 1", 1)}


def test_the_number_of_a_test_of_ctest_is_no_rank() -> None:
    head = "77: Test command: /b/tests/solve\n77: Test timeout computed to be: 1500\n"
    traceback = 'Traceback (most recent call last):\n  File "/b/a.py", line 3, in f\n    g()\nKeyError: 3\n'
    text = head + "".join(f"77: {line}\n" for line in traceback.splitlines() * 3)
    assert who(text) == {("", None)}
    cut = text.replace(head, "77: go\n77: on\n")
    assert who(cut) == {("", None)}  # a part of an output: one number, and nothing says that it is a rank
    assert who(f"{cut}78: Test command: /b/tests/sort\n78: go\n") == {("", None)}
    assert who(cut.replace("77: ", "077: ")) == {("rank 77", 77)}  # as srun fills its width
    assert who("0: go\n" + cut) == {("rank 0", 0), ("rank 77", 77)}
    late = list(read(f"{cut}0: go\n77: KeyError: 4\n"))
    assert [record.rank for record in late[-2:]] == [0, 77]


def test_a_test_of_ctest_on_windows_ends_with_an_exit_code() -> None:
    text = (
        "  90/99 Test   #9: tank/fill_test ..........Exit code 0xc0000409\n***Exception:   0.53 sec\n"
        "Shape (MxKxN): 1x1x1\nABORTED\n\nThe following tests FAILED:\n"
    )
    said = verdict(text)
    assert (said.state, said.sentence) == (CRASHED, "The test run failed: tank/fill_test: Exit code 0xc0000409.")
    assert verdict("  90/99 Test   #9: tank/fill_test ..........   Passed    0.53 sec\n").state is not CRASHED


def test_a_host_is_followed_by_a_blank() -> None:
    lines = "".join(f"n-{n % 2}:4{n % 2}:5 [0] NCCL INFO Channel {n:02}/0 : 0[0] -> 1[1]\n" for n in range(20))
    assert {record.host for record in read(lines)} == {""}


def test_a_message_of_which_only_the_first_line_has_its_rank() -> None:
    head = "[rank5]:[E207 19:37:09.983600771 ProcessGroupNCCL.cpp:1895] [Rank 5] Watchdog terminated: NCCL error: "
    text = (
        "n-0:428:442 [1] NCCL INFO comm 0x56 rank 5 nranks 8 - Abort COMPLETE\n"
        f"{head}remote process exited or there was a network error, NCCL version 2.21.5\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
        "Last error:\nsocketProgressOpt: Call to recv from 10.1.2.3<49901> failed : Broken pipe\n"
    )
    said = verdict(text)
    assert said.state is CRASHED
    assert said.sentence.startswith("Rank 5: NCCL failed: socketProgressOpt: Call to recv from 10.1.2.3")
    apart = text.replace("ncclRemoteError", "step 9\nncclRemoteError")  # somebody's line is between them
    assert [record.rank for record in read(apart)] == [None, 5, None]


HEAD = "E0226 19:58:00.945000 125 torch/_inductor/select_algorithm.py:2820] [0/19] "
TRACE = (
    'Traceback (most recent call last):\n  File "/e/pool.py", line 7, in do_job\n    job()\nRuntimeError: 0 drivers\n'
)


def test_the_number_of_a_compilation_before_each_line_of_a_traceback() -> None:
    (record,) = read("".join(f"{HEAD}{line}\n" for line in TRACE.splitlines()))
    said = verdict("".join(f"{HEAD}{line}\n" for line in TRACE.splitlines()))
    assert "RuntimeError: 0 drivers" in said.sentence
    assert record.text.count("\n") == 3
    (record,) = read(f"{HEAD}compiled in 3 s\n")  # it stays before what is no traceback
    assert "[0/19] compiled" in record.text


def test_a_traceback_in_a_string_is_none() -> None:
    data = (
        'ERROR:agent:{\n  "message": {\n    "py_callstack": "Traceback (most recent call last):\\n  File \\"a.py\\", '
        'line 3, in f\\n"\n  }\n}\n'
    )
    assert [hit for hit in hits(data.encode()) if hit.type == "unknown"] == []
    assert verdict(data).state is UNKNOWN


CHAIN = (
    'Traceback (most recent call last):\n  File "/p/graph.py", line 14, in call\n    lower()\n'
    '  File "/p/lowering.py", line 29, in lower\n    assert x\nAssertionError\n\n'
    "The above exception was the direct cause of the following exception:\n\n"
    'Traceback (most recent call last):\n  File "/u/case.py", line 4, in <module>\n    run()\n'
    '  File "/p/graph.py", line 18, in {}\n    raise Failed() from e\nlib.Failed: no\n'
)


CAUSED = "The above exception was the direct cause of the following exception:"
DURING = "During handling of the above exception, another exception occurred:"


@pytest.mark.parametrize(
    ("function", "link", "outermost"),
    [
        ("call", CAUSED, "/u/case.py"),
        ("other", CAUSED, "/u/case.py"),  # a library has taken out what caught it
        ("call", DURING, "/u/case.py"),
    ],
)
def test_who_called_what_caught_the_first_of_two_exceptions(function: str, link: str, outermost: str) -> None:
    (hit,) = hits(CHAIN.format(function).replace(CAUSED, link).encode())
    assert hit.type == "AssertionError"
    assert (hit.stack[0].file, hit.stack[-1].file) == ("/p/lowering.py", outermost)


def test_a_test_run_failed_whose_compiler_s_error_was_handled() -> None:
    text = (
        "t/a.py::test_toy FAILED     [ 50%]\nFAILED t/a.py::test_toy - CompileException: Error invoking it\n"
        "/tmp/model.mlir:54:12: error: function 'd' uses 74896 bytes of shared memory; exceeded the limit\n"
        "========= 1 failed, 11 passed in 61.20s (0:01:01) =========\n"
    )
    said = verdict(text)
    assert said.state is CRASHED
    reason = "/tmp/model.mlir:54:12: error: function 'd' uses 74896 bytes of shared memory; exceeded the limit."
    assert said.sentence.startswith(f"The test run failed: t/a.py::test_toy: {reason}")
    assert verdict(text.replace("1 failed, ", "")).state is not CRASHED


def test_ptx_that_was_compiled_at_run_time() -> None:
    said = verdict("ptxas application ptx input, line 49; error   : Feature '.bf16' requires .target sm_80 or higher\n")
    assert (said.state, "sm_80" in said.sentence) == (CRASHED, True)


BAD = (
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 71 RUNNING AT n0\n=   EXIT CODE: {}\n"
    "=   CLEANING UP REMAINING PROCESSES\n"
)


@pytest.mark.parametrize(("code", "more"), [(139, " (SIGSEGV: Segmentation fault)"), (3, ""), (255, "")])
def test_an_exit_code_of_a_signal(code: int, more: str) -> None:
    assert verdict(BAD.format(code)).sentence == f"Process 71 on n0 ended with exit code {code}{more}."


def test_a_signal_that_petsc_caught() -> None:
    text = "[3]PETSC ERROR: Caught signal number {}\n[3]PETSC ERROR: Try option -start_in_debugger\n"
    said = verdict(text.format("11 SEGV: Segmentation Violation, probably memory access out of range"))
    assert said.state is CRASHED
    assert said.sentence == "Rank 3 caught signal number 11 (SIGSEGV: Segmentation fault), as PETSc says."
    asked = verdict(text.format("15 Terminate: Some process (or the batch system) has told this process to end"))
    assert asked.state is not CRASHED


def test_heartbeats_that_are_missing_are_spoken_of() -> None:
    said = verdict("fps 10\nNo heartbeat for components: worker_0 (337 seconds)\n")
    assert (said.state, "speaks of a failure" in said.sentence) == (UNKNOWN, True)
    assert "speaks" not in verdict("fps 10\nheartbeat of worker_0\n").sentence


FRAMES = (
    'Traceback (most recent call last):\n  File "/w/run.py", line 9, in main\n    step()\n'
    '  File "/w/pump.py", line 31, in step\n    raise Dry(3)\npump.DryError: tank 3\n'
)


def behind(head: str, text: str) -> str:
    return "".join(f"{head}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("head", ["[2]:", "[2]: ", "[2]<stderr>:", "Sat Nov 21 12:00:00 2026[2]<stderr>:"])
def test_a_rank_stands_in_brackets_before_each_line(head: str) -> None:
    text = behind(head, FRAMES)
    assert who(text) == {("rank 2", 2)}
    assert verdict(text).sentence.startswith("Rank 2 crashed in step (pump.py:31): pump.DryError: tank 3")


def test_a_number_in_brackets_alone_in_its_line_is_no_rank() -> None:
    table = "Failures:\n[0]:\n  time : 2026-11-21_12:00:00\n  host : n1\n[1]:\n  time : 2026-11-21_12:00:01\n"
    assert who(table) == {("", None)}
    assert who("[1]: https://example.org/a\n[2]: https://example.org/b\n") == {("", None)}


def test_a_time_with_more_in_its_brackets_is_no_stamp() -> None:
    text = "".join(f"[2026-11-21 12:00:{n:02},250 I 77 81] pump.cc:9: turn {n}\n" for n in range(20))
    assert {record.text[record.head :][:4] for record in read(text)} == {"turn"}


def test_an_error_below_a_warning_of_c_plus_plus_is_no_part_of_it() -> None:
    text = "[2026-11-21 12:00:01,250 W 77 81] pump.cc:9: not yet up, so retrying.\n" + FRAMES
    assert verdict(text).state is CRASHED
    assert verdict(text[: text.index("Trace")]).state is UNKNOWN


# tracebacks of which the head or the end is cut off

CUT = FRAMES.partition("main\n    step()\n")[2]


@pytest.mark.parametrize("head", ["ERROR 11-21 12:00:00 core.py:291] ", "ERROR 11-21 12:00:00 [core.py:291] "])
@pytest.mark.parametrize("above", ["", "    ^^^^^^\n", "    step()\n           ^^^^\n"])
def test_T3_a_traceback_without_its_head_behind_that_of_a_logger(head: str, above: str) -> None:
    said = verdict(behind(head, above + CUT))
    assert (said.state, said.sentence) == (CRASHED, "Crashed in step (pump.py:31): pump.DryError: tank 3.")


def test_T3_frames_behind_the_head_of_a_logger_are_no_traceback_without_an_exception() -> None:
    frames = CUT.rpartition("pump.Dry")[0]
    assert not hits(behind("ERROR 11-21 12:00:00 [core.py:291] ", f"{frames}the pump goes on\n").encode())
    assert not hits(behind("ERROR 11-21 12:00:00 [core.py:291] ", frames).encode())


def test_T4_a_line_that_was_left_out_below_the_head_of_a_traceback() -> None:
    head, rest = FRAMES.split("\n", 1)
    (hit,) = hits(f"{head}\n... [some lines are left out]\n{rest}".encode())
    assert (hit.type, hit.message, hit.stack[0].line) == ("pump.DryError", "tank 3", 31)


def test_a_traceback_without_its_end_gives_way_to_an_error_that_is_understood() -> None:
    cut = FRAMES.rpartition("pump.Dry")[0]
    error = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 8.00 GiB"
    )
    assert verdict(f"{error}\n{cut}").sentence.startswith("CUDA out of memory on GPU 1")
    assert verdict(cut).sentence.startswith("Crashed in step (pump.py:31): unknown: the traceback is cut off")


@pytest.mark.parametrize(
    ("above", "raised", "says"),
    [
        (
            "E1121 12:00:00.250000 77 pump.cc:9] error: the pump could not be opened: no water\n",
            "RuntimeError: FAILED: the tank did not start. Look at the errors above for more details.",
            "The log ends with an error, at 0.log:1: error: the pump could not be opened: no water",
        ),
        (
            "pumpc: error: tank 3 is shut\n",
            "RuntimeError: Error compiling objects for extension",
            "pumpc: error: tank 3 is shut",
        ),
    ],
)
def test_an_exception_that_points_to_what_stands_above_gives_way_to_it(above: str, raised: str, says: str) -> None:
    text = f'{above}Traceback (most recent call last):\n  File "/w/run.py", line 9, in main\n    go()\n{raised}\n'
    assert says in verdict(text).sentence
    assert raised.partition(":")[0] in verdict(text.removeprefix(above)).sentence


# stacks

BACKWARD = """terminate called after throwing an instance of 'pump::Dry'
  what():  tank 3
Stack trace (most recent call last):
#3    Object "/w/build/run", at 0x5606b35bb54d, in _start
#2    Source "/w/run.cpp", line 30, in main [0x5606b35bb3a2]
#1    Source "/w/pump.cpp", line 214, in Pump::step(int) [0x5606b35f31b9]
#0    Object "/usr/lib/libc.so.6", at 0x7faf2b0773e6, in abort
Aborted (core dumped)
"""
UCX = """[n1:4124 :0:4301] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))
==== backtrace ====
 0 0x000000000001fce0 pump_step()  /w/pump.c:483
 1 0x0000000000402770 main()  /w/run.c:9
===================
"""


def test_stacks_that_libraries_of_c_plus_plus_print() -> None:
    assert verdict(BACKWARD).sentence == "Crashed in Pump::step (pump.cpp:214): pump::Dry: tank 3."
    assert verdict(UCX).sentence == "Crashed in pump_step (pump.c:483): SIGSEGV: Segmentation fault at null address."


@pytest.mark.parametrize(
    "said", ["Failed to connect to the tank in 60 s", "No tank is there. The pump will terminate."]
)
def test_an_error_of_a_logger_says_that_its_program_ends(said: str) -> None:
    line = f"[2026-11-21 12:00:01,250 E 77 81] pump.h:9: {said}\n"
    assert verdict(line).state is CRASHED
    assert verdict(f"{line}[2026-11-21 12:00:02,250 I 77 81] pump.h:12: turn 3\n").state is UNKNOWN


def test_a_signal_without_a_place_is_of_the_rank_that_its_launcher_names() -> None:
    caught = UCX.replace("/w/pump.c:483", "???:0").replace("/w/run.c:9", "???:0")
    account = (
        "prterun noticed that process rank 48 with PID 4124 on node n1 exited on\nsignal 11 (Segmentation fault).\n"
    )
    assert (
        verdict(caught + account).sentence
        == "Rank 48: Crashed: SIGSEGV: Segmentation fault at null address, in pump_step."
    )


def test_what_nccl_wrote_of_cuda_is_said_with_its_own_error() -> None:
    warned = "n1:500:700 [1] misc/../include/alloc.h:179 NCCL WARN Cuda failure 2 'out of memory'\n"
    raised = FRAMES.replace(
        "pump.DryError: tank 3", "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG)"
    )
    assert "unhandled CUDA error: cudaErrorMemoryAllocation, at" in verdict(warned + raised).sentence
    assert "unhandled CUDA error, at" in verdict(raised).sentence


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (" 44%|####| 2.19G/4.97G [01:10<01:29, 31.2MB/s]", 2.19e9),
        ("100%|####| 12.0M/12.0M [06:41<00:00]", 12e6),
        ("44%|####| 980k/4.97M [01:10<01:29]", 980e3),
        ("44%|####| 44/100 [01:10<01:29]", 44),
    ],
)
def test_a_bar_counts_in_units(line: str, step: float) -> None:
    assert step_of(line) == pytest.approx(step)
    assert is_full(line) == line.startswith("100%")


def test_a_worker_that_ray_killed_ended_nothing_if_its_job_went_on() -> None:
    killed = (
        "(raylet) node_manager.cc:3069: 1 Workers (tasks / actors) killed due to memory pressure (OOM), "
        "0 Workers crashed due to other reasons at node (ID: 351e, IP: 10.4.0.7) over the last time period.\n"
    )
    assert verdict(killed).state is CRASHED
    assert (
        verdict(f"{killed}Data sink Parquet finished. 12 rows and 4.4 GB data written.\n").state is VerdictState.EXITED
    )
    bars = "".join(f" {n}%|####      | 1.{n}M/12.0M [01:00<06:41, 1.3it/s]\n" for n in range(5))
    assert verdict(killed + bars).state is UNKNOWN


def test_what_goes_on_with_an_error_has_the_margin_of_pytest() -> None:
    text = (
        "DistBackendError: NCCL error in: /w/NCCLUtils.hpp:31, unhandled system error, NCCL version 2.22.3"
        "\nncclSystemError: System call (e.g. socket, malloc) failed.\nLast error:\n"
        "socketStartConnect: Connect to 10.1.2.3<36865> failed : Software caused connection abort\n"
    )
    behind = "".join(f"E       {line}\n" for line in text.splitlines())
    assert [len(record.text.splitlines()) for record in read(f"{behind}t/test_pump.py:31: DistBackendError\n")] == [
        4,
        1,
    ]
    assert verdict(behind).sentence.startswith("NCCL failed: socketStartConnect: Connect to 10.1.2.3<36865> failed")
    apart = "E   AssertionError: no\nE   assert 3 == 4\n"
    assert len(list(read(apart))) == 2


def test_the_source_of_a_kernel_that_triton_did_not_compile_is_known() -> None:
    head = "E0205 09:51:38.047000 18628 torch/_inductor/runtime/triton_heuristics.py:810] [0/0] "
    lines = (
        "Triton compilation failed: triton_poi_fill_0",
        "def triton_poi_fill_0(in_ptr0, xnumel):",
        "    xnumel = 3",
    )
    text = "".join(f"{head}{line}\n" for line in lines)
    said = verdict(text)
    assert (said.state, said.sentence) == (UNKNOWN, "Triton could not compile inductor's kernel triton_poi_fill_0.")
    assert not found("error-lines", text)


TIMED = "llama_perf_context_print:       total time =       9.31 ms /    31 tokens\n"
TIME = "\nreal\t0m0.073s\nuser\t0m0.112s\nsys\t0m0.024s\n"


def test_the_times_of_a_whole_run_are_its_end_with_those_of_the_shell_below_them() -> None:
    assert verdict(f"batch_decode: n_tokens = 9\n{TIMED}{TIME}").state is VerdictState.EXITED
    assert verdict(f"batch_decode: n_tokens = 9\n{TIMED}").state is UNKNOWN  # of one prompt, perhaps
    assert verdict(f"batch_decode: n_tokens = 9\n{TIME}").state is UNKNOWN  # `time` says nothing of a status
    assert verdict(f"{TIMED}Segmentation fault (core dumped)\n{TIME}").state is CRASHED
    assert verdict(TIMED + "".join(f"step {n} loss 0.{n}\n" for n in range(9))).state is UNKNOWN


def test_who_asks_a_server_again_and_again_until_it_is_ready_waits() -> None:
    tries = [
        f"10:00:{n:02} - WARNING - Attempt {n}: Please wait for pump server to become ready...\n" for n in range(9)
    ]
    loads = "Loading tank shards: 100% Completed | 4/4 [01:24<00:00, 23.02s/it]\n"
    said = verdict("".join([*tries[:8], loads, *tries[8:]]))
    assert said.state is UNKNOWN and "the same wait 9 times" in said.sentence and "pump server" in said.sentence
    ready = "10:00:10 - INFO - pump server is ready\n" + "".join(
        f"10:00:{n} - INFO - page {n}\n" for n in range(11, 19)
    )
    assert "the same wait" not in verdict("".join(tries) + ready).sentence
