"""`livedbg catch` on real programs: what it prints, how it ends, what it says where it can't."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.cli.zygote import Livedbg, run_livedbg
from tests.conftest import Target
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")

CATCH = [sys.executable, "-m", "livedbg", "catch"]


@pytest.fixture
def thrower(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Target:
    return spawn([build_target("throws")])


@contextmanager
def catching(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A `livedbg catch` that listens."""
    with Livedbg(["catch", *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert " traces process " in process.stderr.readline()
        try:
            yield process
        finally:
            process.kill()


def tell(target: Target, *commands: str) -> None:
    """Let the program do something."""
    stdin, stdout = target.process.stdin, target.process.stdout
    assert stdin is not None and stdout is not None
    for command in commands:
        stdin.write(command.encode() + b"\n")
        _line(stdout)


def _line(stream: IO[bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(stream.fileno(), 1)
    return line


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return run_livedbg(["catch", *words], text=True)


def test_text_ends_at_the_count(thrower: Target) -> None:
    with catching(str(thrower.pid), "std::runtime_error", "--count", "2") as process:
        tell(thrower, "logic not this", "runtime first one", "thread broken second one")
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0
    assert "std::runtime_error: first one" in out and "demo::Broken: second one" in out and "not this" not in out
    assert re.search(r"#1 +innermost at .*throws\.cpp:\d+", out)
    assert "C1 std::runtime_error: 2 of 3 matched." in err


def test_json_gives_one_object_a_line(thrower: Target) -> None:
    with catching(str(thrower.pid), "any", "--count", "1", "--json") as process:
        tell(thrower, "nvf what went wrong")
        out, _ = process.communicate(timeout=200)
    (said,) = map(json.loads, out.splitlines())
    assert (said["type"], said["message"], said["count"]) == ("nvfuser::nvfError", "what went wrong", 1)
    assert said["kind"] == "exception" and said["paused_ms"] == 0
    assert [frame["function"] for frame in said["stack"]][:2] == ["__cxa_throw", "innermost"]


def test_time_limit(thrower: Target) -> None:
    done = run(str(thrower.pid), "any", "--timeout", "1")
    assert done.returncode == 4 and not done.stdout
    assert "0 of 0 matched" in done.stderr or "armed within 1 s" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_cleanly(thrower: Target, number: signal.Signals) -> None:
    with catching(str(thrower.pid), "any") as process:
        tell(thrower, "runtime before the signal")
        process.send_signal(number)
        out, err = process.communicate(timeout=200)
    assert process.returncode in {0, 128 + number}
    assert "before the signal" in out and "Traceback" not in err
    tell(thrower, "runtime goes on")


def test_the_end_of_the_target_ends_it(thrower: Target) -> None:
    with catching(str(thrower.pid), "exit") as process:
        assert thrower.process.stdin is not None
        thrower.process.stdin.write(b"exit\n")
        out, _ = process.communicate(timeout=200)
    assert process.returncode == 0 and thrower.process.wait(60) == 3
    assert "_exit: 0x3" in out


def test_message_filter_and_hostile_text(thrower: Target) -> None:
    with catching(str(thrower.pid), "any", "--message", "needle", "--count", "1") as process:
        tell(thrower, "runtime hay", "runtime a needle \x1b]52;c;AAAA\x07\x1b[31m in it")
        out, _ = process.communicate(timeout=200)
    assert "needle" in out and "hay" not in out and "\x1b" not in out


def test_what_is_wrong_is_said(thrower: Target) -> None:
    assert run(str(thrower.pid)).returncode == 2
    assert "is not a regular expression" in run(str(thrower.pid), "/(/").stderr
    gone = run("4194305", "any")  # above the greatest that there can be (proc_sys_kernel(5), pid_max)
    assert gone.returncode == 3 and "4194305" in gone.stderr
    none = run(str(thrower.pid), "no_such_function", "--moment", "call", "--timeout", "60")
    assert none.returncode == 3 and "no function no_such_function" in none.stderr


def test_presets_are_listed() -> None:
    done = run("--presets")
    assert done.returncode == 0 and re.search(r"^nvfuser .*nvfuser::nvfError", done.stdout, re.MULTILINE)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user: only root can become one")
def test_a_user_without_rights_traces_by_debug_registers(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    program = Path("/tmp") / f"livedbg-throws-{os.getpid()}"
    program.write_bytes(build_target("throws").read_bytes())
    program.chmod(0o755)
    try:
        target = spawn([program], user=65534)
        argv = ["setpriv", "--reuid=65534", "--clear-groups", *CATCH, str(target.pid), "std::runtime_error"]
        with subprocess.Popen(
            [*argv, "--count", "2"],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "HOME": "/tmp"},
            cwd="/tmp",
        ) as process:
            assert process.stderr is not None
            said = process.stderr.readline()
            if "No module named" in said or "Permission denied" in said:
                pytest.skip("this Python's folder can't be read by other users")
            assert " traces (debug registers) " in said
            assert process.stdout is not None
            tell(target, "logic no", "runtime first")
            assert "std::runtime_error: first" in process.stdout.readline()  # it was read before memory is used anew
            tell(target, "thread derived second")
            out, _ = process.communicate(timeout=200)
        assert process.returncode == 0
        assert "demo::Derived: second" in out
    finally:
        program.unlink()


def test_launch_catches_from_before_main_on(build_target: Callable[..., Path], tmp_path: Path) -> None:
    program, enough = build_target("early"), tmp_path / "enough"
    argv = ["launch", "--headless", "--catch", "any", "--", program, enough]
    wanted = {"std::runtime_error: before main", "std::logic_error: in main", "std::runtime_error: in a child"}
    with Livedbg(argv, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if all(message in said for message in wanted):
                enough.touch()
        assert process.wait() == 7, said
    assert all(message in said for message in wanted)
    assert re.search(r"Before::Before at .*early\.cpp:\d+", said)


@pytest.mark.parametrize(("option", "caught"), [("--follow", True), ("--no-follow", False)])
def test_launch_catches_in_what_the_command_starts_or_not(
    build_target: Callable[..., Path], option: str, caught: bool
) -> None:
    program = build_target("throws")
    words = ["sh", "-c", f"echo runtime from a child | {program}; {program} </dev/null"]
    done = run_livedbg(["launch", "--headless", "--catch", "std::runtime_error", option, "--", *words], text=True)
    assert done.returncode == 0 and "done 1" in done.stdout
    assert ("std::runtime_error: from a child" in done.stderr) == caught


def test_launch_with_a_catchpoint_that_can_not_be_set_starts_nothing(tmp_path: Path) -> None:
    argv = ["launch", "--headless", "--catch"]
    mark = tmp_path / "mark"
    done = run_livedbg([*argv, "/(/", "--", "touch", mark])
    assert done.returncode == 2 and b"not a regular expression" in done.stderr and not mark.exists()
    done = run_livedbg([*argv, "any", "--", "/no/such"])
    assert done.returncode == 2 and b"can't be run" in done.stderr


def test_launch_passes_words_on_as_they_are(tmp_path: Path) -> None:
    argv = ["launch", "--headless", "--catch", "any", "--"]
    words = ["two words", "$HOME", "'", '"; touch x', ""]
    code = "import sys, json; print(json.dumps(sys.argv[1:])); print(repr(sys.stdin.read()))"
    done = run_livedbg([*argv, sys.executable, "-c", code, *words], text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert json.loads(first) == words and second == "''"


def test_launch_waits_for_functions_that_may_be_loaded_later() -> None:
    done = run_livedbg(["launch", "--headless", "--catch", "iree", "--", "true"], text=True)
    assert done.returncode == 0
    assert "no loaded file has iree_status_allocate or iree_status_allocate_f yet" in done.stderr
    done = run_livedbg(["launch", "--headless", "--no-follow", "--catch", "iree", "--", "true"], text=True)
    assert done.stderr.count("iree is not caught: ") == 1 and "no function iree_status_allocate" in done.stderr


def test_launch_catches_a_function_of_a_library_that_was_loaded_later(
    build_target: Callable[..., Path], libraries: tuple[str, str], tmp_path: Path
) -> None:
    """It is called again and again: libraries are looked for now and then."""
    way_in = tmp_path / "way_in"
    os.mkfifo(way_in)
    script = f"exec {build_target('cuda_launcher')} {' '.join(libraries)} <{way_in}"
    argv = ["launch", "--headless", "--catch", "cuda", "--", "sh", "-c", script]
    heard = threading.Event()

    def call() -> None:
        with way_in.open("r+b", buffering=0) as told:
            while not heard.wait(0.1):
                told.write(b"error 0 0\n")

    caller = threading.Thread(target=call)
    with Livedbg(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        caller.start()
        try:
            said = ""
            while not re.search(r"cudaGetErrorString: .*(0x2bc|700)", said):
                line = process.stderr.readline()
                assert line, said
                said += line
        finally:
            heard.set()
            caller.join()
            out, _ = process.communicate(timeout=200)
    assert process.returncode == 0 and "an illegal memory access was encountered" in out
