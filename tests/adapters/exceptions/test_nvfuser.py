"""The real nvFuser wheel, on a box without a GPU: it throws as soon as a fusion is to run on the CPU.

It runs where the wheel is: in this Python, or in the one that LIVEDBG_NVFUSER_PYTHON names.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator

import pytest

from livedbg.model.catchpoints import CatchpointState, Moment
from livedbg.probes import functions as probe_functions
from livedbg.probes.tracefs import NoTracefs
from tests.adapters.exceptions.catching import Tracing, functions, tell
from tests.cli.zygote import run_livedbg
from tests.conftest import TARGETS, Target, eventually
from tests.probes.refused import refused

_VARIABLE = "LIVEDBG_NVFUSER_PYTHON"
_MESSAGE = "Expected device.is_cuda() || device.is_meta()"
_PROGRAM = TARGETS / "py_nvfuser.py"

pytestmark = pytest.mark.timeout(400)  # torch with CUDA's libraries: some 15 s to import, longer on a busy box


@pytest.fixture(scope="module")
def python() -> str:
    """A Python that has nvFuser."""
    named = os.environ.get(_VARIABLE)
    if named:
        return named
    if importlib.util.find_spec("nvfuser_direct") is None:
        pytest.skip(f"nvFuser is not installed here; {_VARIABLE} names a Python that has it (docs/systems/nvfuser.md)")
    return sys.executable


@pytest.fixture
def fuser(python: str, spawn: Callable[..., Target]) -> Target:
    return spawn([python, _PROGRAM])


@pytest.fixture
def tracing(fuser: Target) -> Iterator[Tracing]:
    made = Tracing(fuser.pid)
    yield made
    made.stop()


@pytest.mark.parametrize("engine", ["probes", "registers"])
def test_its_exception_is_caught(engine: str, fuser: Target, tracing: Tracing, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "probes" and refused():
        pytest.skip(refused())
    if engine == "registers":

        def none_here() -> None:
            raise NoTracefs(errno.EACCES, "not for us")

        monkeypatch.setattr(probe_functions, "TraceEvents", none_here)
    tracing.catch("nvfuser")
    (point,) = tracing.points.values()
    assert (point.state, point.engine) == (CatchpointState.ARMED, engine) and "libstdc++" in point.note
    tell(fuser, "go")
    eventually(lambda: sum(hit.count for hit in tracing.hits) >= 1)
    (hit,) = tracing.hits
    assert hit.type == "nvfuser::nvfError"
    assert hit.message.startswith(_MESSAGE) or (engine == "registers" and not hit.message)  # Python frees it at once
    names = functions(hit)
    assert any(name.startswith("nvfuser::nvfCheckFail(") for name in names[:3]), names
    assert any(name.startswith("nvfuser::KernelArgumentHolder::") for name in names), names
    assert tell(fuser, "go") == 2  # it runs on
    eventually(lambda: sum(hit.count for hit in tracing.hits) >= 2)


@pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")
def test_its_one_function_that_throws_can_be_listened_to(fuser: Target, tracing: Tracing) -> None:
    tracing.catch("nvfuser::nvfCheckFail", moment=Moment.CALL)
    (point,) = tracing.points.values()
    assert point.state is CatchpointState.ARMED, point
    tell(fuser, "go")
    eventually(lambda: sum(hit.count for hit in tracing.hits) >= 1)
    (hit,) = tracing.hits
    assert "getCommonDeviceCUDA" in hit.message  # its first argument: the function that checks


@pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")
def test_a_launched_one_is_caught_from_its_first_instruction(python: str) -> None:
    argv = ["launch", "--headless", "--catch", "nvfuser", "--"]
    done = run_livedbg([*argv, python, _PROGRAM, "once"], 380, text=True)
    assert "done 1" in done.stdout and done.returncode == 0, done.stderr
    assert f"nvfuser::nvfError: {_MESSAGE}" in done.stderr and "nvfuser::nvfCheckFail(" in done.stderr
