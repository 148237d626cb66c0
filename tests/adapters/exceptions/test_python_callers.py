"""C++ exceptions that are thrown under Python: one stack of native and Python frames."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.model import ExceptionHit
from tests.adapters.exceptions.catching import Tracing, functions, tell
from tests.conftest import TARGETS, Target, eventually
from tests.cpython.interpreters import interpreters, label
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")

PROGRAM = TARGETS / "py_beneath.py"
every = pytest.mark.parametrize("python", interpreters("3.12", "3.13"), ids=label)
Spawn = Callable[..., Target]
Build = Callable[..., Path]


@pytest.fixture
def library(build_target: Build) -> Path:
    return build_target("beneath", "-shared", "-fPIC", output="libbeneath.so")


def python_frames(hit: ExceptionHit) -> list[str]:
    return [frame.function for frame in hit.stack if frame.language == "python"]


@every
def test_native_and_python_frames_in_one_stack(
    python: str, library: Path, spawn: Spawn, trace: Callable[[int], Tracing]
) -> None:
    target = spawn([python, PROGRAM, library])
    tracing = trace(target.pid)
    tracing.catch("std::runtime_error")
    said: list[ExceptionHit] = []
    for word in ("held", "free", "alone", "through"):
        if word == "alone":  # it stays there until its stack was read
            target.stdin.write(b"alone\n")
        else:
            tell(target, word)
        tracing.hits_after(len(said) + 1)
        said += [hit for hit in tracing.hits if hit.id not in {one.id for one in said}]
        if word == "alone":
            tell(target, "")
    assert [hit.message for hit in said] == ["from below"] * 4
    for hit in said:
        names = functions(hit)
        assert names.index("throw_here") < names.index("innermost") < names.index("caller")
        assert not any("_PyEval_EvalFrameDefault" in name for name in names)
    source = PROGRAM.read_text().splitlines()
    held, free, alone, through = said
    for hit in (held, free):
        assert python_frames(hit) == ["innermost", "caller", "main", "<module>"]
        lines = [source[(f.line or 1) - 1].strip() for f in hit.stack if f.language == "python"]
        assert lines[:2] == ["library.throw_here(turns, stays)", "innermost(library, turns, stays)"]
    assert python_frames(alone)[:3] == ["innermost", "caller", "Thread.run"]
    assert python_frames(through) == ["innermost", "caller", "called_back", "through_c", "main", "<module>"]
    names = functions(through)
    assert names.index("called_back") < names.index("call_back") < names.index("through_c")


def test_a_thread_that_lost_the_gil_before_it_threw(
    library: Path, spawn: Spawn, trace: Callable[[int], Tracing]
) -> None:
    target = spawn([sys.executable, PROGRAM, library])
    tell(target, "busy")
    tracing = trace(target.pid)
    tracing.catch("std::runtime_error")
    target.stdin.write(b"late\n")
    (hit,) = tracing.hits_after(1)
    assert python_frames(hit) == ["innermost", "caller", "main", "<module>"]
    assert hit.partial  # they were read just after the throw


def test_a_program_that_is_executed_later(library: Path, spawn: Spawn, trace: Callable[[int], Tracing]) -> None:
    command = f"read go; exec {sys.executable} {PROGRAM} {library}"
    target = spawn(["sh", "-c", f"echo READY; {command}"])
    tracing = trace(target.pid)
    runtime = _runtime()
    tracing.catch("std::runtime_error", files=(runtime,))
    target.stdin.write(b"go\n")
    assert "READY" in target.line()

    def caught() -> bool:
        tell(target, "held")
        return any(python_frames(hit) == ["innermost", "caller", "main", "<module>"] for hit in tracing.hits)

    eventually(caught)


def _runtime() -> str:
    """The box's libstdc++."""
    return str(Path(subprocess.check_output(["g++", "-print-file-name=libstdc++.so.6"], text=True).strip()).resolve())


def test_an_error_of_torch_with_the_python_that_led_to_it(spawn: Spawn, trace: Callable[[int], Tracing]) -> None:
    pytest.importorskip("torch")
    target = spawn([sys.executable, TARGETS / "py_raises.py"])
    tell(target, "torch")  # imports it
    tracing = trace(target.pid)
    tracing.catch("c10")
    tell(target, "torch")
    (hit,) = tracing.hits_after(1)
    assert hit.type == "c10::Error"
    assert python_frames(hit) == ["torch_product", "run", "main.<locals>.guarded", "main", "<module>"]
    assert any("mm" in name for name in functions(hit)[: functions(hit).index("torch_product")])
