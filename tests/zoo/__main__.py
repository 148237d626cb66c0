"""Run livedbg on programs that it was not made for, and count what it says of them.

    python -m tests.zoo [--write] [--jobs N] [WORD…]

A WORD picks the cases that have it in their name. What is not installed is left out and named. `--write` puts the table
into docs/verdicts.md, whole, with the versions of what was tried; so it takes no WORD. `--jobs` tries several at once.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.zoo.cases import CASES, Case
from tests.zoo.start import build as build_program
from tests.zoo.start import started

PAGE: Final = Path(__file__).parents[2] / "docs" / "verdicts.md"
_BEGIN, _END = "<!-- zoo: begin -->", "<!-- zoo: end -->"
_VERSIONS: Final = {
    "gcc": ("-dumpfullversion",),
    "java": ("--version",),
    "go": ("version",),
    "node": ("--version",),
    "rustc": ("--version",),
    "redis-server": ("--version",),
    "nginx": ("-v",),
    "psql": ("--version",),
    "mpirun": ("--version",),
}
_BUILDING: Final = threading.Lock()
_ALONE: Final = threading.Lock()
"""Held by a case that uses a service's port, or whose process is found by a word of its command line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What livedbg said of a case.

    Attributes:
        grade: right, unknown, wrong, or absent.
    """

    case: Case
    grade: str
    state: str
    sentence: str
    code: int = 0


def _report(pid: int) -> tuple[int, str, str]:
    argv = [sys.executable, "-m", "livedbg", "report", str(pid), "--json", "--timeout", "60"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=150, check=False)
    if "has ended" in done.stderr:
        return done.returncode, "failed", done.stderr.strip()[:300]
    if not done.stdout:
        return done.returncode, "unknown" if done.returncode in {3, 5} else "failed", done.stderr.strip()[:300]
    verdict = json.loads(done.stdout)["verdict"]
    return done.returncode, verdict["state"], verdict["sentence"]


def _shell(script: str, folder: Path) -> None:
    if script:
        subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, check=False)


def _answer(case: Case, build: Path) -> Answer:
    missing = [program for program in case.needs if shutil.which(program) is None]
    if missing:
        return Answer(case, "absent", "", f"{', '.join(missing)} is not installed")
    with _BUILDING:
        build_program(case, build)
    if case.before or case.which:
        with _ALONE:
            return _tried(case, build)
    return _tried(case, build)


def _tried(case: Case, build: Path) -> Answer:
    with tempfile.TemporaryDirectory(prefix="livedbg-zoo-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        _shell(case.before, folder)
        try:
            with started(case, folder, build) as pid:
                code, state, sentence = _report(pid)
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            return Answer(case, "failed", "", str(error))
        finally:
            _shell(case.after, folder)
    grade = "right" if state in case.right else state if state in {"unknown", "failed"} else "wrong"
    return Answer(case, grade, state, sentence, code)


def _versions(programs: Iterable[str]) -> str:
    """The first line that each says of its version, shortened to name and number."""
    found = [f"Python {sys.version.split()[0]}"]
    for program in programs:
        if program in _VERSIONS and shutil.which(program):
            done = subprocess.run([program, *_VERSIONS[program]], capture_output=True, text=True, check=False)
            number = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
            found.append(f"{program} {number[0]}" if number else program)
    return ", ".join(found)


def _page(answers: list[Answer]) -> str:
    counts = Counter(answer.grade for answer in answers)
    lines = ["| program | true of it | livedbg says | grade |", "| --- | --- | --- | --- |"]
    for one in answers:
        said = " ".join(one.sentence.split()).replace("|", "\\|").replace("`", "")[:160]
        lines.append(f"| {one.case.name} | {' or '.join(one.case.right)} | {one.state}: {said} | {one.grade} |")
    total = ", ".join(
        f"{counts[grade]} {grade}" for grade in ("right", "unknown", "wrong", "failed", "absent") if counts[grade]
    )
    versions = _versions(sorted({program for one in answers for program in one.case.needs}))
    return "\n".join([f"{len(answers)} programs: {total}.", "", f"Tried with {versions}.", "", *lines])


def main() -> int:
    """Run the cases; the exit code is 1 where a verdict is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    if options.write and options.words:
        parser.error("--write takes all cases")
    chosen = [case for case in CASES if not options.words or any(word in case.name for word in options.words)]
    answers = []
    with tempfile.TemporaryDirectory(prefix="livedbg-zoo-build-") as build:
        Path(build).chmod(0o755)
        with ThreadPoolExecutor(options.jobs) as pool:
            for one in pool.map(lambda case: _answer(case, Path(build)), chosen):
                answers.append(one)
                print(f"{one.grade:8} {one.case.name}: {one.state} ({one.code}): {one.sentence[:200]}", flush=True)
    page = _page(answers)
    print(page.splitlines()[0])
    if options.write:
        text = PAGE.read_text()
        before, _, rest = text.partition(_BEGIN)
        PAGE.write_text(f"{before}{_BEGIN}\n{page}\n{_END}{rest.partition(_END)[2]}")
    return int(any(answer.grade in {"wrong", "failed"} for answer in answers))


if __name__ == "__main__":
    sys.exit(main())
