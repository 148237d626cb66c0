"""What the harnesses of pypto-lib and simpler print: results that differ, domains and workers that were not made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters.ascend.sessions import report

FAILED = """\
[RUN] validate ...
[RUN]   'y' FAIL  shape=(1024, 512) dtype=torch.float32
[RUN] validate done (0.02s)
Output(s) does not match golden: ['y']
  'y' FAIL  shape=(1024, 512) dtype=torch.float32
    Mismatched elements: 32768/524288  rtol=1e-05 atol=1e-05
    first 20 mismatches:
    [131328] actual=-0.07744312286376953, expected=-0.08744311332702637
"""
PASSED = "[RUN] validate ...\n[RUN]   'y' PASS  shape=(1024, 512) dtype=torch.float32\n[RUN] PASS (12.32s)\n"
SIMPLER = """\
Traceback (most recent call last):
  File "simpler_setup/scene_test.py", line 1220, in _compare_outputs
    raise AssertionError(f"Golden mismatch on '{name}': max_diff={diff}, rtol={rtol}, atol={atol}")
AssertionError: Golden mismatch on 'f': max_diff=0.25, rtol=0.001, atol=0.001
"""


BOARD = """\
[ERROR] Mismatch: golden_v3.bin vs v3.bin, max diff=18.5 at idx=963 (golden=10.25, out=-8.25, dtype=float32)
[ERROR] compare failed
[2026-06-25 10:32:00] ERROR: testcase failed (exit 2): rowdivide
"""
SCENE = """\
=== Runtime: tensormap_and_ringbuffer  Level: 2 ===
  TestFill::default ...
  TestFill::default PASSED
  TestFill::big ...
  TestFill::big FAILED: {why}
"""
BF16 = (
    "[ERROR] Mismatch (bf16 golden_v1.bin vs v1.bin): max ulp diff=310 at idx=12 (golden_bits=16004, out_bits=48750, "
    "golden=0.25, out=-0.5)"
)


def said_of(folder: Path, text: str) -> tuple[int, dict[str, Any]]:
    (folder / "out.txt").write_text(text)
    return report(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FAILED, "output 'y' in 32,768 of 524,288 elements (rtol 1e-05, atol 1e-05)."),
        (FAILED.replace("['y']", "['y', 'z']"), "outputs 'y', 'z', the first in 32,768 of 524,288 elements"),
        (PASSED + FAILED, "output 'y' in 32,768 of 524,288 elements"),
        (SIMPLER, "output 'f' by up to 0.25 (rtol 0.001, atol 0.001), at _compare_outputs (scene_test.py:1220)."),
        (
            SCENE.format(why="Golden mismatch on 'f': max_diff=0.25, rtol=0.001, atol=0.001"),
            "TestFill::big: output 'f' by up to 0.25 (rtol 0.001, atol 0.001).",
        ),
        (BOARD, "rowdivide: v3.bin by up to 18.5, at index 963 -8.25 instead of 10.25 (float32)."),
        (
            BOARD.replace(BOARD.partition("\n")[0], BF16),
            "rowdivide: v1.bin by up to 310 ulp, at index 12 -0.5 instead of 0.25 (bf16).",
        ),
        (BOARD.partition("[2026")[0], "v3.bin by up to 18.5, at index 963 -8.25 instead of 10.25 (float32)."),
    ],
    ids=[
        "one output",
        "two outputs",
        "after a pass",
        "simpler",
        "a scene",
        "a board's case",
        "in bf16",
        "without its name",
    ],
)
def test_results_that_differ(tmp_path: Path, text: str, words: str) -> None:
    code, document = said_of(tmp_path, text)
    assert (code, document["verdict"]["state"]) == (12, "diverged"), document["verdict"]
    assert f"Results differ from the golden ones: {words}" in document["verdict"]["sentence"]


@pytest.mark.parametrize(
    "text",
    [
        FAILED + PASSED,
        PASSED,
        "Mismatched elements: 5 / 10 (50.0%)\n",
        '    raise AssertionError(f"Output(s) does not match golden: {list(failures)}")\n',
        "[INFO] golden_v3.bin vs v3.bin, 4096 elements\nstep 2\n",
    ],
    ids=["a later pass", "a pass", "another library's words", "a line of code", "a comparison"],
)
def test_a_later_pass_and_texts_that_are_none(tmp_path: Path, text: str) -> None:
    _, document = said_of(tmp_path, text)
    assert document["verdict"]["state"] in ("exited", "unknown") and "differ" not in document["verdict"]["sentence"]


DOMAIN = "[2026-08-20 11:00:01.200000][T0x7f11][{level}] {what}\n"
SMALLER = DOMAIN.format(
    level="ERROR", what="f: [comm_hccl.cpp:10] [comm rank 2] alloc_domain: size=2 differs from local=1"
)
LATE = DOMAIN.format(
    level="ERROR", what="f: [comm_sim.cpp:10] [comm rank 1] file_barrier('up') timed out after 60s waiting for rank 3"
)
RAISED = """\
Traceback (most recent call last):
  File "/w/moe.py", line 120, in build
    dom = orch.allocate_domain("ep")
RuntimeError: alloc_domain(allocation_id=7) failed on 1/4 chips; first error chip=2: alloc failed with code {code}
"""
UNREACHED = (
    "E20260608 14:45:44.404089 342 ascend_direct_transport.cpp:110] Connect timeout to: 10.2.0.7:20033, wait longer.\n"
)
TRANSFER = RAISED.partition("Runtime")[0] + "RuntimeError: Mooncake transfer failed, ret: -1\n"


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (SMALLER + RAISED.format(code=-1), "Rank 2 of a communication domain failed in alloc_domain: size=2 differs"),
        (LATE + RAISED.format(code=-1), "Rank 1 of a communication domain waited for rank 3 at barrier up for 60 s"),
        (RAISED.format(code=-1), "Crashed in build (moe.py:120): RuntimeError: alloc_domain"),
        (UNREACHED + TRANSFER, "Mooncake could not connect to 10.2.0.7:20033 in time"),
        (TRANSFER, "Crashed in build (moe.py:120): RuntimeError: Mooncake transfer failed"),
        (
            RAISED.partition("Runtime")[0]
            + "RuntimeError: chip worker 1 (pid 42) exited during init before signalling "
            "ready (wait status 139)\n",
            "The chip worker 1 (pid 42) ended during init: SIGSEGV, at build (moe.py:120).",
        ),
    ],
    ids=["a rank's reason", "a rank that did not come", "a code alone", "a peer", "a transfer alone", "a child"],
)
def test_an_exception_that_passes_a_code_on_follows_from_the_reason_above_it(
    tmp_path: Path, text: str, begins: str
) -> None:
    _, document = said_of(tmp_path, text)
    assert document["verdict"]["state"] == "crashed"
    assert document["verdict"]["sentence"].startswith(begins)


def test_a_domain_that_was_made_is_no_failure(tmp_path: Path) -> None:
    made = DOMAIN.format(level="INFO", what="f: [comm_sim.cpp:10] [comm rank 1] alloc_domain: begin")
    assert said_of(tmp_path, made)[1]["verdict"]["state"] == "unknown"


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (
            "kernel fill.cpp: no member named x",
            "The test run failed: TestFill::big: kernel fill.cpp: no member named x.",
        ),
        ("run_prepared failed with code 507018", "run_prepared failed with 507018: the AICPU's task failed"),
    ],
)
@pytest.mark.parametrize("after", ["", "  TestFill::last ...\n  TestFill::last PASSED\n"])
def test_a_scene_that_failed_is_named(tmp_path: Path, why: str, said: str, after: str) -> None:
    code, document = said_of(tmp_path, SCENE.format(why=why) + after)
    sentence = document["verdict"]["sentence"]
    assert (code, said in sentence, "TestFill::big" in sentence) == (11, True, True), sentence
