"""Programs that are not on the PATH: those of systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.adapters.cuda import checks
from livedbg.session.tools import find_gdb


def test_where_there_is_no_gdb_that_of_cuda_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for home in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(home, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(checks, "_ROOTS", (tmp_path,))
    assert find_gdb() is None
    for name in ("cuda-12.4/bin/cuda-gdb", "cuda-12.9/bin/cuda-gdb", "bin/cuda-gdb", "bin/gdb"):
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(0o755)
        assert find_gdb() == str(program)
