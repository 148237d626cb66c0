"""What compilers say when they fail; and what looks like it and is no failure."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.analysis.world import World
from tests.logs.reading import found, verdict

CRASHED = VerdictState.CRASHED
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\n'

FAILED = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n"


def test_while_the_job_lives_it_is_a_note() -> None:
    world = World()
    world.process(1)
    assert {one.state for one in found("compiler-failed", FAILED, world=world)} == {None}


@pytest.mark.invariant("signature_decoder.D2")
def test_D2_a_choice_that_a_tuner_drops_is_no_failure() -> None:
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


@pytest.mark.invariant("signature_decoder.D1")
def test_D1_what_a_logger_calls_a_warning_is_a_note() -> None:
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


LIDS = (
    "lids.mlir:7:5: error: 'lid.shut' op has no valve\n  func.func @shut_lids$async_dispatch_3(%arg0: index) {\n  ^\n"
)
TRANSLATED = (
    "lids.mlir:2:3: error: failed to run translation of source executable to target executable for backend "
    '#hal.executable.target<"cuda", "cuda-nvptx-fb", {target_arch = "sm_80"}>\n'
)
PUMPED = "lids.mlir:90:5: error: 'pump.fill' op has two tanks\n     %7 = pump.fill %3\n     ^\n"
CONVERTED = "lids.mlir:1:1: error: conversion to the tank + pump dialects failed\nmodule @plant {\n^\n"
_SHUT = "MLIR failed: 'lid.shut' op has no valve (lids.mlir:7:5)"


@pytest.mark.invariant("compilers.J3")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LIDS + TRANSLATED, f"{_SHUT}, in @shut_lids$async_dispatch_3, for cuda/sm_80."),
        (
            LIDS + PUMPED,
            f"{_SHUT}, in @shut_lids$async_dispatch_3. Another error: 'pump.fill' op has two tanks (lids.mlir:90:5).",
        ),
        (LIDS + LIDS.replace(":7:", ":9:"), f"{_SHUT}, in @shut_lids$async_dispatch_3. 1 more error."),
        (
            PUMPED + CONVERTED,
            "MLIR failed: 'pump.fill' op has two tanks (lids.mlir:90:5), in conversion to the tank + pump dialects.",
        ),
        (CONVERTED, "MLIR failed: conversion to the tank + pump dialects failed (lids.mlir:1:1)."),
    ],
)
def test_J3_the_stage_the_function_and_the_target_of_an_error_and_another_one(text: str, says: str) -> None:
    (one,) = found("compiler-failed", text)
    assert one.sentence == says
    assert verdict(text + STEPS).state is not CRASHED


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


def test_what_was_raised_beside_a_compiler_s_lines_says_from_where() -> None:
    error = 'loc("/w/k.mlir":2:3): error: ub overflow, requires 9 bits while 8 bits available!\n'
    raised = f"{TRACE}triton.compiler.errors.MLIRCompilationError: \n///------[ERROR]------\n"
    assert found("compiler-failed", raised + error)[0].sentence.endswith("(/w/k.mlir:2), at train.py:9.")
    assert "train.py" not in found("compiler-failed", f"{TRACE}KeyError: 'x'\n{error}")[0].sentence


@pytest.mark.parametrize("caret", ["        ^", "^"])
def test_the_reason_below_what_a_message_quotes_of_a_source(caret: str) -> None:
    raised = f"{TRACE}triton.compiler.errors.CompilationError: at 4:13:\n    b = tl.dot(a, a)\n{caret}\n"
    (one,) = found("compiler-failed", f"{raised}AssertionError('K >= 16')\nstep 3\n")
    assert one.sentence.startswith("Triton failed: AssertionError('K >= 16'), in `b = tl.dot(a, a)`")


@pytest.mark.parametrize("words", ["Ninja build failed. Ninja output:", "Failed to build the op norm:", "Build failed"])
def test_an_exception_for_a_build_follows_from_the_compiler_s_error(words: str) -> None:
    error = "FAILED: norm.o\n/opt/gpu/half.hpp:70:10: fatal error: nv/target: No such file or directory\n"
    said = verdict(f"{TRACE}RuntimeError: {words}\n{error}ninja: build stopped: subcommand failed.\nKilled\n")
    assert said.sentence.startswith(
        "The C++ compiler failed: nv/target: No such file or directory (/opt/gpu/half.hpp:7"
    )


@pytest.mark.invariant("compilers.J2")
def test_J2_an_assertion_right_below_a_message_without_a_reason_ended_it() -> None:
    pipeline = "/w/pump.py:74:0: error: Failures have been detected while processing an MLIR pass pipeline\n"
    asserted = "run: /w/lib/Valve.cpp:478: void runOnOperation(): Assertion `verified' failed.\n"
    assert verdict(pipeline + asserted).sentence.startswith("Crashed in runOnOperation (Valve.cpp:478): assert: ")
    backend = "error: <unknown>:0:0: in function fill void (ptr): unsupported dynamic alloca\n"
    assert verdict(backend + asserted).sentence.startswith("LLVM failed: unsupported dynamic alloca (in fill).")
    reason = pipeline.replace("Failures", "'pump.fill' op has no valve: Failures", 1)
    assert verdict(reason.partition(": Failures")[0] + "\n" + asserted).sentence.startswith("MLIR failed: 'pump.fill'")


def test_the_input_that_filecheck_prints_below_its_error_is_no_progress() -> None:
    error = (
        "C:\\w\\test\\fill.test:11:11: error: CHECK: expected string not found in input\n# CHECK: f32=2\n         ^\n"
    )
    dump = "".join(f"          {n}: level {n}\ncheck:11'0     ~~~~~~~~~\n" for n in range(40, 60))
    said = verdict(f"{error}\nInput file: <stdin>\n\nInput was:\n<<<<<<\n{dump}>>>>>>\n")
    assert said.state is CRASHED and said.sentence.startswith("FileCheck failed: CHECK `f32=2`")
    passed = "[==========] 2 tests ran.\n[  PASSED  ] 2 tests.\n"
    assert verdict(f"[ RUN      ] A.B\n{error}[       OK ] A.B (1 ms)\n{passed}").state is not CRASHED


def test_what_a_script_of_cmake_says_of_a_program_that_it_ran_follows_from_the_program() -> None:
    echo = (
        "CMake Error at cmake/run_pump.cmake:7 (execute_process):\n  execute_process failed command indexes:\n\n"
        '    1: "Abnormal exit with child return code: Subprocess aborted"\n\n'
    )
    thrown = "terminate called after throwing an instance of 'PumpError'\n  what():  no lid\n"
    assert verdict(thrown + echo).sentence.startswith("Crashed: PumpError: no lid.")
    assert verdict(echo).sentence.startswith("CMake failed: execute_process failed command indexes: 1: ")
    failed = f" 1/2 Test #7: pumps ....***Failed    0.77 sec\n{thrown}{echo}\n"
    assert verdict(f"{failed}The following tests FAILED:\n\t  7 - pumps (Failed)\n").sentence.startswith(
        "The test run failed: pumps: PumpError: no lid"
    )


DUMPED = (
    "plant-opt: /w/llvm/include/llvm/ADT/ArrayRef.h:31: const T &llvm::ArrayRef<plant::Tank>::operator[](size_t) const "
    "[T = plant::Tank]: Assertion `Index < Length' failed.\nPLEASE submit a bug report\nStack dump:\n"
    "0.\tProgram arguments: /w/bin/plant-opt --fill 7.mlir\n"
    " #0 0x000055d0c0ffee00 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) /w/llvm/lib/Signals.inc:7:13\n"
    " #1 0x000055d0c0ffee01 raise /build/glibc-2.31/signal/raise.c:51:1\n"
    " #2 0x000055d0c0ffee02 abort /build/glibc-2.31/stdlib/abort.c:81:7\n"
)


def test_an_assertion_of_a_container_is_told_by_its_caller_or_by_the_program_and_its_arguments() -> None:
    arguments = "in `plant-opt --fill 7.mlir`."
    said = verdict(DUMPED).sentence
    assert said.startswith("Crashed in ArrayRef::operator[] (ArrayRef.h:31): assert: ") and said.endswith(arguments)
    caller = " #3 0x000055d0c0ffee03 plant::fill(plant::Pump&) /w/plant/lib/Fill.cpp:12:3\n"
    said = verdict(DUMPED + caller).sentence
    assert said.startswith("Crashed in plant::fill (Fill.cpp:12): assert: ArrayRef.h:31: ") and said.endswith(arguments)


DECLARED = (
    "/w/fill.cpp:{}:9: error: variable has incomplete type 'void'\n/w/fill.cpp:{}:8: error: no member named 'Tank' in "
    "namespace 'plant'\n"
)


@pytest.mark.invariant("compilers.J5")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DECLARED.format(7, 8), "no member named 'Tank' in namespace 'plant' (/w/fill.cpp:8). 1 more error."),
        (DECLARED.format(7, 70), "variable has incomplete type 'void' (/w/fill.cpp:7). 1 more error."),
        (
            DECLARED.format(7, 8).replace("variable has incomplete type 'void'", "expected ';' after expression"),
            "expected ';' after expression (/w/fill.cpp:7). 1 more error.",
        ),
    ],
)
def test_J5_of_a_declaration_the_name_that_is_not_declared_is_first(text: str, says: str) -> None:
    assert verdict(text).sentence == f"The C++ compiler failed: {says}"


LARGE = "ptxas error   : Entry function '_Z9fill_tankPf' uses too much shared data (0xc400 bytes, 0xc000 max)\n"
MADE = "make[{}]: *** [plant/CMakeFiles/plant.dir/build.make:3: plant/CMakeFiles/plant.dir/{}] Error 255\n"
OUTER = "make: *** [Makefile:136: all] Error 2\n"


END = "ninja: build stopped: subcommand failed.\n"


@pytest.mark.invariant("compilers.J4")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LARGE + MADE.format(2, "fill.cu.o") + OUTER, ", making fill.cu.o."),
        (
            LARGE + MADE.format(2, "fill.cu.o") + MADE.format(2, "lid.cu.o") + OUTER,
            " at most.",
        ),  # of which is not known
        (f"FAILED: plant/fill.cu.o\nnvcc -c fill.cu\n{LARGE}ninja: build stopped: subcommand failed.\n", "fill.cu.o."),
        (
            f"FAILED: plant/fill.obj\ncl /c fill.cpp\n/w/lid/lid.h(7): error C2143: no pump\n{END}",
            "lid.h:7), making fill.obj.",
        ),
        (f"FAILED: plant/fill.o\nc++ -c fill.cpp\n/w/lid/lid.h:7:9: error: no pump\n{END}", "lid.h:7), making fill.o."),
        (f"FAILED: plant/fill.o\nc++ -c fill.cpp\n/w/fill.cpp:7:9: error: no pump\n{END}", "no pump (/w/fill.cpp:7)."),
        (f"/w/fill.cpp:7:9: error: no pump\n{MADE.format(2, 'fill.cpp.o')}{OUTER}", "no pump (/w/fill.cpp:7)."),
        (MADE.format(2, "fill.cu.o") + OUTER, "fill.cu.o] Error 255."),
    ],
)
def test_J4_what_the_step_was_making_is_said_of_an_error_without_a_source(text: str, says: str) -> None:
    judged = verdict(text)
    assert judged.state is CRASHED
    assert judged.sentence.endswith(says)
