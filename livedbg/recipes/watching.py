"""Follows the recipes of one launched command: while it runs, and after it has ended.

Reports files that the command writes while it runs, such as heap dumps, and how they grow. After its end summarises the
files that a recipe made, and names the command that opens them.

Invariants:
    watching.E8. A file is reported once: when it stops growing, at the latest when the command ends.
"""

from __future__ import annotations

import contextlib
import glob
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from livedbg.model.errors import SourceError
from livedbg.recipes.effects import Ended, Seen, Witness, without_effect
from livedbg.recipes.model import After, Grows
from livedbg.recipes.plan import Part, Plan, folders_above, matching, written
from livedbg.session.launch import Launched
from livedbg.text.patterns import lazy_re
from livedbg.text.quantities import byte_size
from livedbg.text.sanitize import clean, clean_line

_LOOK_S: Final = 0.5
_MOST: Final = 10_000  # files that are reported
_HEAP: Final = lazy_re(rb"heap profile: *\d+: *(\d+) \[ *\d+: *(\d+)\]")
"""Objects and bytes in use, and those ever allocated (gperftools docs/heapprofile.html; src/heap-profile-table.cc)."""


class Growing:
    """Reports files as they are written, on a thread of its own, which calls `say` with each line."""

    def __init__(self, parts: Sequence[Part], say: Callable[[str], None]) -> None:
        self._kinds = [(part.label, files) for part in parts for files in part.grows]
        self._say = say
        self._sizes: dict[str, int] = {}
        self._reported: set[str] = set()
        self._heaps: dict[str, list[int]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="livedbg-growing", daemon=True)
        if self._kinds:
            self._thread.start()

    def stop(self) -> None:
        """Report the last files, and end."""
        self._done.set()
        if self._kinds:
            self._thread.join()

    def _poll(self) -> None:
        last = False
        while True:
            for label, files in self._kinds:
                for line in self._new(label, files, last):
                    self._say(line)
            if last:
                return
            last = self._done.wait(_LOOK_S)

    def _new(self, label: str, files: Grows, last: bool) -> Iterator[str]:
        for path in matching(files.file):
            name = str(path)
            if name in self._reported or len(self._reported) >= _MOST:
                continue
            try:
                size = path.stat().st_size
            except OSError:
                continue
            if size and (last or self._sizes.get(name) == size):
                self._reported.add(name)
                yield f"{time.strftime('%H:%M:%S')} {label}: {self._described(label, files, path, size)}"
            self._sizes[name] = size

    def _described(self, label: str, files: Grows, path: Path, size: int) -> str:
        shown = path.name
        used = bytes_in_use(path) if files.form == "heap" else None
        if used is None:
            return f"{shown}, {byte_size(size)}"
        before = self._heaps.setdefault(f"{label} {shown.partition('.')[0]}", [])
        before.append(used)
        if len(before) == 1:
            return f"{shown}: {byte_size(used)} in use"
        steps = f"{_change(used - before[-2])} since the last dump, {_change(used - before[0])} since the first"
        grew = [later > earlier for earlier, later in pairwise(before)]
        always = f"; it grew at each of {len(grew)} steps" if len(grew) >= 3 and all(grew) else ""
        return f"{shown}: {byte_size(used)} in use, {steps}{always}"


def bytes_in_use(path: Path) -> int | None:
    """Return the bytes in use according to a heap profile of gperftools; None if the file is none."""
    try:
        with path.open("rb") as file:
            match = _HEAP.match(file.read(256))
    except OSError:
        return None
    return None if match is None else int(match[1])


def _change(count: int) -> str:
    return f"{'-' if count < 0 else '+'}{byte_size(abs(count))}"


_LONGEST_S: Final = 60.0
_WIDEST: Final = 160


def summaries(
    parts: Sequence[Part], program: str, find: Callable[[str], str | None] = shutil.which, ended: Ended | None = None
) -> Iterator[str]:
    """Yield lines about the files of each recipe; if `ended` is None, all files of the current folder count."""
    ended = ended if ended is not None else Ended(())
    path = shutil.which(program) or program
    for part in parts:
        for end in part.after:
            files = written(end.file, ended.folder, ended.began_s, ended.above if end.above else ())
            if files and (len(files) > 1 or not end.several):
                last = max(files, key=lambda file: bytes_in_use(file) or 0) if end.form == "heap" else files[-1]
                names = {"{file}": str(last), "{at}": str(last.parent), "{first}": str(files[0]), "{program}": path}
                yield from _summary(part.label, end, names, find)


def _summary(label: str, end: After, names: dict[str, str], find: Callable[[str], str | None]) -> Iterator[str]:
    argv = [_filled(word, names) for word in end.command]
    if argv:
        printed = _printed(argv, find)
        if printed:
            yield f"{label}: {shlex.join(argv)}"
            yield from (f"    {line}" for line in printed[: end.lines])
            if len(printed) > end.lines:
                yield f"    ({len(printed) - end.lines} more lines)"
        else:
            failed = f"{clean_line(argv[0])} is not installed, or can't read the file"
            yield f"{label}: {shlex.join(argv)}   (for a summary; {failed})"
    if end.opens:
        words = {key: shlex.quote(name) for key, name in names.items()}
        yield f"{label}: to open the file: {_filled(end.opens, words)}"


def _filled(text: str, names: dict[str, str]) -> str:
    for key, name in names.items():
        text = text.replace(key, name)
    return text


def _printed(argv: Sequence[str], find: Callable[[str], str | None]) -> list[str]:
    program = find(argv[0])
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, *argv[1:]], capture_output=True, timeout=_LONGEST_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    text = clean(done.stdout.decode("utf-8", "replace")) if done.returncode == 0 else ""
    return [line[:_WIDEST].rstrip() for line in text.splitlines() if line.strip()]


class Beside:
    """A program of ours that runs beside a command and ends with it."""

    def __init__(self, label: str, words: Sequence[str], pid: int, folder: Path) -> None:
        self._label = label
        argv = [_filled(word, {"{pid}": str(pid)}) for word in words]
        self._output = folder / f"{label}.txt"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def end(self) -> None:
        """Kill the program."""
        self._process.kill()
        self._process.wait()

    def said(self) -> Iterator[str]:
        """Wait for the program; yield the lines that it printed."""
        try:
            self._process.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            self.end()
        lines = clean(self._output.read_bytes().decode("utf-8", "replace")).splitlines()
        yield f"{self._label}: {lines[0][:_WIDEST] if lines else 'it said nothing'}"
        yield from (f"    {line[:_WIDEST]}" for line in lines[1:_BESIDE])
        if len(lines) > _BESIDE:
            yield f"    ({len(lines) - _BESIDE} more lines: {self._output})"


_BESIDE: Final = 20  # lines
_MOST_LOGS: Final = 200


class RecipeWatch:
    """Reports what recipes write, also in a log of their own, which the Logs screen shows.

    Args:
        say: called with each line, on a thread of ours.

    Attributes:
        keep: called with a process and each file that it has newly mapped or opened; set it before `follow`.

    Raises:
        SourceError: the log can't be created.
    """

    def __init__(self, plan: Plan, folder: Path, argv: Sequence[str], say: Callable[[str], None]) -> None:
        self.keep: Callable[[int, str], None] | None = None
        self._plan = plan
        self._argv = argv
        self._say = say
        self._lock = threading.Lock()
        self._began_s = time.time()
        self._witness: Witness | None = None
        self._beside: list[Beside] = []
        self.log: Path | None = folder / "recipes.log" if any(part.grows for part in plan.parts) else None
        if self.log is not None:
            try:
                self.log.touch()
            except OSError as error:
                raise SourceError(f"{self.log} can't be written: {error.strerror}.", "free some disk space") from None
        self._growing = Growing(plan.parts, self._report)

    def follow(self, child: Launched) -> None:
        """Start to sample the command's loaded files, and the programs beside it."""
        self._beside += [
            Beside(part.label, part.beside, child.pid, child.folder) for part in self._plan.parts if part.beside
        ]
        if self._plan.parts:
            variables = {name for part in self._plan.parts for name in part.environment}
            self._witness = Witness(child.pid, variables, self.keep)

    def finish(self, child: Launched, *, effects: bool = True) -> Ended:
        """Print summaries and missing effects after the command has ended; return what they are based on.

        Without `effects`, no missing ones: a guide says in its own words what each setting did.
        """
        processes = self._witness.stop() if self._witness is not None else ()
        self._growing.stop()
        for beside in self._beside:
            for line in beside.said():
                self._say(line)
        ended = self._ended(child, processes)
        for line in summaries(self._plan.parts, self._argv[0], self._plan.find, ended):
            self._say(line)
        for sentence in without_effect(self._plan.parts, ended) if effects else ():
            self._say(sentence)
        return ended

    def leave(self) -> None:
        """End the programs beside the command, which is left running."""
        for beside in self._beside:
            beside.end()

    def so_far(self, child: Launched) -> Ended:
        """Return the result so far, while the command runs, without printing."""
        return self._ended(child, self._witness.seen if self._witness is not None else ())

    def _ended(self, child: Launched, processes: Sequence[Seen]) -> Ended:
        logs = (file for name in self._plan.logs for file in _files(Path(name)))
        above = folders_above(self._argv, Path.cwd())
        return Ended((child.stdout, child.stderr, *logs), processes, self._began_s, Path.cwd(), above)

    def _report(self, line: str) -> None:
        self._say(line)
        if self.log is not None:  # on a full disk the line is printed all the same
            with self._lock, contextlib.suppress(OSError), self.log.open("a") as file:
                file.write(f"{line}\n")


def _files(log: Path) -> Sequence[Path]:
    return matching(f"{glob.escape(str(log))}/**/*.log")[-_MOST_LOGS:] if log.is_dir() else [log]
