"""What a wheel, a source distribution and an editable install put on a machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import NOT_ISOLATED, pip

pytestmark = pytest.mark.timeout(900)
"""Of several workers one builds; the others wait for it."""

ROOT = Path(__file__).parents[2]
PACKAGES = ("adapters", "panels", "themes")


@pytest.fixture(scope="session")
def tree(shared: Path) -> Path:
    """The files of the project that git knows or would know, with their links as links.

    One copy for all workers, which don't build in it: setuptools leaves files where it builds.
    """
    copy = shared / "source" / "livedbg"
    with (shared / "source.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not copy.exists():
            _copy_to(shared / "source.new" / "livedbg")
            (shared / "source.new").rename(shared / "source")
    return copy


def _copy_to(copy: Path) -> None:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source = ROOT / name
        if not name or name.startswith("tests/") or not (source.exists() or source.is_symlink()):
            continue
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            (copy / name).symlink_to(source.readlink())
        else:
            (copy / name).write_bytes(source.read_bytes())


@pytest.fixture(scope="session")
def wheel(tree: Path, shared: Path) -> Path:
    """The wheel of the tree, built once for all workers."""
    folder = shared / "wheel"
    with (shared / "wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            source = shutil.copytree(tree, shared / "wheel.source", symlinks=True)
            pip("wheel", "--no-deps", "-w", shared / "wheel.new", source)
            (shared / "wheel.new").rename(folder)
    (found,) = folder.iterdir()
    return found


def wanted_files(tree: Path) -> set[str]:
    """Every source and data file of the packages, as they are called once installed."""
    found = set()
    for top, prefix in (("livedbg", ""), *((name, "livedbg/") for name in PACKAGES)):
        for path in (tree / top).rglob("*"):
            inside = path.relative_to(tree)
            linked = top == "livedbg" and len(inside.parts) > 1 and inside.parts[1] in PACKAGES
            if path.is_file() and "__pycache__" not in path.parts and not linked:
                found.add(prefix + str(inside))
    return found


def test_a_wheel_holds_livedbg_and_nothing_else_at_the_top(tree: Path, wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    assert {name.partition("/")[0] for name in names} == {"livedbg", *info} and len(info) == 1
    assert {name for name in names if name.startswith("livedbg/")} == wanted_files(tree)
    assert any(name.endswith("licenses/LICENSE") or name.endswith("LICENSE") for name in names)


def test_an_installed_wheel_runs_outside_of_the_project(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip("install", "--no-deps", "--target", site, wheel)
    assert {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")} == {"livedbg", "bin"}
    program = (
        "import livedbg, livedbg.adapters.proc, livedbg.panels, livedbg.themes, livedbg.session.registry, sys\n"
        "assert livedbg.__file__.startswith(sys.path[0]), livedbg.__file__\n"
        "from livedbg.cli import main\nsys.exit(main(['demo', 'pipeline']))"
    )
    env = {**os.environ, "PYTHONPATH": str(site), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{program}"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0 and "DEADLOCK" in done.stdout, done.stdout + done.stderr


@pytest.mark.heavy
def test_a_source_distribution_builds_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    source = shutil.copytree(tree, tmp_path / "source", symlinks=True)
    program = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=source, capture_output=True, timeout=400, check=True
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        tops = {name.partition("/")[0] for name in opened.getnames()}
    assert len(tops) == 1
    pip("wheel", NOT_ISOLATED, "--no-deps", "-w", tmp_path / "again", archive)
    (again,) = (tmp_path / "again").iterdir()
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


@pytest.mark.heavy
def test_an_editable_install_gives_the_same_names(tree: Path, tmp_path: Path) -> None:
    source = shutil.copytree(tree, tmp_path / "source", symlinks=True)
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=400)
    python = venv / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "-q", "install", "--no-deps", "-e", str(source)],
        check=True,
        timeout=400,
        capture_output=True,
    )
    program = (
        "import livedbg.adapters, livedbg.panels, livedbg.themes, importlib.util as u\n"
        "print(livedbg.__file__, [n for n in ('adapters', 'panels', 'themes', 'tests') if u.find_spec(n)])"
    )
    said = subprocess.check_output([str(python), "-I", "-c", program], cwd=tmp_path, text=True, timeout=400)
    assert said.split(" ", 1) == [str(source / "livedbg" / "__init__.py"), "[]\n"]


def test_the_app_imports_no_torch() -> None:
    program = (
        "import sys, livedbg.app.application, livedbg.session.registry\n"
        "print([m for m in ('torch', 'numpy') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], timeout=400) == b"[]\n"


def test_torch_is_an_extra_and_never_a_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any(name.startswith("torch") for name in project["dependencies"])
    assert any(name.startswith("torch") for name in project["optional-dependencies"]["torch"])
