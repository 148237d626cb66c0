"""Programs under test have outputs of their own, and do not see the file that the test run writes to."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import start

ROOT = Path(__file__).parents[1]

CONFTEST = """
from tests import runner_output

runner_output._LAST_LINES_S = 3600.0  # the test fails if the pipe is still held
runner_output.write_through_pipe()
"""
SHOWS = """
import os

def test_it():
    for fd in os.listdir("/proc/self/fd"):
        assert not os.path.exists(f"/proc/self/fd/{fd}") or not os.path.samefile(f"/proc/self/fd/{fd}", "out.txt")
    print("the last line")
    assert 0, "shown in the report"
"""

STARTERS = {"Popen", "create_subprocess_exec", "create_subprocess_shell"}
PASSED_ON = {"tests/adapters/cuda/cudagdb/proxy.py"}
"""A stand-in for a gdb, which passes on the output of the real one."""


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("capture", ["fd", "no"])
def test_a_test_run_does_not_have_the_file_open_that_it_writes_to(workers: str, capture: str, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_one.py").write_text(SHOWS)
    out = tmp_path / "out.txt"
    argv = [sys.executable, "-m", "pytest", "-p", "xdist", "-n", workers, f"--capture={capture}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with out.open("wb") as stream:
        done = subprocess.run(
            argv, check=False, cwd=tmp_path, env=environment, stdout=stream, stderr=stream, timeout=250
        )
    text = out.read_text()
    assert done.returncode == 1 and "shown in the report" in text, text
    assert "1 failed" in text.splitlines()[-1]  # the file is whole when the run has ended


def inheriting(path: Path) -> Iterator[str]:
    """The calls in a module that start a program with the outputs of the test run."""
    for call in ast.walk(ast.parse(path.read_text())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in STARTERS:
            given = {keyword.arg for keyword in call.keywords}
            if not {"stdout", "stderr"} <= given:
                yield f"{path.relative_to(ROOT)}:{call.lineno}"


def test_each_program_that_a_test_starts_has_outputs_of_its_own() -> None:
    """It may run while livedbg looks at it, and what it inherits from the test run is taken for a log of it."""
    modules = [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if "targets" not in path.parts and str(path.relative_to(ROOT)) not in PASSED_ON
    ]
    assert len(modules) > 200
    assert [place for path in modules for place in inheriting(path)] == []


def test_a_target_can_be_killed_twice_and_shows_its_errors(capsys: pytest.CaptureFixture[str]) -> None:
    target = start([sys.executable, "-c", "import sys; sys.stderr.write('its error'); print('READY', flush=True)"])
    target.until("READY")
    target.kill()
    target.kill()
    assert capsys.readouterr().err == "its error"
