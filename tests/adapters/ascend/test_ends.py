"""Who gave up on a run and after how long, what CANN's codes hide: recorded runs, and lines by the source's formats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.ascend.codes import cann_code, device_log, error_code, stall_class
from livedbg.adapters.ascend.watchdogs import limit_of, others_after
from livedbg.analysis.diagnosis import VerdictState
from livedbg.linux.last_ran import Load
from livedbg.model.snapshot import Snapshot
from tests.adapters.ascend.replay import Replay, findings, replay_folder, replay_lines, timeout
from tests.adapters.ascend.sessions import report

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


HUNG = "12_june2026_v0_era/hang_debug/err.txt"


def replayed(recorded: Path, *, idle: int | None = None, loads: tuple[Load, ...] = (), away_s: float = 0) -> Snapshot:
    """A recorded hang, with other idle iterations, while the machine was so busy."""
    text = (recorded / HUNG).read_text()
    if idle is not None:
        text = re.sub(r"idle_iterations=201280", f"idle_iterations={idle}", text)
        answered = (line for line in text.splitlines() if not re.search("did not acknowledge|deinit timed", line))
        text = "\n".join(answered)
    replay = Replay()
    for load in loads:
        replay.model.loads.add(1_795_223_850_730_000_000 + int(away_s * 1e9), load)
    replay.read(Path("/nowhere/err.txt"), text.encode())
    return replay.flush()


def test_few_idle_iterations_are_no_stall_and_the_load_is_named(recorded: Path) -> None:
    loads = (Load(3.0, 2, 16), Load(37.0, 60, 16, 0.9))
    found = findings(replayed(recorded, idle=430, loads=loads))
    finding = found["ascend-starved-watchdog"]
    assert "ascend-stall" not in found
    assert finding.state is VerdictState.CRASHED
    assert "only 430 idle iterations" in finding.sentence
    assert "load 37.0 on 16 CPUs, some thread waited for one 90 % of the time" in finding.sentence
    assert not any("sar -q" in step for step in finding.next)


def test_from_a_log_alone_the_load_is_not_known(recorded: Path) -> None:
    finding = findings(replayed(recorded, idle=430))["ascend-starved-watchdog"]
    assert "is not known" in finding.sentence
    assert any("livedbg record" in step and "sar -q" in step for step in finding.next)


def test_a_sample_of_another_time_says_nothing(recorded: Path) -> None:
    loads = (Load(37.0, 60, 16),)
    finding = findings(replayed(recorded, idle=430, loads=loads, away_s=120))["ascend-starved-watchdog"]
    assert "is not known" in finding.sentence


def test_many_idle_iterations_on_a_busy_machine_stay_a_stall_with_a_word(recorded: Path) -> None:
    finding = findings(replayed(recorded, loads=(Load(37.0, 60, 16),)))["ascend-stall"]
    assert finding.state is VerdictState.STALLED
    assert "The machine was busy when the watchdog fired: load 37.0 on 16 CPUs" in finding.sentence


def test_an_idle_machine_is_not_worth_a_word(recorded: Path) -> None:
    assert "busy" not in findings(replayed(recorded, loads=(Load(2.0, 1, 16),)))["ascend-stall"].sentence


@pytest.mark.parametrize(("idle", "starved"), [(1_400, True), (1_600, False)])
def test_it_is_a_rate_that_counts(recorded: Path, idle: int, starved: bool) -> None:
    """The recorded watchdog had 5 s: 300 turns a second are 1,500."""
    assert ("ascend-starved-watchdog" in findings(replayed(recorded, idle=idle))) is starved


SESSION = "============================= test session starts ==============================\n"
FAILED = "tests/st/test_norm.py::test_norm[2] FAILED\nE   RuntimeError: run_prepared failed with code 507046\n"
LIMIT = (
    "[2026-06-02 08:14:55.250000][T0x7fa2][ERROR] sync_run_streams: [device_runner.cpp:610] Stream sync timeout: "
    "stream=AICPU timeout_ms=3000 device_id=1 block_dim=8\n"
)
END = "========================= 1 failed, 2 passed in 91.02s =========================\n"
SAID = (
    "Test tests/st/test_norm.py::test_norm[2] failed: only the host's time limit fired: it waited 3 s for the stream "
    "of device 1"
)
STUCK = timeout("S1:running-stalled", "0/2", 1, 0, 1, task=0, core=8) + "\n"


def _verdict(folder: Path, text: str) -> dict[str, Any]:
    (folder / "run.log").write_text(text)
    return report(folder)[1]["verdict"]


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("", ". No line of the device tells why"),
        ("Resource phase: 24 case(s), pool=[0, 1, 2], max_parallel=3\n", ", while 3 cases ran at once. No line"),
        ("::group::L2 tensormap_and_ringbuffer [-n 8]\n", ", while 8 cases ran at once. No line"),
        ("Resource phase: 24 case(s), pool=[0], max_parallel=1\n", ". No line of the device tells why"),
    ],
)
def test_only_the_host_s_limit_fired(tmp_path: Path, before: str, words: str) -> None:
    verdict = _verdict(tmp_path, before + SESSION + FAILED + LIMIT + END)
    assert (verdict["state"], verdict["sentence"].startswith(SAID + words)) == ("crashed", True)


def test_a_stall_that_the_device_reports_says_more(tmp_path: Path) -> None:
    verdict = _verdict(tmp_path, SESSION + STUCK + FAILED + LIMIT + END)
    assert (verdict["state"], verdict["roots"]) == ("stalled", ["task:ascend/r0t0"])


def test_another_test_s_failure_is_not_the_host_s(tmp_path: Path) -> None:
    other = FAILED.replace("RuntimeError: run_prepared failed with code 507046", "ValueError: rows differ")
    verdict = _verdict(tmp_path, SESSION + other + END)
    assert "rows differ" in verdict["sentence"] and "time limit" not in verdict["sentence"]


def test_a_code_that_a_test_expects_is_no_crash(tmp_path: Path) -> None:
    passed = END.replace("1 failed, 2 passed", "3 passed")
    verdict = _verdict(tmp_path, SESSION + LIMIT + "tests/st/test_norm.py::test_limit PASSED\n" + passed)
    assert verdict["state"] == "exited"


def test_a_code_that_masks_the_cause_names_the_test_that_failed(tmp_path: Path) -> None:
    code = LIMIT.partition("Stream sync")[0] + "aclrtSynchronizeStreamWithTimeout (AICPU) failed: 507901\n"
    verdict = _verdict(tmp_path, SESSION + FAILED.replace("507046", "507901") + code + END)
    said = "In test tests/st/test_norm.py::test_norm[2]: CANN returned 507901"
    assert (verdict["state"], verdict["sentence"].startswith(said)) == ("crashed", True), verdict


SETUP = "simpler_init failed with code 507033"


@pytest.mark.parametrize(
    ("lines", "who"),
    [
        (
            [
                "RuntimeError: chip worker 3 (pid 77) failed during init: "
                f"chip_process dev=5 init: RuntimeError: {SETUP}"
            ],
            "Chip worker 3 (pid 77, device 5): simpler_init failed: CANN returned 507033",
        ),
        (
            [
                "RuntimeError: remote L3 session open failed for worker 2:",
                "  RuntimeError: chip worker 3 (pid 77) failed during init:",
                f"    chip_process dev=5 init: RuntimeError: {SETUP}",
            ],
            "Chip worker 3 (pid 77, device 5), in the remote session of worker 2: simpler_init failed: CANN",
        ),
        (
            [f"RuntimeError: chip_process dev=5: chip run: RuntimeError: {SETUP}"],
            "A chip process (device 5): simpler_init failed: CANN returned 507033",
        ),
        (
            ["chip worker 3 (pid 77) failed during init: busy", *["[INFO] x: going on"] * 9, BIND, f"Error: {SETUP}"],
            "CANN returned 507033",
        ),
    ],
)
def test_a_code_is_of_the_process_and_device_that_reported_it(lines: list[str], who: str) -> None:
    assert findings(replay_lines(lines))["ascend-cann-code"].sentence.startswith(who)


def test_that_an_upload_failed_with_a_code_is_none_of_a_chip() -> None:
    assert not findings(replay_lines(["RuntimeError: upload to worker dev=3 failed with code 507033"]))
