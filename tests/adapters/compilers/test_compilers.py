"""What compilers say when they fail; and what looks like it and is no failure."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.analysis.world import World
from tests.logs.reading import found, verdict

CRASHED = VerdictState.CRASHED
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\n'

SAID = [
    (
        "ptxas /tmp/tmpk3.ptx, line 21; error   : Feature '.bf16' requires .target sm_80 or higher\nptxas fatal   : "
        "Ptx assembly aborted due to errors\n",
        "ptxas failed: Feature '.bf16' requires .target sm_80 or higher (/tmp/tmpk3.ptx:21).",
    ),
    (
        "ptxas error   : Entry function 'attn_fwd' uses too much shared data (0x24000 bytes, 0x18c00 max)\n",
        "ptxas failed: kernel attn_fwd uses 147,456 bytes of shared memory, 101,376 at most.",
    ),
    (
        "ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'\n",
        "ptxas failed: Value 'sm_120' is not defined for option 'gpu-name'.",
    ),
    (
        "nvcc fatal   : Unsupported gpu architecture 'compute_120'\n",
        "nvcc failed: Unsupported gpu architecture 'compute_120'.",
    ),
    (
        "nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n",
        "nvcc failed: cicc was ended by signal 9, Kill signal.",
    ),
    (
        "nvlink error   : Undefined reference to '_Z4pushPf' in '/tmp/a.o'\n",
        "nvlink failed: Undefined reference to '_Z4pushPf' in '/tmp/a.o'.",
    ),
    (
        'default_program(14): error: identifier "warp_sum" is undefined\n\n1 error detected in the compilation of '
        '"default_program".\n',
        'NVRTC failed: identifier "warp_sum" is undefined (default_program:14).',
    ),
    (
        '/w/src/norm.cu(88): error: no instance of overloaded function "atomicAdd" matches the argument list\n',
        'nvcc failed: no instance of overloaded function "atomicAdd" matches the argument list (/w/src/norm.cu:88).',
    ),
    (
        "nvrtc: error: invalid value for --gpu-architecture (-arch)\n",
        "NVRTC failed: invalid value for --gpu-architecture (-arch).",
    ),
    (
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 163842, Hardware limit: "
        "101376. Reducing block sizes or `num_stages` may help.\n",
        "Triton failed: a kernel needs 163,842 bytes of shared memory, the GPU has 101,376.",
    ),
    (
        "/w/ext/norm.cpp:31:9: error: 'topk' was not declared in this scope\n   31 |         topk(x);\n      |         "
        "^~~~\nninja: build stopped: subcommand failed.\n",
        "The C++ compiler failed: 'topk' was not declared in this scope (/w/ext/norm.cpp:31).",
    ),
    (
        "In file included from /w/ext/norm.cpp:1:\n/w/ext/norm.h:3:10: fatal error: cuda_runtime.h: No such file or "
        "directory\ncompilation terminated.\n",
        "The C++ compiler failed: cuda_runtime.h: No such file or directory (/w/ext/norm.h:3).",
    ),
    (
        "g++: internal compiler error: Killed (program cc1plus)\n",
        "g++ failed: its compiler was killed (Killed (program cc1plus)).",
    ),
    (
        "/usr/bin/ld: cannot find -lcudart: No such file or directory\ncollect2: error: ld returned 1 exit status\n",
        "The linker failed: cannot find -lcudart.",
    ),
    (
        "norm.cpp:(.text+0x1f): undefined reference to `launch_norm(float*)'\ncollect2: error: ld returned 1 exit "
        "status\n",
        "The linker failed: undefined reference to launch_norm(float*) (norm.cpp:(.text+0x1f)).",
    ),
    (
        'CMake Error at cmake/FindTorch.cmake:21 (find_package):\n  By not providing "FindCaffe2.cmake" in\n'
        "  CMAKE_MODULE_PATH this project has asked CMake to find it.\nCall Stack (most recent call first):\n"
        "  CMakeLists.txt:9 (include)\n\n\n-- Configuring incomplete, errors occurred!\n",
        'CMake failed: By not providing "FindCaffe2.cmake" in CMAKE_MODULE_PATH this project has asked CMake to find '
        "it (cmake/FindTorch.cmake:21).",
    ),
    (
        'CMake Error: The source directory "/w/none" does not exist.\n',
        'CMake failed: The source directory "/w/none" does not exist.',
    ),
    (
        '  /w/src/norm.cu(88): error: identifier "foo" is undefined\n',
        'nvcc failed: identifier "foo" is undefined (/w/src/norm.cu:88).',
    ),
    (
        "m.mlir:3:8: error: failed to legalize operation 'arith.divsi'\nm.mlir:3:8: note: see current operation: %4 = "
        '"arith.divsi"(%2, %3) : (i64, i64) -> i64\n',
        "MLIR failed: failed to legalize operation 'arith.divsi' (m.mlir:3:8).",
    ),
    (
        "<unknown>:0: error: failed to legalize operation 'torch.constant.float'\n",
        "MLIR failed: failed to legalize operation 'torch.constant.float' (<unknown>:0).",
    ),
    (
        "/w/k.py:12:8: error: 'tt.dot' op expected the last dimension of the first operand to match\n",
        "MLIR failed: 'tt.dot' op expected the last dimension of the first operand to match (/w/k.py:12:8).",
    ),
]

NONE = [
    "ptxas info    : Used 32 registers, 380 bytes cmem[0]\n",
    "ptxas /tmp/a.ptx, line 21; warning : Instruction 'x' without '.sync' is deprecated\n",
    "/w/ext/norm.cpp:31:9: warning: unused variable 'a' [-Wunused-variable]\n",
    "m.mlir:3:8: remark: vectorized\nm.mlir:3:8: note: see current operation\n",
    "step(3): error: 0.12\n",
    "deploy.conf:12: error: no such option\n",
    "validation error: 0.03, test error: 0.05\n",
    "12:31:09 error: rate is high\n",
    "make: Nothing to be done for 'all'.\n",
    "CMake Warning at CMakeLists.txt:9 (message):\n  no CUDA found\n",
    "CMake Deprecation Warning at CMakeLists.txt:1 (cmake_minimum_required):\n  Compatibility with CMake < 3.5\n",
    "info: out of resources soon\n",
]


@pytest.mark.parametrize(("text", "sentence"), SAID)
def test_each_form(text: str, sentence: str) -> None:
    said = verdict(text)
    assert (said.state, said.sentence) == (CRASHED, sentence)


@pytest.mark.parametrize(("text", "sentence"), SAID)
def test_what_the_log_goes_on_after_is_no_crash(text: str, sentence: str) -> None:
    assert verdict(text + STEPS).state is not CRASHED


@pytest.mark.parametrize(("text", "sentence"), SAID)
def test_while_the_job_lives_it_is_a_note(text: str, sentence: str) -> None:
    world = World()
    world.process(1)
    assert {one.state for one in found("compiler-failed", text, world=world)} == {None}


@pytest.mark.invariant("compiler_failures.F1")
@pytest.mark.parametrize("text", NONE)
def test_F1_no_failures(text: str) -> None:
    assert found("compiler-failed", text) == []


@pytest.mark.invariant("compiler_failures.F1")
def test_F1_a_choice_that_a_tuner_drops_is_no_failure() -> None:
    text = (
        "E0108 19:01:00.635000 1064190 torch/_inductor/select_algorithm.py:2100] [0/0] Runtime error during "
        "autotuning: out of resource: shared memory, Required: 163842, Hardware limit: 101376. Ignoring this choice.\n"
    )
    assert found("compiler-failed", text) == []
    lines = (
        "Runtime error during autotuning:\nNo valid triton configs. OutOfResources: out of resource: shared memory, "
        "Required: 131072, Hardware limit: 101376.\nIgnoring this choice.\n"
    )
    assert found("compiler-failed", lines) == []


@pytest.mark.invariant("compiler_failures.F1")
def test_F1_what_a_logger_calls_a_warning_is_a_note() -> None:
    head = "W0108 19:01:00.635000 1064190 torch/_higher_order_ops/triton_kernel_wrap.py:983] [0/0] "
    lines = (
        "Encountered an exception in identify_mutated_tensors, assuming every input is mutated",
        "Traceback (most recent call last):",
        '  File "/w/t.py", line 9, in main',
        "    raise CompilationError(self.jit_fn.src, self.cur_node, repr(e)) from None",
        "triton.compiler.errors.CompilationError: at 1:0:",
        "def _kernel(x_ptr, n):",
        "^",
        "IndexError('index out of range')",
    )
    text = "".join(f"{head}{line}\n" for line in lines) + "tensor([1.0, 2.0])\n"
    assert verdict(text).state is not CRASHED
    assert {one.state for one in found("compiler-failed", text)} <= {None}


def test_errors_of_one_compilation_are_one_finding() -> None:
    text = "".join(f"/w/a.cpp:{n}:1: error: expected ';' before 'x'\n" for n in range(3, 9)) + (
        "ninja: build stopped: subcommand failed.\n"
    )
    (one,) = found("compiler-failed", text)
    assert one.sentence.endswith("(/w/a.cpp:3). 5 more errors.")


def test_triton_s_excerpt() -> None:
    text = TRACE + (
        "triton.compiler.errors.CompilationError: at 4:13:\n"
        "def softmax_kernel(out, x, n: tl.constexpr):\n    row = tl.program_id(0)\n"
        "    a = tl.load(x + row * n)\n    b = tl.sum(a, 7)\n        ^\nValueError('axis out of range')\n"
    )
    said = verdict(text)
    assert said.state is CRASHED and found("crash", text) == []
    assert said.sentence.startswith("Triton failed: ") and "at 4:13" in said.sentence
    assert said.sentence.endswith(", at train.py:9.")


def test_the_error_of_ptxas_leads_and_not_triton_s_wrapper() -> None:
    text = TRACE + (
        "RuntimeError: Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas /tmp/t.ptx, line 7; error   : Feature "
        "'.bf16' requires .target sm_80 or higher\nptxas fatal   : Ptx assembly aborted due to errors\n\nRepro "
        "command: ptxas -v --gpu-name=sm_70 /tmp/t.ptx\n"
    )
    said = verdict(text)
    assert said.state is CRASHED and said.sentence.startswith("ptxas failed: Feature '.bf16' requires .target sm_80")
    assert found("crash", text) == []


def test_the_pass_of_an_mlir_compiler() -> None:
    text = (
        "<eval_with_key>.3:651:14: error: failed to legalize operation 'arith.constant'\n<eval_with_key>.3:651:14: "
        "error: Failures have been detected while processing an MLIR pass pipeline\n<eval_with_key>.3:651:14: note: "
        "Pipeline failed while executing [`mlir::ns::HAL::TranslatePass` on "
        "'hal.executable' operation: @fwd_dispatch_7, `ConvertToSPIRV` on 'builtin.module' "
        "operation]: reproducer generated at `./tmp/core-reproducer.mlir`\n"
    )
    (one,) = found("compiler-failed", text)
    assert one.sentence == (
        "MLIR failed: failed to legalize operation 'arith.constant' (<eval_with_key>.3:651:14), in pass ConvertToSPIRV "
        "of @fwd_dispatch_7."
    )
    assert any("core-reproducer.mlir" in step for step in one.next)


BROKEN = (
    "make[2]: *** [CMakeFiles/ops.dir/build.make:83: ops.o] Error 1\nmake[2]: *** Waiting for unfinished jobs....\n"
)
OTHERS = "".join(f"[ {n}%] Building CXX object CMakeFiles/net.dir/part{n}.cpp.o\n" for n in range(20, 60))


@pytest.mark.invariant("compilers.J1")
def test_J1_a_build_ends_with_the_last_word_of_its_outermost_tool() -> None:
    ended = verdict(BROKEN + OTHERS + "make[1]: *** [CMakeFiles/Makefile2:9: all] Error 2\nmake: *** [all] Error 2\n")
    assert ended.state is CRASHED
    assert "make[2]: *** [CMakeFiles/ops.dir/build.make:83: ops.o] Error 1" in ended.sentence


@pytest.mark.invariant("compilers.J1")
@pytest.mark.parametrize(
    "end",
    ["[100%] Built target all\n", "make: *** Waiting for unfinished jobs....\n", f"make: *** [all] Error 2\n{STEPS}"],
)
def test_J1_a_build_that_goes_on_is_not_ended(end: str) -> None:
    assert verdict(BROKEN + OTHERS + end + STEPS).state is not CRASHED


def test_what_a_tool_runs_is_read_below_its_heading() -> None:
    copied = "".join(f"  copying pkg/part{n}.py -> build/lib/pkg\n" for n in range(900))
    text = (
        f'Building wheels for collected packages: ops\n{copied}  /w/norm.cu(88): error: identifier "f" is undefined\n'
    )
    assert verdict(text).sentence == 'nvcc failed: identifier "f" is undefined (/w/norm.cu:88).'
