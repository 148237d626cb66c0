"""Compare livedbg's native stacks with gdb's, frame by frame, on programs built in many ways.

    python -m tests.unwind.matrix [--show] [WORD…]

A WORD picks the cases that have it in their name. livedbg looks first, without a stop; then gdb attaches to the same
process. A frame is right if it has the same program counter, function, file and line. `--show` prints both stacks
where they differ. What is not installed is left out and named.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from livedbg.linux import procfs
from livedbg.model.errors import LivedbgError
from livedbg.unwind.capture import capture
from livedbg.unwind.pool import UnwinderPool
from tests.conftest import settled
from tests.unwind.matrix.cases import CASES, PROGRAMS, Case

_GDB_FRAMES: Final = Path(__file__).with_name("gdb_frames.py")
_NO_SERVER: Final = os.environ | {"DEBUGINFOD_URLS": ""}


@dataclass(frozen=True, slots=True)
class Seen:
    """A frame as one of both has it."""

    pc: int
    function: str
    file: str
    line: int
    inlined: bool
    tail: bool = False

    def __str__(self) -> str:
        place = f" {self.file}:{self.line}" if self.file else ""
        return f"{self.pc:#x} {self.function}{place}{' (inlined)' if self.inlined else ''}"


@dataclass(slots=True)
class Score:
    """Frames of gdb's, and how many livedbg has alike.

    Attributes:
        frames: frames of gdb's that it found by unwinding, and inlined ones.
        found: of these livedbg has at the same place.
        named: of these have the same name.
        right: of these have the same line too.
        tails: frames that gdb makes up from debug information: calls that were replaced by jumps.
        beyond: frames of livedbg's that gdb has not.
    """

    frames: int = 0
    found: int = 0
    named: int = 0
    right: int = 0
    tails: int = 0
    beyond: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.frames} frames, {self.found} found, {self.named} named alike, {self.right} with the same line; "
            f"{self.beyond} that gdb has not, {self.tails} jumps not shown"
        )


@contextmanager
def _started(case: Case, folder: Path) -> Iterator[int]:
    process = subprocess.Popen(
        ["bash", "-c", f"exec {case.argv}"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        line = process.stdout.readline()
        if "READY" not in line:
            raise RuntimeError(f"it did not start: {line!r}")
        settled(process.pid)
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()


def _short(file: str | None) -> str:
    return (file or "").rpartition("/")[2]


async def _ours(pid: int, pool: UnwinderPool) -> dict[int, list[Seen]]:
    stacks = await (await pool.of(pid)).unwind(capture(pid, procfs.thread_ids(pid)), 100)
    return {
        tid: [Seen(f.address or 0, f.function, _short(f.file), f.line or 0, f.inlined) for f in stack.frames]
        for tid, stack in stacks.items()
    }


def _gdbs(pid: int) -> dict[int, list[Seen]]:
    argv = ["gdb", "-nx", "-batch", "-iex", "set auto-load safe-path /", "-p", str(pid), "-x", str(_GDB_FRAMES)]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=300, env=_NO_SERVER, stdin=subprocess.DEVNULL
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("FRAMES ")), None)
    if line is None:
        raise RuntimeError(f"gdb: {done.stderr[-500:]}")
    return {
        int(tid): [Seen(pc, name or "??", _short(file), line or 0, *kind) for pc, name, file, line, *kind in frames]
        for tid, frames in json.loads(line.removeprefix("FRAMES ")).items()
    }


def _plain(name: str) -> str:
    """A name as both write it: without parameters, hashes, spaces, and without what compilers and the C library add."""
    name = re.sub(
        r" \[clone [^]]*\]|@@?GLIBC[\w.]*|\.(cold|isra|part|constprop|lto_priv)[.\d]*|\[[0-9a-f]{16}\]", "", name
    )
    name = re.sub(r"\s+", "", name.replace("std::__cxx11::", "std::").replace("std::__1::", "std::"))
    name = name.replace("(anonymousnamespace)", "{anon}").replace("::<", "<").removeprefix("__GI_").lstrip("_")
    depth = 0
    for place, letter in enumerate(name):
        arrow = name[place - 1 : place + 1] == "->"
        depth += letter in "<{["
        depth -= letter in ">}]" and not arrow
        if letter == "(" and depth <= 0 and place and not name[:place].endswith(("operator", "*", ".")):
            return name[:place]
    return name


def _same_name(mine: str, theirs: str) -> bool:
    """A frame that gdb can't name may have any name; lambdas and template arguments are written in two ways."""
    if theirs == "??":
        return True
    one, other = _plain(mine), _plain(theirs)
    bare = [re.sub(r"<.*>", "<>", name) for name in (one, other)]
    return one == other or (bare[0] == bare[1] and "<>" in bare[0]) or {one, other} == {"clone3"}


def _alike(one: Seen, other: Seen) -> bool:
    return _same_name(one.function, other.function) and (one.file, one.line) == (other.file, other.line)


def _compared(ours: list[Seen], theirs: list[Seen]) -> Score:
    """By program counter, and in the order of what was inlined there, as far as gdb has not lost its way."""
    lost = next((place for place, frame in enumerate(theirs) if frame.pc < 4096), None)
    theirs = theirs[:lost]
    score = Score(tails=sum(frame.tail for frame in theirs))
    left: dict[int, list[Seen]] = {}
    for frame in ours:
        left.setdefault(frame.pc, []).append(frame)
    for frame in theirs:
        if frame.tail:
            continue
        score.frames += 1
        mine = left.get(frame.pc)
        if mine:
            one = mine.pop(0)
            score.found += 1
            score.named += _same_name(one.function, frame.function)
            score.right += _alike(one, frame)
    score.beyond = sum(map(len, left.values()))
    return score


def _holds(chain: tuple[str, ...], stack: list[Seen]) -> bool:
    names = iter(frame.function for frame in stack)
    return all(any(part in name for name in names) for part in chain)


def _tried(case: Case, pool: UnwinderPool, runner: asyncio.Runner, *, show: bool) -> Score | None:
    missing = [program for program in case.needs if shutil.which(program) is None]
    if missing:
        print(f"absent   {case.name}: {', '.join(missing)} is not installed")
        return None
    with tempfile.TemporaryDirectory(prefix="livedbg-matrix-") as name:
        folder = Path(name)
        shell = os.environ | {"P": str(PROGRAMS), "GOCACHE": "/tmp/livedbg-matrix-go", "RUSTC_BOOTSTRAP": "1"}
        built = subprocess.run(
            ["bash", "-c", case.build], cwd=folder, env=shell, capture_output=True, text=True, check=False
        )
        try:
            if built.returncode:
                print(f"absent   {case.name}: {built.stderr.strip()[-300:]}")
                return None
            with _started(case, folder) as pid:
                if case.then:
                    subprocess.run(["bash", "-c", case.then], cwd=folder, env=shell, check=True)
                ours = runner.run(_ours(pid, pool))
                theirs = _gdbs(pid)
        finally:
            for line in (folder / "undo").read_text().split() if (folder / "undo").exists() else ():
                shutil.rmtree(line) if Path(line).is_dir() else Path(line).unlink()
    total = Score()
    for tid, frames in theirs.items():
        total += _compared(ours.get(tid, []), frames)
    holds = _holds(case.chain, ours.get(pid, []))
    gdb_holds = _holds(case.chain, theirs.get(pid, []))
    same = total.right == total.frames and holds
    chain = "" if holds else "; the chain is not whole" + ("" if gdb_holds else " (nor gdb's)")
    chain += "" if gdb_holds or not holds else "; gdb's chain is not whole"
    print(f"{'same' if same else 'DIFFERS':8} {case.name}: {total}{chain}", flush=True)
    if show and not same:
        for tid, frames in theirs.items():
            print(f"  thread {tid}, gdb:")
            print("".join(f"    {frame}\n" for frame in frames), end="")
            print("  livedbg:")
            print("".join(f"    {frame}\n" for frame in ours.get(tid, [])), end="")
    return total


def _all(chosen: list[Case], *, show: bool) -> None:
    total = Score()
    count = whole = 0
    with asyncio.Runner() as runner:
        pool = UnwinderPool(None)
        for case in chosen:
            try:
                score = _tried(case, pool, runner, show=show)
            except (OSError, RuntimeError, AssertionError, LivedbgError, subprocess.SubprocessError) as error:
                print(f"failed   {case.name}: {type(error).__name__}: {error}")
                continue
            if score is not None:
                total += score
                count += 1
                whole += score.right == score.frames
        runner.run(pool.close())
    shares = [f"{100 * part / max(1, total.frames):.1f} %" for part in (total.found, total.named, total.right)]
    print(f"{count} programs, {whole} alike in every frame; {total}")
    print(f"found, named alike, with the same line: {', '.join(shares)}")


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.unwind.matrix")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.words or any(word in case.name for word in options.words)]
    _all(chosen, show=options.show)
    return 0


if __name__ == "__main__":
    sys.exit(main())
