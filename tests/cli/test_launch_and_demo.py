"""Commands that start something: what they leave, and what they pass on."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from livedbg.demos.workloads import all_demos
from livedbg.linux import procfs
from tests.cli.conftest import livedbg, longer
from tests.cli.zygote import Livedbg, stalls_after
from tests.conftest import TARGETS, eventually


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment whose state directory is ours to look at."""
    return {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def children_in(marker: str) -> list[int]:
    """Processes that have a word in their environment."""
    found = []
    for pid in procfs.process_ids():
        try:
            if procfs.read_environment(pid).get("LIVEDBG_TEST_MARK") == marker and pid != os.getpid():
                found.append(pid)
        except OSError:
            continue
    return found


def sleepers(marker: str) -> list[int]:
    """Those of them that run the program `sleep`."""
    found = []
    for pid in children_in(marker):
        with contextlib.suppress(OSError):  # it has just ended
            if procfs.command_line(pid)[:1] == ("sleep",):
                found.append(pid)
    return found


def test_arguments_output_and_exit_code_pass_through(home: dict[str, str]) -> None:
    program = "import sys; print(sys.argv[1:]); print('oops', file=sys.stderr); sys.exit(7)"
    said = livedbg("launch", "--", sys.executable, "-c", program, "--timeout", "-x", "--", "a b", env=home)
    assert said.code == 7
    assert "['--timeout', '-x', '--', 'a b']" in said.out and "oops" in said.err


def test_a_log_that_was_named_does_not_outlive_the_command(home: dict[str, str], tmp_path: Path) -> None:
    said = livedbg("launch", "--headless", "--logs", tmp_path / "never.log", "--", "echo", "done", env=home)
    assert said.code == 0 and "done" in said.out


def test_a_time_limit_writes_the_report_before_it_ends_the_command(home: dict[str, str], tmp_path: Path) -> None:
    home["LIVEDBG_TEST_MARK"] = str(tmp_path)
    report = tmp_path / "out.json"
    words = [sys.executable, TARGETS / "hang_py.py", "lock-cycle"]

    def finds(limit_s: float) -> bool:
        report.unlink(missing_ok=True)
        said = livedbg("launch", "--timeout", limit_s, "--report", report, "--", *words, env=home)
        found = bool(json.loads(report.read_text())["verdict"]["state"] == "deadlock")
        assert said.code == (10 if found else 4) and f"was killed after {limit_s} s" in said.err
        eventually(lambda: children_in(str(tmp_path)) == [])
        return found

    longer(5, finds)


def test_sigterm_ends_the_launched_command_too_unless_it_is_detached(home: dict[str, str], tmp_path: Path) -> None:
    for options, survivors in (([], 0), (["--detach"], 1)):
        mark = f"{tmp_path}-{survivors}"
        line = ["launch", "--headless", *options, "--", "sleep", "300"]
        child = Livedbg(
            line,
            env={**os.environ, **home, "LIVEDBG_TEST_MARK": mark},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(lambda mark=mark: bool(sleepers(mark)))
        child.send_signal(signal.SIGTERM)
        child.wait(200)  # it says where it stands after 120 s
        try:
            eventually(lambda mark=mark, left=survivors: len(children_in(mark)) == left)
            assert len(sleepers(mark)) == survivors
        finally:
            for pid in children_in(mark):
                os.kill(pid, signal.SIGKILL)


STATES = {"deadlock": "deadlock", "gil": "stalled", "pipeline": "deadlock", "ascend": "stalled", "iree": "stalled"}


@pytest.mark.parametrize("name", list(all_demos()))
def test_a_demo_without_a_terminal_prints_the_report_and_leaves_nothing(
    name: str, home: dict[str, str], tmp_path: Path
) -> None:
    if name == "iree" and importlib.util.find_spec("iree") is None:
        pytest.skip("the wheels of IREE are not installed")
    env = {**home, "LIVEDBG_TEST_MARK": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    said = livedbg("demo", name, env=stalls_after(3.0, env))
    assert said.code == 0, said.everything
    assert STATES[name] in said.out.lower()
    eventually(lambda: children_in(str(tmp_path)) == [])
    assert list((tmp_path / "tmp").iterdir()) == []


def test_ctrl_c_ends_the_launched_command_and_still_writes_the_report(home: dict[str, str], tmp_path: Path) -> None:
    home["LIVEDBG_TEST_MARK"] = str(tmp_path)
    report = tmp_path / "end.json"
    line = ["launch", "--report", report, "--", "sleep", "300"]
    child = Livedbg(
        line, env={**os.environ, **home}, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    assert child.stderr is not None
    assert child.stderr.readline()  # the first verdict: it is watched
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=100)
    assert child.returncode == 130 and b"Traceback" not in err
    eventually(lambda: children_in(str(tmp_path)) == [])
    assert json.loads(report.read_text())["schema"] == "livedbg.report/1"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_leaves_nothing(
    number: signal.Signals, home: dict[str, str], tmp_path: Path
) -> None:
    mark = f"{tmp_path}-demo"
    program = (  # it waits for the signal, however late that comes
        "import sys\nfrom livedbg.cli import demo, main\n"
        "demo._FOUND, demo._PATIENCE_S = (), 600\nsys.exit(main(['demo', 'pipeline']))"
    )
    line = [sys.executable, "-c", program]
    environment = {**os.environ, **home, "LIVEDBG_TEST_MARK": mark}
    child = subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    eventually(lambda: len(children_in(mark)) >= 4)
    child.send_signal(number)
    _, err = child.communicate(timeout=100)
    # -SIGINT: CPython ends so when the signal came while a dataclass was made (run_eval_code_obj in pythonrun.c)
    assert child.returncode in (128 + number, -signal.SIGINT) and b"Traceback" not in err
    eventually(lambda: children_in(mark) == [])
    assert list((tmp_path / "state" / "livedbg" / "launches").iterdir()) == []


def test_what_a_command_is_killed_by_is_its_exit_code(home: dict[str, str]) -> None:
    assert livedbg("launch", "--", "bash", "-c", "kill -9 $$", env=home).code == 137


def test_a_command_that_cannot_be_run_leaves_no_folder(home: dict[str, str], tmp_path: Path) -> None:
    assert livedbg("launch", "--", tmp_path, env=home).code == 2
    assert list((tmp_path / "state" / "livedbg" / "launches").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "variable"), [(("launch", "--", "true"), "XDG_STATE_HOME"), (("demo",), "XDG_CACHE_HOME")]
)
def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(
    words: tuple[str, ...], variable: str, home: dict[str, str], tmp_path: Path
) -> None:
    said = livedbg(*words, env={**home, variable: "/dev/null"})
    assert said.code == 3 and "/dev/null/livedbg" in said.err and f"export {variable}=" in said.err
    assert not list(tmp_path.rglob("*.log"))


def test_a_demo_without_a_compiler_says_what_to_install(home: dict[str, str], tmp_path: Path) -> None:
    said = livedbg("demo", "deadlock", env={**home, "PATH": str(tmp_path)})
    assert said.code == 3 and "apt-get install g++" in said.err


def test_demos_can_be_compiled_at_the_same_time(home: dict[str, str], tmp_path: Path) -> None:
    program = "from livedbg.demos.workloads import _compiled; print(_compiled('deadlock'))"
    compilers = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, **home},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    said = {child.communicate(timeout=250)[0] for child in compilers}
    assert len(said) == 1 and Path(said.pop().decode().strip()).exists()
    left = {path.suffix: path for path in (tmp_path / "cache" / "livedbg" / "demos").iterdir()}
    assert left.keys() == {"", ".cpp"} and b"std::mutex" in left[".cpp"].read_bytes()  # its screens show the source
