"""AOTInductor's guide on what torch 2.13 (CPU) generated and printed: tests/fixtures/pytorch/aoti.

Of the generated files only the lines that are read were kept, at their numbers.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec import structs

from livedbg.adapters.pytorch.aoti.generated import generated
from livedbg.adapters.pytorch.aoti.printed import open_kernel
from livedbg.adapters.pytorch.aoti.reading import failures, read
from livedbg.adapters.pytorch.aoti.settings import unknown_settings
from livedbg.adapters.pytorch.aoti.sources import in_folder, in_package
from livedbg.model import ExceptionHit, Frame, Stack, Thread
from livedbg.model.catchpoints import Catchpoint, CatchpointState, Moment
from livedbg.model.snapshot import EMPTY
from livedbg.recipes import recipes
from livedbg.session.guide import StepFound, StepRun

CAPTURED = Path(__file__).parents[2] / "fixtures" / "pytorch" / "aoti"
NAN = CAPTURED / "nan"
THROW = CAPTURED / "throw"


def step(
    number: int,
    folder: Path,
    *,
    model: Path | None = NAN,
    out: str = "",
    err: str = "",
    code: int | None = 0,
    loaded: frozenset[str] = frozenset(("/opt/venv/torch/lib/libtorch_cpu.so",)),
    opened: frozenset[str] = frozenset(),
    threads: dict[str, Stack] | None = None,
    hang: str = "",
    crash: str = "",
    hit: ExceptionHit | None = None,
    point: Catchpoint | None = None,
) -> StepFound:
    """What is found of a run that compiled a model and printed something."""
    (folder / "stdout.log").write_text(out)
    (folder / "stderr.log").write_text(err)
    log = folder / "torch.log"
    written = f"I1 torch/_inductor/codecache.py:1] [__output_code] Wrapper code written to: {model}/model.wrapper.cpp\n"
    log.write_text(written if model is not None else "")
    snapshot = EMPTY
    if threads is not None:
        known = {name: Thread(id=name, process="process:box/1", tid=2) for name in threads}
        snapshot = EMPTY.__class__(threads=known, stacks=threads)  # type: ignore[arg-type]
    if hit is not None:
        points = {point.id: point} if point is not None else {}
        snapshot = EMPTY.__class__(exceptions={hit.id: hit}, catchpoints=points)  # type: ignore[arg-type]
    return read(
        StepRun(
            crash=crash,
            number=number,
            argv=("python", "model.py"),
            output=(folder / "stdout.log", folder / "stderr.log"),
            logs=(log,),
            loaded=loaded,
            opened=opened,
            code=code,
            snapshot=snapshot,
            hang=hang,
        )
    )


def said(found: StepFound) -> str:
    """All that was found, a line each."""
    return "\n".join(f"{label}: {sentence}" for label, sentence in found.lines)


def test_the_calls_of_a_model_with_what_they_read_and_write() -> None:
    model = in_folder(THROW / "model.wrapper.cpp")
    assert model is not None
    calls = [(call.line, call.shown, call.reads, call.writes, call.makers) for call in model.code.calls]
    assert calls == [
        (874, "aoti_torch_cpu_addmm_out", ("arg4_1", "a_bias", "a_weight"), ("buf0",), ()),
        (879, "cpp_fused_mul_relu_throws_0", ("buf1",), ("buf1",), (("buf1", 0),)),
        (885, "guide::throws", ("buf1",), ("buf3",), (("buf1", 1),)),
        (898, "aoti_torch_cpu_addmm_out", ("buf3", "b_bias", "b_weight"), ("buf4",), (("buf3", 2),)),
        (914, "cpp_fused__softmax_add_tanh_1", ("buf5",), ("buf5", "buf6", "buf8", "buf9"), (("buf5", 3),)),
    ]
    assert model.code.inputs == {0: "arg4_1"}
    assert model.code.expected == {0: "float32 [4, 32]"}
    assert model.code.constants["a_weight"] == "a.weight"


@pytest.mark.invariant("aoti_generated.G1", "aoti_generated.G2")
def test_a_moved_or_viewed_buffer_keeps_its_maker_and_lines_between_are_no_calls() -> None:
    code = generated(
        "x.wrapper.cpp",
        "void AOTInductorModel::run_impl(\n"
        "    cpp_fused_0((float*)(buf0.data_ptr()));\n"
        "    auto buf1 = std::move(buf0);  // reuse\n"
        "    auto buf2 = wrap_with_raii_handle_if_needed(reinterpret_tensor_wrapper(buf1, 1, a, b, 0L));\n"
        "    cpp_fused_1((const float*)(buf2.data_ptr()), (float*)(buf3.data_ptr()));\n"
        "} // AOTInductorModel::run_impl\n"
        "    cpp_fused_2((float*)(buf9.data_ptr()));\n",
    )
    assert [call.makers for call in code.calls] == [(), (("buf2", 0),)]
    assert [code.at_line(line) is not None for line in range(1, 8)] == [False, True, False, False, True, False, False]


LAUNCH = """
template <typename in_ptr0_type_, typename out_ptr0_type_, typename kernels_type_>
static __attribute__((noinline)) void call_triton_poi_fused_0(
    const {first}_type_& {first},
    const {second}_type_& {second},
    int64_t xnumel,
    cudaStream_t stream_,
    const std::optional<std::string>& cubin_dir_ = std::nullopt
){{
    f({first});
}}
void AOTInductorModel::run_impl(
    auto arg0_1 = std::move(inputs[0]);
    call_triton_poi_fused_0(arg0_1, buf0, 10L, stream);
    call_triton_poi_fused_0(buf0, buf1, 10L, stream);
"""
"""As torch/_inductor/codegen/cpp_wrapper_gpu.py writes it; not made on a GPU."""


@pytest.mark.parametrize(("first", "second"), [("in_ptr0", "out_ptr0"), ("x_ptr", "y_ptr")])
def test_a_triton_kernel_reads_and_writes_what_its_parameters_say(first: str, second: str) -> None:
    code = generated("x.wrapper.cpp", LAUNCH.format(first=first, second=second))
    own = first != "in_ptr0"
    assert [(call.kernel, call.reads, call.writes, call.makers) for call in code.calls] == [
        ("triton_poi_fused_0", ("arg0_1",), ("buf0",), ()),
        ("triton_poi_fused_0", ("buf0",), ("buf0", "buf1") if own else ("buf1",), (("buf0", 0),)),
    ]


@pytest.mark.parametrize("nodes", [b"", b"{", b"[]", b'{"nodes": [{"node": 1}]}', b"[" * 100_000])
def test_a_damaged_list_of_custom_operators_is_none(nodes: bytes) -> None:
    code = generated("x", (THROW / "model.wrapper.cpp").read_text(), nodes)
    assert (code.calls[2].operator, code.calls[2].reads) == ("a custom operator", ("buf1",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "RuntimeError: input_handles[0]: unmatched dim value at 1, expected: 8, but got: 9",
            "Input 0 (counted from 0): dimension 1 is 9, and the model was compiled for 8.",
        ),
        (
            "Error: input_handles[2]: unmatched dtype, expected: 6(at::kFloat), but got: 7",
            "Input 2 (counted from 0) has type float64, and the model was compiled for float32.",
        ),
        (
            "Error: input_handles[0]: unmatched device type, expected: 11(cuda), but got: 0",
            "Input 0 (counted from 0) is on cpu, and the model was compiled for cuda.",
        ),
        (
            "Error: input_handles[0]: dim value is too large at 0, expected to be <= 16, but got: 20",
            "Input 0 (counted from 0): dimension 0 is 20, and the model was compiled for <= 16 in it.",
        ),
        (
            "Error: input_handles[0]: dim value is too small at 0, expected it to be >= 2, but got: 1",
            "Input 0 (counted from 0): dimension 0 is 1, and the model was compiled for >= 2 in it.",
        ),
        ("RuntimeError: At least one NaN in arg4_1", "There is NaN in arg4_1."),
    ],
)
def test_checks_that_failed_in_words(text: str, words: str) -> None:
    assert [failure.sentence for failure in failures([text, text])] == [words]


def test_a_wrong_input_is_the_cause_and_says_what_the_model_expects(tmp_path: Path) -> None:
    text = "Error: input_handles[0]: unmatched dim value at 0, expected: 4, but got: 5\n"
    found = step(1, tmp_path, err=text, code=1)
    assert found.cause and not found.wrong_value
    assert "dimension 0 is 5, and the model was compiled for 4. It expects float32 [4, 32] there" in said(found)


@pytest.mark.invariant("aoti_reading.W1")
@pytest.mark.parametrize(
    ("model", "told", "nothing"),
    [
        (NAN, "the model was compiled with it, and this version of torch put no such check", "No check failed."),
        (None, "no generated code was found, so that it is not known whether it acted", "nothing could be checked"),
    ],
)
def test_a_check_that_did_not_act_is_said_with_its_moment(
    model: Path | None, told: str, nothing: str, tmp_path: Path
) -> None:
    found = step(1, tmp_path, model=model)
    assert "AOTI_RUNTIME_CHECK_INPUTS acts at run time" in said(found)
    assert "TORCHINDUCTOR_NAN_ASSERTS acts at compile time" in said(found) and told in said(found)
    assert nothing in said(found) and not found.cause


def test_a_package_without_checks_is_to_be_compiled_again(tmp_path: Path) -> None:
    library = f"{NAN}/model.wrapper.so"
    found = step(1, tmp_path, model=None, loaded=frozenset((library,)))
    assert "the generated code has no such check: compile the model again with it." in said(found)


def test_where_nothing_of_the_values_can_be_seen_the_one_step_that_would_tell_is_named(tmp_path: Path) -> None:
    """The package was compiled before: no check and no printer can act."""
    library = tmp_path / "model.wrapper.so"
    library.touch()
    text = (THROW / "model.wrapper.cpp").read_text().replace("aoti_torch_check_inf_and_nan(", "other(")
    text = text.replace("aoti_torch_print_tensor_handle(", "other(").replace("before_launch", "other")
    (tmp_path / "model.wrapper.cpp").write_text(text)
    loaded = frozenset((str(library), "/opt/venv/torch/lib/libtorch_cpu.so"))
    found = step(1, tmp_path, model=None, loaded=loaded, out="epoch 1\nscores [nan, nan]\n")
    assert found.undone and found.futile and not found.cause and not found.wrong_value
    assert "found: Its values can't be seen: the model was compiled before" in said(found)
    assert "printed: It printed NaN, at stdout:2: scores [nan, nan]" in said(found)
    quiet = step(1, tmp_path, model=None, loaded=loaded, out="banana nan_to_num -nano nan.py\n")
    assert quiet.futile and "printed:" not in said(quiet)
    failed = step(1, tmp_path, model=None, loaded=loaded, err="ValueError: no file\n", code=1)
    assert not failed.futile and "ValueError: no file" in said(failed)


def test_a_run_without_torch_is_told_in_one_line_and_not_by_its_settings(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        found = step(number, tmp_path, model=None, loaded=frozenset(("/usr/bin/true",)))
        assert [label for label, _ in found.lines] == ["found"] and "Neither PyTorch nor a model" in said(found)


@pytest.mark.parametrize(
    ("opened", "words"),
    [
        (("/dev/null", "/dev/nvidia0", "/dev/nvidiactl"), "on a GPU: /dev/nvidia0 was opened."),
        (("/dev/null", "/dev/nvidiactl", "/opt/nvidia0"), "on a GPU: none was opened, so they did nothing."),
        ((), "on a GPU: whether one was opened was not seen."),
    ],
)
def test_a_setting_of_cuda_acts_if_a_device_was_opened_and_not_by_its_libraries(
    opened: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    loaded = frozenset(("/opt/venv/torch/lib/libtorch_cuda.so", "/opt/venv/torch/lib/libtorch_cpu.so"))
    assert words in said(step(2, tmp_path, loaded=loaded, opened=frozenset(opened)))


TREE = (
    '[1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": "builtins.tuple", "context": "null", '
    '"children_spec": [LEAF, {"type": "builtins.dict", "context": "[\\"ids\\"]", "children_spec": [LEAF]}]}, '
    '{"type": "builtins.dict", "context": "[\\"mask\\", \\"past\\"]", "children_spec": ['
    'LEAF, {"type": "builtins.list", '
    '"context": "null", "children_spec": [LEAF, LEAF]}]}]}]'
).replace("LEAF", '{"type": null, "context": null, "children_spec": []}')
"""Of forward(x, batch, *, mask, past), where batch is a dictionary and past a list."""


@pytest.mark.parametrize(
    ("tree", "inputs", "names"),
    [
        (TREE, 5, {0: "[0]", 1: "[1]['ids']", 2: "mask", 3: "past[0]", 4: "past[1]"}),
        (TREE, 4, {}),  # one of them is no tensor: which is which is not known
        ("[1, {", 5, {}),
        ('[1, {"type": null}]', 5, {}),
    ],
)
def test_an_input_has_the_path_of_its_position_keyword_or_key(tree: str, inputs: int, names: dict[int, str]) -> None:
    given = "".join(f"    auto arg{number}_1 = std::move(inputs[{number}]);\n" for number in range(inputs))
    code = generated("x", f'    in_spec_ = R"({tree})";\nvoid AOTInductorModel::run_impl(\n{given}')
    assert code.signature == names


@pytest.mark.parametrize(
    ("text", "words", "cause"),
    [
        ("RuntimeError: At least one INF in arg7_1", "There is infinity in arg7_1. If it is meant", False),
        ("RuntimeError: At least one NaN in arg7_1", "There is NaN in arg7_1.", True),
        ("    assert not arg3_1.isnan().any().item()", "There is NaN in arg3_1.", True),
        ("    assert not var.isnan().any().item()", "There is NaN in what the compiled graph returns.", False),
        ("    assert not var.isinf().any().item()", "There is infinity in what the compiled graph returns.", False),
        ("Error: expected inputs vector size to be 2, but got 1", "compiled for 2 inputs (tensors), and gets 1.", True),
        ("  what():  index out of bounds: 0 <= tmp3 < 100L", "got one that is out of range: index out of", True),
        ("FileNotFoundError: [Errno 2] batches.csv", "It ended with exit code 1: FileNotFoundError: [Errno 2]", False),
    ],
)
def test_an_infinite_input_may_be_meant_and_other_errors_are_told(
    text: str, words: str, cause: bool, tmp_path: Path
) -> None:
    found = step(1, tmp_path, err=f"{text}\n", code=1)
    assert words in said(found) and found.cause is cause
    assert found.wrong_value is ("nan" in text.lower())


def test_an_index_out_of_range_is_said_with_the_models_line(tmp_path: Path) -> None:
    once = (
        "Error: index out of bounds: 0 <= tmp2 < 100L\n"
        "Exception raised from cpp_fused_log_mul_relu_sub_0 at /tmp/k/x.kernel.cpp:28 (most recent call first):\n"
    )
    found = step(1, tmp_path, err=f"{once}Traceback\n{once.replace('Error', 'RuntimeError')}", code=1)
    assert said(found).count("found:") == 1 and found.cause
    assert "\nmodel: /opt/job/model.py:" in said(found) and "in forward: h = torch.log(h - 1)" in said(found)
    other = step(1, tmp_path, err=once.replace("log", "other"), code=1)
    assert "kernel: cpp_fused_other_mul_relu_sub_0" in said(other) and "model:" not in said(other)


def test_a_hang_outside_the_model_is_the_cause_and_one_of_the_compiler_is_not(tmp_path: Path) -> None:
    found = step(1, tmp_path, code=None, hang="Main thread waits in feed (a.py:3).")
    assert found.cause and "It hangs, in no call of a model. Main thread waits in feed (a.py:3)." in said(found)
    frames = (Frame("wait", line=8), Frame("compile_fx_aot", file="/opt/lib/torch/_inductor/compile_fx.py", line=8))
    inside = Stack(thread="t", frames=frames, taken_mono_ns=0, source="no stop")
    found = step(2, tmp_path, code=None, hang="Main thread waits.", threads={"t": inside})
    assert not found.cause and "still being compiled" in said(found)


@pytest.mark.parametrize(
    ("function", "file", "words"),
    [
        ("compile_fx_aot", "/opt/lib/torch/_inductor/compile_fx.py", "still being compiled, in compile_fx_aot (comp"),
        ("run", "/opt/lib/torch/_inductor/compile_fx.py", "no thread was seen in a call of a model"),
    ],
)
def test_a_run_that_still_compiles_has_not_hung(function: str, file: str, words: str, tmp_path: Path) -> None:
    frames = (Frame("wait", file="/usr/lib/threading.py", line=8), Frame(function, file=file, line=8))
    stack = Stack(thread="thread:box/2", frames=frames, taken_mono_ns=0, source="no stop")
    assert words in said(step(1, tmp_path, code=None, threads={"thread:box/2": stack}))


def test_an_exception_in_a_call_is_shown_with_its_kernel(tmp_path: Path) -> None:
    found = step(1, tmp_path, model=THROW, err=(THROW / "stderr.txt").read_text(), code=1)
    assert "guide::throws (call 3 of 5, model.wrapper.cpp:885) failed: table of rows is empty" in said(found)
    assert found.hands == {"kernel": "cpp_fused_mul_relu_throws_0"}, "what it reads; it prints nothing itself"
    assert found.cause, "an operator of the program raised it"


def test_an_operator_in_python_that_throws_is_shown_with_the_line_of_the_throw(tmp_path: Path) -> None:
    err = (
        (THROW / "stderr.txt")
        .read_text()
        .replace(
            "table of rows is empty\n",
            "table of rows is empty\n\nAt:\n  /opt/job/ops.py(5): check\n  /opt/job/ops.py(9): gather\n"
            "  /opt/venv/lib/python3.11/site-packages/torch/_ops.py(882): redispatch\n",
            1,
        )
    )
    found = step(1, tmp_path, model=THROW, err=err, code=1)
    assert "failed in check (ops.py:5), called by gather (ops.py:9): table of rows is empty" in said(found)


def test_an_operator_that_throws_is_shown_with_the_line_of_the_throw(tmp_path: Path) -> None:
    stack = (
        Frame("__cxa_throw", module="libstdc++.so.6"),
        Frame("check", file="/opt/job/ops.cpp", line=11),
        Frame("gather", file="/opt/job/ops.cpp", line=14),
        Frame("c10::Dispatcher::call", file="/opt/venv/lib/python3.11/site-packages/torch/include/d.h", line=7),
    )
    hit = ExceptionHit(id="x", type="std::length_error", message="table of rows is empty", stack=stack, catchpoint="C1")
    point = Catchpoint(id="C1", process="p", pattern="any", moment=Moment.THROW, state=CatchpointState.DONE)
    err = (THROW / "stderr.txt").read_text()
    found = step(1, tmp_path, model=THROW, err=err, code=1, hit=hit, point=point)
    assert "failed by std::length_error in check (ops.cpp:11), called by gather (ops.cpp:14): table of" in said(found)
    other = structs.replace(hit, message="something else")
    assert "ops.cpp" not in said(step(1, tmp_path, model=THROW, err=err, code=1, hit=other, point=point))


def test_a_nan_that_comes_in_with_an_input_is_said_to_be_the_inputs(tmp_path: Path) -> None:
    found = step(1, tmp_path, err="RuntimeError: At least one NaN in arg4_1\n", code=1)
    assert "found: Input 0 (counted from 0; " in said(found) and "arg4_1 of the generated code) comes with NaN" in said(
        found
    )
    assert found.cause and found.wrong_value
    made = step(1, tmp_path, err="RuntimeError: At least one NaN in buf4\n", code=1)
    assert "found: There is NaN in buf4." in said(made)


def test_an_error_of_the_device_that_an_operator_reports_is_not_its_own(tmp_path: Path) -> None:
    err = (THROW / "stderr.txt").read_text().replace("table of rows is empty", "CUDA error: misaligned address")
    found = step(1, tmp_path, model=THROW, err=err, code=1)
    assert "failed: CUDA error: misaligned address" in said(found) and not found.cause


def test_the_code_of_a_package_that_was_compiled_here_is_found_by_the_error(tmp_path: Path) -> None:
    err = (THROW / "stderr.txt").read_text().replace("/opt/job/cache/", f"{THROW}/")
    found = step(1, tmp_path, model=None, err=err, code=1)
    assert "guide::throws (call 3 of 5, model.wrapper.cpp:885) failed: table of rows is empty" in said(found)


def test_the_kernel_that_did_not_return_is_handed_on_with_those_that_made_what_it_reads(tmp_path: Path) -> None:
    names = (NAN / "names.txt").read_text().partition("[ after_launch: cpp_fused_log")[0]
    found = step(2, tmp_path, out=names, code=139)
    assert "Launched last and not returned: cpp_fused_log_mul_relu_sub_0 (call 2 of 4" in said(found)
    assert "It died of signal 11" in said(found)
    assert found.hands == {"kernel": "cpp_fused_log_mul_relu_sub_0,aoti_torch_cpu_addmm_out"}
    assert open_kernel(names.splitlines()) == ("cpp_fused_log_mul_relu_sub_0", 2, 1)


def test_a_custom_operator_prints_nothing_and_is_named_as_the_next_in_the_code(tmp_path: Path) -> None:
    found = step(2, tmp_path, model=THROW, out=(THROW / "names.txt").read_text(), code=134)
    assert "Next in the code: guide::throws (call 3 of 5" in said(found)


def test_an_operator_that_does_not_return_is_named_by_the_stack(tmp_path: Path) -> None:
    frames = (
        Frame("wait_for_peer_flag", file="/opt/job/ops.cpp", line=8),
        Frame("torch::aot_inductor::AOTInductorModel::run_impl", file="/opt/cache/model.wrapper.cpp", line=885),
        Frame("AOTInductorModelContainerRun", file="/opt/cache/model.wrapper.cpp", line=173),
    )
    stack = Stack(thread="thread:box/2", frames=frames, taken_mono_ns=0, source="no stop")
    names = (THROW / "names.txt").read_text()
    found = step(2, tmp_path, model=THROW, out=names, code=None, threads={"thread:box/2": stack})
    assert "It has not ended: a thread is in guide::throws (call 3 of 5, model.wrapper.cpp:885)" in said(found)
    assert found.hands == {"kernel": "cpp_fused_mul_relu_throws_0"}
    hang = "Deadlock: thread 2 waits for a mutex that it holds itself."
    for opened, told in (("/dev/zero", True), ("/dev/nvidia0", False)):
        threads = {"thread:box/2": stack}
        found = step(1, tmp_path, model=THROW, code=None, threads=threads, hang=hang, opened=frozenset((opened,)))
        assert f"It hangs in guide::throws (call 3 of 5, model.wrapper.cpp:885). {hang}" in said(found)
        assert found.cause is told  # on a GPU an earlier kernel may hang


@pytest.mark.parametrize(("line", "call", "told"), [(885, "guide::throws", True), (879, "cpp_fused_mul_relu", False)])
def test_a_crash_is_said_with_the_call_of_the_model(line: int, call: str, told: bool, tmp_path: Path) -> None:
    frames = (
        Frame("remap", file="/opt/job/ops.cpp", line=8),
        Frame("torch::aot_inductor::AOTInductorModel::run_impl", file="/opt/cache/model.wrapper.cpp", line=line),
    )
    hit = ExceptionHit(id="1", type="SIGSEGV", message="address not mapped", stack=frames)
    crash = "Crashed in remap (ops.cpp:8)."
    found = step(1, tmp_path, model=THROW, code=139, crash=crash, hit=hit, opened=frozenset(("/dev/zero",)))
    assert f"It died in {call}" in said(found) and said(found).count(crash) == 1
    assert found.cause is told  # of a kernel, the values that it read tell more
    elsewhere = step(1, tmp_path, model=THROW, code=139, crash=crash)
    assert f"found: {crash}" in said(elsewhere) and not elsewhere.cause


@pytest.mark.parametrize(
    ("caller", "words"),
    [
        (
            Frame("AOTICompiledModel.__call__", file="/v/torch/export/pt2_archive/_package.py", line=7),
            "a thread is in a call of a model, in wait_for_peer (ops.cpp:8).",
        ),
        (
            Frame("torch::inductor::AOTIModelPackageLoader::run"),
            "a thread is in a call of a model, in wait_for_peer (ops.cpp:8).",
        ),
        (Frame("main", file="/opt/job/main.cpp", line=3), "no thread was seen in a call of a model"),
    ],
)
def test_a_stack_that_ends_before_the_generated_code_still_says_that_it_is_in_a_model(
    caller: Frame, words: str, tmp_path: Path
) -> None:
    frames = (
        Frame("pause", file="../sysdeps/unix/sysv/linux/pause.c", line=29),
        Frame("wait_for_peer", file="/opt/job/ops.cpp", line=8),
        caller,
    )
    stack = Stack(thread="thread:box/2", frames=frames, taken_mono_ns=0, source="no stop")
    names = (THROW / "names.txt").read_text()
    text = said(step(2, tmp_path, model=THROW, out=names, code=None, threads={"thread:box/2": stack}))
    assert words in text and "Next in the code: guide::throws (call 3 of 5" in text


def test_the_kernel_that_made_a_nan_with_its_sources(tmp_path: Path) -> None:
    found = step(3, tmp_path, out=(NAN / "values.txt").read_text())
    assert found.wrong_value and found.cause
    text = said(found)
    assert "found: cpp_fused_log_mul_relu_sub_0 (call 2) produced the first NaN; its inputs have none." in text
    assert "model: /opt/job/model.py:19 in forward: h = torch.log(h - 1) (log can make NaN of finite numbers)\n" in text
    assert f"source: {NAN / 'model.kernel.cpp'}:4 (C++)" in text


@pytest.mark.invariant("aoti_printed.V1")
def test_uninitialised_memory_before_a_launch_is_no_nan(tmp_path: Path) -> None:
    kernel = "aoti_torch_cpu_addmm_out"
    text = block("before", kernel, "buf0", "-nan") + block("before", kernel, "arg4_1", "1")
    found = step(3, tmp_path, out=text + block("after", kernel, "buf0", "1"))
    assert not found.wrong_value
    assert "No printed value is NaN or infinity." in said(found)


def block(when: str, kernel: str, argument: str, mean: str) -> str:
    """One printed value."""
    return f"[  {when}_launch - {kernel} - {argument}  ]:\nDtype: float32\nMean value: {mean}\nSize: [4]\n\n"


@pytest.mark.invariant("aoti_reading.W2")
def test_a_kernel_that_got_a_nan_did_not_make_it(tmp_path: Path) -> None:
    kernel = "cpp_fused__softmax_add_tanh_1"
    got = block("before", kernel, "buf3", "nan") + block("after", kernel, "buf3", "nan")
    found = step(3, tmp_path, out=got)
    assert "gets NaN in buf3, which aoti_torch_cpu_addmm_out (call 3) made." in said(found)
    assert found.hands == {"kernel": "aoti_torch_cpu_addmm_out"} and not found.cause
    unseen = block("after", kernel, "buf3", "nan")
    assert "It also reads buf3, which was not printed" in said(step(3, tmp_path, out=unseen))


@pytest.mark.invariant("aoti_reading.W2")
def test_a_nan_behind_weights_may_be_theirs(tmp_path: Path) -> None:
    kernel = "aoti_torch_cpu_addmm_out"
    text = "[  aoti_model_inputs - arg4_1  ]:\nMean value: 0\n" + block("before", kernel, "arg4_1", "0")
    found = step(3, tmp_path, out=text + block("after", kernel, "buf0", "nan"))
    assert found.wrong_value
    assert "(call 1) produced the first NaN; its inputs have none. Not printed, and may have it: a." in said(found)


@pytest.mark.invariant("aoti_reading.W2")
def test_what_an_earlier_kernel_left_finite_is_no_source_of_a_nan(tmp_path: Path) -> None:
    before = block("after", "cpp_fused_log_mul_relu_sub_0", "buf1", "{}")
    got = block("after", "aoti_torch_cpu_addmm_out", "buf2", "nan")
    assert "its inputs have none. Not printed, and may have it: b" in said(
        step(3, tmp_path, out=before.format("0.5") + got)
    )
    assert "It also reads buf1" in said(step(3, tmp_path, out=before.format("inf") + got))


def test_infinity_in_what_is_written_last_is_a_wrong_value_unless_it_is_a_mask_s(tmp_path: Path) -> None:
    kernel = "cpp_fused__softmax_add_tanh_1"
    last = (
        "[  after_launch - {} - buf6  ]:\nDtype: float32\nMean value: {}\nMax value: {}\nMin value: {}\nSize: [4]\n\n"
    )
    assert step(3, tmp_path, out=last.format(kernel, "inf", "inf", "1")).wrong_value
    assert not step(3, tmp_path, out=last.format(kernel, "-inf", "1", "-inf")).wrong_value


def test_infinity_alone_may_be_meant_and_a_nan_that_came_of_it_is_told_with_it(tmp_path: Path) -> None:
    mask = "[  aoti_model_inputs - arg4_1  ]:\nMax value: 0\nMin value: -inf\n"
    found = step(3, tmp_path, out=mask)
    assert not found.wrong_value and not found.cause
    assert "its input arg4_1" in said(found) and "no error where the model means it" in said(found)
    kernel = "cpp_fused__softmax_add_tanh_1"
    got = block("before", kernel, "buf3", "inf") + block("after", kernel, "buf6", "nan")
    found = step(3, tmp_path, out=mask + got)
    assert found.wrong_value
    assert f"{kernel} (call 4) made NaN of infinity in buf3, which aoti_torch_cpu_addmm_out (call 3) made" in said(
        found
    )


def test_a_nan_that_the_model_gets(tmp_path: Path) -> None:
    text = "[  aoti_model_inputs - arg4_1  ]:\nMean value: nan\n"
    assert "The model gets NaN: its input arg4_1." in said(step(3, tmp_path, out=text))


@pytest.mark.invariant("aoti_settings.N1")
def test_names_that_the_installed_torch_does_not_know(tmp_path: Path) -> None:
    lib = tmp_path / "torch" / "lib" / "libtorch_cpu.so"
    asked = {"AOT_INDUCTOR_COMPILE_WRAPPER_WITH_O0": "1", "TORCHINDUCTOR_NAN_ASSERTS": "1", "HOME": "/"}
    assert list(unknown_settings(asked, [str(lib)])) == []
    (tmp_path / "torch" / "_inductor").mkdir(parents=True)
    config = tmp_path / "torch" / "_inductor" / "config.py"
    config.write_text('nan_asserts = os.environ.get("TORCHINDUCTOR_NAN_ASSERTS") == "1"\n')
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.13.0+cpu'\n")
    assert list(unknown_settings(asked, [str(lib)])) == [
        "AOT_INDUCTOR_COMPILE_WRAPPER_WITH_O0 is not known to torch 2.13.0+cpu, and does nothing. "
        "Instead: AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL=O0."
    ]


@pytest.mark.torch
def test_the_settings_of_the_guide_are_known_to_the_installed_torch() -> None:
    known, _ = recipes()
    names = {name: "1" for key, recipe in known.items() if key.startswith("aoti-") for name in recipe.environment}
    found = find_spec("torch")  # to import it takes seconds
    assert found is not None and found.origin is not None
    library = Path(found.origin).parent / "lib" / "libtorch_cpu.so"
    assert list(unknown_settings(names, [str(library)])) == []


@pytest.mark.invariant("aoti_sources.F1")
def test_a_package_is_read_where_it_lies(tmp_path: Path) -> None:
    package = tmp_path / "model.pt2"
    with zipfile.ZipFile(package, "w") as archive:
        for file in THROW.iterdir():
            archive.write(file, f"model/data/aotinductor/model/{file.name}")
        archive.writestr("../../evil.wrapper.cpp", "")
    found = [model.code for model in in_package(package)]
    assert [len(code.calls) for code in found] == [5, 0]
    assert list(tmp_path.iterdir()) == [package]
    package.write_bytes(package.read_bytes()[:2000])
    assert list(in_package(package)) == []
