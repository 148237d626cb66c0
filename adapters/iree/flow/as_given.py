"""Run CMD as the user gave it, inside the first step, and describe its end, errors and results."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.adapters.iree.flow.ground import Ground
from livedbg.adapters.iree.traced import tensor
from livedbg.linux.family import Family
from livedbg.linux.procfs import read_stat
from livedbg.session.signatures import book
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

EXPECTED: Final = "expected"
"""The fault of a result that is not as `--expected_output` says."""
_CALLED: Final = "EXEC @"
"""What iree-run-module prints as it calls a function."""
_UNEXPECTED: Final = lazy_re(r"^\[FAILED\] (result\[\d+\]: [^;\n]+)", re.M)
_REPORT_S: Final = 120.0
_SAVED: Final = "IREE_SAVE_TEMPS"
"""Where iree.compiler keeps what it compiles (iree/compiler/tools/debugging.py)."""
_ERROR: Final = lazy_re(r"\berror: |^(?:\w+\.)*\w*(?:Error|Exception)\b|FLAGS ERROR|^\[ *FAILED *\]|\bfailed\b", re.M)
_ESCAPE: Final = lazy_re(r"\x1b\[[\d;]*m")
_SHOWN: Final = 4  # dispatches
_MOST: Final = 4 << 20


class AsGiven(Struct, frozen=True):
    """The result of running CMD as given.

    Attributes:
        code: None if it did not end within the limit.
        error: its error message.
        state: a report on it, if it did not end.
        nans: (index, number of NaN) of its printed results.
        called: the program says that it called the function; False also for programs that do not say so.
        unexpected: its message on the first result that differs from `--expected_output`.
    """

    code: int | None
    error: str = ""
    state: str = ""
    nans: tuple[tuple[int, int], ...] = ()
    called: bool = False
    unexpected: str = ""


def run_as_given(ground: Ground) -> AsGiven:
    """Run CMD; its output is that of the step."""
    streams = [ground.folder / name for name in ("stdout.log", "stderr.log")]
    sizes = [_size(path) for path in streams]
    saved = (
        {}
        if _SAVED in os.environ or ground.program.kind != "python"
        else {_SAVED: str(ground.folder / "saved" / "{id}")}
    )
    try:
        process = subprocess.Popen(ground.ask.argv, stdin=subprocess.DEVNULL, env={**os.environ, **saved})
    except OSError as error:
        return AsGiven(127, f"{ground.ask.argv[0]} can't be run: {error.strerror}")
    try:
        code = process.wait(ground.ask.limit_s)
    except subprocess.TimeoutExpired:
        state = _report_on(process.pid)
        _end(process)
        return AsGiven(None, state=state)
    out, err = (_new_text(path, size) for path, size in zip(streams, sizes, strict=True))
    unexpected = _UNEXPECTED.search(out) if code else None
    return AsGiven(
        code if code >= 0 else 128 - code,
        error_words(err + out) if code else "",
        nans=tuple(_nans(out)),
        called=out.startswith(_CALLED) or f"\n{_CALLED}" in out,
        unexpected=clean_line(unexpected[1], 300) if unexpected is not None else "",
    )


def saved_source(ground: Ground) -> tuple[str, tuple[str, ...]] | None:
    """Return the source and the flags of what a Python program compiled last."""
    from livedbg.adapters.iree.flow.ground import of_compiler

    folder = ground.folder / "saved"
    lines = sorted(folder.glob("*/core-command-line.txt"), key=lambda path: path.stat().st_mtime)
    for line in reversed(lines):
        source, flags = of_compiler(line.read_text(errors="replace").split()[1:])
        found = Path(source) if source else next(iter(sorted(line.parent.glob("core-input*"))), None)
        if found is not None and found.exists():
            kept = [flag for flag in flags if "linker-path" not in flag]
            return str(found.resolve()), tuple(kept)
    return None


def error_words(text: str) -> str:
    """Return a sentence on the runtime's first failure, else the line with an error."""
    text = _ESCAPE.sub("", text)
    for found in book()[0].found(text[-100_000:], "iree"):
        if found.said.code == "status":
            return found.said.sentence
    lines = [clean_line(line.strip(), 300) for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if _ERROR.search(line)]
    return (telling or lines[-1:] or [""])[0 if telling and "error: " in telling[0] else -1].rstrip(".")


def _nans(out: str) -> Iterator[tuple[int, int]]:
    number = -1
    for line in out.splitlines():
        if line.startswith("result["):
            number += 1
        elif number >= 0 and (found := tensor(line)) is not None and found.nans:
            yield number, found.nans


def _report_on(pid: int) -> str:
    """Return what `livedbg report` says of a process that does not end."""
    command = [sys.executable, "-m", "livedbg", "report", str(pid), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_REPORT_S)
        seen = json.loads(done.stdout)
        running = [
            f"{one.get('name', '')}" for one in seen["entities"].values()
            if one.get("kind") == "task" and one.get("state") == "running"
        ]  # fmt: skip
        where = f" Dispatches that run: {', '.join(running[:_SHOWN])}." if running else ""
        return clean_line(f"{seen['verdict']['state']}: {seen['verdict']['sentence']}{where}", 600)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    family = Family(process.pid, read_stat(process.pid).start_ticks)
    try:
        family.scan()
        family.send(signal.SIGKILL)
        family.wait(10.0)
    finally:
        family.close()
    process.wait()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _new_text(path: Path, begin: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(begin, _size(path) - _MOST))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
