"""The error of nvFuser leads, and not the exception that carries it; and exceptions that are none of its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.zygote import run_livedbg

TRACE = 'Traceback (most recent call last):\n  File "/w/bench.py", line 41, in <module>\n    fd.execute(inputs)\n'
FAILED = TRACE + (
    'RuntimeError: INTERNAL ASSERT FAILED at "/b/Fuser/csrc/runtime/fusion_kernel_runtime.cpp":358, please report a '
    "bug "
    "with repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues. Detected exception while compiling fusion "
    "segments in parallel. Error messages from all threads are printed below.\n\nError from segmentation group 8:  "
    'INTERNAL ASSERT FAILED at "/b/Fuser/csrc/transform_iter.cpp":546, please report a bug with repro script to '
    "NVFuser "
    "at https://github.com/NVIDIA/Fuser/issues. Error during replay.\n"
)
ALONE = TRACE + (
    'RuntimeError: same INTERNAL ASSERT FAILED at "/b/Fuser/csrc/fusion_cache.cpp":120, please report a bug with repro '
    "script to NVFuser at https://github.com/NVIDIA/Fuser/issues. Inputs mismatch: 2 and 3\n"
)
OTHER = (
    TRACE + 'RuntimeError: INTERNAL ASSERT FAILED at "../aten/src/ATen/core/ivalue_inl.h":1910, please report a bug.\n'
)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (
            FAILED,
            "Segmentation group 8 of a fusion was not compiled: Error during replay (at csrc/transform_iter.cpp:546)",
        ),
        (ALONE, "nvFuser threw: Inputs mismatch: 2 and 3 (at csrc/fusion_cache.cpp:120)"),
        (OTHER, "Crashed"),
    ],
)
def test_the_error_of_a_group_leads(tmp_path: Path, text: str, begins: str) -> None:
    (tmp_path / "run.log").write_text(text)
    verdict = json.loads(run_livedbg(["report", "--logs", tmp_path, "--json"], 150).stdout)["verdict"]
    assert verdict["state"] == "crashed" and verdict["sentence"].startswith(begins)


def test_a_sentence_has_no_extents_of_iteration_domains(tmp_path: Path) -> None:
    text = ALONE.replace(
        "Inputs mismatch: 2 and 3", "No mapping for T7_l[ iS1{( ceilDiv(( 1 * 597 ), 1) )}, iV4{4} ] dim: 2"
    )
    (tmp_path / "run.log").write_text(text)
    said = run_livedbg(["report", "--logs", str(tmp_path / "run.log")], 100, text=True).stdout
    assert "No mapping for T7_l[ iS1, iV4{4} ] dim: 2" in " ".join(said.split())
