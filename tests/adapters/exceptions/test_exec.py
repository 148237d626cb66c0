"""A target that executes another program while its threads stop at throws: it is let go, and that is said."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.model.catchpoints import CatchpointState
from tests.adapters.exceptions.test_stopping import Watch, patient, tell, watch
from tests.conftest import Target, eventually
from tests.touch.health import untouched

__all__ = ["patient", "watch"]


@pytest.mark.invariant("stopper.J4")
def test_J4_another_program_is_let_go_and_can_be_caught_in_anew(
    build_target: Callable[..., Path], spawn: Callable[..., Target], watch: Callable[..., Watch], engine: str
) -> None:
    code = (
        "import ctypes, os, sys; ctypes.CDLL('libstdc++.so.6'); print('READY', flush=True);"
        "os.read(0, 100); os.execv(sys.argv[1], sys.argv[1:])"
    )
    target = spawn([sys.executable, "-c", code, build_target("throws")])
    seen = watch(target.pid)
    before = seen.catch("std::runtime_error")
    assert before.state is CatchpointState.ARMED
    tell(target, "run the other")
    eventually(seen.is_done)
    assert seen.point.state is CatchpointState.FAILED
    assert seen.point.note.startswith(f"Process {target.pid} has executed another program")
    assert seen.point.remedy.endswith(f"livedbg catch {target.pid} std::runtime_error --stop")
    eventually(lambda: untouched(target.pid))
    assert target.line() == "READY"
    assert seen.catch("std::runtime_error").state is CatchpointState.ARMED
    tell(target, "runtime said so")
    (hit,) = seen.saw(1)
    assert hit.message == "said so" and "innermost" in [frame.function for frame in hit.stack]
