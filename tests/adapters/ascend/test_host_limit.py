"""A run of which only the host's time limit says that it failed: that says nothing of the device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.ascend.replay import timeout
from tests.cli.zygote import run_livedbg

HEAD = "============================= test session starts ==============================\n"
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
    done = run_livedbg(["report", "--logs", folder, "--json"], text=True)
    verdict: dict[str, Any] = json.loads(done.stdout)["verdict"]
    return verdict


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
    verdict = _verdict(tmp_path, before + HEAD + FAILED + LIMIT + END)
    assert (verdict["state"], verdict["sentence"].startswith(SAID + words)) == ("crashed", True)


def test_a_stall_that_the_device_reports_says_more(tmp_path: Path) -> None:
    verdict = _verdict(tmp_path, HEAD + STUCK + FAILED + LIMIT + END)
    assert (verdict["state"], verdict["roots"]) == ("stalled", ["task:ascend/r0t0"])


def test_another_test_s_failure_is_not_the_host_s(tmp_path: Path) -> None:
    other = FAILED.replace("RuntimeError: run_prepared failed with code 507046", "ValueError: rows differ")
    verdict = _verdict(tmp_path, HEAD + other + END)
    assert "rows differ" in verdict["sentence"] and "time limit" not in verdict["sentence"]


def test_a_code_that_a_test_expects_is_no_crash(tmp_path: Path) -> None:
    passed = END.replace("1 failed, 2 passed", "3 passed")
    verdict = _verdict(tmp_path, HEAD + LIMIT + "tests/st/test_norm.py::test_limit PASSED\n" + passed)
    assert verdict["state"] == "exited"


def test_a_code_that_masks_the_cause_names_the_test_that_failed(tmp_path: Path) -> None:
    code = LIMIT.partition("Stream sync")[0] + "aclrtSynchronizeStreamWithTimeout (AICPU) failed: 507901\n"
    verdict = _verdict(tmp_path, HEAD + FAILED.replace("507046", "507901") + code + END)
    said = "In test tests/st/test_norm.py::test_norm[2]: CANN returned 507901"
    assert (verdict["state"], verdict["sentence"].startswith(said)) == ("crashed", True), verdict
