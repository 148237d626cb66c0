"""A text of nvFuser that something else quotes is no failure of nvFuser."""

from __future__ import annotations

from livedbg.adapters.nvfuser.dumps.failures import begins


def test_what_pytest_compared_with_a_pattern_was_caught() -> None:
    assertion = 'extent > 0 INTERNAL ASSERT FAILED at "/opt/nvfuser/csrc/resize.cpp":31, please report a bug.'
    assert begins(f"RuntimeError: {assertion}")
    assert not begins(f"E            Input: '{assertion}")
    assert not begins(f"E   Actual message: '{assertion}")
