"""Run livedbg on programs that it was not made for, and count what it says of them.

    python -m tests.zoo [--write] [WORD…]

A WORD picks the cases that have it in their name. What is not installed is left out and named. `--write` puts the table
into docs/verdicts.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.zoo.cases import CASES, Case

PAGE: Final = Path(__file__).parents[2] / "docs" / "verdicts.md"
_BEGIN, _END = "<!-- zoo: begin -->", "<!-- zoo: end -->"
_READY_S: Final = 120.0


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


def _filled(words: tuple[str, ...], folder: Path, build: Path) -> list[str]:
    return [word.replace("{tmp}", str(folder)).replace("{build}", str(build)) for word in words]


def _reads(file: int, word: str, ready: threading.Event) -> None:
    """Read all that a program says, so that it never waits for us."""
    seen = b""
    with contextlib.suppress(OSError):
        while block := os.read(file, 65_536):
            seen = (seen + block)[-100_000:]
            if word and word.encode() in seen:
                ready.set()


@contextlib.contextmanager
def _started(case: Case, folder: Path, build: Path) -> Iterator[int]:
    """The process to report on."""
    ours, theirs = pty.openpty()
    asks, answers = os.pipe()
    process = subprocess.Popen(
        _filled(case.argv, folder, build),
        stdin=theirs if case.keys else asks,  # an input that stays open and says nothing
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", **case.environment},
    )
    os.close(theirs)
    ready = threading.Event()
    threading.Thread(target=_reads, args=(ours, case.ready, ready), daemon=True).start()
    try:
        if case.ready and not ready.wait(_READY_S):
            raise TimeoutError(f"{case.name} was not ready in {_READY_S:.0f} s")
        time.sleep(case.settle_s)
        yield _pid(case, process.pid, str(build))
    finally:
        _end(process)
        for file in (asks, answers):
            os.close(file)


def _pid(case: Case, started: int, build: str) -> int:
    if not case.which:
        return started
    word = case.which.replace("{build}", build)
    found = subprocess.run(["pgrep", "-nf", "--", word], capture_output=True, text=True, check=False).stdout.split()
    return int(found[0]) if found else started


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and all that it started."""
    tree = subprocess.run(["pgrep", "-s", str(process.pid)], capture_output=True, text=True, check=False).stdout.split()
    for pid in (*map(int, tree), process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(60)


def _report(pid: int) -> tuple[int, str, str]:
    argv = [sys.executable, "-m", "livedbg", "report", str(pid), "--json", "--timeout", "60"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=150, check=False)
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
    if case.build:
        words = _filled(case.build, build, build)
        target = Path(next(word for word in words if word.startswith(str(build))))
        if not target.exists():
            subprocess.run(words, check=True, capture_output=True)
    with tempfile.TemporaryDirectory(prefix="livedbg-zoo-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        _shell(case.before, folder)
        try:
            with _started(case, folder, build) as pid:
                code, state, sentence = _report(pid)
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            return Answer(case, "failed", "", str(error))
        finally:
            _shell(case.after, folder)
    grade = "right" if state in case.right else "unknown" if state == "unknown" else "wrong"
    return Answer(case, grade, state, sentence, code)


def _page(answers: list[Answer]) -> str:
    counts = Counter(answer.grade for answer in answers)
    lines = ["| program | true of it | livedbg says | grade |", "| --- | --- | --- | --- |"]
    for one in answers:
        said = one.sentence.replace("|", "\\|").replace("`", "")[:160]
        lines.append(f"| {one.case.name} | {' or '.join(one.case.right)} | {one.state}: {said} | {one.grade} |")
    total = ", ".join(
        f"{counts[grade]} {grade}" for grade in ("right", "unknown", "wrong", "failed", "absent") if counts[grade]
    )
    return "\n".join([f"{len(answers)} programs: {total}.", "", *lines])


def main() -> int:
    """Run the cases; the exit code is 1 where a verdict is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.words or any(word in case.name for word in options.words)]
    answers = []
    with tempfile.TemporaryDirectory(prefix="livedbg-zoo-build-") as build:
        Path(build).chmod(0o755)
        for case in chosen:
            answers.append(_answer(case, Path(build)))
            one = answers[-1]
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
