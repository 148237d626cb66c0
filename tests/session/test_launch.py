"""Starting a command: what it gets, and how its end is known."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from livedbg.linux import ptrace
from livedbg.session.launch import launch
from tests.conftest import eventually

TELLS = """
import json, os, sys
print(json.dumps([dict(os.environ), os.getsid(0), sys.stdin.read()]))
"""
BY_THE_SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.invariant("launch.C1")
def test_C1_our_environment_a_session_of_its_own_and_no_input(
    gated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "1")
    child = launch([sys.executable, "-c", TELLS], tmp_path, gated=gated, environment={"ADDED": "2"})
    try:
        child.go()
        assert child.wait(60) == 0
    finally:
        child.end()
    environment, session, given = json.loads(child.stdout.read_text())
    shells = BY_THE_SHELL if gated else set()
    ours = {**os.environ, "ADDED": "2"}
    assert {k: v for k, v in environment.items() if k not in shells} == {
        k: v for k, v in ours.items() if k not in shells
    }
    assert (session, given) == (child.pid, "")


@pytest.mark.skipif(not ptrace.usable(), reason="registers of this machine can't be read")
@pytest.mark.invariant("launch.C3")
def test_C3_a_stop_of_a_command_that_we_trace_is_not_its_end(tmp_path: Path) -> None:
    child = launch(["sleep", "1000"], tmp_path)
    try:
        try:
            ptrace.seize(child.pid)
        except PermissionError as error:
            pytest.skip(f"this box lets us trace nothing: {error}")
        ptrace.interrupt(child.pid)
        eventually(lambda: ptrace.stopped(child.pid) is not None)
        assert child.exit_code is None and child.wait(0.1) is None
        assert ptrace.stopped(child.pid) is not None
        ptrace.detach(child.pid)
        os.kill(child.pid, signal.SIGTERM)
        assert child.wait(60) == 128 + signal.SIGTERM == child.exit_code
    finally:
        child.end()
