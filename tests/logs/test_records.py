# ruff: noqa: E501 (lines of real logs)
"""Shapes, times and records, on real lines, and by property on anything."""

from __future__ import annotations

import calendar
import itertools
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LINE_LIMIT, Line, LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.model import LogRecord, Severity
from livedbg.session.filereaders import known_log_formats
from livedbg.text.sanitize import clean

FIXTURES = Path(__file__).parents[1] / "fixtures" / "logs"


def _local(text: str) -> int:
    """Nanoseconds of a local time `YYYY-MM-DD HH:MM:SS`."""
    return int(time.mktime(time.strptime(text, "%Y-%m-%d %H:%M:%S"))) * 10**9


REFERENCE = _local("2026-11-21 12:00:00")
NOON = calendar.timegm((2026, 11, 21, 12, 0, 0)) * 10**9


def records_of(text: str, clock: SourceClock | None = None) -> list[LogRecord]:
    data = text.encode("utf-8", "surrogateescape")
    assembler = RecordAssembler("log:box/x", clock or SourceClock(REFERENCE, host_offset_ns=1_000), known_log_formats())
    cutter = LineCutter()
    return [
        *assembler.feed(cutter.feed(data)),
        *assembler.feed(cutter.flush()),
        *assembler.flush(),
    ]


def format_of(text: str) -> str | None:
    assembler = RecordAssembler("log:box/x", SourceClock(REFERENCE), known_log_formats())
    assembler.feed(LineCutter().feed(text.encode() + b"\n"))
    assembler.flush()
    return assembler.format


D, N, W, E, C = Severity
SAMPLES = [
    # shape, line, severity, wall_ns, mono_ns, pid, tid
    ("python", "[W 2026-11-21 01:16:40,349] Pump 1 failed with {'n': 3}", W, _local("2026-11-21 01:16:40") + 349_000_000, None, None, None),
    ("python", "[E 261121 01:16:40 pump:2271] Uncaught exception", E, _local("2026-11-21 01:16:40"), None, None, None),
    ("simpler-host", "[mono_ns=5085646842128][T0x7ff39e678b80][INFO] f: [a.cpp:166] cpu_sim_context: acquired device 0",
     N, 5085646843128, 5085646842128, None, None),
    ("simpler-host", "[mono_ns=5][T0x7ff39e678b80][TIMING] emit_host_span: [STRACE] v=1 pid=17741 tid=17742 inv=1 hid=0",
     N, 1005, 5, 17741, 17742),
    ("simpler-host", "[2026-11-21 01:16:40.349602][T0x7fd7bcfddb80][INFO_V0] pto_cpu_sim_acquire_device: [c.cpp:167] x",
     N, _local("2026-11-21 01:16:40") + 349_602_000, None, None, None),
    ("simpler-device", "[ERROR] aicpu_execute: [aicpu_executor.cpp:1040] aicpu_execute: PTO2 runtime failed with rc=-100",
     E, None, None, None, None),
    ("simpler-device", "[DEBUG] prepare_subtask_to_core: [scheduler_dispatch.cpp:205] Thread 0: Dispatched idle aiv0 task 1",
     D, None, None, None, None),
    ("simpler-device", "[WARN] pto::Scheduler::run: [x.cpp:1] slow", W, None, None, None, None),
    ("cann-dlog", "[ERROR] AICPU(1,aicpu_scheduler):2026-06-09-11:42:20.001.002 [device_log.cpp:89]2 run \"[a.cpp:1] bad\"",
     E, _local("2026-06-09 11:42:20") + 1_002_000, None, 1, 2),
    ("cann-dlog", "[WARNING] CCECPU(7,aicpu):2026-06-09-11:42:20.000.000 [device_log.cpp:89]2 run [TIMING] \"x\"",
     N, _local("2026-06-09 11:42:20"), None, 7, 2),
    ("cann-dlog", "[EVENT] PROFILING(4242,python3):2026-06-09-11:42:20.000.000 [msprof.cpp:10]4243 start",
     N, _local("2026-06-09 11:42:20"), None, 4242, 4243),
    ("glog", "W1121 03:11:22.333000 12345 torch/distributed/run.py:792] Setting OMP_NUM_THREADS", W,
     _local("2026-11-21 03:11:22") + 333_000_000, None, 12345, None),
    ("glog", "E1231 03:11:22.333000 12345 a.cc:9] the year before", E,
     _local("2025-12-31 03:11:22") + 333_000_000, None, None, 12345),
    ("glog", "I20261121 03:11:22.333000    77 a.cc:9] glog with a year", N,
     _local("2026-11-21 03:11:22") + 333_000_000, None, None, 77),
    ("glog", "F261121 03:11:22.333000 95 hlc/pump.go:188 \u22ee [n2] 31  no water", C,
     _local("2026-11-21 03:11:22") + 333_000_000, None, None, 95),
    ("glog", "[rank1]:[W1121 03:11:22.332 ProcessGroupNCCL.cpp:1250] Warning: destroy", W,
     _local("2026-11-21 03:11:22") + 332_000_000, None, None, None),
    ("glog", "[W socket.cpp:464] [c10d] The server socket cannot be initialized", W, None, None, None, None),
    ("nccl", "gpu002:704798:704908 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 - Init COMPLETE",
     N, None, None, 704798, 704908),
    ("nccl", "[2026-04-18 12:45:41] gpu002:704798:704908 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 101",
     W, _local("2026-04-18 12:45:41"), None, 704798, 704908),
    ("cuda-log", "[11:38:03.928][280411609614528][CUDA][E] Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLaunchKernel",
     E, _local("2026-11-21 11:38:03") + 928_000_000, None, None, None),
    ("cuda-log", "[22:21:32.099][25642][CUDA][E][cuLogsDumpToMemory] buffer cannot be NULL",
     E, _local("2026-11-20 22:21:32") + 99_000_000, None, None, None),
    ("tensorrt", "[11/21/2026-03:11:22] [W] [TRT] no profile", W, _local("2026-11-21 03:11:22"), None, None, None),
    ("tensorrt", "[11/21/2026-03:11:22] [TRT] [E] 4: [network.cpp::validate::3036] Error Code 4: Internal Error ()", E,
     _local("2026-11-21 03:11:22"), None, None, None),
    ("amd-log", ":3:rocdevice.cpp            :468 : 3326407335 us: [pid:2539  tid:0x7ffff7e53740] Initializing HSA stack.",
     N, 3326407336000, 3326407335000, 2539, None),
    ("python", "2026-11-21 03:11:22,333 - train - WARNING - lr is nan", W,
     _local("2026-11-21 03:11:22") + 333_000_000, None, None, None),
    ("python", "[2026-11-21 03:11:22,333] [INFO] [real_accelerator.py:203:get_accelerator] Setting ds_accelerator",
     N, _local("2026-11-21 03:11:22") + 333_000_000, None, None, None),
    ("python", "[2026-11-21 03:11:22,333][hydra][ERROR] - x", E,
     _local("2026-11-21 03:11:22") + 333_000_000, None, None, None),
    ("bracketed", "[11:04:35 FTL] Host terminated", Severity.CRITICAL, None, None, None, None),
    ("bracketed", "[11:04:35.101][pump ][E] valve 3: no water", E, None, None, None, None),
    ("bracketed", "[11:04:35] [warn] valve 3 is slow", W, None, None, None, None),
    ("dated", "[2026-11-21 03:11:22.333] [E] no water", E, _local("2026-11-21 03:11:22") + 333_000_000, None, None, None),
    ("dated", "[2026-11-21 03:11:22,333 E 77 81] pump.cc:9: no water", E, _local("2026-11-21 03:11:22") + 333_000_000, None, 77, 81),
    ("dated", "[2026-11-21 03:11:22,333 I 77 81] (pumpd) on", N, _local("2026-11-21 03:11:22") + 333_000_000, None, 77, 81),
    ("dated", "[1795259482] pumpd[14:0] error: no water", E, 1_795_259_482 * 10**9, None, None, None),
    ("dated", "[1795259482.25] pumpd[14:0] notice: water", N, 1_795_259_482 * 10**9 + 250_000_000, None, None, None),
    ("dated", "Nov 21 03:11:22.333 CRIT no water      reason: tank 3", C, _local("2026-11-21 03:11:22") + 333_000_000, None, None, None),
    ("dated", "FATA[0003] no water", C, None, None, None, None),
    ("dated", "21/11/2026 -- 03:11:22 - <Error> - no water", E, None, None, None, None),
    ("dated", "[Nov 21 03:11:22] ERROR[4711]: pump.c:710 start: no water", E, None, None, None, None),
    ("bracketed", "[error] /w/Pump.scala:41:9: not found: water", E, None, None, None, None),
    ("bracketed", "   ** Severe  ** no water", E, None, None, None, None),
    ("dated", "11/21 03:11:22.333000 00419487 PMP ERROR no water", E, _local("2026-11-21 03:11:22") + 333_000_000, None, None, None),
    ("python", "ERROR:root:bad", E, None, None, None, None),
    ("python", "INFO:     Uvicorn running", N, None, None, None, None),
    ("python", "ERROR:2026-11-21 03:11:22,333:Traceback (most recent call last):", E,
     _local("2026-11-21 03:11:22") + 333_000_000, None, None, None),
    ("python", "[INFO] 2026-11-21 03:11:22 loading", N, _local("2026-11-21 03:11:22"), None, None, None),
    ("python", "(EngineCore pid=3) WARNING 11-21 03:11:22 [loader.py:78] slow", W,
     _local("2026-11-21 03:11:22"), None, 3, None),
    ("dated", "2026-11-21T12:00:00Z level=error msg=x", E, NOON, None, None, None),
    ("dated", "2026-11-21T12:00:00.5+01:00 INFO x ERROR", N, NOON - 3_600 * 10**9 + 500_000_000, None, None, None),
    ("dated", "2026-11-21 03:11:22.333 | CRITICAL | mod:f:12 - loguru", C,
     _local("2026-11-21 03:11:22") + 333_000_000, None, None, None),
    ("dated", "2026/11/21 03:11:22 a Go line", N, _local("2026-11-21 03:11:22"), None, None, None),
    ("dated", "2026-13-41 25:61:61 no date at all", N, None, None, None, None),
    ("syslog", "Nov 21 03:11:22 gpu1 kernel: NVRM: Xid (PCI:0000:01:00): 79, pid=1122, GPU has fallen off the bus.",
     N, _local("2026-11-21 03:11:22"), None, None, None),
    ("syslog", "Nov  1 03:11:22 gpu1 sshd[812]: hello", N, _local("2026-11-01 03:11:22"), None, 812, None),
    ("kernel", "[   12.345678] NVRM: Xid (PCI:0000:01:00): 79", N, 12_345_679_000, 12_345_678_000, None, None),
    ("bracketed", "[WARNING] careful", W, None, None, None, None),
    ("plain", "terminate called after throwing an instance of 'x'", C, None, None, None, None),
    ("plain", "RuntimeError: CUDA error: an illegal memory access", E, None, None, None, None),
    ("plain", "train.py:3: UserWarning: x", W, None, None, None, None),
    ("plain", "step 1 loss 0.3", N, None, None, None, None),
]  # fmt: skip


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample[1][:40])
def test_a_real_line_of_each_shape(sample: tuple[object, ...]) -> None:
    shape, line, severity, wall_ns, mono_ns, pid, tid = sample
    assert isinstance(line, str)
    (record,) = records_of(line + "\n")
    assert record.text == line.removeprefix("[rank1]:").removeprefix("(EngineCore pid=3) ")
    found = (format_of(line), record.severity, record.wall_ns, record.mono_ns, record.pid, record.tid)
    assert found == (shape, severity, wall_ns, mono_ns, pid, tid)


def test_an_anchor_in_the_log_maps_its_monotonic_times() -> None:
    anchored = records_of(
        "[mono_ns=900][T0x1][INFO] f: before\n"
        "[mono_ns=1000][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=7 mono_ns=990 wall_ns=1795221816212233176\n"
        "[mono_ns=2000][T0x1][INFO] f: after\n"
    )
    assert [r.wall_ns for r in anchored] == [1900, 1795221816212233186, 1795221816212234186]
    assert anchored[1].pid == 7


def test_monotonic_times_of_another_boot_are_not_mapped() -> None:
    clock = SourceClock(reference_ns=10**15, host_offset_ns=10**18)
    assert records_of("[mono_ns=5][T0x1][INFO] f: x\n", clock)[0].wall_ns is None


@pytest.mark.invariant("clock.G1")
@pytest.mark.parametrize(
    ("text", "near_s", "far_s"),
    [
        ("[ 4711.250000] pump: open\n", 50, 70),
        ("W1121 03:11:22.333000 12345 pump.py:792] low\n", 80_000, 90_000),
        ("Nov 21 03:11:22 n7 pump[7]: low\n", 80_000, 90_000),
    ],
)
def test_G1_a_boot_and_a_year_are_guesses_unless_the_file_was_written_then(text: str, near_s: int, far_s: int) -> None:
    clock = SourceClock(REFERENCE, host_offset_ns=REFERENCE - 4800 * 10**9)
    newest_ns = records_of(text, clock)[0].wall_ns
    assert newest_ns is not None
    for after_s, is_guess in ((near_s, False), (far_s, True)):
        clock.reference_ns = newest_ns + after_s * 10**9
        assert clock.is_guess(newest_ns) is is_guess
    assert not clock.is_guess(newest_ns - 400 * 86_400 * 10**9)  # the records have other times: a collector's
    assert not clock.is_guess(None)


@pytest.mark.invariant("clock.G1")
def test_G1_what_the_log_says_is_no_guess() -> None:
    clock = SourceClock(REFERENCE, host_offset_ns=0)
    newest_ns = records_of("2025-11-21 03:11:22,333 ERROR x\n", clock)[0].wall_ns
    assert not clock.is_guess(newest_ns)
    clock.learn(["2024-11-21 03:11:20,333 INFO x"])
    newest_ns = records_of("W1121 03:11:22.333000 12345 pump.py:792] low\n", clock)[0].wall_ns
    assert not clock.is_guess(newest_ns)


def test_colours_do_not_hide_a_shape() -> None:
    (record,) = records_of("\x1b[31m2026-11-21 03:11:22,333 ERROR\x1b[0m x\n")
    assert (record.severity, record.text) == (E, "2026-11-21 03:11:22,333 ERROR x")


TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    step()
RuntimeError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
ValueError: second"""

KEPT_TOGETHER = {
    "traceback": TRACEBACK,
    "logging.exception": f"2026-11-21 03:11:22,333 - x - ERROR - failed\n{TRACEBACK}",
    "exception group": "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1\n  | E: x (2)\n"
    "  +-+---------------- 1 ----------------\n    | ValueError: 1\n    +------------------------------------",
    "terminate": "terminate called after throwing an instance of 'std::runtime_error'\n  what():  orchestration: bad",
    "c10 error": "RuntimeError: x\nException raised from f at a.cpp:1 (most recent call first):\nframe #0: a + 0x1 (0x2 in b.so)\n"
    "frame #1: c",
    "glog stack": "F1121 03:11:22.333000 5 a.cc:1] Check failed: x \n*** Check failure stack trace: ***\n"
    "    @     0x7f0  google::LogMessage::Fail()\n    @ 0x7f1 main",
    "stacks of goroutines": "F1121 03:11:22.333000 5 a.go:1] no water\ngoroutine 1 [running]:\nk8s.io/klog/v2.stacks(0x1)\n"
    "\t/go/klog.go:1038 +0x8a\nmain.main()\n\t/src/main.go:71 +0x2f5\n\ngoroutine 19 [chan receive, 2 minutes]:\nx.y(0x0)",
    "gdb stack": "Thread 1:\n#0  0x0000 in f () at a.c:1\n#1  main () at a.c:2",
    "faulthandler": 'Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n'
    '  File "a.py", line 2 in f\n  File "a.py", line 4 in <module>\n\nExtension modules: torch._C (total: 1)',
    "indented": "2026-11-21 03:11:22,333 INFO config:\n  lr: 1\n\tbatch: 2",
    "cann with a line break before the quote": "[INFO] AICPU(1,x):2026-06-09-11:42:20.000.000 [device_log.cpp:89]2 run \n"
    '"[a.cpp:1] Thread 3: x"',
    "cann with a line break in the quote": "[INFO] AICPU(1,x):2026-06-09-11:42:20.000.000 [d.cpp:89]2 run \"[a.cpp:1] one\n"
    'two"',
    "torch glog": "E1121 03:11:22.333000 5 t/api.py:9] Traceback (most recent call last):\n"
    'E1121 03:11:22.333000 5 t/api.py:9]   File "a.py", line 2, in f\nE1121 03:11:22.333000 5 t/api.py:9] ValueError: x',
    "torch trace payload": 'V1121 03:11:22.333000 5 t/_trace.py:9] {"str": 1}\n\tpayload line\n\tanother',
    "compute-sanitizer": "========= Invalid __global__ write of size 1 bytes\n=========     at 0x60 in Iota",
}  # fmt: skip


@pytest.mark.parametrize("kind", KEPT_TOGETHER)
@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "[default0]:"])
def test_lines_that_belong_together_are_one_record(kind: str, prefix: str) -> None:
    lines = KEPT_TOGETHER[kind].split("\n")
    block = "\n".join(prefix + line for line in lines)
    before, after = "2026-11-21 03:11:20,000 INFO before", "2026-11-21 03:11:29,000 INFO after"
    records = records_of(f"{prefix}{before}\n{block}\n{prefix}{after}\n")
    assert [record.text for record in records] == [before, "\n".join(lines), after]


def test_the_stack_of_a_panic_belongs_to_it() -> None:
    panic = "thread 'pump' panicked at 'no water', src/pump.rs:8:1\nstack backtrace:\n   0: 0x10 - std\n    at /rustc/l.rs:9"
    other = "thread 'tank' panicked at 'no pump', src/tank.rs:9:1"
    assert [record.text for record in records_of(f"{panic}\n{other}\n")] == [panic, other]


def test_lines_that_do_not_belong_together_are_not() -> None:
    lines = ["step 1", "step 2", "  indented one", "  indented two", "[INFO] f: x", "done", '"quoted"', "E: 1"]
    assert len(records_of("\n".join(lines))) <= len(lines)
    two = f"{TRACEBACK}\n{TRACEBACK}\n"
    assert [record.text for record in records_of(two)] == [TRACEBACK, TRACEBACK]
    after = records_of(f"{TRACEBACK}\nepoch 2 begins\n")
    assert [record.text for record in after] == [TRACEBACK, "epoch 2 begins"]


@pytest.mark.invariant("records.R3")
def test_R3_ranks_that_write_at_once_are_put_together_by_rank() -> None:
    lines = TRACEBACK.split("\n")
    mixed = "\n".join(f"[rank{rank}]: {line}" for line in lines for rank in (0, 1))
    records = records_of(mixed + "\n")
    assert [r.text for r in records] == [TRACEBACK, TRACEBACK]
    assert [(r.line, r.rank, r.writer) for r in records] == [(1, 0, "rank 0"), (2, 1, "rank 1")]
    assert {r.severity for r in records} == {E}


_LINE = st.one_of(
    st.sampled_from([sample[1] for sample in SAMPLES]),
    st.sampled_from([line for text in KEPT_TOGETHER.values() for line in text.split("\n")]),
    st.sampled_from([line for text in KEPT_TOGETHER.values() for line in text.split("\n")]).map(
        lambda x: f"[rank1]: {x}"
    ),
    st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=20),
    st.text(st.sampled_from(' \t"#@[]():=|+EWI0123456789.-Traceback'), max_size=30),
).filter(lambda line: "\n" not in line)


@given(st.lists(_LINE, max_size=40))
@pytest.mark.invariant("records.R1")
def test_R1_nothing_is_lost_or_doubled(lines: list[str]) -> None:
    numbers: list[int | None] = []
    data = "\n".join(lines).encode("utf-8", "surrogateescape")

    def ended(record: LogRecord, of: list[int | None]) -> None:
        said = [text for text in record.text.split("\n") if text.strip()]
        assert all(clean(lines[(number or 0) - 1]).endswith(text) for text, number in zip(said, of, strict=True))
        numbers.extend(of)

    assembler = RecordAssembler("log:box/x", SourceClock(REFERENCE), known_log_formats(), ended)
    cutter = LineCutter()
    assembler.feed([*cutter.feed(data), *cutter.flush()])
    assembler.flush()
    blank = [n for n, line in enumerate(lines, 1) if not any(text.strip() for text in assembler.door.peek(clean(line)))]
    assert sorted([*map(int, filter(None, numbers)), *blank]) == list(range(1, len(lines) + 1))


@given(st.lists(_LINE, max_size=40))
@pytest.mark.invariant("records.R2")
def test_R2_a_record_is_where_its_first_line_is(lines: list[str]) -> None:
    data = "\n".join(lines)
    raw = data.encode()
    for record in records_of(data):
        assert record.line is not None and record.offset is not None
        assert lines[record.line - 1].endswith(record.text.split("\n")[0])
        assert raw[: record.offset].count(b"\n") == record.line - 1


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=6))
@pytest.mark.invariant("logs_lines.L1")
def test_L1_lines_do_not_depend_on_how_the_stream_is_cut(data: bytes, cuts: list[int]) -> None:
    whole = LineCutter()
    expected = [*whole.feed(data), *whole.flush()]
    edges = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    cutter = LineCutter()
    got: list[Line] = []
    for begin, end in itertools.pairwise(edges):
        got += cutter.feed(data[begin:end])
    got += cutter.flush()
    assert got == expected
    assert [line.offset for line in got] == list(_starts(data))


def _starts(data: bytes) -> list[int]:
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    starts, offset = [], 0
    for line in lines:
        starts.append(offset)
        offset += len(line) + 1
    return starts


@given(st.binary(max_size=600))
def test_garbage_never_raises(data: bytes) -> None:
    records_of(data.decode("utf-8", "surrogateescape"))


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=8))
@pytest.mark.invariant("logs_lines.L2")
def test_L2_long_lines_are_cut_and_counted(parts: list[bytes]) -> None:
    limit = 10
    cutter = LineCutter(limit=limit)
    data = b"\n".join(parts)
    lines = [*cutter.feed(data), *cutter.flush()]
    expected = data.split(b"\n")
    if expected and expected[-1] == b"":
        expected.pop()
    assert [line.number for line in lines] == list(range(1, len(expected) + 1))
    assert [line.offset for line in lines] == _starts(data)


ACCESS = "========= Invalid __global__ read of size 8 bytes"
FREED = "==4711==ERROR: AddressSanitizer: heap-use-after-free on address 0x60300000eff0"


@pytest.mark.invariant("logs_lines.L3")
@pytest.mark.parametrize(
    ("before", "report"),
    [
        ("tests/test_pump.py::test_fill[float32-tanks=[4]] ", ACCESS),
        ("test_fill (tests.test_pump.Pumps) ... ", FREED),
        ("tests/test_pump.py ..F.", FREED),
        ("filling the tanks...", ACCESS),
    ],
)
def test_L3_a_report_behind_an_unfinished_line(before: str, report: str) -> None:
    assert [record.text for record in records_of(f"{before}{report}\n")] == [before, report]
    assert [record.line for record in records_of(f"{before}{report}\n")] == [1, 1]


@pytest.mark.invariant("logs_lines.L3")
@pytest.mark.parametrize(
    "line",
    [
        f"it wrote {FREED}",
        f"INFO expected in test_pump.py: {ACCESS}",
        "tests/test_pump.py::test_fill ========= 3 tanks",
        f"{'=' * 30} FAILURES {'=' * 30}",
    ],
)
def test_L3_one_that_is_quoted(line: str) -> None:
    assert [record.text for record in records_of(f"{line}\n")] == [line]


@pytest.mark.invariant("logs_lines.L4")
@pytest.mark.parametrize(
    "bar",
    [
        "Epoch 2   4% ━━━╺━━━━━━━━━━━━━━ 31/812  [ 0:01:12 < -:--:-- , ? it/s ]",
        "Epoch 2/9 ━━━━━━━━━━━━━━━━ 31/812 0:01:12 • -:--:-- 3.20it/s loss: 0.31 ",
        "Loading tank shards:  11% Completed | 1/9 [00:00<00:03,  2.10it/s]",
    ],
)
@pytest.mark.parametrize(("rank", "writer"), [("[rank1]: ", "rank 1"), ("", "")])
def test_L4_a_traceback_behind_a_bar(bar: str, rank: str, writer: str) -> None:
    error = [
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 9, in step',
        "    fill()",
        "OSError: full",
    ]
    records = records_of(f"step 1\n{bar}{f'{chr(10)}'.join(rank + line for line in error)}\n")
    assert (records[-1].text, records[-1].writer) == ("\n".join(error), writer)


@pytest.mark.invariant("logs_lines.L4")
@pytest.mark.parametrize("line", ["━━━━━━━━ Traceback (most recent call last): is printed", "━━━━━━ 3/9 [rank1]: full"])
def test_L4_what_is_no_header_stays_in_its_line(line: str) -> None:
    assert [record.text for record in records_of(f"{line}\n")] == [line]


def test_a_line_beyond_the_limit_says_how_much_is_missing() -> None:
    data = b"a" * (LINE_LIMIT + 1_000_000) + b"\nnext\n"
    for size in (len(data), 4096):
        cutter = LineCutter()
        lines = [line for begin in range(0, len(data), size) for line in cutter.feed(data[begin : begin + size])]
        assert [line.text[-25:] for line in lines] == ["a … (1,000,000 more bytes)"[-25:], "next"]


def test_a_record_without_end_is_cut() -> None:
    lines = "2026-11-21 03:11:22,333 INFO x\n" + "  more\n" * 12_000 + "2026-11-21 03:11:22,333 INFO y\n"
    records = records_of(lines)
    assert len(records) > 3
    assert sum(record.text.count("more") for record in records) == 12_000
    assert records[-1].text.endswith("y")
