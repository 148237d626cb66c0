"""Systems of other packages: the one of docs/writing-a-system.md, and one that can't be imported."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.session.systems import System
from tests.app.terminal import Terminal
from tests.cli.zygote import patient
from tests.conftest import Target
from tests.packaging.conftest import NOT_ISOLATED, pip

pytestmark = pytest.mark.timeout(900)

GUIDE = Path(__file__).parents[2] / "docs" / "writing-a-system.md"
_FILE = re.compile(r"^## \d\. `([^`]+)`.*?^```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)

BROKEN = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "livedbg-broken"
version = "1.0"
[project.entry-points."livedbg.systems"]
broken = "livedbg_broken:SYSTEM"
half = "livedbg_half:SYSTEM"
[tool.setuptools]
py-modules = ["livedbg_broken", "livedbg_half"]
""",
    "livedbg_broken.py": "import a_module_that_nobody_has\n",
    "livedbg_half.py": """
from livedbg.session.systems import Lazy, System
SYSTEM = System(name="half", title="Half", adapters={"half": Lazy("livedbg_half:Missing")}, rules=Lazy("nowhere:rules"))
""",
}
LOG = """turbine: submit 1 kernel=load
turbine: submit 2 kernel=gemm after=1
turbine: start 1 on=queue0
turbine: failed 1 E42 out of slots
"""
MAPS = "import mmap, sys\nfile = open(sys.argv[1], 'rb')\nmapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
WORKER = "import sys, time\nsys.stdout.write('READY\\n')\nsys.stdout.flush()\ntime.sleep(1000)\n"


def guide_files() -> dict[str, str]:
    """The files of the guide, by name."""
    return dict(_FILE.findall(GUIDE.read_text()))


@pytest.fixture(scope="session")
def site(shared: Path) -> Path:
    """A folder with both packages installed, made once for all workers."""
    folder = shared / "plugins"
    with (shared / "plugins.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            for name, files in (("good", guide_files()), ("bad", BROKEN)):
                for path, text in files.items():
                    file = shared / "plugins.source" / name / path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text)
                pip(
                    "install",
                    NOT_ISOLATED,
                    "--no-deps",
                    "--no-index",
                    "--target",
                    shared / "plugins.new",
                    shared / "plugins.source" / name,
                )
            (shared / "plugins.new").rename(folder)
    return folder


def livedbg(site: Path, *words: str | Path | int) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "livedbg", *patient(map(str, words))],
        env={**os.environ, "PYTHONPATH": str(site)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def worker(tmp_path: Path, spawn: Callable[..., Target]) -> Target:
    """A process that a sign of Turbine shows: it has a file of that name mapped."""
    library = tmp_path / "libturbine.so"
    library.write_bytes(b"x" * 4096)
    program = MAPS + WORKER
    return spawn([sys.executable, "-c", program, library])


def test_the_guide_has_the_whole_package_and_is_short() -> None:
    files = guide_files()
    assert set(files) == {
        "pyproject.toml",
        "livedbg_turbine/system.py",
        "livedbg_turbine/jobs.py",
        "livedbg_turbine/turbine-slots.toml",
        "livedbg_turbine/signatures/turbine.toml",
    }
    assert sum(text.count("\n") for text in files.values()) < 200


def test_the_guide_names_every_field_of_a_system() -> None:
    table = GUIDE.read_text().partition("## Everything that a system can declare")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", "".join(rows))) == sorted(System.__struct_fields__)


def test_a_failure_text_of_the_new_system_is_found(site: Path, tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text("turbine: lost worker w3\n")
    done = livedbg(site, "report", "--logs", tmp_path)
    assert done.returncode == 11 and "Turbine lost worker w3." in done.stdout


def test_a_report_has_the_tasks_and_findings_of_the_new_system(site: Path, tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text(LOG)
    (tmp_path / "jobs.turbine").write_text("turbine: submit 9 kernel=none\n")  # no log, by its suffix
    done = livedbg(site, "report", "--logs", tmp_path, "--json")
    found = json.loads(done.stdout)
    assert found["entities"]["task:turbine/1"]["state"] == "failed"
    assert (found["verdict"]["state"], done.returncode) == ("unknown", 5)  # its own alarm stands
    assert "task:turbine/9" not in done.stdout
    rules = {finding["rule"] for finding in found["findings"]}
    assert "turbine-slots" in rules
    (slots,) = [finding for finding in found["findings"] if finding["rule"] == "turbine-slots"]
    assert slots["entities"] == ["task:turbine/1"]


@pytest.mark.invariant("systems.Y2")
def test_a_broken_system_is_a_warning_with_its_name_and_ends_no_report(
    site: Path, tmp_path: Path, worker: Target
) -> None:
    done = livedbg(site, "report", worker.pid, "--json", "--timeout", 90)
    found = json.loads(done.stdout)
    assert found["verdict"]["state"] in ("running", "unknown")
    words = json.dumps(found)
    assert "System broken of package livedbg-broken is left out" in words
    assert "System half can't be used completely" in words and "pip install --upgrade livedbg-broken" in words


def test_ps_names_it(site: Path, worker: Target) -> None:
    found = [json.loads(line) for line in livedbg(site, "ps", "--json").stdout.splitlines()]
    (mine,) = [one for one in found if one["pid"] == worker.pid]
    assert mine["uses"] == ["turbine"]


def test_doctor_names_the_broken_ones_with_a_remedy(site: Path) -> None:
    done = livedbg(site, "doctor")
    assert done.returncode == 0
    assert "broken" in done.stdout and "a_module_that_nobody_has" in done.stdout
    assert "pip install --upgrade livedbg-broken" in done.stdout


def test_its_recipe_is_listed_and_fits_its_process(site: Path, worker: Target) -> None:
    assert "turbine-slots" in livedbg(site, "recipes").stdout
    fitting = livedbg(site, "recipes", "--for", f"turbine-run:{worker.pid}").stdout  # its launcher is a form of target
    assert "turbine-slots: Do the jobs fail" in fitting and "asan-gcc: " in fitting
    assert "Turbine's allocator hides overflows" in " ".join(livedbg(site, "recipes", "asan-gcc").stdout.split())


def test_its_examples_and_launcher_are_in_the_help(site: Path) -> None:
    said = livedbg(site, "report", "--help").stdout
    assert "livedbg report --logs ./turbine" in said and "turbine-run:PID" in said


def test_attach_shows_its_tasks(site: Path, tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text(LOG)
    program = "import sys\nfrom livedbg.cli import main\nsys.exit(main(['attach', '--logs', sys.argv[1]]))"
    env = {"PYTHONPATH": f"{site}:{Path(__file__).parents[2]}"}
    with Terminal(str(tmp_path), size=(120, 30), env=env, program=program) as terminal:
        terminal.until(b"gemm")
        terminal.type(b"q")
        terminal.wait()
    assert terminal.process.returncode == 0
