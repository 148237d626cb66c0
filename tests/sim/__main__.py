"""`make sim-check`: runs of the real simulator of `simpler`, hung, crashed and healthy: live, and from their logs.

Each run is looked at while it lives (`report PID --logs FILE`), then ended, and its log is read without it. What is
true of the run must be said both times, of the same task.

SIMPLER is a checkout or a git URL of simpler, PTO_ISA the same of pto-isa (with the commit in simpler's pto_isa.pin).
Both are cloned to SIM_DIR (build/sim) and built there, for two minutes on two cores. LIVEDBG_SIMPLER names a Python
that has a built simpler instead (tests/adapters/ascend/live/test_simulator.py takes it too). Needs torch and g++.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = ROOT / "tests" / "targets" / "simpler" / "run.py"
STARTS_S: Final = 300.0  # the kernels are compiled first
HANGS_S: Final = 14.0  # more than a run may stand still before that is long
PACKAGES: Final = ("nanobind", "cloudpickle", "psutil", "cmake", "ninja")
SKIPPED: Final = 77
T: Final = "task:ascend/"


class Case(NamedTuple):
    """A run, and what is true of it.

    Attributes:
        scenario: of tests/targets/simpler/run.py.
        live, dead: states of the verdict, one of which is right: while it lives, and from its log alone.
        root: the task that holds it up; "" for none.
        words: what must be said at both times.
        rounds: how often it runs its graph.
        limit_ms: of the scheduler's watchdog.
        dies: it ends by itself, and nothing is looked at before.
        environment: more of it.
    """

    scenario: str
    live: tuple[str, ...]
    dead: tuple[str, ...]
    root: str = ""
    words: tuple[str, ...] = ()
    rounds: int = 1
    limit_ms: int = 600_000
    dies: bool = False
    environment: Mapping[str, str] = {}


RING: Final = {"MANY": "40", "PTO2_RING_TASK_WINDOW": "16"}
OPEN: Final = ("unknown", "stalled")  # a log that ends with a running task: hung, or killed
ROUNDS: Final = 150  # in run 202 the simulator of August 2026 hangs: a core has finished, and is not collected
CASES: Final = (
    Case("hang", ("unknown",), OPEN, "r1t2", ("r1t2", "core")),
    Case("hang", ("stalled",), ("stalled",), "r1t2", ("r1t2",), limit_ms=4_000),
    Case("async", ("unknown",), OPEN, "r0t0", ("r0t0",)),
    Case("tensor_wait", ("unknown", "stalled"), OPEN, "r0t0", ("r0t0",)),
    Case("many", ("stalled", "unknown"), ("stalled",), "", ("r1t0",), environment={**RING, "SCOPED": "each"}),
    Case("many_healthy", (), ("deadlock",), "", ("scope",), dies=True, environment={**RING, "SCOPED": "one"}),
    Case("crash", (), ("crashed",), "", ("SIGSEGV",), dies=True),
    Case("assert", (), ("crashed",), "", ("rows come in sevens",), dies=True),
    Case("healthy", ("running",), ("exited",), rounds=ROUNDS),
    Case("slow", ("running",), ("exited",), rounds=5),
    Case("many_healthy", ("running",), ("exited",), rounds=ROUNDS),
)


def main() -> int:
    """Run the cases whose scenarios are named, or all."""
    with tempfile.TemporaryDirectory() as name:
        python = os.environ.get("LIVEDBG_SIMPLER") or _built()
        if python is None:
            print("SIMPLER and PTO_ISA name no source of the simulator, and LIVEDBG_SIMPLER no Python that has one")
            return SKIPPED
        wanted = sys.argv[1:]
        cases = [case for case in CASES if not wanted or case.scenario in wanted]
        wrong = sum(_check(case, python, Path(name) / str(number)) for number, case in enumerate(cases))
    print(f"{len(cases) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


# building


def _built() -> str | None:
    """A Python that can import the simulator, which is built where that has not been done."""
    sources = os.environ.get("SIMPLER"), os.environ.get("PTO_ISA")
    if not all(sources) or find_spec("torch") is None:
        return None
    place = Path(os.environ.get("SIM_DIR") or ROOT / "build" / "sim").absolute()
    python = place / "python"
    if not python.exists():
        place.mkdir(parents=True, exist_ok=True)
        _build(place, *map(str, sources))
        python.write_text(f'#!/bin/sh\n{_exports(place)}\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
    return str(python)


def _exports(place: Path) -> str:
    simpler = place / "simpler"
    return (
        f'export PATH="{place / "bin"}:{place / "site" / "bin"}:$PATH" '
        f'PYTHONPATH="{simpler}:{simpler / "python"}:{place / "site"}"'
    )


def _build(place: Path, simpler: str, pto_isa: str) -> None:
    """Clone and build what a2a3sim needs with its ring buffer runtime: host, AICPU and AICore parts, the binding."""
    tree, tools = place / "simpler", place / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("g++", "gcc"):
        found, link = shutil.which(name), tools / f"{name}-15"  # the names that simpler asks for
        if found is not None and not link.exists():
            link.symlink_to(found)
    _run("pip", f'"{sys.executable}" -m pip install -q --target "{place / "site"}" {" ".join(PACKAGES)}', place)
    _run("clone", f'[ -d "{tree}" ] || git clone -q "{simpler}" "{tree}"', place)
    isa = tree / "build" / "pto-isa"
    pin = f'git -C "{isa}" checkout -q "$(cat "{tree / "pto_isa.pin"}")"'
    _run("clone", f'[ -d "{isa}" ] || (git clone -q "{pto_isa}" "{isa}" && {pin})', place)
    other = tree / "src" / "a2a3" / "runtime" / "host_build_graph"
    if other.exists():
        shutil.move(other, place / "host_build_graph")
    _run("runtimes", f'"{sys.executable}" -m simpler_setup.build_runtimes --platforms a2a3sim', place, tree)
    flags = "-G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DCMAKE_CXX_COMPILER=g++"
    nanobind = f'$("{sys.executable}" -m nanobind --cmake_dir)'
    where = f'-DPython_EXECUTABLE="{sys.executable}" -Dnanobind_DIR="{nanobind}"'
    bind = place / "bind"
    _run("binding", f'cmake -S . -B "{bind}" {flags} {where} && ninja -C "{bind}" _task_interface', place, tree)


def _run(name: str, command: str, place: Path, folder: Path | None = None) -> None:
    """One step, with its output in a file."""
    print(f"{name} …", flush=True)
    with (place / "build.log").open("a") as log:
        script = f"set -e\n{_exports(place)}\n{command}\n"
        subprocess.run(["bash", "-c", script], cwd=folder or place, stdout=log, stderr=log, check=True)


# checking


def _check(case: Case, python: str, folder: Path) -> bool:
    """Run a case; True if something wrong was said of it."""
    folder.mkdir()
    log = folder / "err.txt"
    said: dict[str, dict[str, Any]] = {}
    limit = {"SIMPLER_SCHEDULER_TIMEOUT_MS": str(case.limit_ms)}
    with log.open("wb") as errors, (folder / "out.txt").open("wb") as output:
        argv = [python, str(PROGRAM), case.scenario, "ringbuffer", str(case.rounds)]
        environment = {**os.environ, **limit, **case.environment}
        process = subprocess.Popen(argv, stdout=output, stderr=errors, env=environment, start_new_session=True)
    try:
        _wait(lambda: b"READY" in (folder / "out.txt").read_bytes() or process.poll() is not None)
        if case.dies:
            _wait(lambda: process.poll() is not None)
        else:
            time.sleep(HANGS_S if case.root else 2.0)
            said["live"] = _report(str(process.pid), "--logs", str(log))
        if case.dead == ("exited",):
            _wait(lambda: process.poll() is not None)
    finally:
        process.kill()
        process.wait()
    if process.returncode < 0 and case.dies:
        with log.open("a") as errors:  # as a shell that waits for it says
            errors.write(f"rc={process.returncode}\n")
    said["dead"] = _report("--logs", str(log))
    wrong = [problem for when, report in said.items() for problem in _problems(case, when, report)]
    name = f"{case.scenario} {case.limit_ms // 1000} s"
    print(f"{name:18} {'WRONG' if wrong else 'right'}", flush=True)
    for when, report in said.items():
        print(f"    {when}: {report['verdict']['state']}: {report['verdict']['sentence']}", flush=True)
    for problem in wrong:
        print(f"    {problem}")
    return bool(wrong)


def _problems(case: Case, when: str, report: Mapping[str, Any]) -> list[str]:
    verdict = report["verdict"]
    states = case.live if when == "live" else case.dead
    found = [] if verdict["state"] in states else [f"{when}: not {' or '.join(states)}"]
    names = [root for root in verdict["roots"] if root.startswith(T)]
    if case.root and names != [f"{T}{case.root}"]:
        found.append(f"{when}: the task is {case.root}, not {names}")
    jobs = {name.removeprefix(T).rpartition("/")[0] for name in report["entities"] if name.startswith(T)}
    if len(jobs) > 1:
        found.append(f"{when}: the tasks of one run are shown as those of {len(jobs)}")
    said = json.dumps([verdict["sentence"], *(finding["sentence"] for finding in report["findings"])])
    return found + [f"{when}: {word!r} is not said" for word in case.words if word not in said]


def _report(*words: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "livedbg", "report", "--json", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=STARTS_S, check=False)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _wait(true: Callable[[], bool]) -> None:
    end = time.monotonic() + STARTS_S
    while not true() and time.monotonic() < end:
        time.sleep(0.2)


if __name__ == "__main__":
    raise SystemExit(main())
