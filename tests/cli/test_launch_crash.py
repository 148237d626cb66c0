"""A crash under `launch` names its place without being asked: real processes that die of their own faults."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.session.core_files import MOST_BYTES
from tests.cli.conftest import Said, livedbg
from tests.probes.refused import refused

ORCHESTRATION = """
import ctypes, os, signal, sys
def orchestrate(case):
    if case == "fault":
        ctypes.string_at(8)
    os.kill(os.getpid(), signal.SIGKILL)
orchestrate(sys.argv[1])
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "orchestration.py"
    path.write_text(ORCHESTRATION)
    return path


def launched(program: Path, case: str, **env: str) -> Said:
    state = {"XDG_STATE_HOME": str(program.parent / "state")}
    return livedbg("launch", "--", sys.executable, program, case, env={**state, **env}, prefix=within(program.parent))


def within(folder: Path) -> list[str]:
    """Cores go to the folder of the command."""
    return ["env", "-C", str(folder)]


UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
PIPED = Path("/proc/sys/kernel/core_pattern").read_text().startswith(("|", "@"))
FORBIDDEN = 0 <= resource.getrlimit(resource.RLIMIT_CORE)[1] < MOST_BYTES


@pytest.mark.invariant("cores.R1")
@pytest.mark.skipif(PIPED or FORBIDDEN, reason="the kernel gives cores to a program here, or the user may have none")
@pytest.mark.parametrize("children", [False, True])
def test_R1_who_may_not_trace_learns_the_place_from_a_core_which_is_removed(
    children: bool, build_target: Callable[..., Path], tmp_path: Path
) -> None:
    program, before = build_target("dies"), [*UNPRIVILEGED, *within(tmp_path)]
    argv = ["sh", "-c", f"{program}; exit $?"] if children else [program]
    said = livedbg("launch", "--", *argv, env={"XDG_STATE_HOME": str(tmp_path / "state")}, prefix=before)
    assert said.code == 128 + signal.SIGSEGV
    if not children:
        assert "was ended by SIGSEGV in store (dies.c:4)" in said.err, said.everything
        assert "SIGSEGV: address not mapped (SEGV_MAPERR), at address 0x8" in said.err
    assert not list(tmp_path.glob("core*"))


def test_a_fault_in_native_code_has_the_line_of_python_and_of_c(program: Path) -> None:
    said = launched(program, "fault")
    assert said.code == 128 + signal.SIGSEGV
    [verdict] = [line for line in said.err.splitlines() if " CRASHED " in line]
    assert "  Crashed in orchestrate (orchestration.py:5)" in verdict, said.everything
    if not refused():
        assert "SIGSEGV: address not mapped" in said.err and "#0 " in said.err


def test_no_fault_handler_where_the_user_decided_so(program: Path) -> None:
    said = launched(program, "fault", PYTHONFAULTHANDLER="")
    assert "Fatal Python error" not in said.err and "was ended by SIGSEGV" in said.err


def test_an_end_by_another_s_signal_has_no_place(program: Path) -> None:
    said = launched(program, "killed")
    assert "was ended by SIGKILL." in said.err, said.everything


@pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")
def test_nothing_is_probed_where_touching_is_forbidden(program: Path, tmp_path: Path) -> None:
    config = tmp_path / "config" / "livedbg"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("read_only = true\n")
    said = launched(program, "fault", PYTHONFAULTHANDLER="", XDG_CONFIG_HOME=str(config.parent))
    assert "was ended by SIGSEGV." in said.err and os.fspath(program) not in said.err


@pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("child", "ended with status 1 after child process "),
        ("deep", "was ended by SIGSEGV: its stack overflowed: descend (short_lives.cpp:11) calls itself, about "),
        ("thread", " call each other, about "),
    ],
)
def test_what_lives_for_milliseconds_is_said_too(
    case: str, words: str, build_target: Callable[..., Path], tmp_path: Path
) -> None:
    said = livedbg("launch", "--", build_target("short_lives"), case, env={"XDG_STATE_HOME": str(tmp_path / "state")})
    [verdict] = [line for line in said.err.splitlines() if " CRASHED " in line]
    assert words in verdict, said.everything
    if case == "thread":
        assert "begins (short_lives.cpp:16)" in verdict and "ends (short_lives.cpp:20)" in verdict
    if case == "child":
        assert "was ended by SIGFPE in divide (short_lives.cpp:7). [crash]" in verdict
