"""The programs of `livedbg demo`: each hangs."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

from livedbg.model.errors import SourceError, ToolMissing, UsageError
from livedbg.session.launch import Launched, launch, launch_folder
from livedbg.session.systems import Demo, systems

_OWN: Final = (
    Demo("deadlock", "a C++ program: deadlock of three threads, workers wait behind them"),
    Demo("gil", "a Python data loader whose C decoder holds the GIL"),
    Demo("pipeline", "three processes that wait for each other over pipes"),
)


@cache
def all_demos() -> dict[str, Demo]:
    """The demos by name: those of any process, then those of the systems."""
    return {demo.name: demo for demo in (*_OWN, *(demo for system in systems() for demo in system.demos))}


@contextlib.contextmanager
def started(name: str) -> Iterator[tuple[Launched, tuple[str, ...]]]:
    """Start a workload; it is ended afterwards.

    Yields:
        The running workload, and the logs to read beside it.

    Raises:
        ToolMissing: its program can't be compiled here.
        SourceError: nothing can be written here.
    """
    demos = all_demos()
    if name not in demos:
        raise UsageError(f"There is no demo {name!r}.", f"one of: {', '.join(demos)}", "usage")
    demo = demos[name]
    program = str(_compiled(name)) if name == "deadlock" else ""
    folder = launch_folder()
    logs: tuple[str, ...] = ()
    if program:
        argv = [program]
    elif demo.module:
        run = folder / "run"
        run.mkdir()
        argv = [sys.executable, "-m", demo.module, str(run)]
        logs = (str(run),)
    else:
        argv = [sys.executable, "-u", "-m", f"livedbg.demos.{name}"]
    child = launch(argv, folder)
    try:
        yield child, logs
    finally:
        child.end(1.0)
        shutil.rmtree(folder, ignore_errors=True)


def _compiled(name: str) -> Path:
    """The program of a C++ demo, compiled once for each version of its source.

    Raises:
        ToolMissing: there is no compiler, or it failed.
    """
    source = files("livedbg.demos").joinpath(f"{name}.cpp").read_bytes()
    folder = user_cache_path("livedbg") / "demos"
    program = folder / f"{name}-{hashlib.sha256(source).hexdigest()[:12]}"
    if program.exists():
        return program
    compiler = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if compiler is None:
        raise ToolMissing(
            "This demo is compiled on the spot, and there is no C++ compiler.",
            "sudo apt-get install g++   or another demo: livedbg demo gil",
            "no-compiler",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:  # another demo may compile it meanwhile
            fresh = Path(place) / name
            kept = folder / f"{name}.cpp"  # which the debug information names
            Path(place, kept.name).write_bytes(source)
            Path(place, kept.name).rename(kept)
            argv = [compiler, "-std=c++17", "-O1", "-g", "-pthread", str(kept), "-o", str(fresh)]
            done = subprocess.run(argv, capture_output=True, check=False)
            if done.returncode:
                reason = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
                raise ToolMissing(
                    f"{compiler} failed: {' '.join(reason)}", "another demo: livedbg demo gil", "compiler"
                )
            fresh.rename(program)
    except OSError as error:
        raise SourceError(
            f"The demo's program can't be kept in {folder}: {error.strerror}.",
            "export XDG_CACHE_HOME=DIR with a folder that you can write to",
            "cache-folder",
        ) from None
    return program
