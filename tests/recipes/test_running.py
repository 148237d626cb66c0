"""What recipes do to real commands: files told of as they come, and why a flag had no effect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.recipes import Ended, Part, Plan, RecipeWatch, plan, recipes, without_effect
from livedbg.recipes.effects import Seen
from livedbg.recipes.model import Effect, Grows
from livedbg.recipes.watching import Growing, bytes_in_use
from tests.cli.conftest import ASCEND, livedbg, longer
from tests.conftest import Target
from tests.recipes.test_recipes import MINE, own

HEAP = "heap profile:      5: {used:9} [     7: 125829176] @ heapprofile\n     4: 1 [ 4: 1] @ 0x55e428149204\n"
DUMPS = f"""
import pathlib, sys, time
for number, used in enumerate((100_000_000, 350_000_000, 360_000_000, 90_000_000), 1):
    path = pathlib.Path(sys.argv[1]) / f"heap.{{number:04}}.heap"
    path.write_text({HEAP!r}.format(used=used))
    time.sleep(0.2)
"""
PLUGIN = 'extern "C" int bad(int n) { int *p = new int[4]; p[n] = 1; int r = p[0]; delete[] p; return r; }\n'


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Folders of its own."""
    return {name: str(tmp_path / name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}


def test_dumps_are_told_of_as_they_come_with_their_growth(home: dict[str, str]) -> None:
    own(
        home,
        "mine",
        MINE
        + 'arguments = ["{folder}"]\n[[effect]]\nfile = "{folder}/heap*.heap"\n'
        + '[[grows]]\nfile = "{folder}/heap*.heap"\nform = "heap"\n'
        + '[[after]]\nfile = "{folder}/heap*.heap"\nform = "heap"\nseveral = true\n'
        + 'command = ["grep", "-H", "-o", "heap profile", "{file}"]\n'
        + 'opens = "google-pprof --base={first} {program} {file}"\n',
    )
    said = livedbg("launch", "--headless", "--recipe", "mine", "--", sys.executable, "-c", DUMPS, env=home)
    assert said.code == 0 and "had no visible effect" not in said.err
    assert re.search(r"mine: heap\.0001\.heap: 95\.4 MiB in use\n", said.err)
    assert "heap.0002.heap: 334 MiB in use, +238 MiB since the last dump, +238 MiB since the first" in said.err
    assert "heap.0004.heap: 85.8 MiB in use, -257 MiB since the last dump, -9.5 MiB since the first" in said.err
    assert re.search(r"    \S+/heap\.0003\.heap:heap profile\n", said.err)  # the one with most in use is summed up
    assert re.search(
        r"to open the file: google-pprof --base=\S+/heap\.0001\.heap \S*python\S* \S+/heap\.0003\.heap", said.err
    )
    (log,) = Path(home["XDG_STATE_HOME"]).glob("livedbg/launches/*/recipes.log")
    assert log.read_text().count(" MiB in use") == 4  # and the Logs screen has them too


@pytest.mark.invariant("watching.E8")
def test_E8_each_file_is_told_of_once_and_bad_ones_by_their_size(tmp_path: Path) -> None:
    (tmp_path / "heap.1.heap").write_bytes(b"\xff\0heap profile: 1: 2 [")
    (tmp_path / "heap.2.heap").write_bytes(b"heap profile: 9999")
    with (tmp_path / "heap.3.heap").open("wb") as file:
        file.truncate(100 << 20)
    (tmp_path / "heap.4.heap").touch()
    said: list[str] = []
    growing = Growing([Part("mine", grows=(Grows(f"{tmp_path}/heap*.heap", "heap"),))], said.append)
    growing.stop()
    assert sorted(line.partition("mine: ")[2] for line in said) == [
        "heap.1.heap, 22 B",
        "heap.2.heap, 18 B",
        "heap.3.heap, 100 MiB",
    ]
    assert bytes_in_use(tmp_path / "none") is None


def test_a_log_that_can_not_be_written_loses_no_word(tmp_path: Path) -> None:
    said: list[str] = []
    plan = Plan(parts=(Part("mine", grows=(Grows(f"{tmp_path}/*.heap"),)),))
    watch = RecipeWatch(plan, tmp_path, ["x"], said.append)
    assert watch.log is not None
    watch.log.unlink()
    watch.log.mkdir()  # as on a disk that is full: it can't be written to
    for name in "ab":
        (tmp_path / f"{name}.heap").write_text("x")
    watch._growing.stop()
    assert [line.partition("mine: ")[2] for line in said] == ["a.heap, 1 B", "b.heap, 1 B"]


def test_gccs_sanitizer_is_preloaded_for_a_plugin(home: dict[str, str], tmp_path: Path) -> None:
    source, library = tmp_path / "plugin.cpp", tmp_path / "plugin.so"
    source.write_text(PLUGIN)
    built = ["g++", "-g", "-fsanitize=address", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(built, check=True, timeout=200)
    words = ("--", sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(library)!r}).bad(5)")
    without = livedbg("launch", "--headless", *words, env=home)
    assert without.code != 0 and "ASan runtime does not come first" in without.err
    own = {"LD_PRELOAD": "libm.so.6"}  # the runtime must come before it
    said = livedbg("launch", "--headless", "--recipe", "asan-gcc", *words, env=home | own)
    assert "ERROR: AddressSanitizer: heap-buffer-overflow" in said.err and "plugin.cpp:1" in said.err
    assert "had no visible effect" not in said.err


@pytest.mark.parametrize(
    ("recipe", "program", "text"),
    [
        (
            "nvfuser-dump=python_definition_segments",
            "import os; print('Parsing DUMP failed. Invalid option: ' + repr(os.environ['NVFUSER_DUMP']))",
            "This nvFuser has no option python_definition_segments",
        ),
        ("ascend-log", "print('[mono_ns=1][T0x7f][TIMING] emit_host_span: x')", "`v0` to `v9` are names from before"),
        (
            "ascend-dump-args=2",
            "import argparse; argparse.ArgumentParser().parse_args()",
            "The program does not accept --dump-args 2: set enable_dump_args",
        ),
    ],
)
def test_why_a_flag_had_no_effect_is_said(recipe: str, program: str, text: str, home: dict[str, str]) -> None:
    said = livedbg("launch", "--headless", "--recipe", recipe, "--", sys.executable, "-c", program, env=home)
    assert f"recipe {recipe} had no visible effect" in said.err and text in said.err


def seen_for(seconds: float, program: str, home: dict[str, str], *around: str) -> str:
    """What is said of a recipe for CUDA and a program that lives on for that long: it is looked at now and then."""
    words = ("launch", "--headless", "--recipe", "cuda-blocking", "--", *around)
    return livedbg(*words, sys.executable, "-c", f"{program}; import time; time.sleep({seconds})", env=home).err


def test_a_library_that_was_not_loaded_is_said(home: dict[str, str]) -> None:
    text = "The CUDA driver (libcuda.so) was not loaded"
    longer(1, lambda seconds: text in seen_for(seconds, "pass", home))


@pytest.mark.invariant("plan.E6")
def test_E6_what_was_made_before_is_said_before_it_starts(home: dict[str, str]) -> None:
    words = ("--recipe", "ascend-dump-args=1", "--", "echo", "--runtime-dir", "/x")
    said = livedbg("launch", "--headless", *words, env=home)
    assert "ascend-dump-args=1 may have no effect: marks" in said.err
    assert said.out == "--runtime-dir /x --dump-args 1\n"


def test_a_folder_is_given_whole_and_must_be_there(home: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    words = ("launch", "--headless", "--recipe")
    said = livedbg(*words, f"ascend-runtime-dir={tmp_path}/build", "--", "echo", "a", env=home)
    assert said.out == f"a --runtime-dir {tmp_path}/build\n"
    for value, text in (("=/no/such", "is not a directory"), ("", "needs an option: ascend-runtime-dir=DIR")):
        refused = livedbg(*words, f"ascend-runtime-dir{value}", "--", "echo", "a", env=home)
        assert refused.code == 2 and text in refused.err


@pytest.mark.invariant("fitting.E9")
def test_recipes_of_a_process_have_the_command_to_run_it_again(
    home: dict[str, str], spawn: Callable[..., Target], tmp_path: Path
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    target = spawn([sys.executable, "-c", "print('READY', flush=True); input()", "it's"], cwd=folder)
    said = livedbg("recipes", target.pid, env=home)
    assert said.code == 0 and "python" in said.err
    assert f"cd '{folder}' && livedbg launch --recipe cpu-profile -- {sys.executable} -c" in said.out
    assert "'it'\"'\"'s'" in said.out and "nvfuser" not in said.out
    assert livedbg("recipes", "--for", target.pid, env=home).out == said.out
    assert livedbg("recipes", "--for", "999999999", env=home).code == 3


@pytest.mark.parametrize(
    ("capture", "text"), [("timeout_debug", ""), ("timeout_info", "of level TIMING"), ("timeout_v0", "of level TIMING")]
)
def test_the_level_of_a_real_ascend_run_is_told(capture: str, text: str, tmp_path: Path) -> None:
    """Captures of the simulator: level `debug` shows dispatches; at `v0`, an old name, it logs as by default."""
    output = sorted((ASCEND / "02_hang_kernel" / capture).glob("*.txt"))
    assert output
    made = plan([(recipes()[0]["ascend-log"], "")], tmp_path, {})
    said = " ".join(without_effect(made.parts, Ended(output)))
    assert text in said and bool(text) == bool(said)


def test_a_tool_around_the_command_and_its_summary(home: dict[str, str], tmp_path: Path) -> None:
    """A stand-in for nsys, which writes its report and sums it up."""
    tools = tmp_path / "bin"
    tools.mkdir()
    nsys = tools / "nsys"
    nsys.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = stats ]; then shift $(($# - 1)); echo "summary of $(cat "$1")"; exit; fi\n'
        'test "$1 $2" = "profile --output" || exit 9\n'
        'echo "a report" > "$3.nsys-rep"; shift 7; exec "$@"\n'
    )
    nsys.chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    said = livedbg("launch", "--headless", "--recipe", "nsys", "--", "echo", "hello", env={**home, "PATH": path})
    assert said.code == 0 and said.out == "hello\n" and "had no visible effect" not in said.err
    assert "livedbg:     summary of a report\n" in said.err
    assert re.search(r"to open the file: nsys-ui \S+/profile\.nsys-rep\n", said.err)


def test_a_recipe_of_cuda_is_seen_by_the_driver_that_is_loaded(
    home: dict[str, str], libraries: tuple[str, str]
) -> None:
    """A stand-in for the driver's library: the flag is set where it is loaded, and not where something unsets it."""
    program = f"import ctypes; ctypes.CDLL({libraries[0]!r})"
    longer(1, lambda seconds: "cuda-blocking" not in seen_for(seconds, program, home))
    lost = re.compile(r"cuda-blocking had no visible effect.*CUDA_LAUNCH_BLOCKING did not reach process \d+")
    unset = ("env", "-u", "CUDA_LAUNCH_BLOCKING")
    longer(1, lambda seconds: bool(lost.search(seen_for(seconds, program, home, *unset))))


@pytest.mark.invariant("effects.E7")
def test_E7_nothing_is_reported_of_processes_that_nobody_sampled() -> None:
    parts = [Part("mine", effects=(Effect(loaded="libmine"),))]
    assert list(without_effect(parts, Ended(()))) == []
    other = Seen(7, "other", readable=True, loaded={"/usr/lib/libc.so.6"})
    assert "/libmine/" in next(without_effect(parts, Ended((), [other])))
