"""Whose a text is that looks like nvFuser's: one that something else quotes is no failure of nvFuser."""

from __future__ import annotations

import pytest

from livedbg.adapters.nvfuser.dumps.failures import FailureReader, begins


def test_what_pytest_compared_with_a_pattern_was_caught() -> None:
    assertion = 'extent > 0 INTERNAL ASSERT FAILED at "/opt/nvfuser/csrc/resize.cpp":31, please report a bug.'
    assert begins(f"RuntimeError: {assertion}")
    assert not begins(f"E            Input: '{assertion}")
    assert not begins(f"E   Actual message: '{assertion}")


@pytest.mark.parametrize(("folder", "ours"), [("jit/codegen/cuda", True), ("jit/runtime", False), ("autograd", False)])
def test_its_own_folder_within_pytorch_is_nvfuser_s(folder: str, ours: bool) -> None:
    place = f"../torch/csrc/{folder}/fill.cpp"
    assertion = f'n == m INTERNAL ASSERT FAILED at "{place}":31, please report a bug to PyTorch. No tank'
    reader = FailureReader(f"RuntimeError: {assertion}", 1, [])
    reader.feed(f"Exception raised from fill at {place}:31 (most recent call first):", 2)
    failure = reader.end()
    assert (failure is not None and failure.ours) is ours
