"""What the harnesses of pypto-lib and simpler print of results that differ from the golden ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.zygote import run_livedbg

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


def report(folder: Path, text: str) -> tuple[int, dict[str, Any]]:
    (folder / "out.txt").write_text(text)
    done = run_livedbg(["report", "--logs", folder, "--json"], 100, text=True)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FAILED, "output 'y' in 32,768 of 524,288 elements (rtol 1e-05, atol 1e-05)."),
        (FAILED.replace("['y']", "['y', 'z']"), "outputs 'y', 'z', the first in 32,768 of 524,288 elements"),
        (PASSED + FAILED, "output 'y' in 32,768 of 524,288 elements"),
        (SIMPLER, "output 'f' by up to 0.25 (rtol 0.001, atol 0.001), at _compare_outputs (scene_test.py:1220)."),
    ],
    ids=["one output", "two outputs", "after a pass", "simpler"],
)
def test_results_that_differ(tmp_path: Path, text: str, words: str) -> None:
    code, document = report(tmp_path, text)
    assert (code, document["verdict"]["state"]) == (12, "diverged"), document["verdict"]
    assert f"Results differ from the golden ones: {words}" in document["verdict"]["sentence"]


@pytest.mark.parametrize(
    "text",
    [
        FAILED + PASSED,
        PASSED,
        "Mismatched elements: 5 / 10 (50.0%)\n",
        '    raise AssertionError(f"Output(s) does not match golden: {list(failures)}")\n',
    ],
    ids=["a later pass", "a pass", "another library's words", "a line of code"],
)
def test_a_later_pass_and_texts_that_are_none(tmp_path: Path, text: str) -> None:
    _, document = report(tmp_path, text)
    assert document["verdict"]["state"] in ("exited", "unknown") and "differ" not in document["verdict"]["sentence"]
