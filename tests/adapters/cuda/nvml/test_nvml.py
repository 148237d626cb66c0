"""GPUs through the real `nvidia-ml-py` and a stand-in for the driver's library, which plays values back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.cuda.nvml import adapter as worker_module
from livedbg.adapters.cuda.nvml.adapter import Worker
from tests.conftest import Target, eventually

LOOK = Path(__file__).with_name("sample_once.py")
GIB = 1 << 30
VALUES = f"""\
count=2
driver=580.65
0.name=NVIDIA H100
0.uuid=GPU-1111
0.bus=00000000:3C:00.0
0.utilization=97 41
0.memory={80 * GIB} {61 * GIB}
0.clock=1980
0.power=412345
0.temperature=66
0.ecc=0
0.rows=1 0 0 0
0.reasons=68
0.processes=PID:{60 * GIB} 1:1
0.busy=PID:96
1.name=NVIDIA H100
1.utilization=0 0
1.processes=
"""


@pytest.fixture(scope="module")
def library(build_target: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stand-in under the real library's name."""
    built = build_target("nvml_stub", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", output="nvml_stub.so")
    folder = tmp_path_factory.mktemp("nvml")
    shutil.copy(built, folder / "libnvidia-ml.so.1")
    return folder


@pytest.fixture
def target(spawn: Callable[..., Target]) -> Target:
    return spawn([sys.executable, "-c", "print('READY', flush=True); input()"])


def environment(library: Path | None, values: Path | None) -> dict[str, str]:
    """Without a library given there is none: this box may have a real one, which is then not found either."""
    found = {**os.environ, "LD_LIBRARY_PATH": str(library or "")}
    if values is not None:
        found["NVML_STUB_FILE"] = str(values)
    return found


def look(library: Path | None, values: str, tmp_path: Path, target: Target, *more: str) -> dict[str, Any]:
    """What one look gives."""
    file = tmp_path / "values"
    file.write_text(values.replace("PID", str(target.pid)))
    done = subprocess.run(
        [sys.executable, LOOK, str(target.pid), "once", *more],
        env=environment(library, file),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_what_one_look_gives(library: Path, tmp_path: Path, target: Target) -> None:
    found = look(library, VALUES, tmp_path, target)
    name, state, facts = found["resources"]["gpu:box/0"]
    assert (name, state) == ("GPU 0 (NVIDIA H100)", "busy")
    assert facts["bus"] == "00000000:3C:00.0" and facts["memory_bytes"] == str(80 * GIB) and facts["driver"] == "580.65"
    assert facts["held_down"] == "power cap, heat (hardware)"
    assert found["resources"]["gpu:box/1"][1] == "idle"
    counters = {name: value for name, (value, _changes) in found["counters"].items()}
    assert counters["gpu:box/0 utilisation_percent"] == 97
    assert counters["gpu:box/0 memory_used_bytes"] == 61 * GIB
    assert counters["gpu:box/0 power_watts"] == 410
    assert counters["gpu:box/0 remapped_rows"] == 1
    assert counters["gpu:box/0 uncorrected_ecc_errors"] == 0
    assert "gpu:box/1 power_watts" not in counters  # not supported there: not told
    assert counters[f"process:box/{target.pid} gpu0_busy_percent"] == 96
    (edge,) = found["edges"]
    assert edge[:3] == ["runs_on", f"process:box/{target.pid}", "gpu:box/0"] and "60.0 GiB" in edge[3]
    assert not [status for status in found["statuses"] if status[0] != "ok"]


def test_older_bindings_give_what_they_have(library: Path, tmp_path: Path, target: Target) -> None:
    found = look(library, VALUES, tmp_path, target, "older-bindings")
    assert found["resources"]["gpu:box/0"][0] == "GPU 0 (NVIDIA H100)"
    assert found["counters"]["gpu:box/0 utilisation_percent"][0] == 97
    assert "gpu:box/0 remapped_rows" not in found["counters"]
    assert not [status for status in found["statuses"] if status[0] != "ok"]


def test_a_process_that_ran_nothing_is_idle_and_not_unknown(library: Path, tmp_path: Path, target: Target) -> None:
    for busy in ("", "!6"):  # nobody listed, NOT_FOUND
        values = VALUES.replace("0.busy=PID:96", f"0.busy={busy}")
        found = look(library, values, tmp_path, target)
        assert found["counters"][f"process:box/{target.pid} gpu0_busy_percent"][0] == 0


def test_where_nvml_does_not_tell_shares_no_process_counts_as_idle(
    library: Path, tmp_path: Path, target: Target
) -> None:
    for busy in ("!3", "!4"):  # not supported, no permission
        found = look(library, VALUES.replace("0.busy=PID:96", f"0.busy={busy}"), tmp_path, target)
        assert found["edges"] and f"process:box/{target.pid} gpu0_busy_percent" not in found["counters"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("init=!9\n", ("no-driver", "driver is not loaded")),
        ("init=!18\n", ("driver-mismatch", "different versions")),
        ("init=!4\n", ("no-permission", "may not be used by this user")),
        ("count=!17\n", ("nvml-failed", "NVML says: ")),
        ("init.sleep=60000\n", ("no-answer", "has not answered for 2 s")),
    ],
)
def test_an_nvml_that_does_not_work_is_told_and_holds_nothing_up(
    library: Path, tmp_path: Path, target: Target, values: str, said: tuple[str, str]
) -> None:
    found = look(library, values, tmp_path, target)
    (status,) = found["statuses"]
    assert status[0] == "degraded" and status[1] == said[0] and said[1] in status[2] and status[3]
    assert not found["resources"]


def test_lost_gpus_through_the_command_line(library: Path, tmp_path: Path, target: Target) -> None:
    file = tmp_path / "values"
    values = VALUES.replace("count=2", "count=3").replace("PID", str(target.pid))
    file.write_text(values.replace("0.busy", "0.busy=!15\n0.ignored") + "1.handle=!15\n")
    log = tmp_path / "job.log"
    log.write_text("step 1\n")  # the target itself maps no library of CUDA
    done = subprocess.run(
        [sys.executable, "-m", "livedbg", "report", "--json", "--timeout", "100", "--logs", log, str(target.pid)],
        env=environment(library, file),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    found = json.loads(done.stdout)
    assert done.returncode == 5 and found["verdict"]["state"] == "unknown"  # the process lives
    said = "does not answer any more: the GPU is lost"
    lost = {finding["entities"][0]: finding for finding in found["findings"] if said in finding["sentence"]}
    one, two = sorted(lost)
    assert (one[-2:], two[-2:]) == ("/0", "/1")
    assert any(entity.endswith(f"/{target.pid}") for entity in lost[one]["entities"])
    assert found["entities"][one]["state"] == "lost" and found["entities"][f"{one[:-1]}2"]["state"] is None


def test_without_a_driver_nothing_is_said_and_nothing_loaded(tmp_path: Path, target: Target) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library")  # the real one, where a box has one, is not found
    found = look(tmp_path, VALUES, tmp_path, target)
    assert not found["statuses"] and not found["resources"] and not found["counters"]
    assert not found["bindings"]


def test_without_the_bindings_only_who_uses_a_gpu_is_told(library: Path, tmp_path: Path, target: Target) -> None:
    found = look(library, VALUES, tmp_path, target, "without-bindings")
    assert not found["statuses"] and not found["resources"]


def test_live_values_follow_and_a_driver_that_hangs_holds_nothing_up(
    library: Path, tmp_path: Path, target: Target
) -> None:
    file = tmp_path / "values"
    values = VALUES.replace("PID", str(target.pid))

    def play(text: str) -> None:
        """Whole at any moment: it is read meanwhile."""
        (tmp_path / "fresh").write_text(text)
        (tmp_path / "fresh").rename(file)

    play(values)
    process = subprocess.Popen(
        [sys.executable, LOOK, str(target.pid), "live"],
        env=environment(library, file),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
    )

    def seen() -> dict[str, Any]:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("?\n")
        process.stdin.flush()
        found = json.loads(process.stdout.readline())
        assert isinstance(found, dict)
        return found

    def utilisation() -> list[float]:
        value = seen()["counters"].get("gpu:box/0 utilisation_percent", [-1, 0])
        assert isinstance(value, list)
        return value

    try:
        eventually(lambda: utilisation() == [97, 0])
        play(values.replace("97 41", "100 0"))
        eventually(lambda: utilisation() == [100, 1])
        play("count.sleep=3600000\n" + values)  # the driver hangs
        eventually(lambda: any(status[1] == "no-answer" for status in seen()["statuses"]))
        assert utilisation() == [100, 1]
        process.communicate("", timeout=100)  # the end does not wait for the driver
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_doctor_says_what_is_there(library: Path, tmp_path: Path) -> None:
    def doctor(**more: str) -> list[str]:
        command = [sys.executable, "-m", "livedbg", "doctor"]
        env = {**os.environ, "CUDA_HOME": str(tmp_path), **more}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=150, check=True)
        return [line for line in done.stdout.splitlines() if "NVML" in line or "CUDA tools" in line]

    for tool in ("compute-sanitizer", "nsys"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / tool).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / tool).chmod(0o755)
    nvml, tools = doctor(LD_LIBRARY_PATH=str(library))
    assert nvml.startswith("ok  NVML") and "nvidia-ml-py" in nvml
    assert f"nsys ({tmp_path}/bin/nsys)" in tools and "compute-sanitizer (" in tools


async def test_a_call_that_computes_has_more_time_than_one_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_MOST", 1000)
    driver_answers = threading.Event()

    def compute() -> str:
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
        return "done"

    worker = Worker("worker")
    try:
        for _ in range(2):  # who has an answer may ask again at once
            assert await worker.ask(compute, 0.05) == "done"
        with pytest.raises(TimeoutError):
            await worker.ask(driver_answers.wait, 0.05)
        with pytest.raises(TimeoutError):  # it still waits for the first answer
            await worker.ask(compute, 60)
        assert worker.busy
    finally:
        driver_answers.set()
        worker.close()


async def test_what_a_call_raises_is_raised() -> None:
    def refuse() -> None:
        raise ValueError("refused")

    worker = Worker("worker")
    try:
        with pytest.raises(ValueError, match="refused"):
            await worker.ask(refuse, 60)
    finally:
        worker.close()
