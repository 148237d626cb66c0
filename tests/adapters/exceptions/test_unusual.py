"""Targets that are not as others: confined by seccomp, in namespaces of their own, with several C++ runtimes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from livedbg.adapters.exceptions.breakpoint_tracer import BreakpointTracer
from livedbg.adapters.exceptions.calls import TracedCall
from livedbg.linux import procfs
from livedbg.model import ExceptionHit
from livedbg.model.catchpoints import CatchpointState, Moment
from tests.adapters.exceptions.catching import Tracing, functions, tell
from tests.conftest import TARGETS, Target, eventually
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")

Build = Callable[..., Path]
Spawn = Callable[..., Target]
Listen = Callable[[int], Tracing]
PLUGIN = ("-shared", "-fPIC")
OWN_RUNTIME = ("-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL")


@pytest.fixture(scope="session")
def confined(build_target: Build) -> Path:
    return build_target("confined", "-ldl")


def of_type(hits: list[ExceptionHit], name: str) -> ExceptionHit:
    return next(hit for hit in hits if hit.type == name)


def fault(target: Target) -> None:
    """Have the program end by a null pointer."""
    target.stdin.write(b"s\n")
    target.process.wait(60)


def test_strict_seccomp(confined: Path, spawn: Spawn, trace: Listen) -> None:
    target = spawn([confined, "strict"])
    assert procfs.status_fields(target.pid)["Seccomp"] == "1"
    tracing = trace(target.pid)
    tracing.catch("any")
    tracing.catch("signals")
    for _ in range(3):
        tell(target, "t")
    (hit,) = tracing.hits_after(3)
    assert (hit.type, hit.message, hit.count) == ("std::runtime_error", "confined", 3)
    assert functions(hit)[-1] == "main" and functions(hit)[0] == "__cxa_throw"
    fault(target)
    tracing.hits_after(4)
    assert functions(of_type(tracing.hits, "SIGSEGV"))[0] == "fault"


def test_own_namespaces_root_and_build_of_the_runtime(
    confined: Path, spawn: Spawn, trace: Listen, tmp_path: Path
) -> None:
    root = _root(confined, tmp_path)
    outer = spawn(["unshare", "-Urpf", "--mount-proc", "chroot", root, "/confined"])
    (inner,) = psutil.Process(outer.pid).children()
    own = Path(f"/proc/{inner.pid}/ns")
    assert all((own / kind).readlink() != Path(f"/proc/self/ns/{kind}").readlink() for kind in ("mnt", "pid", "user"))
    tracing = trace(inner.pid)
    tracing.catch("any")
    tracing.catch("signals")
    assert "libstdc++" in tracing.points["C1"].note
    tell(outer, "t")
    (hit,) = tracing.hits_after(1)
    assert (hit.type, hit.message) == ("std::runtime_error", "confined")
    assert functions(hit) == ["__cxa_throw", "thrower", "catcher", "main"], hit
    assert hit.thread == f"thread:box/{inner.pid}/{inner.pid}"
    outer.stdin.write(b"s\n")
    tracing.hits_after(2)
    assert functions(of_type(tracing.hits, "SIGSEGV"))[0] == "fault"
    eventually(lambda: tracing.points["C2"].ending.startswith("was killed by SIGSEGV"))


def _root(confined: Path, folder: Path) -> Path:
    """A root folder with the program, what it is linked against, and another build of the C++ runtime."""
    root = folder / "root"
    shown = subprocess.run(["ldd", confined], capture_output=True, text=True, check=True, timeout=60).stdout
    for word in shown.split():
        if word.startswith("/"):
            place = root / word.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, place)
    (root / "proc").mkdir()
    shutil.copy(confined, root / "confined")
    (runtime,) = root.rglob("libstdc++.so.6")
    listed = subprocess.run(["nm", "-Du", confined], capture_output=True, text=True, check=True, timeout=60).stdout
    needed = [name.partition("@")[0] for name in listed.split() if "@GLIBCXX" in name or "@CXXABI" in name]
    build = ["g++", "-shared", "-fPIC", "-static-libstdc++", "-Wl,-soname,libstdc++.so.6", TARGETS / "plugin.cpp"]
    subprocess.run([*build, *(f"-Wl,-u,{name}" for name in needed), "-o", runtime], check=True, timeout=200)
    return root


def test_a_stripped_program_that_is_linked_statically(build_target: Build, spawn: Spawn, trace: Listen) -> None:
    """Signals are traced; exceptions too where the runtime kept its marks for tracers, or else it is said."""
    target = spawn([build_target("throws", "-static", "-s", output="throws-static-stripped")])
    tracing = trace(target.pid)
    tracing.catch("signals")
    tracing.catch("any")
    assert tracing.points["C2"].state is CatchpointState.ARMED
    told = "can't be traced" in tracing.points["C2"].note
    tell(target, "runtime in a stripped one")
    if not told:
        (hit,) = tracing.hits_after(1)
        assert (hit.type, hit.message) == ("std::runtime_error", "in a stripped one")
    target.stdin.write(b"abort\n")
    target.process.wait(60)
    eventually(lambda: any(hit.type == "SIGABRT" for hit in tracing.hits))
    hit = of_type(tracing.hits, "SIGABRT")
    assert len(hit.stack) >= 3 and {frame.module for frame in hit.stack} == {"throws-static-stripped"}


def test_two_runtimes_in_one_process(confined: Path, build_target: Build, spawn: Spawn, trace: Listen) -> None:
    plugin = build_target("plugin", *PLUGIN, *OWN_RUNTIME, output="plugin-own-runtime.so")
    target = spawn([confined, "plugin", plugin])
    tracing = trace(target.pid)
    tracing.catch("any")
    assert "libstdc++" in tracing.points["C1"].note and "plugin-own-runtime.so" in tracing.points["C1"].note
    tell(target, "t")
    tell(target, "p")
    hits = tracing.hits_after(2)
    assert {(hit.type, hit.message) for hit in hits} == {
        ("std::runtime_error", "confined"),
        ("std::logic_error", "plugged"),
    }
    plugged = of_type(hits, "std::logic_error")
    assert functions(plugged)[:3] == ["__cxa_throw", "plugin_thrower", "plugged"]
    assert plugged.stack[0].module == "plugin-own-runtime.so"


def test_a_runtime_in_a_link_namespace_of_its_own(
    confined: Path, build_target: Build, spawn: Spawn, trace: Listen
) -> None:
    """The same file, twice in one process."""
    target = spawn([confined, "namespace", build_target("plugin", *PLUGIN, output="plugin.so")])
    tracing = trace(target.pid)
    tracing.catch("any")
    tell(target, "t")
    tell(target, "p")
    hits = tracing.hits_after(2)
    assert {(hit.type, hit.message) for hit in hits} == {
        ("std::runtime_error", "confined"),
        ("std::logic_error", "plugged"),
    }
    assert functions(of_type(hits, "std::runtime_error")) == ["__cxa_throw", "thrower", "catcher", "main"]
    assert functions(of_type(hits, "std::logic_error"))[:3] == ["__cxa_throw", "plugin_thrower", "plugged"]


@pytest.mark.parametrize("how", ["plugin", "namespace"])
def test_debug_registers_hear_each_runtime(confined: Path, build_target: Build, spawn: Spawn, how: str) -> None:
    flags = OWN_RUNTIME if how == "plugin" else ()
    name = "plugin-own-runtime.so" if how == "plugin" else "plugin.so"
    target = spawn([confined, how, build_target("plugin", *PLUGIN, *flags, output=name)])
    traced: list[TracedCall] = []
    tracer = BreakpointTracer(
        target.pid,
        Moment.THROW,
        ["__cxa_throw"],
        wanted=lambda call: True,
        report=traced.extend,
        follow=False,
    )
    try:
        tracer.start()
    except OSError as error:
        pytest.skip(f"no debug registers here: {error}")
    try:
        tell(target, "t")
        tell(target, "p")
        eventually(lambda: len(traced) == 2)
    finally:
        tracer.stop()
    assert {one.call.names[0] for one in traced} == {"std::runtime_error", "std::logic_error"}


def test_debug_registers_hear_children_that_were_there(build_target: Build, spawn: Spawn) -> None:
    target = spawn(["sh", "-c", 'exec 3<&0; "$0" <&3 & wait', build_target("throws")])
    (child,) = psutil.Process(target.pid).children()
    traced: list[TracedCall] = []
    tracer = BreakpointTracer(
        target.pid,
        Moment.THROW,
        ["__cxa_throw"],
        wanted=lambda call: True,
        report=traced.extend,
        follow=True,
    )
    try:
        tracer.start()
    except OSError as error:
        pytest.skip(f"no debug registers here: {error}")
    try:
        tell(target, "runtime in a child")
        eventually(lambda: len(traced) == 1)
    finally:
        tracer.stop()
    assert traced[0].sample.pid == child.pid != target.pid
    assert traced[0].call.message == "in a child" and "libstdc++" in tracer.files[0]


@pytest.fixture(scope="session")
def with_libcxx(build_target: Build) -> Path:
    """The program that throws, built with LLVM's C++ library: libc++ and libc++abi."""
    found = sorted(Path("/usr/lib").glob("llvm-*/include/c++/v1"))
    assert found, "the tests need libc++-dev and libc++abi-dev: make test installs them"
    flags = ("-nostdinc++", "-isystem", str(found[-1]), "-nodefaultlibs", f"-L{found[-1].parents[2] / 'lib'}")
    libraries = ("-lc++", "-lc++abi", "-lm", "-lc", "-lgcc_s", "-lgcc")
    return build_target("throws", *flags, *libraries, output="throws-libc++")


def test_libcxx(with_libcxx: Path, spawn: Spawn, trace: Listen) -> None:
    target = spawn([with_libcxx])
    tracing = trace(target.pid)
    tracing.catch("std::runtime_error")
    tracing.catch("std::exception", moment=Moment.CATCH)
    for words in ("logic not this", "runtime plain", "derived from it"):
        tell(target, words)
    hits = tracing.hits_after(2 + 3)
    thrown = {hit.type: hit for hit in hits if hit.catchpoint == "C1"}
    assert {name: hit.message for name, hit in thrown.items()} == {
        "std::runtime_error": "plain",
        "demo::Derived": "from it",
    }
    assert functions(thrown["demo::Derived"])[:3] == ["__cxa_throw", "innermost", "outer"]
    assert {hit.type for hit in hits if hit.catchpoint == "C2"} == {"std::logic_error", *thrown}
    assert "libc++abi.so" in tracing.points["C1"].note
