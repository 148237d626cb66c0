"""Recipes for Ascend: what they pass to which version, what they make, and a search for a commit, for real."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from livedbg.recipes import Ended, Plan, plan, recipes, without_effect
from livedbg.recipes.plan import folders_above
from livedbg.recipes.watching import summaries
from tests.cli.conftest import livedbg


def planned(name: str, option: str, argv: list[str], folder: Path) -> Plan:
    known, _ = recipes()
    return plan([(known[name], option)], folder, {}, argv)


def script(folder: Path, text: str) -> list[str]:
    path = folder / "case.py"
    path.write_text(text)
    return ["python", str(path)]


def test_the_log_s_folder_is_made_before_the_command_starts(tmp_path: Path) -> None:
    home = {**os.environ, **{name: str(tmp_path / name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}}
    look = "import os; print('there' if os.path.isdir(os.environ['ASCEND_PROCESS_LOG_PATH']) else 'missing')"
    done = livedbg("launch", "--recipe", "ascend-log", "--headless", "--", sys.executable, "-c", look, env=home)
    assert "there" in done.out, done.err


def test_a_program_of_before_june_2026_gets_the_older_flag(tmp_path: Path) -> None:
    old = script(tmp_path, "parser.add_argument('--dump-tensor', type=int)\npl.dump_tag(x)\n")
    made = planned("ascend-dump-args", "1", old, tmp_path)
    assert made.arguments == ("--dump-tensor", "1")
    assert any("--dump-tensor 1 is passed" in note for note in made.notes)
    new = script(tmp_path, 'parser.add_argument("--dump-args", type=int)  # was "--dump-tensor"\npl.dump_tag(x)\n')
    assert planned("ascend-dump-args", "1", new, tmp_path).arguments == ("--dump-args", "1")


def test_the_flag_of_the_harness_above_the_script_counts(tmp_path: Path) -> None:
    cases = tmp_path / "tests" / "st"
    cases.mkdir(parents=True)
    (tmp_path / "conftest.py").write_text('parser.addoption("--dump-tensor", type=int)\n')
    argv = script(cases, "pl.dump_tag(x)\n")
    assert planned("ascend-dump-args", "2", argv, tmp_path).arguments == ("--dump-tensor", "2")


def test_a_partial_dump_of_a_script_that_marks_nothing_is_told(tmp_path: Path) -> None:
    bare = script(tmp_path, "run(fn)\n")
    assert any("marks no tensor" in note for note in planned("ascend-dump-args", "1", bare, tmp_path).notes)
    assert not planned("ascend-dump-args", "2", bare, tmp_path).notes
    for marks in ("pl.dump_tag(h)\n", "with pl.at(0, dumps=[h]):\n    pass\n"):
        assert not planned("ascend-dump-args", "1", script(tmp_path, marks), tmp_path).notes
    assert not planned("ascend-dump-args", "1", ["./binary"], tmp_path / "nowhere").notes


def test_a_script_that_takes_its_level_from_a_flag_is_given_it(tmp_path: Path) -> None:
    (tmp_path / "simpler_setup").mkdir()
    harness = tmp_path / "simpler_setup" / "scene_test.py"
    harness.write_text('def run_module(name):\n    """SceneTestCase.run_module(__name__)"""\n    add("--log-level")\n')
    scene = "if __name__ == '__main__':\n    SceneTestCase.run_module(__name__)\n"
    flagged = "parser.add_argument('--log-level')\nrun(fn, runtime_cfg=dict(log_level=args.log_level))\n"
    for text in (scene, flagged):
        assert planned("ascend-log", "", script(tmp_path, text), tmp_path).arguments == ("--log-level", "debug")
    for text in ("worker.run(handle)\n", "parser.add_argument('--log-level', choices=['INFO', 'DEBUG'])\n"):
        assert planned("ascend-log", "", script(tmp_path, text), tmp_path).arguments == ()
    harness.write_text("def run_module(name):\n    ...\n")  # of before April 2026
    assert planned("ascend-log", "", script(tmp_path, scene), tmp_path).arguments == ()


def test_what_simpler_writes_beside_its_own_package_is_found(tmp_path: Path) -> None:
    cases, elsewhere = tmp_path / "checkout" / "examples" / "add", tmp_path / "elsewhere"
    cases.mkdir(parents=True)
    elsewhere.mkdir()
    argv = script(cases, "")
    made = planned("ascend-deps", "enable-dep-gen", argv, elsewhere)
    ended = Ended((), folder=elsewhere, began_s=time.time(), above=folders_above(argv, elsewhere))
    (said,) = without_effect(made.parts, ended)
    assert "no file outputs/**/deps.json" in said and not list(summaries(made.parts, "python", ended=ended))
    old = tmp_path / "checkout" / "outputs" / "Add_20260101_000000" / "deps.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    os.utime(old, (1, 1))  # of an earlier run
    assert list(without_effect(made.parts, ended))
    graph = tmp_path / "checkout" / "outputs" / "Add_20261126_142103" / "deps.json"
    graph.parent.mkdir()
    graph.write_text("{}")
    assert not list(without_effect(made.parts, ended))
    (told,) = summaries(made.parts, "python", ended=ended)
    assert told.endswith(f"to open the file: livedbg graph {graph}")


def test_another_platform_takes_the_place_of_the_one_given(tmp_path: Path) -> None:
    text = (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('-p', '--platform', choices=['a2a3', 'a2a3sim'])\nprint(parser.parse_args().platform)\n"
    )
    path = tmp_path / "case.py"
    path.write_text(text)
    made = planned("ascend-platform", "a2a3sim", [sys.executable, str(path), "-p", "a2a3"], tmp_path)
    done = subprocess.run(
        [sys.executable, str(path), "-p", "a2a3", *made.arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout == "a2a3sim\n"


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    return subprocess.run(
        ["git", *author, *words], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="searches a git history")
def test_the_commit_that_made_results_wrong_is_found(tmp_path: Path) -> None:
    """A toy compiler: commit 3 does not install, commit 5 is the first with wrong results. Only pip is a stand-in."""
    checkout, cases, tools = (tmp_path / name for name in ("compiler", "cases", "tools"))
    for folder in (checkout, cases, tools):
        folder.mkdir()
    python = tools / "python"
    python.write_text(
        f'#!/bin/sh\nif [ "$1" = -m ] && [ "$2" = pip ]; then exec cp result "{tmp_path}/installed"; fi\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    git(checkout, "init", "-q")
    commits = []
    for number in range(1, 8):
        result = checkout / "result"
        result.write_text("1.0" if number < 5 else "1.5")
        (checkout / "number").write_text(str(number))
        if number == 3:
            result.unlink()
        git(checkout, "add", "-A")
        git(checkout, "commit", "-q", "-m", f"commit {number}")
        commits.append(git(checkout, "rev-parse", "HEAD"))
    (cases / "case.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        f"value = float(Path({str(tmp_path / 'installed')!r}).read_text())\n"
        "assert Path('case.py').is_file()\n"
        "assert value == 1.0, \"Output(s) does not match golden: ['y']\"\n"
    )
    git(checkout, "bisect", "start", commits[-1], commits[0])
    known, _ = recipes()
    made = plan([(known["ascend-bisect"], str(checkout))], tmp_path, {}, [str(python), "case.py"])
    done = subprocess.run(
        [*made.wrapper, str(python), "case.py"],
        cwd=cases,
        env={**os.environ, **made.environment, "LIVEDBG_BISECT_CASE": str(cases)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{commits[4]} is the first bad commit" in done.stdout, done.stdout + done.stderr
