# ruff: noqa: E501 (whole sentences)
"""What CANN, torch_npu, HCCL and MindSpore print of failures; and texts that look like it and are none.

The texts in fixtures/cann have the formats of public ones; names, paths and numbers are others.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from livedbg.adapters.ascend.decoder import AscendDecoder
from livedbg.adapters.ascend.model import AscendModel
from livedbg.adapters.ascend.report_decoder import CannDecoder
from livedbg.adapters.ascend.reports import explains, triggers
from livedbg.adapters.logfiles.decoding import Decoding
from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
from livedbg.logs.clock import SourceClock
from livedbg.logs.lines import LineCutter
from livedbg.logs.records import RecordAssembler
from livedbg.model import Diagnostic, Evidence, ExceptionHit, LogSource, Severity
from livedbg.model.events import DiagnosticSeen, LogSourceSeen, LogsSeen
from livedbg.session.filereaders import known_log_formats
from livedbg.session.rulebook import diagnose
from livedbg.session.signatures import book
from livedbg.signatures.crashes import CrashDecoder
from livedbg.signatures.decoder import SignatureDecoder
from tests.analysis.world import World

TEXTS = Path(__file__).parents[2] / "fixtures" / "cann"

SAID = [
    (
        "aicore-kernel",
        "Kernel index_to_row_kernel_0 failed on vector core 49 of NPU 2: The DDR address of the MTE instruction is out "
        "of range",
        ("0x254 bytes into its code", "train_step (finetune.py:40)", "Stream 2, task 18", "507035"),
    ),
    ("l0c-conflict", "AI core 12 of chip 7: L0C read/write conflict", ("0x20000",)),
    (
        "plog-superkernel",
        "Process 91002: kernel te_superkernel_911c4c52 failed on vector core 3 of NPU 0: Illegal instruction",
        ("507035",),
    ),
    (
        "notify-timeout-lost",
        "Process 7277: AllReduce waited for another rank",
        ("Device 1 of 10.9.8.7 lost its heartbeat", "Nov 28 11:56:34"),
    ),
    (
        "notify-timeout-three-of-four",
        "Rank 0: Broadcast waited for another rank",
        ("2 other processes report the like (rank 1, rank 3)", "Rank 2 of that group has reported nothing"),
    ),
    ("socket-timeout", "Rank 1: HCCL could not connect to another rank", ("HCCL_CONNECT_TIMEOUT",)),
    ("plog-port-taken", "Process 27172: HCCL can't listen on port 16666", ()),
    (
        "plog-connect-timeout",
        "Process 27172: HCCL could not connect to another rank (HCCL does not know which) within 120 s",
        (),
    ),
    ("transport-init", "HCCL could not set up the link to rank 0", ()),
    ("hccp-busy", "Rank 3: NPU 3 could not be started for the process", ("last training process is running",)),
    ("set-device", "Rank 0: NPU 4 could not be started for the process", ("507033",)),
    ("device-open-a5", "Process 276281: NPU 1 could not be started for the process", ("507033",)),
    ("memory-titled", "NPU 0 is out of memory: 3.0 GiB were requested", ()),
    (
        "memory-training",
        "NPU 5 is out of memory: 3.47 GiB were requested, raised at run (trainer.py:77)",
        ("1.66 GiB of 60.97 GiB are free",),
    ),
    ("memory-allocator", "The NPU is out of memory: rtMalloc of 8.0 GiB failed", ("207001",)),
    ("tiling", "operator aclnnEqScalar failed on NPU 0: Op Equal does not has any binary", ()),
    (
        "inner-error-operator",
        "Process 555: operator aclnnIsNegInf failed on NPU 0",
        ("merge_embeddings (runner.py:511)",),
    ),
    ("mindspore-getnext", "operator Default/GetNext-op18 failed on NPU 0", ("Stream 45, task 2", "507011")),
    ("mindspore-notify", "AllReduce waited for rank 0 until", ("Device 0 of 10.90.55.95", "train_ms.py:140")),
    ("suspect-remote", "a kernel failed on vector core 15", ("507057",)),
    ("escaped", "NPU 0 could not be started for the process", ("Failed to verify the OPP",)),
    ("fftsplus", "Rank 2: a collective operation waited for a notify of another rank for 30min", ("spread_inputs",)),
    ("peer-access", "Rank 6: the driver's halDeviceEnableP2P failed with 17 on NPU 6", ("507899",)),
    ("mindspore-init", "NPU 0 could not be started for the process", ("generate.py:9",)),
    (
        "two-writers",
        "process 10180: a kernel on a vector core ran longer",
        ("507034", "sample_tokens (runner.py:2101)"),
    ),
    ("device-lost", "Process 712: NPU 1 failed: Device[1] lost heartbeat", ("507010",)),
    ("parameter", "operator aclnnQuantMatmulWeightNz failed on NPU 1: Tensor scale not implemented", ("161002",)),
    ("cqe", "Rank 11: HCCL failed: An error CQE occurred during operator execution", ("10.20.13.5",)),
    ("masked", "ACL stream", ()),
]


def seen(*logs: str, world: World | None = None, names: Iterable[str] = ()) -> World:
    """A world that has read logs."""
    world = world or World()
    decoding = Decoding(
        (CrashDecoder(), AscendDecoder(AscendModel()), CannDecoder(), SignatureDecoder(lambda: book()[0]))
    )
    for number, text in enumerate(logs):
        name = dict(enumerate(names)).get(number, f"{number}.log")
        source = LogSource(id=f"log:box/{name}", name=name, path=f"/logs/{name}")
        decoding.opened(source, world.stamp())
        assembler, cutter = RecordAssembler(source.id, SourceClock(), known_log_formats()), LineCutter()
        records = [*assembler.feed([*cutter.feed(text.encode()), *cutter.flush()]), *assembler.flush()]
        fed = decoding.feed(records, world.stamp())
        world.store.apply(LogsSeen(records=tuple(fed), **world.stamp()))
        world.store.apply(LogSourceSeen(source=replace(source, lines=text.count("\n")), **world.stamp()))
    decoding.flush(world.stamp())
    world.store.apply_all(decoding.take())
    return world


def text(name: str) -> str:
    return (TEXTS / f"{name}.log").read_text()


def reports(world: World) -> list[Finding]:
    return [one for one in diagnose(world.snapshot()).findings.values() if one.rule == "ascend-report"]


def verdict(*logs: str) -> Verdict:
    return diagnose(seen(*logs).snapshot()).verdict


@pytest.mark.parametrize(("name", "begins", "also"), SAID[:-1])
def test_each_form(name: str, begins: str, also: tuple[str, ...]) -> None:
    world = seen(text(name))
    found = reports(world)[0]
    assert begins.lower() in found.sentence.lower()
    for words in also:
        assert words in found.sentence
    judged = diagnose(world.snapshot()).verdict
    assert judged.state is VerdictState.CRASHED
    assert judged.sentence == found.sentence


DEVICE = "EZ9999: [PID: 61] 2026-03-01-08:00:00.000.001 The error from device(chipId:3, dieId:0), serial number is 4"
TELLS = [
    (
        f"{DEVICE}, event wait timeout occurred during task execution, stream_id:9, sq_id:9, task_id:5, event_id=7, "
        "timeout=90s.[FUNC:A][FILE:a.cc][LINE:1]\n"
        "        synchronize stream failed, runtime result = 507011[FUNC:B][FILE:b.cc][LINE:1]\n",
        "Process 61: stream 9 on chip 3 waited 90 s for event 7, which did not come. ",
    ),
    (
        f"{DEVICE}, wait timeout occurred during task execution, stream_id:9, sq_id:9, task_pos:5, id=17, timeout=90s, "
        "cntFlag = 0.[FUNC:A][FILE:a.cc][LINE:1]\n",
        "Process 61: stream 9 on chip 3 waited 90 s for event 17, which did not come. ",
    ),
    (
        f"{DEVICE}. there is a fftsplus sdma error, sdma channel is 2, sdmaState=0x1, cqeStatus=0x20.[FUNC:A]\n",
        "Process 61: the sdma engine on chip 3 failed. Error code 0x20. ",
    ),
    (
        f"{DEVICE}, an exception occurred during DVPP task execution, stream_id:9, task_id:5, errcode:3, sqe_type=2\n",
        "Process 61: the DVPP engine on chip 3 failed. Error code 3. Stream 9, task 5. ",
    ),
    (
        "[ERROR] aclInit(nullptr) failed: 500000 (/w/xors/main.cpp:71)\n"
        "[ERROR] RecentErrMsg: [PID: 61] 2026-03-01-08:00:00.000.001 Invalid_Argument(EE1001): The argument is invalid."
        "Reason: rtGetDevMsg execution failed, the feature is not supported.\n"
        "        [Init][Version]init soc version failed.[FUNC:ReportInnerError][FILE:log_inner.cpp][LINE:132]\n",
        "Process 61: aclInit failed with 500000: init soc version failed, noticed at xors/main.cpp:71. ",
    ),
    (
        "RuntimeError: call aclnnFill failed, detail:EZ9999: Inner Error!\n"
        "EZ9999  Cannot parse json for config file [/opt/fill.json].\n        launch failed for Fill, errno:561000.\n",
        "Operator aclnnFill failed: Cannot parse json for config file [/opt/fill.json]. ",
    ),
    (
        "EJ0003: [PID: 61] 2026-03-01-08:00:00.000.001 Failed to bind the IP port. Reason: The IP address and port "
        "have been bound already.\n        host nic listen start failed, port[60000], return[11][FUNC:A][FILE:a.cc]\n",
        "Process 61: HCCL can't listen on port 60000: ",
    ),
    (
        "[ERROR] HCCL(61,train):2026-03-01-08:00:00.000.001 [a.cc:8] [62][Wait][LinkEstablish]wait socket establish "
        "timeout, role[0] rank[0] timeout[120 s]\n"
        "[ERROR] HCCL(61,train):2026-03-01-08:00:00.000.002 [a.cc:9] [62] |  10.0.0.2(1)    |  16666  |   10.0.0.1(0) "
        "|  0  |  server   |  time out | DISABLE |\n",
        "Process 61: HCCL could not connect to rank 1 within 120 s",
    ),
    (
        "/w/ggml-cann.cpp:61: CANN error: E89999: Inner Error!\n"
        "E89999: [PID: 61] 2026-03-01-08:00:00.000.001 op[Fill], the sizes differ[FUNC:A][FILE:a.cc][LINE:113]\n"
        "       launch failed for Fill, errno:561103.\n\n"
        "  current device: 0, in function aclnn_fill at /w/ggml/src/ggml-cann/aclnn_ops.cpp:291\n",
        "operator Fill failed on NPU 0: op[Fill], the sizes differ, noticed at aclnn_ops.cpp:291. ",
    ),
    (
        "[rank3]: RuntimeError: NPU out of memory. NPUWorkspaceAllocator tried to allocate 2.00 GiB(NPU 3; 60.97 GiB "
        "total capacity; 1.11 GiB free). If you want to reduce memory usage, set TASK_QUEUE_ENABLE=1.\n",
        "Rank 3: NPU 3 is out of memory: 2.00 GiB were requested. 1.11 GiB of 60.97 GiB are free.",
    ),
    (
        "[ERROR] RUNTIME(61,serve):2026-03-01-08:00:00.000.001 [a.cc:2350]58 SetDevice:Set visible device failed, "
        "invalid device=0, input visible devices:4\n"
        "[ERROR] RUNTIME(61,serve):2026-03-01-08:00:00.000.002 [b.cc:92]58 rtSetDevice:ErrCode=107001, desc=[device id "
        "error], InnerCode=0x7010003\n"
        "[ERROR] ASCENDCL(61,serve):2026-03-01-08:00:00.000.003 [c.cpp:54]58 aclrtSetDeviceImpl: open device 0 failed, "
        "runtime result = 107001.\n",
        "there is no device of that number (Set visible device failed, invalid device=0, input visible devices:4).",
    ),
    (
        "[ERROR] [AscPlugin] AscendKernelLaunchWithFlagV2 ret 107000\n"
        "[ERROR] [AscPlugin] Kernel: [fill] Stream: [0x5d] BlockDim: [65536] kernel launch failure!\n",
        "Operator fill failed: BlockDim: [65536] kernel launch failure. ",
    ),
    (
        "[2026-03-01 08:00:00.1] [error] [61] [hccl_runner.cpp:132] AllGatherHcclRunner:0 HcclCommInitRootInfo fail, "
        "error:2, rank:1, rankSize:4\n",
        "HCCL failed: HcclCommInitRootInfo returned 2 (a pointer is null). It is member 1 of 4 in its group.",
    ),
    (
        "RuntimeError: open:build/x.ts:10 HCCL function error: HcclCommInitRootInfo(n, &id), error code is 15\n"
        "EE9999: Inner Error!\n"
        "EE9999: [PID: 61] 2026-03-01-08:00:00.000.001 get error: phyid:2 realDeviceId:2 is err:0x7010003"
        "[FUNC:GetDeviceIndexByPhyId][FILE:api_error.cc][LINE:1]\n"
        "        TraceBack (most recent call last):\n"
        "        rtGetDeviceIndexByPhyId execute failed, reason=[device id error][FUNC:F][FILE:e.cc][LINE:5]\n",
        "HCCL failed: HcclCommInitRootInfo returned 15 (a call of the runtime failed: device id error).",
    ),
]


@pytest.mark.parametrize(("lines", "said"), TELLS)
def test_what_a_report_tells_beside_a_code_that_masks_it(lines: str, said: str) -> None:
    judged = verdict(lines)
    assert judged.state is VerdictState.CRASHED
    assert said in f"{judged.sentence} " and "masks the cause" not in judged.sentence


STREAM = """DEVICE[{device}] PID[4711]: \nEXCEPTION STREAM:
  Exception info:TGID=88012, model id=65535, stream id=9, stream phase=SCHEDULE
  Message info[0]:RTS_HWTS: {what}, slot_id=4, stream_id=9
    Other info[0]:time=2026-03-02-10:44:52.267.860, function=int_process_hwts_task, line=296, error code={code}
"""
THROWN = """Traceback (most recent call last):
  File "/w/fill.py", line 61, in run
    tank.fill()
RuntimeError: The Inner error is reported as above.
"""


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        (
            "aicore exception",
            "0x26",
            "Process 4711: a kernel on an AI core failed on NPU 3, noticed at run (fill.py:61).",
        ),
        ("Aicpu exception", "0x2a", "Process 4711: an AICPU kernel failed on NPU 3, noticed at run (fill.py:61)."),
        ("hwts sdma error", "0x20b", "Process 4711: the sdma engine on NPU 3 failed, noticed at run (fill.py:61)."),
    ],
)
@pytest.mark.invariant("cann_reports.R3")
def test_R3_what_the_device_tells_of_a_stream_and_who_points_up_to_it(what: str, code: str, said: str) -> None:
    found = verdict(STREAM.format(device=3, what=what, code=code) + THROWN)
    assert found.state is VerdictState.CRASHED
    assert found.sentence.startswith(said)
    assert f"Error code {code}. Stream 9." in found.sentence
    apart = STREAM.format(device=3, what=what, code=code).replace("\n", "\n" + "tank 2 is open\n" * 9, 1)
    assert "on NPU 3" not in verdict(apart + THROWN).sentence  # it is not right above


LAUNCH = """ERROR 02-11 11:32:58 engine.py:389] call aclnnPumpFillV3 failed, detail:EZ1001: [PID: 4711] 2026-02-11-11:32:58.201.638 PumpFill LaunchAicore failed.
ERROR 02-11 11:32:58 engine.py:389]         TraceBack (most recent call last):
ERROR 02-11 11:32:58 engine.py:389]         {}
ERROR 02-11 11:32:58 engine.py:389]         Kernel GetWorkspace failed. opType: 5
ERROR 02-11 11:32:58 engine.py:389]         PumpFill LaunchAicore failed.
ERROR 02-11 11:32:58 engine.py:389]
ERROR 02-11 11:32:58 engine.py:389] [ERROR] 2026-02-11-11:32:58 (PID:4711, Device:1, RankID:-1) ERR01100 OPS call acl api failed
"""


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            "Cannot find bin of op PumpFill, integral key 0/1/|bf16/ND/.",
            ": Cannot find bin of op PumpFill, integral key 0/1/|bf16/ND/",
        ),
        ("Tiling of PumpFill needs 4 tanks", ": Tiling of PumpFill needs 4 tanks"),
        ("Rectify the fault based on the error information in the ascend log.", ""),
    ],
)
def test_the_reason_of_a_launch_that_failed_stands_below_its_head(reason: str, said: str) -> None:
    assert verdict(LAUNCH.format(reason)).sentence.startswith(
        f"Process 4711: operator aclnnPumpFillV3 failed on NPU 1{said}."
    )


def test_an_operator_of_a_library_is_named_with_the_user_s_line_and_its_reason_is_whole() -> None:
    said = "RuntimeError: InnerRun:build/compiler_depend.ts:230 OPS function error: PumpFill, error code is 500002\n"
    log = f"""Traceback (most recent call last):
  File "/w/pump.py", line 45, in fill
    fill_all()
{said}[ERROR] 2026-03-04-12:57:08 (PID:4711, Device:0, RankID:-1) ERR01100 OPS call acl api failed
[Error]: A GE error occurs in the system.
        Rectify the fault based on the error information in the ascend log.
E40024: 2026-03-04-12:56:24.963.302 Failed call Python Func/Meathod [fill_c], Reason[SystemError: no lid for '#' tanks
]
        Possible Cause: The Python Func/Meathod does not exist.
"""
    begins = "Process 4711: operator PumpFill failed on NPU 0: Failed call Python Func/Meathod [fill_c], Reason[SystemError: no lid for '#' tanks], raised at fill (pump.py:45)."
    assert verdict(log).sentence.startswith(begins)


def test_the_head_of_a_device_s_report_alone_is_none() -> None:
    assert verdict("DEVICE[3] PID[4711]: \ntank 2 is open\n").state is VerdictState.UNKNOWN
    assert reports(seen("Message info[0]: the tank is open\nDEVICE[3] is idle\n")) == []


def test_that_an_exception_ended_the_process_leads_only_where_nothing_else_is_known() -> None:
    ended = "[rank3]: RuntimeError: [ERROR] 2026-06-25-10:45:23 (PID:9, Device:0, RankID:3) ERR02005 DIST error\n"
    (alone,) = reports(seen(ended))
    assert "ended with an exception (torch_npu: ERR02005)" in alone.sentence
    late = (
        "[rank3]:[E625 10:45:23.000000001 ProcessGroupHCCL.cpp:932] [Rank 3] Watchdog caught collective operation "
        "timeout: WorkHCCL(SeqNum=12, OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800123 milliseconds before "
        "timing out.\n"
    )
    assert "Rank 3 timed out in broadcast #12" in verdict(ended + late).sentence


def test_a_device_log_s_line_of_a_module_that_nobody_lists_is_quoted() -> None:
    line = (
        "[ERROR] TSCH(-1,null):2026-03-01-08:00:00.000.001 28 (cpuid:0) disp.c:12 on_timeout: slot_id=1, fault_task=0\n"
    )
    judged = verdict(line)
    assert judged.state is VerdictState.UNKNOWN
    assert "CANN's TSCH is: on_timeout: slot_id=1, fault_task=0" in judged.sentence


NOTIFY = (
    "[ERROR] 2026-03-01-08:00:00 (PID:61, Device:0, RankID:{own}) ERR00100 PTA call acl api failed.\n"
    "EI0002: [PID: 61] 2026-03-01-08:00:00.000.001 The wait execution of the Notify register times out. Reason: The "
    "Notify register has not received the Notify record from remote rank: [6]. base information: [streamID:[9], "
    "taskID[3], tag[AllReduce_x]]. group information: [group:[{group}], rankSize[8], rankId[{members}]]\n"
)


@pytest.mark.invariant("cann_rule.C5")
@pytest.mark.parametrize(
    ("own", "group", "members", "whom"),
    [
        ("21", "group_name_35", "5 6", "member 6 of group group_name_35 (8 ranks)"),
        ("5", "group_name_35", "5", "member 6 of group group_name_35 (8 ranks)"),
        ("21", "10.0.0.5%eth0_60000_0", "5", "member 6 of group 10.0.0.5%eth0_60000_0 (8 ranks)"),
        ("5", "10.0.0.5%eth0_60000_0", "5", "rank 6"),
        ("5", "hccl_world_group", "5 6", "rank 6"),
    ],
)
def test_C5_a_number_within_a_group_is_no_rank_of_the_job(own: str, group: str, members: str, whom: str) -> None:
    judged = verdict(NOTIFY.format(own=own, group=group, members=members))
    assert judged.sentence.startswith(f"Rank {own}: AllReduce waited for {whom} until the time-out")


def test_a_wait_that_ended_in_time_is_no_report() -> None:
    assert reports(seen("event wait took 90 s during task execution, stream_id:9, event_id=7\n")) == []


def test_the_call_that_failed_is_named_by_its_line() -> None:
    judged = verdict("  [ERROR] run: rtStreamSynchronize (AICPU) failed: 507018\n")
    assert judged.sentence.startswith("The call rtStreamSynchronize failed with 507018: the AICPU's task failed")


def test_a_traceback_that_is_cut_gives_no_library_s_frame_as_the_place() -> None:
    report = (
        "EH9999: Inner Error!\n        rtMemcpyAsync execute failed, reason=[vector core exception][FUNC:A]\n"
        "EH9999: [PID: 61] 2026-03-01-08:00:00.000.001 asynchronized memcpy failed, runtime result = 507035[FUNC:B]\n\n"
    )
    stack = "- C++ Call Stack:\n---\nmindspore/ccsrc/runtime/device/fill_address.cc:88 CopyIt\n\n"
    cut = (
        'Traceback (most recent call last):\n  File "/usr/lib/python3.9/site-packages/serve/queue.py", line 5, in run\n'
        "    await call(\n"
    )
    assert verdict(report + cut).sentence.startswith("Process 61: a kernel on a vector core failed. ")
    assert "failed, noticed at fill_address.cc:88. " in verdict(report + stack + cut).sentence
    own = cut.replace("/usr/lib/python3.9/site-packages", "/home/me")
    assert "noticed at run (queue.py:5)" in verdict(report + stack + own).sentence
    assert reports(seen("[ERROR] built mindspore/ccsrc/runtime/fill.cc:88 Copy\n")) == []


def test_a_code_that_masks_the_cause_says_so() -> None:
    judged = verdict(text("masked"))
    assert judged.state is VerdictState.CRASHED
    assert "507018: the AICPU's task failed" in judged.sentence and "masks the cause" in judged.sentence
    assert "update_step (agent.py:117)" in judged.sentence


@pytest.mark.parametrize("name", ["no-handled-memory", "no-teardown-warning", "no-numbers", "no-documentation"])
def test_texts_that_look_like_it_are_no_crash(name: str) -> None:
    assert verdict(text(name)).state is not VerdictState.CRASHED


def test_lines_with_numbers_like_codes_are_no_report() -> None:
    assert reports(seen(text("no-numbers"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "ERROR server: port 50701 is gone",
        "ERROR copy failed: 10700 bytes of 20700",
        "ERROR [Error]: cannot read property",
        "ERROR user function error: division by zero",
        "ERROR Possible Cause: the disk is full",
    ],
)
def test_error_lines_of_others_are_not_taken_for_understood(line: str) -> None:
    assert not any(word.decode() in line for word in triggers())


def test_error_lines_of_cann_s_logs_alone_are_inconclusive() -> None:
    world = seen(text("no-plog-alone"))
    judged = diagnose(world.snapshot()).verdict
    assert judged.state is VerdictState.UNKNOWN
    assert "the first error line of CANN's TDT is" in judged.sentence and "closed already" in judged.sentence


@pytest.mark.invariant("cann_reports.R2")
def test_R2_memory_that_ran_out_and_was_found_again_is_survived() -> None:
    (found,) = reports(seen(text("no-handled-memory")))
    assert found.state is not VerdictState.CRASHED
    steps = "".join(f"INFO 04-01 10:{n // 60:02}:{n % 60:02} step {n}, loss 1.{n}\n" for n in range(600))
    error = text("memory-training").partition("[ERROR]")[0]
    (found,) = reports(seen(error + steps))
    assert found.state is None and "handled or survived" in found.sentence


@pytest.mark.invariant("cann_reports.R2")
def test_R2_the_last_of_two_failures_far_apart_is_the_crash() -> None:
    error = text("memory-training").partition("[ERROR]")[0]
    steps = "".join(f"step {n} of 900, loss 1.{n}\n" for n in range(500))
    world = seen(error + steps + text("l0c-conflict"))
    fault, memory = reports(world)
    assert fault.state is VerdictState.CRASHED and "L0C read/write conflict" in fault.sentence
    assert memory.state is None and "handled or survived" in memory.sentence


@pytest.mark.invariant("cann_reports.R1")
def test_R1_two_processes_in_one_log_keep_their_fields_apart() -> None:
    one = (
        "EZ9999: [PID: {pid}] 2025-07-22-08:09:52.219.466 The error from device(chipId:{chip}, dieId:0), serial number "
        "is 1, there is an exception of aivec error, core id is {core}, error code = 0x10, dump info: pc start: 0x10, "
        "current: 0x20, vec error info: 0.\n"
    )
    world = seen(one.format(pid=11, chip=1, core=5) + one.format(pid=12, chip=2, core=6))
    told = sorted((said.facts.pid, said.facts.chip, said.facts.core) for said in world.snapshot().diagnostics.values())
    assert told == [("11", "1", "5"), ("12", "2", "6")]


@pytest.mark.invariant("cann_rule.C1")
@pytest.mark.parametrize(
    ("pid", "state", "words"), [(1, None, "no process of the target"), (28849, VerdictState.UNKNOWN, "still lives")]
)
def test_C1_the_report_of_another_process_or_while_the_target_lives(
    pid: int, state: VerdictState | None, words: str
) -> None:
    world = World()
    world.process(pid)
    (found,) = reports(seen(text("aicore-kernel"), world=world))
    assert found.state is state and words in found.sentence


@pytest.mark.invariant("cann_rule.C2")
def test_C2_a_warning_with_a_code_alone_is_unknown() -> None:
    assert verdict(text("no-teardown-warning")).state is VerdictState.UNKNOWN


CORE = (
    "[ERROR] RUNTIME(71,python):2026-06-12-11:05:31.653.001 [core.cc:645] 74 PrintCoreInfo:The error from device("
    "chipId:1, dieId:0), serial number is 1, there is an exception of fftsplus aivector error, core id is 15, error "
    "code = 0x4000000000000000, dump info: pc start: 0x1000, current: 0x1400, vec error info: 0x1f\n"
    "[ERROR] RUNTIME(71,python):2026-06-12-11:05:31.653.002 [core.cc:658] 74 PrintCoreInfo:The extend info: errcode:"
    "(0x4000000000000000, 0, 0) errorStr: VEC instruction error: the ub address out of bounds. fixp_error0 info: 0x3\n"
)
STALL = (
    "[2026-06-12 11:05:32.100000][T0x7f01][ERROR] sync: [r.cpp:511] aclrtSynchronizeStreamWithTimeout (AICPU) failed: "
    "507018\n"
    "[2026-06-12 11:05:32.100200][T0x7f01][ERROR] check: [m.cpp:815] PTO2 scheduler timeout sub_class=S1:running-"
    "stalled (detail=1) completed=1/5 running=2 ready=0 waiting=2 orch_done=1 stuck_task_id=4294967296 stuck_core=24\n"
)
ENDED = "[2026-06-12 11:05:31.000000][T0x7f01][ERROR] watch: [w.cpp:5] HandleTaskTimeout\n"


@pytest.mark.invariant("cann_rule.C4")
def test_C4_a_core_s_fault_comes_before_the_stall_that_follows_from_it() -> None:
    judged = verdict(CORE + STALL)
    assert judged.state is VerdictState.CRASHED
    assert "vector core 15" in judged.sentence and "ub address out of bounds" in judged.sentence


@pytest.mark.invariant("cann_rule.C4")
@pytest.mark.parametrize(
    "lines", [STALL, ENDED + CORE + STALL, CORE.replace("code = 0x4000000000000000", "code = 0") + STALL]
)
def test_C4_a_stall_without_a_fault_of_its_own_stays_one(lines: str) -> None:
    judged = verdict(lines)
    assert judged.state is VerdictState.STALLED and "core 24" in judged.sentence


def test_memory_that_a_broken_device_refuses_is_no_want_of_memory() -> None:
    judged = verdict("[ERROR] alloc: [a.cpp:51] rtMalloc failed: 507899 (size=4096)\n")
    assert "The call rtMalloc failed with 507899: the driver refuses every call" in judged.sentence


@pytest.mark.invariant("cann_rule.C3")
def test_C3_ranks_that_waited_follow_from_the_rank_that_failed() -> None:
    fault = "".join(f"[rank2]: {line}\n" for line in text("aicore-kernel").splitlines())
    world = seen(text("notify-timeout-three-of-four"), fault)
    cause, waited = reports(world)
    assert cause.sentence.startswith("Rank 2: kernel index_to_row_kernel_0 failed")
    assert cause.state is VerdictState.CRASHED
    assert waited.state is None and "2 more processes like it (rank 1, rank 3)" in waited.sentence


@pytest.mark.parametrize(
    "wrap",
    [
        "[rank3]: {}",
        "[default3]:{}",
        "(Worker_TP3 pid=7) {}",
        "[1,3]<stderr>:{}",
        "    {}",
        "> {}",
        "2026-01-02 03:04:05,678 - app - ERROR - {}",
    ],
)
@pytest.mark.parametrize(
    ("name", "begins"),
    [
        (said[0], said[1])
        for said in SAID
        if said[0] in ("tiling", "memory-training", "socket-timeout", "mindspore-notify")
    ],
)
def test_in_any_wrapping(name: str, begins: str, wrap: str) -> None:
    wrapped = "".join(wrap.format(line) + "\n" for line in text(name).splitlines())
    judged = verdict(wrapped)
    assert judged.state is VerdictState.CRASHED
    assert begins.rpartition(": ")[2].lower() in judged.sentence.lower()


_ERR = "[ERROR] 2026-07-01-02:42:57 (PID:{pid}, Device:{device}, RankID:-1) ERR{code} PTA call acl api failed\n"
_CALL = "RuntimeError: copy:compiler_depend.ts:51 NPU function error: {call}, error code is {number}\n"


@pytest.mark.parametrize(
    ("call", "number", "more", "says"),
    [
        ("AclmdlRICaptureEnd(s)", 107025, "", "failed on NPU 8: a stream was not joined before the capture"),
        (
            "copy_",
            107027,
            "EE9999: synchronize stream failed, runtime result = 107027[FUNC:A][FILE:b]",
            "being captured",
        ),
        ("AclrtStreamWaitEvent(s)", 207005, "EE9999: rtStreamWaitEvent execution failed, reason=x[FUNC:A]", "resource"),
        ("SetDevice(d)", 507033, "", "NPU 8 could not be started for the process"),
        ("LaunchTask", 561112, "", "the binaries of the operators' kernels are not loaded"),
        (
            "LaunchTask",
            561002,
            "EZ9999: Tile 3 is too large[FUNC:Tile][FILE:t.cc]",
            "failed on NPU 8: Tile 3 is too large.",
        ),
        ("LaunchTask", 500002, "", "LaunchTask failed with 500002: the graph engine (GE) failed."),
        ("LaunchTask", 507999, "", "LaunchTask failed with 507999"),
    ],
)
def test_a_code_says_what_it_means_where_no_line_says_more(call: str, number: int, more: str, says: str) -> None:
    told = _CALL.format(call=call, number=number) + _ERR.format(pid=4, device=8, code="00100") + more + "\n"
    judged = verdict(f'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\n{told}')
    assert judged.state is VerdictState.CRASHED
    assert (
        says in judged.sentence.replace(", raised at t.py:3", "").replace(", noticed at t.py:3", "")
        and "FUNC" not in judged.sentence
    )


@pytest.mark.invariant("cann_reports.R1")
@pytest.mark.parametrize(("code", "call", "together"), [("00100", True, True), ("99999", False, False)])
def test_R1_a_line_with_a_pid_below_a_worker_s_message_is_of_it_only_if_the_message_asks_for_it(
    code: str, call: bool, together: bool
) -> None:
    message = (
        _CALL.format(call="LaunchTask", number=507018)
        if call
        else "RuntimeError: NPU out of memory. Tried to allocate 3.00 MiB\n"
    )
    trace = 'Traceback (most recent call last):\n  File "/w/s.py", line 3, in run\n    f()\n'
    below = _ERR.format(pid=14, device=8, code=code)
    world = seen(f"[2026-07-01 02:42:58 TP8 EP8] Scheduler hit an exception: {trace}{message}{below}")
    told = [said.facts for said in world.snapshot().diagnostics.values() if said.code == "cann-report"]
    assert (len(told) == 1) is together
    assert not together or (told[0].who, told[0].pid, told[0].device) == ("rank 8", "14", "8")


_DEVICE = """[rank{rank}]:[W310 07:11:42.104000001 compiler_depend.ts:57] Warning: EZ9999: Inner Error!
EZ9999[PID: {pid}] 2026-03-10-07:11:42.104.000 (EZ9999):  The error from device(chipId:2, dieId:0), serial number is 5, there is an exception of fftsplus aivector error, core id is 17, error code = 0, dump info: pc start: 0x1000, current: 0x1040, vec error info: 0.
        TraceBack (most recent call last):
       The extend info: errcode:(0, 0x40, 0) errorStr: The pump turns against its valve. fixp_error0 info: 0x3, fsmId:1, subErrType:4.
       rtStreamSynchronize execute failed, reason=[aicore exception][FUNC:FuncErrorReason][FILE:error_message_manage.cc][LINE:53]
"""
_RAISED = """({name} pid={pid}) ERROR 03-10 07:11:42 [pool.py:824] Traceback (most recent call last):
({name} pid={pid}) ERROR 03-10 07:11:42 [pool.py:824]   File "/w/tank/level.py", line 31, in read_level
({name} pid={pid}) ERROR 03-10 07:11:42 [pool.py:824]     return level.cpu()
({name} pid={pid}) ERROR 03-10 07:11:42 [pool.py:824] RuntimeError: ACL stream synchronize failed, error code:507015
"""


@pytest.mark.invariant("cann_reports.R4")
@pytest.mark.parametrize("prefixed", [False, True])
def test_R4_a_rank_and_the_worker_of_its_pid_are_one_process_that_failed_for_the_core_s_reason(prefixed: bool) -> None:
    device = _DEVICE.format(rank=6, pid=771)
    device = device.replace("\nEZ9999", "\n[rank6]:EZ9999").replace("\n  ", "\n[rank6]:   ") if prefixed else device
    said = verdict(device + _RAISED.format(name="Worker_DP0_TP6", pid=771)).sentence
    assert "vector core 17 of chip 2: The pump turns against its valve, noticed at read_level (level.py:31)." in said
    assert "Error code 0x40, 0x40 bytes into its code" in said and "other process" not in said


@pytest.mark.parametrize(("own", "who"), [(90, "Engine core DP0 (pid 90)"), (91, "Process 91")])
def test_an_engine_core_is_named_unless_it_tells_what_its_worker_reported(own: int, who: str) -> None:
    head = "RuntimeError: addmm:build/x.ts:112 NPU function error: call aclnnPump failed, error code is 161002\n"
    text = f"{head}[ERROR] 2026-03-10-07:11:42 (PID:{own}, Device:0, RankID:-1) ERR00100 PTA call acl api failed.\n"
    prefix = "(EngineCore_DP0 pid=90) ERROR 03-10 07:11:42 [core.py:868] "
    said = verdict("".join(f"{prefix}{line}\n" for line in text.splitlines())).sentence
    assert said.startswith(f"{who}: operator aclnnPump failed on NPU 0")


@pytest.mark.invariant("cann_reports.R4")
def test_R4_ranks_of_two_hosts_with_one_pid_and_a_rank_beside_another_s_worker_stay_two() -> None:
    said = verdict(
        _DEVICE.format(rank=0, pid=57) + _DEVICE.format(rank=8, pid=57).replace("core id is 17", "core id is 3")
    )
    assert said.sentence.startswith("Rank 0: ") and "1 other process reports the like (rank 8)" in said.sentence
    said = verdict(_DEVICE.format(rank=4, pid=90) + _RAISED.format(name="Worker_TP6", pid=771))
    assert "1 other process reports the like" in said.sentence


_AICPU = "[{level}] {module}(30,aicpu_scheduler):2026-03-02-05:10:40.101.210 [{place}]{rest}\n"


@pytest.mark.parametrize(
    ("line", "state", "says"),
    [
        (
            _AICPU.format(
                level="ERROR",
                module="CCECPU",
                place="aicpu_tf_kernel.cc:348",
                rest="[tid:2][TFAdapter] AICPUKernelAndDevice::Run failure, op_type=UniqueExt, error=one dimension.",
            ),
            VerdictState.CRASHED,
            "AICPU kernel UniqueExt failed: one dimension.",
        ),
        (
            _AICPU.format(
                level="ERROR",
                module="CCECPU",
                place="ae_kernel_lib_aicpu_kfc.cpp:105",
                rest="[CallKernelApi][tid:5][AICPU_PROCESSER] Get api X success, but func is nullptr: (null)",
            ),
            VerdictState.CRASHED,
            "an AICPU kernel failed: Get api X success, but func is nullptr: (null).",
        ),
        (
            _AICPU.format(
                level="ERROR", module="AICPU", place="check_v3.cc:250", rest="[ComputeL1][tid:26]val = [nan]"
            ),
            VerdictState.UNKNOWN,  # CANN's check of values prints such lines and goes on
            "the first error line of CANN's AICPU, of ComputeL1, is: val = [nan].",
        ),
        (
            _AICPU.format(level="INFO", module="AICPU", place="main.cpp:28", rest="[main][tid:11]begin"),
            VerdictState.UNKNOWN,
            "",
        ),
        (
            _AICPU.format(
                level="ERROR", module="AICPU", place="device_log.cpp:89", rest='2 run "[a.cpp:6] Thread 3: x"'
            ),
            VerdictState.UNKNOWN,
            "",
        ),
    ],
)
def test_lines_of_the_aicpu_in_a_device_s_log(line: str, state: VerdictState, says: str) -> None:
    found = reports(seen(line))
    assert [one.state for one in found] == ([state] if says else [])
    assert not says or says in found[0].sentence


def test_the_device_that_the_daemon_could_not_open_and_its_reason() -> None:
    head = "(9,main):2026-05-19-15:59:37.80{n}.211 "
    log = (
        f"[ERROR] TDT{head.format(n=1)}[hdc_client.cpp:188][Create][tid:9] deviceId[3] create session failed\n"
        f"[ERROR] RUNTIME{head.format(n=2)}[api.cc:55]9 rtSetDevice:ErrCode=507033, desc=[tsd open failed]\n"
        f"[ERROR] ASCENDCL{head.format(n=3)}[device.cpp:70]9 aclrtSetDevice: open device 3 failed\n"
    )
    (found,) = reports(seen(log))
    assert "NPU 3 could not be started for the process:" in found.sentence
    assert "process: deviceId[3] create session failed. Returned" in found.sentence


def test_an_error_string_stands_without_its_codes_too() -> None:
    fault = (
        "EZ9999: [PID: 5] 2026-01-21-18:33:07.914.556 The error from device(chipId:1, dieId:0), serial number is 9, "
        "there is an aivec error exception, core id is 6, error code = 0x80, dump info: pc start: 0x10, current: 0x12, "
        "vec error info: 0x1, para base: 0x1, errorStr: The address is out of range.[FUNC:Print]\n"
    )
    (found,) = reports(seen(fault))
    assert "failed on vector core 6 of chip 1: The address is out of range." in found.sentence


@pytest.mark.parametrize("rest", ["", ", core id is 6, error code = 0x80, dump info: pc start: 0x10, current: 0x12"])
def test_a_report_that_somebody_wrapped_or_cut_is_one(rest: str) -> None:
    text = (
        "EZ9999[PID: 5] ... The error from device(chipId:6, dieId:1), serial number is 47,\n"
        f"  there is an exception of fftsplus aivector error{rest}\n"
        "-> aclrtSynchronizeStreamWithTimeout failed: 507015\n"
    )
    (found,) = reports(seen(text))
    core = "vector core 6 of chip 6" if rest else "chip 6"
    assert f"failed on {core}." in found.sentence


def test_the_exception_that_passes_a_report_on_is_no_finding_of_its_own() -> None:
    world = seen(text("aicore-kernel"))
    (hit,) = world.snapshot().exceptions.values()
    assert explains(hit, world.snapshot())
    other = seen("Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    f()\nKeyError: 'x'\n")
    (hit,) = other.snapshot().exceptions.values()
    assert not explains(hit, other.snapshot())


def test_every_form_has_a_trigger() -> None:
    for name, _, _ in SAID:
        assert any(word.decode() in text(name) for word in triggers()), name


def test_what_a_compiler_raises_is_no_crash_of_its_own_but_what_comes_later_is() -> None:
    hit = ExceptionHit(id="exception:log/1", type="ValueError", message="x", source="log:a", line=13, first_line=3)
    proof = Evidence(kind="log", file="err.txt", line=14, text="Check failed", log="log:a")
    error = Diagnostic(
        id="pypto/compile-error/1",
        system="ascend",
        code="compile-error",
        severity=Severity.ERROR,
        sentence="x",
        evidence=(proof,),
    )
    world = World()
    world.store.apply(DiagnosticSeen(diagnostic=error, **world.stamp()))
    assert explains(hit, world.snapshot())
    assert not explains(replace(hit, line=40, first_line=30), world.snapshot())
    assert not explains(replace(hit, source="log:b"), world.snapshot())


def test_a_report_is_of_the_host_whose_lines_it_has() -> None:
    printed = (
        "EH9999: Inner Error!\n"
        "        rtDeviceSynchronize execute failed, reason=[task timeout][FUNC:F][FILE:e.cc][LINE:5]\n"
        'Traceback (most recent call last):\n  File "/w/train.py", line 9, in step\n    sync()\n'
        "RuntimeError: NPU error, error code is 107020\n"
    )
    said = verdict("".join(f"node-1: {line}\n" for line in printed.splitlines())).sentence
    assert said.startswith("Node-1: a task ran out of time, noticed at step (train.py:9).")


def test_the_place_of_what_mindspore_raises_for_a_device() -> None:
    printed = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 9, in step\n    net(x)\n'
        "RuntimeError: Sync stream failed:Ascend_0\n\n- Ascend Error Message:\n"
        "E39999: [PID: 12] 2026-03-11-20:07:12.388.119 Aicpu kernel execute failed, device_id=0, op_name=[Gather]"
        "[FUNC:GetError][FILE:stream.cc][LINE:1512]\n"
    )
    assert ", noticed at step (train.py:9)." in verdict(printed).sentence


COMPILE = (
    "E40021: [PID: 7277] 2026-03-01-10:49:44.123.456 Failed to compile Op [Pour2]. (oppath: [Compile /w/pour.py "
    'failed with errormsg/stack: File "/w/pour.py", line 536, in pour\n    check(n)\n\n{}\n], optype: [Pour])\n'
    "        Solution: See the host log for details.\n        TraceBack (most recent call last):\n"
    "        Compile op[Pour2] failed, oppath[/w/pour.py], optype[Pour]. Please check op's compilation error."
    "[FUNC:ReportBuildErrMessage][FILE:fusion_manager.cc][LINE:771]\n"
)
RAISED = {
    "RuntimeError: [EB9999] pour needs one jug', 'errPcause': ' ', 'errSolution': ' '}": "pour needs one jug",
    "t.TBEPythonError: [EB9999] [errClass:N/A][errCode:EB0500][message:no such jug][errPcause:N/A]": "no such jug",
    f"TVMError: [EB9000] {'-' * 60}An error of TVM{'-' * 60}  Check failed: n != 0 : No jug', "
    "'errPcause': 'N/A'}": "Check failed: n != 0 : No jug",
    "RuntimeError: ({'errCode': 'E90003', 'detailed_cause': 'jugs are bad'}, 'Pour failed')": "jugs are bad",
    "RuntimeError: ({'errCode': 'E60108', ''reason': \"not jug's shape\"}, 'In op')": "not jug's shape",
    "SystemError: cut": "it was not compiled",
}


@pytest.mark.parametrize("raised", RAISED)
def test_what_the_compiler_of_an_operator_raised_is_the_reason(raised: str) -> None:
    said = verdict(COMPILE.format(raised))
    assert (said.state, said.sentence) == (
        VerdictState.CRASHED,
        f"Process 7277: operator Pour2 failed: {RAISED[raised]}.",
    )
    assert verdict(f"{raised}\n").state is not VerdictState.CRASHED or "operator" not in verdict(raised).sentence


def test_a_cause_is_not_said_to_be_missing_where_a_line_of_the_block_has_words() -> None:
    call = (
        "RuntimeError: Run:/w/OpParamMaker.cpp:287 OPS function error: aclnnPour, error code is 561000\n"
        "[ERROR] (PID:7277, Device:6, RankID:6) ERR01100 OPS call acl api failed.\n"
    )
    assert "these logs do not hold" in verdict(call).sentence
    said = verdict(f"{call}AclNN_Runtime_Error(EZ9903): the jug was refused\n").sentence
    assert "an internal error of the operator (the jug was refused)" in said
    assert "these logs" not in said


def test_an_engine_of_the_device_comes_before_the_allocation_that_failed_beside_it() -> None:
    call = (
        "RuntimeError: sync:/w/a.ts:508 NPU function error: AclrtSynchronize, error code is 507013\n"
        "[ERROR] 2026-03-01-04:55:13 (PID:7277, Device:4, RankID:-1) ERR00100 PTA failed\n"
    )
    memory = (
        "EL0004: [PID: 7277] 2026-03-01-04:55:13.065.712 Failed to allocate memory.\n"
        "        TraceBack (most recent call last):\n"
        "        alloc device memory failed, runtime result = 207001[FUNC:ReportCallError][FILE:log.cpp][LINE:161]\n"
    )
    engine = (
        "        The error from device(4), serial number is 1. there is a sdma error, sdma channel is 0, the channel "
        "exist the following problems: The page was not found.. the value of CQE status is 2. the description: No\n"
    )
    said = "Process 7277: the sdma engine on NPU 4 failed: The page was not found."
    both = verdict(call + memory + engine).sentence
    assert both.startswith(f"{said} An allocation of memory failed, too.")
    assert verdict(call + engine).sentence.startswith(f"{said} Error code 2.")
    alone = verdict(call.replace("507013", "207001") + memory).sentence
    assert alone.startswith("Process 7277: NPU 4 is out of memory: Failed to allocate memory")


def test_the_reason_of_a_tiling_that_failed_is_the_first_line_below_it() -> None:
    text = (
        "RuntimeError: call aclnnPump failed, detail:[PID: 7] 2026-08-20-22:15:59.473.813 Execution_Error(EZ1008): "
        "Failed to execute operator Pump_3. Reason: Failed to execute tiling function.\n"
        "        Solution: 1.If the tiling function does not exist, check whether it is registered.\n"
        "TraceBack (most recent call last):\n"
        "        lids[0] must be 2-dimension, but got 3 dim.[FUNC:CheckLids][FILE:pump_tiling.cpp][LINE:648]\n"
        "        CheckLids failed.[FUNC:PumpTiling][FILE:pump_tiling.cpp][LINE:860]\n"
        "        Failed to execute operator Pump_3. Reason: Failed to execute tiling function.\n"
    )
    said = verdict(text)
    assert said.state is VerdictState.CRASHED
    assert said.sentence == "Process 7: operator aclnnPump failed: lids[0] must be 2-dimension, but got 3 dim."


def test_memory_that_ran_out_names_the_operator_that_asked_and_how_much() -> None:
    lines = (
        "[rank2]:[E101 07:22:40.7 compiler_depend.ts:429] operator():compiler_depend.ts:128 NPU function error: call "
        "aclnnFill failed, error code is 207001\n"
        "[ERROR] 2026-01-01-07:22:30 (PID:61, Device:2, RankID:-1) ERR00100 PTA call acl api failed\n"
        "EL0004: [PID: 61] 2026-01-01-07:22:29.827.496 Failed to allocate memory.\n"
        "        Failed to allocate resource[DeviceMemory] with info [size:1073741824]. Reason: Memory is exhausted.\n"
    )
    assert "NPU 2 is out of memory in operator aclnnFill: 1.0 GiB were requested." in verdict(lines).sentence


def test_what_the_dump_of_a_kernel_says_of_its_function_and_line() -> None:
    head = "[ERROR] {}(61,fill):2026-01-01-14:54:51.635.208 [a.cc:12]62 "
    lines = (
        head.format("RUNTIME") + "PrintCoreInfo:An error occurs on the device(chipId:0, dieId:0), the serial number is "
        "40, the error is aicore error, core id is 7, error code = 0, dump info: pc start: 0x10, current: 0x50\n"
        + head.format("RUNTIME") + "[DFX_INFO]AI Core kernel execution failed, device_id=0, fault kernel_name=fill\n"
        + head.format("IDEDD") + "Error symbol information. coreId=7, coreType=0, symbol=_Z4pourPDhS_j.cube+0xd4.\n"
        + head.format("IDEDD") + "Group[0] outerSrc=/w/ops/fill.cpp:61:9 innerSrc=/opt/cann/asc/impl/pump.h:12:3\n"
        + head.format("RUNTIME") + "rtStreamSynchronize:ErrCode=507015, desc=[aicore exception]\n"
    )  # fmt: skip
    assert "kernel fill failed on AI core 7 of" in verdict(lines).sentence


SWEPT = (
    "[11/40] {name}: FAIL - The Inner error is reported as above. The process exits for this inner error, and the "
    "current working operator name is aclnnFill.\n"
    "Since the operator is called asynchronously, the stacktrace may be inaccurate.\n"
    "[ERROR] 2026-03-01-08:00:00 (PID:61, Device:2, RankID:-1) ERR00100 PTA call acl api failed.\n"
    "[PID: 61] 2026-03-01-08:00:00.000.001 AclNN_Parameter_Error(EZ1001): the tensor x is empty.\n"
)


@pytest.mark.parametrize("name", ["fill_bf16_t8", "Fill[bf16-8]", "fill.t8"])
def test_a_sweep_s_case_that_failed_is_named_with_the_reason_below_it(name: str) -> None:
    begun = "[10/40] fill_bf16_t4: PASS\n"
    world = seen(begun + SWEPT.format(name=name))
    assert len(reports(world)) == 1
    said = diagnose(world.snapshot()).verdict
    assert said.sentence == f"Process 61: operator aclnnFill failed on NPU 2: the tensor x is empty, in case {name}."


def test_a_sweep_s_failed_case_without_an_npu_s_words_is_no_report() -> None:
    assert not reports(seen("[10/40] fill_bf16_t4: FAIL - the values differ\n[11/40] fill_bf16_t8: PASS\n"))


CAUSE = "        Possible Cause: The link table of the node is full.\n"
LINKED = (
    "        Transport init error. Reason: [Create][DestLink]Create Dest error! creakLink para:rank[5], dst_rank[2]-x\n"
)


def test_a_link_that_was_not_made_is_no_time_out_and_a_possible_cause_is_said_without_its_code() -> None:
    lines = f"{CAUSE}        TraceBack (most recent call last):\n{LINKED}".splitlines()
    said = verdict("".join(f"ERROR 03-04 10:00:11 [executor.py:7] {line}\n" for line in lines)).sentence
    assert said == "HCCL could not set up the link to rank 2 (possible cause: The link table of the node is full)."
    late = "EI0006: [PID: 61] 2026-03-01-08:00:00.000.001 Getting socket times out. Reason: no data in time\n"
    assert "HCCL_CONNECT_TIMEOUT" in verdict(late + LINKED).sentence


def test_all_peers_whose_links_were_not_made_are_named() -> None:
    late = "EI0006: [PID: 61] 2026-03-01-08:00:00.000.001 Getting socket times out. Reason: no data in time\n"
    said = verdict(late + "".join(LINKED.replace("dst_rank[2]", f"dst_rank[{rank}]") for rank in (2, 4, 3, 7))).sentence
    assert said.startswith("Process 61: HCCL could not connect to ranks 2-4,7 in time (HCCL_CONNECT_TIMEOUT).")


def test_the_last_reason_of_a_call_is_said_behind_the_first_and_its_code_once() -> None:
    said = verdict(
        "[ERROR] aclFill(nullptr) failed: 500000 (/w/tank/main.cpp:9)\n"
        "[ERROR] RecentErrMsg: [PID: 61] 2026-03-01-08:00:00.000.001 Invalid_Argument(EE1001): The argument is invalid."
        "Reason: rtGetDevMsg execution failed, the feature is not supported.\n"
        "        TraceBack (most recent call last):\n"
        "        [Init][Tank]init tank failed.[FUNC:ReportInnerError][FILE:log_inner.cpp][LINE:132]\n"
        "        tankType=9 has no valve.[FUNC:GetValve][FILE:api_impl.cc][LINE:61]\n"
    ).sentence
    assert said.startswith(
        "Process 61: aclFill failed with 500000: init tank failed: tankType=9 has no valve, noticed at"
    )
    assert said.count("500000") == 1


def test_a_possible_cause_alone_is_no_report() -> None:
    assert not reports(seen(f"ERROR: the pump failed\n{CAUSE}"))


@pytest.mark.parametrize(("now", "said"), [("0x12c0080000e0", True), ("0x92c008000000", False), ("0x12", False)])
def test_an_offset_that_no_kernel_s_code_has_is_not_said(now: str, *, said: bool) -> None:
    line = (
        "EZ9999: [PID: 61] 2026-03-01-08:00:00.000.001 The error from device(chipId:3, dieId:0), serial number is 4, "
        "there is an aivec error exception, core id is 5, error code = 0x20, dump info: pc start: 0x12c008000000, "
        f"current: {now}, vec error info: 0x1\n"
    )
    assert ("bytes into its code" in verdict(line).sentence) is said


_TBE = "[ERROR] TBE({pid},python3):2026-03-02-05:10:40.101.210 [../opc_tool/build.py:33][_build_one] {text}\n"


def test_a_compiler_s_message_that_tbe_wraps_is_told_without_its_wrapping() -> None:
    own = "pump_kernel.cpp:31:7: error: no matching function for call to 'Turn'"
    wrapped = _TBE.format(pid=71, text=f"An exception came in stage FILL, msg is /srv/plant/kernels/{own}")
    assert verdict(wrapped).sentence.startswith(f"Process 71: a kernel could not be compiled: {own}.")
    other = _TBE.format(pid=71, text="no valve was found at 10:31:07: error: none")
    assert "the first error line of CANN's TBE is: [_build_one] no valve was found" in verdict(other).sentence


def test_the_reason_behind_a_clause_that_is_said_twice_is_told() -> None:
    store = "[tank-store]: type PumpTwice has no place in this store of operators, nor in the store of its hall."
    why = "[Check of types]: data type DT_LEVEL of input [x] is not supported"
    text = f"EZ3002: [PID: 71] 2026-03-02-05:10:40.101.210 Optype [PumpTwice] fails. Reason: {store}{store}{why}. All of it\n"
    head = "RuntimeError: build:build/x.ts:112 NPU function error: call aclnnPump failed, error code is 500002\n"
    assert why in verdict(head + text).sentence


def test_what_a_test_failed_by_is_the_operator_s_reason_and_not_its_kind() -> None:
    npu = (
        "Traceback (most recent call last):\n"
        '  File "/w/tank.py", line 9, in fill\n    level.copy_(other)\n'
        "RuntimeError: copy:build/x.ts:90 NPU function error: call aclnnPump failed, error code is 161002\n"
        "[ERROR] 2026-03-02-05:10:40 (PID:71, Device:0, RankID:-1) ERR00100 PTA call acl api failed.\n"
        "EZ1001: [PID: 71] 2026-03-02-05:10:40.101.210 The level has more than 3 rows.\n"
    )
    test = (
        "E\n======\nERROR: setUpClass (__main__.TestTank)\n------\nTraceback (most recent call last):\n"
        '  File "/w/test_tank.py", line 5, in setUpClass\n    start()\n'
        "Exception: Server process exited with code -9. See its log.\n\n"
        "------\nRan 0 tests in 3.011s\n\nFAILED (errors=1)\n"
    )
    said = verdict(npu + test).sentence
    assert "aclnnPump failed: The level has more than 3 rows; it led to Exception: Server process exited" in said
    assert "CANN reports a failure" not in said
