"""What livedbg makes of each form of log in which errors of CUDA are told."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from livedbg.adapters.cuda.device_lines import DeviceStops, device_assert
from livedbg.adapters.cuda.facts import about
from livedbg.adapters.cuda.rules.sentences import launched_last
from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.verdict import exit_code
from livedbg.model import Severity, ThreadState
from livedbg.model.events import LaunchesSeen, ProcessSeen
from livedbg.model.launches import Launch, LaunchTrail
from livedbg.model.snapshot import Snapshot
from livedbg.text.demangling import is_rest_of_symbol
from tests.adapters.cuda.fixture_logs import FIXTURES, PID, STAMP, fixture, read, target
from tests.logs.reading import verdict as diagnosed


@dataclass(frozen=True)
class Case:
    """What is true of a log.

    Attributes:
        code: exit code of the command line.
        rule: of the chief finding.
        says: what its sentence must say.
        next: what its next steps must say.
        not_said: what must not stand in the sentence.
    """

    name: str
    code: int
    rule: str
    says: tuple[str, ...]
    next: tuple[str, ...] = ()
    not_said: tuple[str, ...] = ()
    inferred: bool = False


RECIPES = ("--recipe cuda-blocking", "--recipe compute-sanitizer=memcheck", "--recipe cuda-coredump")
CASES = [
    Case(
        "memcheck",
        11,
        "cuda-fault",
        (
            "Invalid __global__ read of size 4 bytes in kernel shift<float> at shift.cu:31",
            "by threads (254,0,0) to (255,0,0) of block (4095,0,0), 2 times",
            "Access to 0x7f47bffffc00 is out of bounds and is 1,025 bytes after",
            "launched by run_shift at main.cpp:58",
            "noticed it at run_shift at main.cpp:60",
            "2 reports of the host are consequences",
            "counted 11 errors; 4 are in the log",
        ),
        ("check shift.cu:31",),
        ("asynchronously",),
    ),
    Case(
        "memcheck_11",
        11,
        "cuda-fault",
        ("kernel reduce_kernel (function warp_reduce<double>) at reduce.cuh:118", "thread (32,0,0) of block (7,1,0)",
         "Address 0x8 is misaligned", "launched by reduce at reduce.cpp:36"),
    ),
    Case("cuda_memcheck", 11, "cuda-fault", ("kernel add at add.cu:66", "launched by main in add")),
    Case("racecheck", 12, "cuda-sanitizer", ("Race in kernel sum_rows", "write at rows.cu:41; read at rows.cu:51",
                                              "508 hazards"), ("__syncthreads()",)),
    Case("hazard", 5, "cuda-sanitizer", ("Potential RAW hazard in kernel sum_rows",
                                         "write by thread (35,0,0) at rows.cu:44; read by thread (32,0,0) at "
                                         "rows.cu:56")),
    Case("initcheck", 12, "cuda-sanitizer", ("Uninitialized __global__ memory read", "add_index at index.cu:41",
                                              "blocks (1,0,0) to (2,0,0), 2 times")),
    Case("synccheck", 11, "cuda-fault", ("Barrier error detected: divergent thread(s) in block",
                                         "kernel tiles (function wait_for_all) at tiles.cu:42"), ("barrier",)),
    Case("leak", 5, "cuda-sanitizer", ("Leaked device memory", "1,024 bytes", "by make_buffers at buffers.cpp:12")),
    Case("clean", 5, "cuda-sanitizer", ("found no errors",)),
    Case("illegal", 11, "cuda-fault", ("an illegal memory access was encountered (cudaErrorIllegalAddress)",
                                       "reported at step (train.py:14)", "asynchronously", "only where it was noticed"),
         RECIPES, inferred=True),
    Case("blocking", 11, "cuda-fault", ("misaligned address", "at main (train.py:11)", "CUDA_LAUNCH_BLOCKING=1"),
         RECIPES[1:], ("asynchronously",)),
    Case("assert", 11, "cuda-fault", ("Assertion `srcIndex < srcSelectDimSize` failed on the GPU in kernel "
                                      "indexSelectLargeIndex at Indexing.cu:1553",
                                      "threads (0,0,0) to (33,0,0) of blocks (12,0,0) to (14,0,0), 3 times",
                                      "2 reports of the host are consequences"),
         ("check the inputs of indexSelectLargeIndex: srcIndex < srcSelectDimSize", RECIPES[0])),
    Case("dsa", 11, "cuda-fault", ("Assertion `index < size`", "gather_kernel at gather.cu:17",
                                   "thread (3,0,0) of block (1,2,0)", "launched by gather at gather.cu:33")),
    Case("terminate", 11, "cuda-fault", ("Rank 0: ", "unspecified launch failure"), RECIPES, inferred=True),
    Case("out_of_memory", 11, "cuda-out-of-memory", ("on GPU 1, at main (train.py:24)", "4.00 GiB were requested",
                                                     "3.16 GiB of 44.34 GiB are free", "47694 (1.17 GiB)"),
         ("expandable_segments",)),
    Case("cublas", 11, "cuda-error", ("CUBLAS_STATUS_EXECUTION_FAILED from cublasGemmEx, at forward (infer.py:9)",
                                      "earlier"), RECIPES[:2]),
    Case("ranks", 11, "cuda-fault", ("Rank 1: ", "reported at step (train.py:14)"), RECIPES, inferred=True),
    Case("driver", 11, "cuda-error", ("cuLaunchKernel returned CUDA_ERROR_INVALID_VALUE (1, invalid argument)",
                                      "block dimensions of (2256,1,1) exceeds", "2 times", "was not launched"),
         ("check grid, block",)),
    Case("driver_lost", 11, "cuda-fault", ("cuStreamSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS",
                                           "2 reports of the host are consequences"), RECIPES, inferred=True),
    Case("kernel", 11, "cuda-xid", ("Xid 31 of GPU 0000:01:00", "page fault", "a write at 0x2b57b3000000 (FAULT_PDE)",
                                    "Process 79749 (train)"), RECIPES[1:], inferred=True),
    Case("coredump", 11, "cuda-fault", ("Warp Illegal Address in kernel gather_kernel", "SM 124, warp 0"),
         ("livedbg device /tmp/gpu-box-4711.core",)),
    Case("cuda_gdb", 11, "cuda-fault", ("Warp Illegal Address in kernel to_half<float, __half> at convert.cu:17",
                                        "thread (192,0,0) of block (3,0,0)", "GPU 1, SM 0, warp 5, lane 0")),
    Case("macro", 11, "cuda-fault", ("reported by cudaStreamSynchronize at matrix.cu:118",), RECIPES, inferred=True),
    Case("waits", 11, "cuda-waits", ("stopped at a device error",), ("livedbg device 31562 --attach",)),
]  # fmt: skip


def test_every_fixture_has_a_case() -> None:
    assert {case.name for case in CASES} == {path.stem for path in FIXTURES.glob("*.txt")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_log_says(case: Case) -> None:
    seen = read(fixture(case.name))
    chief = seen.chief
    assert chief.rule == case.rule
    for words in case.says:
        assert words in chief.sentence
    for words in case.not_said:
        assert words not in chief.sentence
    for words in case.next:
        assert words in "\n".join(chief.next)
    assert chief.inferred == case.inferred
    assert chief.evidence and all(proof.text in fixture(case.name).decode() for proof in chief.evidence)
    assert exit_code(seen.diagnosis.verdict, seen.findings) == case.code


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_read_byte_by_byte_it_says_the_same(case: Case) -> None:
    whole, pieces = read(fixture(case.name)), read(fixture(case.name), step=7)
    assert [f.sentence for f in whole.findings] == [f.sentence for f in pieces.findings]


def test_no_finding_of_an_exception_besides_that_of_cuda() -> None:
    for name in ("illegal", "assert", "dsa", "out_of_memory", "cublas", "coredump"):
        assert "crash" not in {finding.rule for finding in read(fixture(name)).findings}, name


def test_an_exception_that_is_not_of_cuda_is_still_found() -> None:
    other = b'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: bad shape\n'
    rules = {finding.rule for finding in read(fixture("driver") + other).findings}
    assert rules == {"cuda-error", "crash"}


def test_the_process_environment_says_that_launches_were_synchronous() -> None:
    log = fixture("driver_lost")
    assert "asynchronously" in read(log, process=target()).chief.sentence
    exact = read(log, process=target(CUDA_LAUNCH_BLOCKING="1")).chief
    assert "asynchronously" not in exact.sentence and not exact.inferred
    assert exact.entities == (f"process:box/{PID}",)


def test_the_logs_of_one_process_are_one_story() -> None:
    """The driver's log tells of the fault, standard error of the assert behind it."""
    seen = read(fixture("driver_lost"), fixture("assert"), process=target(exited=True))
    (chief,) = (finding for finding in seen.findings if finding.rule == "cuda-fault")
    assert "Assertion `srcIndex < srcSelectDimSize` failed" in chief.sentence
    assert "5 reports of the host are consequences" in chief.sentence


def test_a_process_that_lives_may_have_caught_it() -> None:
    for name in ("out_of_memory", "cublas", "driver"):
        seen = read(fixture(name), process=target())
        assert seen.diagnosis.verdict.state != "crashed", name
        assert seen.chief.severity is Severity.WARNING


def test_xids_of_other_processes_decide_nothing_but_those_of_the_gpu_do() -> None:
    seen = read(fixture("kernel"), process=target())
    by_number = {f.sentence.split()[1]: f for f in seen.findings if f.rule == "cuda-xid"}
    assert by_number["31"].state is None and "not one of the target's processes" in by_number["31"].sentence
    assert by_number["79"].state == "unknown" and not by_number["79"].decides  # it may be a GPU that it does not use
    assert "still lives" in by_number["79"].sentence
    over = {f.sentence.split()[1]: f for f in read(fixture("kernel"), process=target(exited=True)).findings}
    assert over["79"].state == "crashed"


@pytest.mark.invariant("living.L1")
@pytest.mark.parametrize("name", ["illegal", "assert", "memcheck", "coredump", "driver_lost", "waits"])
def test_L1_a_fault_is_no_crash_while_its_process_lives(name: str) -> None:
    alive, ended = read(fixture(name), process=target()), read(fixture(name), process=target(exited=True))
    zombie = read(fixture(name), process=structs.replace(target(), state=ThreadState.ZOMBIE))
    alone = read(fixture(name))
    assert [seen.diagnosis.verdict.state for seen in (alive, ended, zombie, alone)] == ["unknown", *["crashed"] * 3]
    sentence = alive.diagnosis.verdict.sentence
    lost = "The CUDA context is lost, and process 4711 (train) still lives: every CUDA call in that context fails."
    assert ("Process 4711 (train) still lives." if name == "waits" else lost) in sentence
    assert exit_code(alive.diagnosis.verdict, alive.findings) == 5
    assert "livedbg stacks 4711" in "\n".join(alive.chief.next)


@pytest.mark.invariant("living.L1")
def test_L1_of_a_log_of_nobody_any_target_that_lives_may_be_the_one() -> None:
    """Logs that were named beside a process: it is not known who wrote them."""
    others = structs.replace(target(), id="process:box/1", pid=1, target=False)
    for process, state in ((target(), "unknown"), (target(exited=True), "crashed"), (others, "crashed")):
        seen = read(fixture("illegal"), before=[ProcessSeen(process=process, **STAMP())])
        assert seen.diagnosis.verdict.state == state


@pytest.mark.invariant("error_diagnostics.B1")
def test_ten_thousand_asserts_are_one() -> None:
    line = "/src/gather.cu:9: gather: block: [{},0,0], thread: [{},1,0] Assertion `i < n` failed.\n"
    text = "".join(line.format(number // 128, number % 128) for number in range(10_000))
    seen = read(text.encode())
    assert len(seen.snapshot.diagnostics) == len(seen.snapshot.exceptions) == 1
    assert "threads (0,1,0) to (127,1,0) of blocks (0,0,0) to (78,0,0), 10,000 times" in seen.chief.sentence


@pytest.mark.invariant("error_diagnostics.B2")
def test_asserts_of_many_places_stay_bounded() -> None:
    text = "".join(
        f"/src/f{number}.cu:9: k{number}: block: [0,0,0], thread: [0,0,0] Assertion `i < n` failed.\n"
        for number in range(2_000)
    )
    seen = read(text.encode())
    assert len(seen.snapshot.diagnostics) == 501
    (more,) = (d for d in seen.snapshot.diagnostics.values() if d.code == "more")
    assert about(more).count == 1500
    assert seen.diagnosis.verdict.state == "crashed"


def test_two_ranks_whose_lines_are_mixed_without_a_prefix() -> None:
    one, two = fixture("memcheck").decode().splitlines(), fixture("synccheck").decode().splitlines()
    mixed = "\n".join(line for pair in zip(one, two, strict=False) for line in pair)
    seen = read(mixed.encode())
    assert seen.diagnosis.verdict.state == "crashed"
    told = [finding.sentence for finding in seen.findings if finding.rule == "cuda-fault"]
    assert any("Invalid __global__ read" in sentence for sentence in told)
    assert any("Barrier error" in sentence for sentence in told)
    assert all("mixed in this log" in sentence for sentence in told[:2])


def test_a_report_that_is_cut_off_says_what_it_has() -> None:
    text = fixture("memcheck")
    for end in range(0, len(text), 61):
        seen = read(text[:end])
        if b"Invalid __global__ read" in text[:end]:
            assert seen.chief.sentence.startswith("Invalid __global__ read of size")


HARMLESS = b"""\
see https://docs.nvidia.com for cudaErrorIllegalAddress
======== test session starts ========
========= 3 passed, 1 warning in 0.11s =========
using CUDA error checking: on
INFO: set CUDA_LAUNCH_BLOCKING=1 to debug misaligned address problems
catching cudaErrorNotReady is normal
        // "CUDA error: an illegal memory access was encountered") are lost when
DEBUG:wrapper:CUDA error: an illegal memory access was encountered
static_assert(a<<<(1)) [CUDA][I] driver loaded
"""


NAMED_BY_FILES = {
    "a device function": (
        "Tank::fill<float>(float*)+0x830",
        "__tmp_kernel_pump_f3_c1_r0_g2",
        "pump_f3_c1_r0_g2",
        "Tank::fill<float>",
    ),
    "its prefix": ("void fill(float*)", "__tmp_nvfuser_pump_f0_c1_r0_g0", "nvfuser_pump_f0_c1_r0_g0", "fill"),
    "the kernel": ("nvfuser_pump_f0_c1_r0_g0(float*)", "__tmp_kernel_pump_f0_c1_r0_g0", "nvfuser_pump_f0_c1_r0_g0", ""),
    "another file": ("fill(float*)", "tmp_kernel_pump", "fill", ""),
}


@pytest.mark.parametrize("kind", NAMED_BY_FILES)
def test_where_only_a_file_of_nvfuser_names_the_kernel(kind: str) -> None:
    function, file, kernel, inner = NAMED_BY_FILES[kind]
    text = (
        "========= Invalid __local__ write of size 16 bytes\n"
        f"=========     at {function} in /w/{file}.cu:41\n"
        "=========     by thread (3,4,0) in block (7,0,0)\n"
    )
    (error,) = read(text.encode()).snapshot.diagnostics.values()
    assert (about(error).kernel, about(error).function) == (kernel, inner)


def test_words_alone_are_no_error() -> None:
    told = read(HARMLESS).snapshot.diagnostics.values()
    assert all(said.message.ends == "completes" for said in told)  # of the test run


PIECES = [line for path in sorted(FIXTURES.glob("*.txt")) for line in path.read_bytes().splitlines()]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(PIECES), st.binary(max_size=40), st.sampled_from(PIECES).map(lambda line: line[::-1])
        ),
        max_size=40,
    )
)
def test_whatever_the_lines_are_nothing_fails(lines: list[bytes]) -> None:
    seen = read(b"\n".join(lines))
    for finding in seen.findings:
        assert "\x1b" not in finding.sentence


def test_the_source_line_of_a_traceback_is_not_its_message() -> None:
    log = b"""Traceback (most recent call last):
  File "check.py", line 4, in check
    raise RuntimeError("CUDA error: device-side assert triggered" if code == 710 else name(code))
RuntimeError: CUDA error: misaligned address
"""
    assert "cudaErrorMisalignedAddress" in read(log).chief.sentence


def test_an_exception_in_the_form_of_its_repr() -> None:
    log = b"ERROR worker died: RuntimeError('CUDA error: an illegal memory access was encountered')\n"
    assert "cudaErrorIllegalAddress" in read(log).chief.sentence


@pytest.mark.parametrize("tag", ["{}: ", "[1,{}]<stdout>:", "[rank{}]: ", "(worker pid={}) "])
def test_ranks_that_a_launcher_tags(tag: str) -> None:
    one, two = (fixture(name).decode().splitlines() for name in ("memcheck_11", "synccheck"))
    lines = [tag.format(rank) + line for pair in zip(one, two, strict=False) for rank, line in enumerate(pair)]
    told = [finding.sentence for finding in read("\n".join(lines).encode()).findings if finding.rule == "cuda-fault"]
    who = ("Pid 0: ", "Pid 1: ") if "pid" in tag else ("Rank 0: ", "Rank 1: ")
    assert any(sentence.startswith(who[0]) and "reduce.cuh:118" in sentence for sentence in told)
    assert any(sentence.startswith(who[1]) and "tiles.cu:42" in sentence for sentence in told)


def test_a_report_behind_the_times_of_what_collected_it() -> None:
    text = fixture("memcheck_11").decode().splitlines()
    stamped = "\n".join(f"2026-11-21T03:11:{number:02}.000000000Z {line}" for number, line in enumerate(text))
    assert "kernel reduce_kernel" in read(stamped.encode()).chief.sentence


def test_ggml_says_where_below_the_error() -> None:
    log = b"""\
CUDA error: an illegal memory access was encountered
  current device: 0, in function ggml_backend_cuda_synchronize at /src/ggml-cuda.cu:2461
  cudaStreamSynchronize(cuda_ctx->stream())
"""
    chief = read(log).chief
    assert "by cudaStreamSynchronize at ggml_backend_cuda_synchronize at ggml-cuda.cu:2461, device 0" in chief.sentence
    windows = log.replace(b"/src/", b"C:\\b\\src\\").replace(b"device: 0", b"device: 7")
    assert "at ggml_backend_cuda_synchronize at ggml-cuda.cu:2461, device 7" in read(windows).chief.sentence


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Failed: Cuda error ./pump/pump++.cu:71 'invalid device function'", ", at pump++.cu:71."),
        (
            "CUDA error in func 'fill' at line 61 : the launch timed out and was terminated.",
            ", reported at fill, line 61.",
        ),
        (
            '[CUDA] Error gpu 0: <fill_tank>:27 "the launch timed out and was terminated"',
            ", reported at fill_tank, line 27.",
        ),
        ("ERROR: CUSOLVER_STATUS_INTERNAL_ERROR /w/pump/fill.cu 207", "at fill.cu 207."),
        (
            "terminate called after throwing an instance of 'pump::Error'\n  what():  (External)  Cuda error(700), an "
            "illegal memory access was encountered.\n  [Advise: look it up.] (at /w/pump/gpu.cc:41)\n",
            ", reported at gpu.cc:41.",
        ),
        (
            "Accelerator Fatal Error: call to cuLaunchKernel returned error 701: Launch out of resources\n"
            " File: [path to it]/src/pump.f90\n Function: fill:21\n Line: 59\n",
            ", at pump.f90:59.",
        ),
        (
            "CUDA error: invalid device function\ncurrent device: 0, in function fill at /w/pump.cu:41\n",
            ", at fill at pump.cu:41, device 0.",
        ),
        (
            "CUDA Exception: Warp Illegal Address\nThe exception was triggered at PC 0x5ff3bb8 (pump.jl:14)\n"
            "[Current focus set to CUDA kernel 0, grid 3, block (0,0,0), thread (32,0,0), device 2, sm 0, "
            "warp 1, lane 0]\n",
            "Warp Illegal Address at pump.jl:14, by thread (32,0,0) of block (0,0,0)",
        ),
        (
            "CUDA Exception: Warp Misaligned Address\n"
            "The exception was triggered at PC 0x7fff20cd8fb0  fill<64, (lid_t)1>(char const*, int)  (lid.cuh:92)\n"
            "[Switching focus to CUDA kernel 0, grid 3, block (0,1,5), thread (0,3,0), device 0, sm 0, "
            "warp 4, lane 0]\n0x00007fff20cd8fe0 in _INTERNAL_7bc1_9_pump_cu_92885::lid_copy<16>\n"
            "   <<<(1,3,28),(32,4,1)>>> (to=0x7fff9bfffc88, from=0x7fff2c3a2700)\n    at /w/plant/lid.cuh:82\n",
            "Warp Misaligned Address in kernel fill<64, (lid_t)1> at lid.cuh:92, by thread (0,3,0) of block",
        ),
        (
            "CUDA Exception: Warp Illegal Address\n"
            "0x00007fff20cd8fe0 in fill_tank<64, (lid_t)1>\n   <<<(1,3,28),(32,4,1)>>> (to=0x7fff9bfffc88)\n",
            "Warp Illegal Address.",
        ),
    ],
)
def test_where_an_error_is_said_in_other_forms(text: str, says: str) -> None:
    assert says in read(text.encode()).chief.sentence


def test_an_error_that_its_process_prints_twice_is_at_the_user_s_line_once() -> None:
    frames = (
        b'  File "/w/tank.py", line 31, in fill\n    pump[(4,)](level)\n'
        b'  File "/v/site-packages/triton/compiler/compiler.py", line 40, in _load\n    load(binary)\n'
        b"RuntimeError: Triton Error [CUDA]: device kernel image is invalid\n"
    )
    begun = b"Traceback (most recent call last):\n"
    outer = b'  File "/w/run.py", line 9, in main\n    raise e\n'
    said = read(begun + frames + begun + outer + frames).chief.sentence
    code = "cudaErrorInvalidKernelImage"
    assert said == f"CUDA error: device kernel image is invalid ({code}), at fill (tank.py:31). Printed 2 times."


def test_xla_says_the_code_behind_its_own_words_and_the_program_where_it_ended() -> None:
    report = b"""\
E1120 10:59:55.894873   35984 pjrt_stream_executor_client.cc:3067] Execution of replica 0 failed: INTERNAL: Failed to \
retrieve branch_index value on stream 0x55: CUDA error: Could not synchronize CUDA stream: \
CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered.
"""
    alone = read(report).chief
    assert alone.rule == "cuda-fault" and "cudaErrorIllegalAddress" in alone.sentence
    thrown = b"""\
Traceback (most recent call last):
  File "/w/flow.py", line 146, in <module>
    print(state.expect(h))
jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was \
encountered
"""
    later = b"2024-11-20 10:59:56.120011: E external/xla/cuda_driver.cc:1147] failed to unload module 0x5: "
    text = report + thrown + later + b"CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered\n"
    assert "(cudaErrorIllegalAddress), reported at flow.py:146." in read(text).chief.sentence


def test_errors_of_an_nvswitch() -> None:
    line = "[ 123.456789] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {}, {}, Link 46 {}\n"
    text = line.format(28006, "Non-fatal", "MC TS crumbstore MCTO") + line.format(20034, "Fatal", "LTSSM Fault Up")
    fatal, harmless = read(text.encode()).findings
    assert "SXid 20034 of NVSwitch 0000:c1:00.0: a fatal error: Link 46 LTSSM Fault Up" in fatal.sentence
    assert fatal.state == "crashed" and harmless.state is None


def test_a_traceback_with_a_logger_s_header_on_each_line() -> None:
    """As vLLM's workers write it."""
    head = "(EngineCore_0 pid=5304) ERROR 09-04 06:41:07 [core.py:700] "
    block = fixture("illegal").decode().partition("\n")[2].partition("\n\n")[0].splitlines()
    seen = read("\n".join(head + line for line in block).encode())
    assert "Pid 5304: CUDA error: an illegal memory access" in seen.chief.sentence
    assert "reported at step (train.py:14)" in seen.chief.sentence and "asynchronously" in seen.chief.sentence
    assert [finding.rule for finding in seen.findings] == ["cuda-fault"]
    (hit,) = seen.snapshot.exceptions.values()
    assert hit.type == "torch.AcceleratorError" and hit.stack[0].function == "step"


def test_the_kernels_that_were_launched_last_are_named_at_an_asynchronous_error() -> None:
    process = target()
    launches = tuple(
        Launch(function="cudaLaunchKernel", kernel=f"step{n}", grid=(n, 1, 1), block=(64, 1, 1), mono_ns=n, wall_ns=n)
        for n in range(1, 6)
    )
    trail = LaunchTrail(thread=f"thread:box/{PID}/{PID}", process=process.id, count=5, last=launches)
    seen = read(fixture("illegal"), process=process, before=[LaunchesSeen(trails=(trail,), **STAMP())])
    assert "Launched last before it (newest first): step5, step4, step3." in seen.chief.sentence


def test_a_log_s_whole_seconds_are_rounded_down() -> None:
    launches = tuple(
        Launch(function="cudaLaunchKernel", kernel=f"at_{ms}", mono_ns=ms, wall_ns=5_000_000_000 + ms * 1_000_000)
        for ms in (-10, 400, 1_400)
    )
    trail = LaunchTrail(thread="thread:box/1/1", process="process:box/1", count=3, last=launches)
    snapshot = Snapshot(launches={trail.thread: trail})
    assert launched_last("process:box/1", snapshot, 5_000_000_000)[0] == "at_400, at_-10"
    assert launched_last("process:box/1", snapshot, 5_000_000_001)[0] == "at_-10"


def test_a_line_of_a_megabyte_takes_no_time_to_speak_of() -> None:
    """By the time that grows with the square of its length this would take hours."""
    assert device_assert("<" * 1_000_000 + "] Assertion `x` failed") is None
    stops = DeviceStops()
    assert stops.line("CUDA Exception: Warp Illegal Address") == []
    assert stops.line("a<<<(1),(1)>>> (" * 70_000) == []
    assert [statement.what for statement in stops.end()] == ["Warp Illegal Address"]


@pytest.mark.parametrize(
    "line",
    [
        f"=========     at {' in ' * 15_000}",
        "a:1: block: [1,1,1], thread: [1,1,1] Assertion `a" * 1_200,
    ],
    ids=lambda line: line[:24],
)
def test_long_lines_take_no_time_to_speak_of(line: str) -> None:
    """By the time that grows with the square of their length this would take minutes."""
    log = "========= Invalid __global__ write of size 4 bytes\n" + f"{line}\n" * 20
    assert "Invalid __global__ write" in read(log.encode()).chief.sentence


@pytest.mark.parametrize("number", ["9" * 5_000, ","], ids=["5,000 digits", "none"])
def test_numbers_that_are_none_are_left_out(number: str) -> None:
    log = (
        f"========= Leaked {number} bytes at 0x7f\n=========\n"
        "========= Error: Race reported between Write access at a()+0x1 in x.cu:1\n"
        f"=========     and Read access at b()+0x2 in x.cu:2 [{number} hazards]\n=========\n"
    )
    assert "Race" in read(log.encode()).chief.sentence


def test_what_a_sanitizer_counted_beyond_what_it_printed() -> None:
    report = "========= Invalid __global__ write of size 1 bytes\n=========     at 0x60 in Iota(unsigned char*)\n"
    said = read(f"{report}=========\n========= ERROR SUMMARY: 3 errors\n".encode()).chief.sentence
    assert said.endswith("compute-sanitizer counted 3 errors; 1 is in the log.")


def test_a_run_that_goes_on_under_a_sanitizer_is_not_well() -> None:
    report = "========= Invalid __global__ write of size 1 bytes\n=========     at 0x60 in Iota(unsigned char*)\n"
    end = "[==========] 1 test from 1 test suite ran. (9 ms total)\n[  PASSED  ] 1 test.\n"
    found = diagnosed(f"[ RUN      ] Net.One\n{report}=========\n{end}========= ERROR SUMMARY: 1 error\n")
    assert found.state is VerdictState.UNKNOWN
    assert found.sentence.startswith("Invalid __global__ write of size 1 bytes in kernel Iota")
    clean = diagnosed(f"========= COMPUTE-SANITIZER\n[ RUN      ] Net.One\n{end}========= ERROR SUMMARY: 0 errors\n")
    assert clean.state is VerdictState.EXITED


OOM = (
    b'Traceback (most recent call last):\n  File "t.py", line 3, in step\n    x = y * 2\n'
    b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 336.00 MiB. GPU 0 has a total capacity of "
    b"79.15 GiB of which 141.25 MiB is free. %s Of the allocated memory %s is allocated by PyTorch, and 283.51 MiB is "
    b"reserved by PyTorch but unallocated.\n"
)


@pytest.mark.parametrize(
    ("listed", "allocated", "others"),
    [
        (b"Process 7 has 78.99 GiB memory in use.", b"77.21 GiB", ""),
        (
            b"Process 7 has 40.10 GiB memory in use. Process 8 has 38.90 GiB memory in use.",
            b"38.40 GiB",
            "7 (40.10 GiB)",
        ),
        (b"Process 7 has 70.00 GiB memory in use.", b"8.00 GiB", ""),  # it alone can be the one that ran out
        (b"Process 7 has 4.00 GiB memory in use.", b"8.00 GiB", "7 (4.00 GiB)"),
        (
            b"Process 7 has 40.00 GiB memory in use. Including non-PyTorch memory, this process has 39.00 GiB memory "
            b"in use.",
            b"38.40 GiB",
            "7 (40.00 GiB)",
        ),
    ],
)
def test_a_process_that_does_not_know_its_own_pid_is_no_other(listed: bytes, allocated: bytes, others: str) -> None:
    sentence = read(OOM % (listed, allocated)).chief.sentence
    said = sentence.partition("other processes hold memory there: ")[2]
    assert said.rstrip(".") == others, sentence


@pytest.mark.parametrize(
    "text", ["uncorrectable ECC error encountered", "uncorrectable NVLink error detected during the execution"]
)
def test_no_kernel_is_blamed_for_what_hardware_did(text: str) -> None:
    log = (
        f'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    g()\nRuntimeError: CUDA error: {text}\n'
    )
    log += (
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be"
    )
    seen = read((log + " incorrect.\n").encode())
    assert seen.chief.state is not None and "fault of the GPU or its links" in seen.chief.sentence
    assert "launched earlier" not in seen.chief.sentence and not any(
        "cuda-blocking" in step for step in seen.chief.next
    )


def test_the_user_s_line_in_a_traceback_below_an_error_of_the_library() -> None:
    error = "2026-03-04 09:49:01.341: E xla/stream_executor/cuda/cuda_dnn.cc:439] Could not create cudnn handle: "
    said = f"{error}CUDNN_STATUS_INTERNAL_ERROR\n"
    cut = (
        "Traceback (most recent call last):\n"
        '  File "jobs/fit.py", line 32, in main\n    key = jax.random.PRNGKey(7)\n'
        '  File "/opt/env/lib/python3.11/site-packages/jax/_src/random.py", line 160, in PRNGKey\n'
        "    key = prng.seed_with_impl(impl, seed)\n"
    )
    assert "at cuda_dnn.cc:439, raised at main (fit.py:32)" in diagnosed(said + cut).sentence
    assert "raised at" not in diagnosed(said + "step 1 of 9\n" * 4 + cut).sentence


_NO_DEVICE = "CUDA error: no CUDA-capable device is detected at pump.cu:14\n"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (f"loading tank\n{_NO_DEVICE}", VerdictState.CRASHED),
        (f"loading tank\n{_NO_DEVICE}{_NO_DEVICE}", VerdictState.CRASHED),
        (f"{_NO_DEVICE}using the CPU: 8 threads\n", VerdictState.UNKNOWN),  # it goes on
        (f"{_NO_DEVICE}falling back to the CPU\nstep 1\nstep 2\n", VerdictState.UNKNOWN),
    ],
)
def test_a_failed_call_ends_its_log_only_if_nothing_follows(text: str, state: VerdictState) -> None:
    assert diagnosed(text).state is state


@pytest.mark.parametrize(
    "text",
    [
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161\n",
        "Failed to initialize NVML: Unknown Error\nstarting the worker on the CPU\nserving on port 80\n",
        "Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)\nstep 1\nstep 2\nstep 3\n",
    ],
)
def test_what_a_program_may_do_without_is_not_said_to_have_ended_it(text: str) -> None:
    assert diagnosed(text).state is VerdictState.UNKNOWN


_FAULT = (
    "NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 7): Illegal"
)
_LATE = "NVRM: Xid (PCI:0000:cb:00): 109, pid=7, name=fill, Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x58005"


@pytest.mark.parametrize(
    ("between", "number"),
    [("11:43:14", "13"), ("11:59:14", "13"), ("", "109")],  # the next quarter of an hour: one of its own, and later
)
def test_a_time_out_of_a_gpu_right_after_a_program_s_fault_follows_from_it(between: str, number: str) -> None:
    day = "[Fri Aug 30"
    text = f"{day} 11:43:09 2024] {_FAULT}\n" if between else ""
    text += f"{day} {between or '11:43:14'} 2024] {_LATE}\n"
    seen = diagnosed(text)
    assert seen.state is VerdictState.CRASHED and f"Xid {number} of GPU" in seen.sentence.partition(". ")[0]


def test_an_nvlink_error_that_is_not_fatal_is_a_note() -> None:
    mild = "NVRM: Xid (PCI:0000:01:00): 144, SAW_MVB Nonfatal XC0 i0 Link 0 (0x00000001)\n"
    assert diagnosed(mild).state is VerdictState.UNKNOWN
    seen = diagnosed(f"{mild}NVRM: Xid (PCI:0000:02:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6)\n")
    assert seen.state is VerdictState.CRASHED and "Xid 149 of GPU 0000:02:00" in seen.sentence


def test_why_a_gpu_could_not_be_initialised_stands_above() -> None:
    failed = "NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)\n"
    unfit = "NVRM: The NVIDIA GPU 0000:98:00.0 (PCI ID: 10de:2b85)\nNVRM: installed in this system requires use of the "
    assert "Cannot attach gpu" in diagnosed(f"NVRM: osInitNvMapping: *** Cannot attach gpu\n{failed}").sentence
    assert "requires use of" in diagnosed(f"{failed}{unfit}NVIDIA open kernel modules.\n").sentence.partition(". ")[0]


@pytest.mark.parametrize(("before", "named"), [("", True), ("[       OK ] Tank.Fill (3 ms)\n", False)])
def test_what_compute_sanitizer_reports_is_said_with_the_test_that_runs(before: str, named: bool) -> None:
    report = (
        "========= Invalid __global__ write of size 4 bytes\n=========     at fill(float*)+0x120\n"
        "=========     by thread (0,0,0) in block (0,0,0)\n=========     Address 0x7f0001fc is out of bounds\n"
    )
    said = diagnosed(f"[ RUN      ] Tank.Fill\n{before}{report}").sentence
    assert ("by thread (0,0,0) of block (0,0,0), in test Tank.Fill." in said) is named


NCCL = "node7:4711:4733 [2] {} NCCL WARN "


def test_an_exception_with_nccl_s_words_leads() -> None:
    text = (
        NCCL.format("init.cc:902") + "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000\n"
        'Traceback (most recent call last):\n  File "/w/t.py", line 3, in main\n    dist.barrier()\n'
        "torch.distributed.DistBackendError: NCCL error in: ../c10d/ProcessGroupNCCL.cpp:1691, invalid usage, NCCL "
        "version 2.19.3\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000\n"
    )
    said = diagnosed(text)
    assert said.state is VerdictState.CRASHED and said.sentence.startswith("NCCL failed: Duplicate GPU detected")


def test_nccl_s_own_lines_are_no_progress() -> None:
    warned = NCCL.format("misc/socket.cc:484") + "Net : Call to recv from 10.4.1.9<58355> failed : Broken pipe\n"
    own = "".join(f"node7:4711:4733 [2] NCCL INFO comm 0x{n:x} rank {n} nranks 8 - Abort\n" for n in range(9))
    assert diagnosed(warned + own).sentence.startswith("NCCL on node7 (pid 4711, GPU 2): the connection to")


@pytest.mark.parametrize(
    ("function", "named"),
    [("lid_kindIT_EE5levelEtankS4_Li4ELi4EE", False), ("warp_LEEk<double>", True), ("wait_for_all", True)],
)
def test_the_rest_of_a_mangled_name_is_no_function(function: str, named: bool) -> None:
    assert is_rest_of_symbol(function) is not named
