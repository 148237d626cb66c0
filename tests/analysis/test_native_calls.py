"""What C++ and Rust code called when its thread blocked, and whose functions are never the user's."""

from __future__ import annotations

import pytest

from livedbg.analysis.place_names import function_name, rust_name
from livedbg.analysis.user_code import NO_FRAMEWORKS, Inside
from livedbg.model import Frame, Stack

RUSTC = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library"
SYSCALL = Frame(function="syscall", file="../sysdeps/unix/sysv/linux/x86_64/syscall.S", line=38, module="libc.so.6")
MINE = Frame(function="collect(int)", file="/home/me/engine.cpp", line=4, module="engine")
RUST = Frame(function="job::collect", file="src/main.rs", line=4, module="job")


def header(function: str, name: str, root: str = "/usr/include/c++/12") -> Frame:
    """A function that was inlined: its name in debug information has no class."""
    return Frame(function=function, file=f"{root}/{name}", line=77, module="engine")


def called(*frames: Frame) -> str:
    return NO_FRAMEWORKS.call(Stack(thread="thread:box/1/1", frames=frames, taken_mono_ns=1, source="test"))


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ((SYSCALL, Frame(function="std::thread::join()", module="libstdc++.so.6.0.30"), MINE), "std::thread::join"),
        ((SYSCALL, header("wait", "future"), header("get", "future"), MINE), "std::future::get"),
        ((SYSCALL, header("arrive_and_wait", "latch"), MINE), "std::latch::arrive_and_wait"),
        ((SYSCALL, header("acquire", "semaphore", "/opt/llvm/include/c++/v1"), MINE), "std::semaphore::acquire"),
        ((SYSCALL, header("std::call_once<void (&)()>", "mutex"), MINE), "std::call_once"),
        (
            (SYSCALL, Frame(function="boost::thread::join()", module="libboost_thread.so.1.74.0"), MINE),
            "boost::thread::join",
        ),
        ((SYSCALL, header("_M_get_result", "future"), MINE), ""),  # a library's inside says nothing
        ((SYSCALL, header("std::__atomic_wait_address<int>", "bits/atomic_wait.h"), MINE), ""),
        ((SYSCALL, header("size", "vector"), MINE), ""),  # nothing that waits
        ((SYSCALL, header("operator()", "future"), MINE), ""),
        ((SYSCALL, Frame(function="app::wait(int)", file="/home/me/app.cpp", line=9, module="engine")), ""),
        ((SYSCALL, MINE), ""),
        (
            (
                SYSCALL,
                Frame(function="std::sync::poison::mutex::Mutex<T>::lock", file=f"{RUSTC}/std/src/x.rs", line=1),
                RUST,
            ),
            "Mutex::lock",
        ),
        (
            (
                SYSCALL,
                Frame(
                    function="_RNvMs0_NtNtCsjrHSEGnQ3l9_3std4sync7barrierNtB5_7Barrier4wait",
                    file="library/std/src/sys/pal/unix/futex.rs",
                    line=73,
                    module="job",
                ),
                RUST,
            ),
            "Barrier::wait",
        ),
        ((SYSCALL, Frame(function="lock", file=f"{RUSTC}/std/src/x.rs", line=1), RUST), ""),
    ],
)
def test_the_call_is_what_the_users_frame_called(frames: tuple[Frame, ...], name: str) -> None:
    assert called(*frames) == name


@pytest.mark.parametrize(
    ("mangled", "path"),
    [
        ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
        ("_RNvMNtCs1_3std4syncNtB2_5Mutex14lock_contended", "std::sync::Mutex::lock_contended"),
        ("_RINvCs1_4core4dropjE", "_RINvCs1_4core4dropjE"),  # what it was made for is not read
        ("_R", "_R"),
        ("_RNv9999x", "x"),
        ("_Z4mainv", "_Z4mainv"),
        ("main", "main"),
    ],
)
def test_a_mangled_name_of_rust_is_read(mangled: str, path: str) -> None:
    assert rust_name(mangled) == path


@pytest.mark.parametrize(
    "module", ["perl", "perl5.36", "libperl.so.5.36", "bash", "ruby3.1", "libruby-3.1.so.3.1.7", "lua5.4"]
)
def test_a_function_of_an_interpreter_is_the_users_only_with_a_line(module: str) -> None:
    bare = Frame(function="run_loop", module=module)
    assert NO_FRAMEWORKS.inside(bare) is Inside.NEVER
    assert NO_FRAMEWORKS.inside(Frame(function="run_loop", module=module, file="/src/run.c", line=3)) is Inside.USER
    assert NO_FRAMEWORKS.inside(Frame(function="run_loop", module=f"{module}-tool")) is Inside.UNLINED


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("main.<locals>.<listcomp>", "main"),
        ("load.<locals>.<genexpr>", "load"),
        ("Cache.fill.<locals>.<dictcomp>.<locals>.<setcomp>", "Cache.fill"),
        ("main.<locals>.step", "step"),
        ("<listcomp>", "<listcomp>"),  # before Python 3.11, or at the top of a module
        ("main.<locals>.<lambda>", "<lambda>"),
    ],
)
def test_a_comprehension_is_said_by_its_function(name: str, shown: str) -> None:
    assert function_name(name, "python") == shown
