"""Who gave up on a run and after how long, what CANN's codes hide: recorded runs, and lines by the source's formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.adapters.ascend.codes import cann_code, device_log, error_code, stall_class
from livedbg.adapters.ascend.watchdogs import limit_of, others_after
from livedbg.analysis.diagnosis import VerdictState
from tests.adapters.ascend.replay import findings, replay_folder, replay_lines

BEGUN = "[mono_ns=1000000000][T0x7f][INFO] launch: [device_runner.cpp:900] Launching AICPU"
ON_DEVICE = '[ERROR] AICPU(4242,aicpu-sd):2026-08-20-10:00:{second:02d}.000.000 [x.cpp:1][tid:1] "{message}"'
HEAD = "[mono_ns={ns}][T0x7f00][ERROR] sync_stream_pair: [device_runner_base.cpp:1683] {message}"


def host(second: float, message: str) -> str:
    """A line of the host's log, by LOG_ERROR's format."""
    return HEAD.format(ns=int(second * 1e9), message=message)


ANCHOR = "[mono_ns=0][T0x7f00][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=4242 mono_ns=0 wall_ns=1790000000000000000"
BIND = "[mono_ns=1][T0x7f00][INFO] bind: [runtime_maker.cpp:1] RT2 bind: x device orchestration mode"
ACL = "aclrtSynchronizeStreamWithTimeout (AICPU) failed: 507018"


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        (
            "02_hang_kernel/timeout_debug",
            ["no progress for the limit in SIMPLER_SCHEDULER_TIMEOUT_MS (10 s by default)"],
        ),
        ("12_june2026_v0_era/hang_debug", ["no progress for 5 s (as the log's times show; the default is 10 s)"]),
        ("05_hang_ring_full", ["allocator's watchdog fired first: no slot was freed for 0.5 s (compiled in", "(10 s)"]),
        ("06_hang_tensor_wait/timeout_debug", ["tensor data fired first", "for 15 s (compiled in as PTO2_TENSOR_"]),
    ],
)
def test_which_watchdog_fired_first(recorded: Path, folder: str, words: list[str]) -> None:
    sentence = findings(replay_folder(recorded / folder))["ascend-stall"].sentence
    assert all(word in sentence for word in words), sentence


def test_the_earlier_of_two_watchdogs_is_the_first(recorded: Path) -> None:
    log = (recorded / "12_june2026_v0_era/hang_debug/err.txt").read_text().splitlines()
    later = "[2026-11-21 01:17:34.900000][T0x1][ERROR] s: Stream sync timeout: stream=AICPU timeout_ms=4000 device_id=2"
    at = next(number for number, line in enumerate(log) if "TIMEOUT_EXIT" in line)
    finding = findings(replay_lines([*log[:at], later, *log[at:]]))["ascend-stall"]
    assert "scheduler's watchdog fired first" in finding.sentence
    assert "After it, the host's wait for the stream fired." in finding.sentence


def test_settings_that_the_runtime_refuses_are_said(recorded: Path) -> None:
    log = (recorded / "02_hang_kernel/timeout_debug/err.txt").read_text().splitlines()
    line = "[WARN] resolve: [x.cpp:1] SIMPLER_SCHEDULER_TIMEOUT_MS=4s invalid, using default 10000"
    assert "ignores a time limit" in findings(replay_lines([line, *log]))["ascend-stall"].sentence


@pytest.mark.parametrize(
    ("environment", "seconds", "by"),
    [
        (None, 10.0, "the default"),
        ({}, 10.0, "the default"),
        ({"SIMPLER_SCHEDULER_TIMEOUT_MS": "8000"}, 8.0, "SIMPLER_SCHEDULER_TIMEOUT_MS=8000"),
        ({"PTO2_SCHEDULER_TIMEOUT_MS": " 2500 "}, 2.5, "PTO2_SCHEDULER_TIMEOUT_MS=2500"),
        ({"SIMPLER_SCHEDULER_TIMEOUT_MS": "-1"}, 10.0, "the default"),
        ({"SIMPLER_SCHEDULER_TIMEOUT_MS": "8s"}, 10.0, "the default"),
        ({"SIMPLER_SCHEDULER_TIMEOUT_MS": "9" * 400}, 10.0, "the default"),
        # out of order on a device: the runtime takes none of them
        ({"SIMPLER_SCHEDULER_TIMEOUT_MS": "60000", "SIMPLER_OP_EXECUTE_TIMEOUT_US": "3000000"}, 10.0, "the default"),
        (
            {
                "SIMPLER_SCHEDULER_TIMEOUT_MS": "2000",
                "SIMPLER_OP_EXECUTE_TIMEOUT_US": "3000000",
                "SIMPLER_STREAM_SYNC_TIMEOUT_MS": "4000",
            },
            2.0,
            "SIMPLER_SCHEDULER_TIMEOUT_MS=2000",
        ),
    ],
)
def test_limit_of_the_scheduler(environment: dict[str, str] | None, seconds: float, by: str) -> None:
    limit = limit_of("scheduler", environment)
    assert (limit.seconds, limit.by, limit.sure) == (seconds, by, environment is not None)


def test_who_comes_next() -> None:
    assert "(45 s) and the host's wait for the stream (50 s) (on a device only)" in others_after(
        "scheduler", 10.0, None, None
    )
    assert others_after("scheduler", 10.0, {}, True) == ""
    assert others_after("stream-sync", 50.0, {}, False) == ""


def test_a_mask_alone_says_where_the_cause_stands() -> None:
    found = findings(replay_lines([ANCHOR, BIND, host(50, ACL), host(50, "ACL error detail: 507018 X - y")]))
    finding = found["ascend-cann-code"]
    assert finding.state is VerdictState.CRASHED
    assert "507018 (ACL_ERROR_RT_AICPU_EXCEPTION)" in finding.sentence
    assert "mask" in finding.sentence
    assert any("debug/device-ID/device-PID_*.log" in step for step in finding.next)
    assert "ascend-run-failed" not in found


def test_a_mask_beside_its_cause_is_named_as_one(recorded: Path) -> None:
    log = (recorded / "02_hang_kernel/timeout_debug/err.txt").read_text().splitlines()
    found = findings(replay_lines([*log, host(6000, ACL)]))
    assert "CANN returned 507018" in found["ascend-stall"].sentence
    assert "masks this cause" in found["ascend-stall"].sentence
    assert "ascend-cann-code" not in found


def test_an_operation_that_cann_ended_proves_no_deadlock() -> None:
    lines = [
        ANCHOR,
        BIND,
        "[mono_ns=5][T0x7f00][INFO] c: aclrtSetOpExecuteTimeOutV2: requested=3000000 us, actual=3145728 us",
        host(4, "HandleTaskTimeout op name[simpler_aicpu_exec] timeOut:3"),
        host(5, ACL),
    ]
    finding = findings(replay_lines(lines))["ascend-cann-code"]
    assert "after its limit of 3.14573 s" in finding.sentence
    assert "proves no deadlock" in finding.sentence
    assert any("SIMPLER_OP_EXECUTE_TIMEOUT_US" in step for step in finding.next)


def test_stream_sync_gives_its_limit_and_device() -> None:
    lines = [
        ANCHOR,
        BIND,
        host(50, "Stream sync timeout: stream=AICPU timeout_ms=4000 device_id=3 block_dim=24"),
        host(50, "ACL error detail: 507046 ACL_ERROR_RT_STREAM_SYNC_TIMEOUT - the host timed out"),
    ]
    finding = findings(replay_lines(lines))["ascend-cann-code"]
    assert finding.sentence.startswith("Only the host's time limit fired: it waited 4 s for the stream of device 3.")
    assert any("device-3/" in step for step in finding.next)


def test_a_core_fault_names_the_kernel_of_canns_report() -> None:
    lines = [
        ANCHOR,
        BIND,
        host(2, "VEC instruction error: the ub address out of bounds"),
        host(2, "PrintErrorInfoForDavinciTask fault kernel_name=aicore_kernel_mix, hash=1"),
        host(3, ACL),
    ]
    finding = findings(replay_lines(lines))["ascend-crash"]
    assert "ub address out of bounds" in finding.sentence
    assert "kernel aicore_kernel_mix" in finding.sentence
    assert "masks this cause" in finding.sentence


def test_cores_that_did_not_answer_at_the_end_are_no_scope_deadlock(recorded: Path) -> None:
    lines = [
        ANCHOR,
        BIND,
        "[ERROR] deinit: [x.cpp:1] Core 8 deinit timed out",
        "[ERROR] aicpu_execute: [x.cpp:1] aicpu_execute: Thread execution failed with rc=-1",
        "RuntimeError: chip_process dev=0: simpler_run failed with code -1",
    ]
    finding = findings(replay_lines(lines))["ascend-cann-code"]
    assert "SCOPE_DEADLOCK" not in finding.sentence
    assert "Core 8 did not answer" in finding.sentence
    assert "too few CPUs" in finding.sentence


def test_minus_one_alone_is_not_called_a_scope_deadlock() -> None:
    finding = findings(replay_lines([ANCHOR, BIND, "RuntimeError: simpler_run failed with code -1"]))[
        "ascend-run-failed"
    ]
    assert "does not say which failure" in finding.sentence


@pytest.mark.parametrize("number", [*range(1, 12), *range(100, 105)])
def test_every_code_has_words_a_next_step_and_a_culprit(number: int) -> None:
    code = error_code(-number)
    assert code.number == number
    assert code.meaning
    assert code.advice
    assert code.blame or number == 100
    assert not code.name.startswith("CODE_")


@pytest.mark.parametrize("key", ["S1", "S3", "S4", "S5"])
def test_every_class_has_words(key: str) -> None:
    assert stall_class(f"{key}:whatever").meaning
    assert stall_class(f"{key}:whatever") != stall_class("no class")


def test_codes_of_cann() -> None:
    assert cann_code(-100) is None
    assert cann_code(3) is None
    assert cann_code(None) is None
    unknown = cann_code(507901)
    assert unknown is not None
    assert unknown.mask
    for number in (507018, 507014, 507046, 507899, 507000, 507017, 107022):
        code = cann_code(number)
        assert code is not None
        assert code.mask
    assert not any((code := cann_code(number)) is None or code.mask for number in (207001, 507015))


def test_where_the_device_log_lies() -> None:
    assert device_log({"ASCEND_PROCESS_LOG_PATH": "/l"}, 7, 1) == "/l/debug/device-1/device-7_*.log"
    assert device_log({"ASCEND_WORK_PATH": "/w"}) == "/w/log/debug/device-ID/device-PID_*.log"
    assert "~/ascend/log" in device_log({})
