"""nvFuser's output, statement by statement, on what the real wheel printed (tests/fixtures/nvfuser)."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from livedbg.adapters.nvfuser.dumps.failures import FailureReader, begins
from livedbg.adapters.nvfuser.dumps.segments import parse_segments
from livedbg.adapters.nvfuser.dumps.statement_reader import LogFollower, StatementReader, read_statements
from livedbg.adapters.nvfuser.dumps.statements import (
    Arguments,
    BadOption,
    Considered,
    Failed,
    Kernel,
    Launch,
    Script,
    Segmented,
)
from livedbg.adapters.nvfuser.model import NvfuserModel
from livedbg.model import LogSource
from livedbg.model.events import Stamper, TasksSeen

_HERE = Path(__file__).parents[2] / "fixtures/nvfuser"


def statements(name: str, kind: type) -> list:  # type: ignore[type-arg]
    return [said.statement for said in read_statements(_HERE / name) if isinstance(said.statement, kind)]


def test_groups_and_edges() -> None:
    (cut,) = statements("compile_error.log", Segmented)
    fusion = cut.fusion
    assert fusion.complete and not fusion.loose
    assert {n: g.scheduler for n, g in fusion.groups.items()} == {2: "inner_persistent", 0: "expr_eval", 1: "reduction"}
    assert [tuple(edge) for edge in fusion.edges] == [(2, 0, 8), (0, 1, 9)]
    assert [e.operation for e in fusion.groups[2].expressions][:3] == ["__bfloat2float", "+", "reduction"]
    assert [t.number for t in fusion.groups[0].inputs] == [2, 8]
    assert fusion.behind(2) == {0, 1} and fusion.before(1) == {0, 2}


def test_an_error_is_told_with_the_group_and_its_stack() -> None:
    (failed,) = statements("compile_error.log", Failed)
    whole, (part,) = failed.failure, failed.failure.parts
    assert (whole.function, whole.place) == ("compileFusionParallel", "csrc/runtime/fusion_kernel_runtime.cpp:476")
    assert (part.group, part.place) == (1, "csrc/runtime/compiled_kernel.cpp:187")
    assert 'no instance of overloaded function "nvf::relu"' in part.summary
    assert part.frames[0].function.startswith("nvfuser::nvfCheckFail(") and len(part.frames) > 8


def test_messages_of_several_threads_are_kept_apart() -> None:
    (failed,) = statements("two_errors.log", Failed)
    assert sorted(part.group for part in failed.failure.parts) == [1, 2]
    assert all("CUDA_ERROR_NO_BINARY_FOR_GPU" in part.summary and part.complete for part in failed.failure.parts)
    assert [part.at_line for part in failed.failure.parts] == [249, 267]


def test_an_error_at_run_time_names_its_group_and_the_library_that_threw() -> None:
    (failed,) = statements("run_error.log", Failed)
    failure = failed.failure
    assert failure.group == 0 and not failure.ours
    assert failure.summary.startswith("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED")


def test_compiling_launching_and_arguments() -> None:
    kernels = statements("run_error.log", Kernel)
    assert {(k.group, k.scheduler) for k in kernels} == {(2, "inner_persistent"), (1, "reduction")}
    (launch,) = statements("run_error.log", Launch)
    (arguments,) = statements("run_error.log", Arguments)
    assert (launch.block, launch.grid, launch.shared_bytes) == ((32, 1, 1), (64, 1, 1), 128)
    assert (arguments.fusion, arguments.group, len(arguments.inputs), len(arguments.outputs)) == (0, 2, 2, 1)


def test_why_schedulers_refused() -> None:
    asked = statements("compile_error.log", Considered)
    whole = next(one for one in asked if not one.defines)
    assert dict(whole.rejected)["pointwise"] == "Matmul ops are not supported."
    taken = next(one for one in asked if one.defines == {3, 4, 5, 6, 7, 8})
    assert taken.accepted == "inner_persistent"
    assert dict(taken.rejected)["pointwise"] == "no support for reduction ops"


def test_an_unknown_option() -> None:
    (option,) = statements("bad_option.log", BadOption)
    assert (option.variable, option.option) == ("DUMP", "python_definition_segments")


def test_a_script_with_its_versions() -> None:
    (script,) = statements("compile_error.log", Script)
    assert script.complete and script.generation == "nvfuser_direct"
    assert script.versions == {"torch": "2.10.0+cu128", "cuda": "12.8"} and script.devices == ("NVIDIA H100 80GB HBM3",)
    assert script.text.endswith("fd.execute(inputs)\n") and "segment" not in script.text


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_pieces_of_any_size_say_the_same(step: int) -> None:
    data = (_HERE / "two_errors.log").read_bytes()
    whole = [type(said.statement).__name__ for said in read_statements(_HERE / "two_errors.log")]
    reader = StatementReader()
    found = [said for at in range(0, len(data), step) for said in reader.feed(data[at : at + step])] + reader.end()
    assert [type(said.statement).__name__ for said in found] == whole


def test_ranks_that_share_a_log_are_kept_apart(tmp_path: Path) -> None:
    one = (_HERE / "two_errors.log").read_text().splitlines()
    other = (_HERE / "compile_error.log").read_text().splitlines()
    log = tmp_path / "torchrun.log"
    with log.open("w") as file:
        for number in range(max(len(one), len(other))):
            for rank, lines in enumerate((one, other)):
                if number < len(lines):
                    file.write(f"[rank{rank}]:{lines[number]}\n")
    found = {
        said.prefix: [part.group for part in said.statement.failure.parts]
        for said in read_statements(log)
        if isinstance(said.statement, Failed)
    }
    assert found == {"rank 0": [2, 1], "rank 1": [1]}


def test_what_was_cut_anywhere_gives_what_it_holds() -> None:
    data = (_HERE / "compile_error.log").read_bytes()
    for at in range(0, len(data), 997):
        for piece in (data[:at], data[at:]):
            reader = StatementReader()
            reader.feed(piece)
            reader.end()  # never a traceback
    reader = StatementReader()
    cut = data.index(b"g{(reduction)")
    found = [said.statement for said in reader.feed(data[:cut]) + reader.end() if isinstance(said.statement, Segmented)]
    assert not found[0].fusion.complete and found[0].fusion.groups[2].scheduler == "inner_persistent"


def test_bytes_that_are_no_text() -> None:
    reader = StatementReader()
    noise = bytes(range(256)) * 5_000 + b"Segmented_Fusion{\n" + b"\xff" * 3_000_000
    assert [*reader.feed(noise), *reader.end()] == []


def test_lines_of_others_in_between_do_not_mix_the_messages(tmp_path: Path) -> None:
    log = tmp_path / "mixed.log"
    with log.open("w") as file:
        for number, line in enumerate((_HERE / "two_errors.log").read_text().splitlines()):
            file.write(line + "\n")
            if number > 240 and number % 3 == 0:
                file.write(f"step {number} loss 0.125\n")
    (found,) = [said.statement for said in read_statements(log) if isinstance(said.statement, Failed)]
    parts = {part.group: part for part in found.failure.parts}
    assert set(parts) == {1, 2} and found.failure.function == "compileFusionParallel"
    assert all("CUDA_ERROR_NO_BINARY_FOR_GPU" in part.summary and len(part.frames) == 13 for part in parts.values())
    asked = tmp_path / "asked.log"
    lines = (_HERE / "compile_error.log").read_text().splitlines()
    asked.write_text("\n".join(line + ("\nloss 0.125" if "rejected" in line else "") for line in lines))
    taken = [said.statement for said in read_statements(asked) if isinstance(said.statement, Considered)]
    assert sum(len(one.rejected) for one in taken) == sum("***rejected***" in line for line in lines)


ASSERT = 'RuntimeError: a.emplace(b) .second INTERNAL ASSERT FAILED at "/w/Fuser/csrc/scheduler/pointwise_utils.cpp":33'
TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 41, in <module>\n    fd.execute(inputs)\n'


def test_the_exception_that_is_raised_again_below_is_not_its_message(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    report = f"{ASSERT}, please report a bug to PyTorch. \n"
    log.write_text(f"{TRACEBACK}{report}{TRACEBACK}{report}")
    failures = [said.statement for said in read_statements(log) if isinstance(said.statement, Failed)]
    assert [failed.failure.place for failed in failures] == ["csrc/scheduler/pointwise_utils.cpp:33"] * 2
    assert all(failed.failure.summary == "internal assertion a.emplace(b) .second failed" for failed in failures)


RAISED = "Exception raised from handle at /w/Fuser/csrc/host_ir/evaluator.cpp:188 (most recent call first):"
FRAME = "frame #0: nvfuser::nvfCheckFail(char const*) + 0xfb (0x7ef in libnvfuser_codegen.so)"
PLEA = "INTERNAL ASSERT FAILED at /w/Fuser/csrc/host_ir/evaluator.cpp:188, please report a bug with repro script."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "terminate called after throwing an instance of 'nvfuser::nvfError'\n"
            f"  what():  Expected id < size . No stream 7\n{RAISED}\n{FRAME}\n",
            ["No stream 7"],
        ),
        (
            f"E       RuntimeError:  {PLEA} \nE       Expected id < size . No stream 7\n{RAISED}\n{FRAME}\n",
            ["No stream 7"],
        ),
        (f"RuntimeError: ok == true {PLEA} CUDA error: no stream 7\n{RAISED}\n{FRAME}\n", ["CUDA error: no stream 7"]),
        (f"{PLEA} \nExpected ok == true . CUDA error: no stream 7\n{RAISED}\n{FRAME}\n", ["CUDA error: no stream 7"]),
        (  # gtest's, below the head of its test
            "[ RUN      ] PumpTest.Fill\nunknown file: Failure\n"
            f'C++ exception with description "CUDA driver error: no stream 7\n{RAISED}\n{FRAME}\n',
            ["CUDA driver error: no stream 7"],
        ),
        (  # pytest's summary
            f"FAILED tests/test_a.py::test_b[fill] - RuntimeError: No stream 7\n{RAISED}\n{FRAME}\n",
            ["No stream 7"],
        ),
        (  # the end of a message, above the empty line that it ends with
            f'I ran it, and get\n```\nIt gave the error:\n"""No stream 7"""\n\n{RAISED}\n{FRAME}\n',
            ["It gave the error: No stream 7"],
        ),
        (f"INFO a note\n\n\n{RAISED}\n{FRAME}\n", [""]),
        (f"E    Input: 'id >= 0 {PLEA} No stream 7\\n{RAISED}\\n{FRAME}'\n", []),  # a test quotes it
    ],
)
def test_what_an_error_says_in_words(text: str, said: list[str], tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(text)
    failures = [one.statement for one in read_statements(log) if isinstance(one.statement, Failed)]
    assert [failed.failure.summary for failed in failures] == said


def test_a_number_that_no_expression_can_have_costs_itself_and_not_the_dump() -> None:
    huge = "9" * 5000
    lines = [
        "Segmented_Fusion Dump: -- Re-written complete fusion:{",
        "groups:",
        f"pointwise{{0, {huge}, 1}}",
        "reduction{2, 3}",
        "edges:",
    ]
    with_damage = parse_segments(lines)
    without = parse_segments([line.replace(f" {huge},", "") for line in lines])
    assert with_damage == without


def test_what_pytest_compared_with_a_pattern_was_caught() -> None:
    assertion = 'extent > 0 INTERNAL ASSERT FAILED at "/opt/nvfuser/csrc/resize.cpp":31, please report a bug.'
    assert begins(f"RuntimeError: {assertion}")
    assert not begins(f"E            Input: '{assertion}")
    assert not begins(f"E   Actual message: '{assertion}")


@pytest.mark.parametrize(
    ("place", "ours"),
    [
        ("../torch/csrc/jit/codegen/cuda/fill.cpp", True),  # its folder in PyTorch until 2022
        ("../torch/csrc/jit/runtime/fill.cpp", False),
        ("../torch/csrc/autograd/fill.cpp", False),
        ("/build/csrc/scheduler/fill.cpp", True),
        ("/build/csrc/transform_fill.cpp", True),
        ("/opt/pumps/csrc/pump_attn/api.cpp", False),  # extensions of PyTorch have a csrc, too
    ],
)
def test_which_sources_are_nvfuser_s(place: str, ours: bool) -> None:
    assertion = f'n == m INTERNAL ASSERT FAILED at "{place}":31, please report a bug to PyTorch. No tank'
    reader = FailureReader(f"RuntimeError: {assertion}", 1, [])
    reader.feed(f"Exception raised from fill at {place}:31 (most recent call first):", 2)
    failure = reader.end()
    assert (failure is not None and failure.ours) is ours


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_takes_longer_than_one_look_is_read_to_its_end(tmp_path: Path, packed: bool) -> None:
    data = b"".join(
        (_HERE / "compile_error.log").read_bytes().replace(b"_f0_", b"_f%d_" % number) for number in range(40)
    )
    path = tmp_path / ("run.log.gz" if packed else "run.log")
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    model = NvfuserModel()
    model.want(LogSource(id="log:h/run", name=path.name, path=str(path)))
    follower = LogFollower(model)
    looks = 1
    while follower.read(0.0, True):
        looks += 1
        assert looks < 10_000
    assert looks > 1 and not follower.problems
    seen = [event for event in model.collect(Stamper("h")()) if isinstance(event, TasksSeen)]
    tasks = {task.id for event in seen for task in event.tasks}
    assert {f"task:nvfuser/f{number}/g1" for number in range(40)} <= tasks
