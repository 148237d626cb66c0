"""A C++ runtime that is linked statically into a stripped file: it is found by the marks that libstdc++ left."""

from __future__ import annotations

import errno
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.linux.elf import ElfFile, read_marks
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.model.catchpoints import CatchpointState
from livedbg.probes import functions as probe_functions
from livedbg.probes.places import find_in_files, find_places
from livedbg.probes.tracefs import NoTracefs
from tests.adapters.exceptions.catching import Tracing, functions, tell
from tests.conftest import Target
from tests.probes.refused import refused

STATIC = ("-static-libstdc++", "-static-libgcc", "-s")


def no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the kernel allows none."""

    def none_here() -> None:
        raise NoTracefs(errno.EACCES, "not for us")

    monkeypatch.setattr(probe_functions, "TraceEvents", none_here)


@pytest.fixture
def program(build_target: Callable[..., Path]) -> Path:
    built = build_target("throws", *STATIC, output="throws-marked")
    with ElfFile(built) as elf:
        assert not defined_symbols(elf, ["__cxa_throw"])
        if not read_marks(elf, "libstdcxx"):
            pytest.skip("this libstdc++ was built without marks (systemtap-sdt-dev)")
    return built


def test_marks_are_those_that_readelf_finds(program: Path) -> None:
    said = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    wanted = re.findall(r"Provider: libstdcxx\s+Name: (\w+)\s+Location: (0x\w+).*\s+Arguments: (.*)", said)
    with ElfFile(program) as elf:
        assert [(mark.name, mark.address, mark.arguments) for mark in read_marks(elf, "libstdcxx")] == [
            (name, int(address, 16), arguments.strip()) for name, address, arguments in wanted
        ]
        assert read_marks(elf, "nobody") == []


def test_what_has_a_name_comes_before_what_has_a_mark(program: Path, spawn: Callable[..., Target]) -> None:
    (one,) = find_in_files([str(program)], ["__cxa_throw", "__cxa_begin_catch", "abort"])
    assert (one.name, one.marked) == ("__cxa_throw", True)
    target = spawn([program])
    found, _ = find_places(target.pid, ["__cxa_throw", "abort"])
    assert [each.name for each in found] == ["abort", "__cxa_throw"]


@pytest.mark.parametrize("engine", ["probes", "registers"])
def test_it_is_heard(
    program: Path,
    spawn: Callable[..., Target],
    trace: Callable[[int], Tracing],
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if engine == "probes" and refused():
        pytest.skip(refused())
    if engine == "registers":
        no_probes(monkeypatch)
    target = spawn([program])
    tracing = trace(target.pid)
    tracing.catch("std::runtime_error")
    (point,) = tracing.points.values()
    assert (point.state, point.engine) == (CatchpointState.ARMED, engine) and "throws-marked" in point.note
    tell(target, "logic not wanted")
    tell(target, "derived by its mark")
    (hit,) = tracing.hits_after(1)
    assert (hit.type, hit.message) == ("demo::Derived", "by its mark")
    assert "__libc_start_call_main" in functions(hit) and not hit.partial


@pytest.mark.invariant("breakpoint_tracer.R2")
def test_by_registers_a_message_is_right_or_left_out(
    build_target: Callable[..., Path],
    spawn: Callable[..., Target],
    trace: Callable[[int], Tracing],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its text is a string of its own, which the program frees at once: malloc then keeps its pointers there."""
    no_probes(monkeypatch)
    target = spawn([build_target("throws")])
    tracing = trace(target.pid)
    tracing.catch("nvfuser")
    said = ["x" * (40 + 48 * number) for number in range(15)]  # ever another size: malloc's first of each
    for number, text in enumerate(said, 1):
        tell(target, f"nvf {text}")
        tracing.hits_after(number)
    assert {hit.message for hit in tracing.hits} <= {*said, ""}
