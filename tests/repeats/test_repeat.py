"""`livedbg launch --repeat` with real programs that crash, move, throw, hang, and are well."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from livedbg.recording.file import RecordingReader
from tests.cli.conftest import Said, livedbg, longer
from tests.cli.zygote import Livedbg
from tests.conftest import eventually
from tests.waiting import until


@pytest.fixture
def program(build_target: Callable[..., Path]) -> Path:
    """A program that fails as it is told."""
    return build_target("repeated")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with folders of its own."""
    return {name: str(tmp_path / name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}


def answered(said: Said) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(said.out)
    assert answer["schema"] == "livedbg.repeat/1"
    return answer


def test_it_crashes_at_the_same_point_each_time(program: Path, home: dict[str, str]) -> None:
    words = ("launch", "--repeat", 3, "--parallel", 3, "--json", "--", program, "segv", 3)
    said = livedbg(*words, env=home)
    answer = answered(said)
    assert said.code == 11 and answer["comparison"]["crashes"] == "same"
    assert {run["marker"] for run in answer["runs"]} == {"launch step_3"}
    assert [(run["how"], run["signal"]) for run in answer["runs"]] == [("signal", "SIGSEGV")] * 3
    assert said.err.count("SIGSEGV after `launch step_3`") == 3  # progress
    for run in answer["runs"]:
        assert "launch step_3" in (Path(run["folder"]) / "stdout.log").read_text()
        reader = RecordingReader(Path(run["recording"]))
        assert list(reader.events()) and reader.incomplete == ""
        reader.close()


def test_it_moves_and_each_run_has_a_device_of_its_own(program: Path, home: dict[str, str]) -> None:
    """The program fails at the step of the device that it may see."""
    words = ("launch", "--repeat", 4, "--gpus", "1-2,4", "--json", "--", program, "segv")
    said = livedbg(*words, env=home | {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4"})
    answer = answered(said)
    assert said.code == 11 and answer["comparison"]["crashes"] == "moves"
    assert "a race or memory corruption is likely" in answer["comparison"]["sentences"][0]
    assert {run["device"] for run in answer["runs"]} == {"1", "2", "4"}
    assert all(run["marker"] == f"launch step_{run['device']}" for run in answer["runs"])
    assert "on device 4: SIGSEGV after " in said.err


def test_an_exception_is_named_with_its_stack_by_a_catchpoint(program: Path, home: dict[str, str]) -> None:
    said = livedbg("launch", "--repeat", 2, "--catch", "any", "--json", "--", program, "throw", 1, env=home)
    answer = answered(said)
    assert said.code == 11 and answer["comparison"]["crashes"] == "same"
    for run in answer["runs"]:
        assert (run["signal"], run["exception"], run["message"]) == ("SIGABRT", "std::runtime_error", "step is bad")
        assert run["stack"][0].startswith("fail") and "repeated.cpp" in run["stack"][0]


def test_a_python_exception_is_read_from_what_the_program_printed(home: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import random\ndef work():\n    raise ValueError(f'bad {random.random()}')\nwork()\n")
    said = livedbg("launch", "--repeat", 2, "--json", "--", sys.executable, script, env=home)
    answer = answered(said)
    assert said.code == 11 and answer["comparison"]["crashes"] == "same"
    assert [(run["code"], run["exception"]) for run in answer["runs"]] == [(1, "ValueError")] * 2
    assert answer["runs"][0]["stack"] == ["work at train.py:3", "<module> at train.py:4"]


def test_a_python_that_dies_loses_no_marker(home: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os\nfor step in range(9):\n    print(f'Running {step}...')\n    if step == 4: os.abort()\n"
        "    print(f'Finished {step}')\n"
    )
    said = livedbg("launch", "--repeat", 2, "--parallel", 2, "--", sys.executable, script, env=home)
    assert said.code == 11 and "2 of 2 runs crashed, after `Running 4...`: the same place each time." in said.out


@pytest.fixture
def sanitized(build_target: Callable[..., Path]) -> Path:
    """A program with mistakes, built with gcc's sanitizers."""
    return build_target("sanitized", "-fsanitize=address,undefined")


def test_runs_that_asan_ended_are_grouped_by_what_it_found_and_where(sanitized: Path, home: dict[str, str]) -> None:
    """Their markers differ, and their signal tells nothing."""
    words = ("launch", "--repeat", 2, "--gpus", "1-2", "--json", "--", sanitized, "freed")
    said = livedbg(*words, env=home | {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"})
    answer = answered(said)
    assert said.code == 11 and answer["comparison"]["crashes"] == "same"
    (group,) = answer["comparison"]["groups"]
    assert group["ending"] == "SIGABRT, AddressSanitizer: heap-use-after-free" and group["runs"] == [1, 2]
    assert group["place"].startswith("Step::use() const at sanitized.cpp:")
    assert {run["marker"] for run in answer["runs"]} == {"Running step_1...", "Running step_2..."}
    assert all("freed in freed at sanitized.cpp:" in run["message"] for run in answer["runs"])
    assert all("main at sanitized.cpp:" in run["stack"][-1] for run in answer["runs"])


def test_the_table_says_what_asan_found_at_several_places(sanitized: Path, home: dict[str, str]) -> None:
    words = ("launch", "--repeat", 2, "--gpus", "1-2", "--parallel", 2, "--", sanitized, "device")
    said = livedbg(*words, env=home | {"ASAN_OPTIONS": "detect_leaks=0"})
    assert said.code == 11 and "the sanitizer's reports name the error at each" in " ".join(said.out.split())
    assert "   1  exit code 1, AddressSanitizer: heap-buffer-overflow  beyond at sanitized.cpp:" in said.out
    assert "   1  exit code 1, AddressSanitizer: heap-use-after-free   Step::use() const at" in said.out
    assert "--recipe" not in said.out


def test_a_run_that_ends_well_with_undefined_behaviour_says_so(sanitized: Path, home: dict[str, str]) -> None:
    words = ("launch", "--repeat", 1, "--json", "--", sanitized, "undefined")
    said = livedbg(*words, env=home | {"ASAN_OPTIONS": "detect_leaks=0"})
    answer = answered(said)
    assert said.code == 0 and "A sanitizer reported errors in 1 run" in answer["comparison"]["sentences"][1]
    (run,) = answer["runs"]
    assert (run["how"], run["exception"]) == ("well", "UndefinedBehaviorSanitizer: signed integer overflow")
    assert run["stack"][0].startswith("sanitized.cpp:")


def test_a_run_that_hangs_is_ended_at_its_time(program: Path, home: dict[str, str]) -> None:
    def hangs(limit_s: float) -> bool:
        words = ("launch", "--repeat", 2, "--parallel", 2, "--timeout", limit_s, "--json", "--", program, "hang", 2)
        said = livedbg(*words, env=home)
        answer = answered(said)
        assert said.code == 10 and answer["comparison"]["crashes"] == "well"
        assert [(run["how"], run["code"]) for run in answer["runs"]] == [("hung", None)] * 2
        return (
            answer["comparison"]["hangs"] == "same"
            and [run["marker"] for run in answer["runs"]] == ["launch step_2"] * 2
        )

    longer(2, hangs)


def test_all_is_well_and_devices_and_recipes_are_given(program: Path, home: dict[str, str]) -> None:
    words = (
        "launch",
        "--repeat",
        2,
        "--gpus",
        "7",
        "--parallel",
        2,
        "--recipe",
        "nvfuser-trace",
        "--json",
        "--",
        program,
    )
    said = livedbg(*words, env=home)
    answer = answered(said)
    assert said.code == 0 and answer["comparison"]["sentences"] == ["All 2 runs succeeded."]
    assert {run["last_line"] for run in answer["runs"]} == {"devices 7 set"}
    for run in (1, 2):
        assert f"run {run}: recipe nvfuser-trace had no visible effect" in said.err
        assert f"/run-00{run}/nvfuser-trace.json" in said.err


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_what_there_is_is_said_when_it_is_interrupted(
    program: Path, home: dict[str, str], sent: signal.Signals, tmp_path: Path
) -> None:
    program = Path(shutil.copy(program, tmp_path / "of_this_test_alone"))
    words = ["launch", "--repeat", "50", "--parallel", "2", "--", str(program), "hang", "2"]
    with Livedbg(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **home},
        text=True,
    ) as asked:

        def outputs() -> list[Path]:
            found = Path(home["XDG_STATE_HOME"]).glob("livedbg/launches/*/run-*/stdout.log")
            return [path for path in found if "launch step_2" in path.read_text()]

        until(lambda: len(outputs()) == 2, of=(asked.pid,))
        asked.send_signal(sent)
        out, err = asked.communicate(timeout=100)
    assert asked.returncode == 128 + sent and "Traceback" not in err
    assert "2 runs were interrupted" in out and "each run's output and recording" in err
    look = ["pgrep", "-f", f"{program} hang 2"]
    eventually(lambda: subprocess.run(look, capture_output=True, text=True, check=False).stdout == "")


def test_what_can_not_be_is_said(program: Path, home: dict[str, str]) -> None:
    for words, text in (
        (("--repeat", 2, "--", "/no/such/program"), "can't be run"),
        (("--repeat", 2, "--gpus", "x", "--", program), "--gpus"),
        (("--gpus", "0", "--", program), "need --repeat"),
        (("--repeat", 2, "--gpus", "0-1", "--", program), "CUDA_VISIBLE_DEVICES=7 lists 1 device"),
        (("--repeat", 2, "--recipe", "none", "--", program), "There is no recipe"),
    ):
        said = livedbg("launch", *words, env=home | {"CUDA_VISIBLE_DEVICES": "7"})
        assert said.code == 2 and text in said.err
    launches = Path(home["XDG_STATE_HOME"]) / "livedbg" / "launches"
    assert not launches.exists() or not any(launches.iterdir())
