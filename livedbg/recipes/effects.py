"""Checks whether recipes took effect, and reports those that did not.

Samples which files the processes of a launched command load and open, and which variables they got. Only reads
/proc/PID/maps, /proc/PID/fd and /proc/PID/environ (proc_pid_maps(5), proc_pid_fd(5), proc_pid_environ(5)).

Invariants:
    effects.E5. A recipe that declares how its effect is verified, and whose effect is not found, is reported, with the
        likely cause.
    effects.E7. What was not sampled is not reported as missing: a process that lived too short a time to be sampled may
        have loaded the file.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from livedbg.linux.descriptors import fd_links
from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import child_pids, command_line, read_environment
from livedbg.recipes.model import Effect, Reason
from livedbg.recipes.plan import Part, written
from livedbg.text.sanitize import clean_line

_FIRST_S: Final = 0.05
_LONGEST_S: Final = 0.5  # a runtime that is loaded for one run and closed after it is there for a second
_KEEPING_S: Final = 0.1  # what is to be kept may be there only for a moment, at any time
_LATER_S: Final = 2.0
_LATER: Final = 120  # samples after which it is done less often
_MOST: Final = 512  # sampled processes
_SHARE: Final = 50.0  # pauses take that many times as long as a sample takes of the processor


@dataclass(slots=True)
class Seen:
    """Observations of one process.

    Attributes:
        environment: the requested variables, as they were when its program was executed.
        readable: its environment could be read.
        loaded: the files that it had mapped at any sample.
        opened: the files and devices that it had open at any sample.
    """

    pid: int
    name: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    readable: bool = False
    loaded: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)


class Witness:
    """Samples a process and its descendants, at first often and then less, on a thread of its own.

    Only some variables are kept: others may be secrets. `keep` is called at once with each newly mapped or opened file.
    """

    def __init__(self, pid: int, variables: Collection[str], keep: Callable[[int, str], None] | None = None) -> None:
        self._pid = pid
        self._variables = variables
        self._keep = keep
        self._seen: dict[int, Seen] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="livedbg-witness", daemon=True)
        self._thread.start()

    @property
    def seen(self) -> Sequence[Seen]:
        """The observations so far."""
        return tuple(self._seen.values())

    def stop(self) -> Sequence[Seen]:
        """Stop sampling; return the observations."""
        self._done.set()
        self._thread.join()
        return self.seen

    def _poll(self) -> None:
        pause_s = _FIRST_S
        for number in count():
            began_s = time.thread_time()
            for pid in _family(self._pid):
                self._sample(pid)
            cost_s = time.thread_time() - began_s
            if self._done.wait(max(pause_s, cost_s * _SHARE)):
                return
            longest_s = _LATER_S if number >= _LATER else _LONGEST_S
            pause_s = min(pause_s * 1.3, longest_s if self._keep is None else _KEEPING_S)

    def _sample(self, pid: int) -> None:
        files = _loaded_files(pid)
        if not files:
            return
        seen = self._seen.setdefault(pid, Seen(pid))
        try:
            words = command_line(pid)
            if words and words[0] != seen.name:  # it executed another program
                around = read_environment(pid)
                seen.name, seen.readable = words[0], True
                seen.environment = {name: around[name] for name in self._variables if name in around}
        except OSError:
            return
        opened = _open_files(pid)
        new = (files - seen.loaded) | (opened - seen.opened) if self._keep is not None else ()
        seen.loaded |= files
        seen.opened |= opened
        for path in new:
            if self._keep is not None:
                self._keep(pid, path)


def _loaded_files(pid: int) -> set[str]:
    try:
        return {mapping.path for mapping in parse_maps(pid) if mapping.path.startswith("/")}
    except OSError:
        return set()


def _open_files(pid: int) -> set[str]:
    try:
        return {path for path in fd_links(pid).values() if path.startswith("/")}
    except OSError:
        return set()


def _family(pid: int) -> Iterator[int]:
    waiting, known = [pid], {pid}
    while waiting and len(known) < _MOST:
        one = waiting.pop()
        yield one
        try:
            new = [child for child in child_pids(one) if child not in known]
        except OSError:
            continue
        known.update(new)
        waiting += new


_SHOWN: Final = 60
"""A longer expression is not shown."""

_BLOCK: Final = 1 << 20  # bytes of a file that are searched at once
_OVERLAP: Final = 64 << 10  # a match of several lines is not longer


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended.

    Attributes:
        output: the files of its output, and other logs.
        began_s: when it began, as files' times are (time.time()).
        above: the folder of its script, and some above that.
    """

    output: Sequence[Path]
    processes: Sequence[Seen] = ()
    began_s: float = 0.0
    folder: Path = Path()
    above: Sequence[Path] = ()


def without_effect(parts: Sequence[Part], ended: Ended) -> Iterator[str]:
    """Yield a sentence for each recipe that had no visible effect, and for the program's own message about it."""
    for part in parts:
        unseen = bool(part.effects) and not any(_seen(way, part, ended) for way in part.effects)
        why = [text for reason in part.reasons if unseen or reason.always for text in _means(reason, ended.output)]
        if unseen:
            why = why or _astray(part, ended) or [way.hint for way in part.effects if way.hint]
            what = " or ".join(map(_expected, part.effects))
            yield " ".join([f"recipe {part.label} had no visible effect: {what}.", *why])
        elif why:
            yield " ".join([f"recipe {part.label}:", *why])


def _expected(way: Effect) -> str:
    if way.says and way.file:
        return f"no file {way.file} has a line that matches /{way.says}/"
    if way.says:
        return f"no line matches /{way.says}/" if len(way.says) <= _SHOWN else "the output has none of its lines"
    return f"no file {way.file}" if way.file else f"no process was seen with a file that matches /{way.loaded}/"


def _seen(way: Effect, part: Part, ended: Ended) -> bool:
    if way.file:
        found = written(way.file, ended.folder, ended.began_s, ended.above if way.above else ())
        wanted = re.compile(way.says.encode(), re.MULTILINE)
        return any(not way.says or _search(file, wanted) is not None for file in found)
    if way.loaded:
        return not ended.processes or any(_has(seen, way.loaded) and not _lost(seen, part) for seen in ended.processes)
    pattern = re.compile(way.says.encode(), re.MULTILINE)
    return any(_search(path, pattern) is not None for path in ended.output)


def _astray(part: Part, ended: Ended) -> list[str]:
    for seen in ended.processes:
        reads = not any(way.loaded for way in part.effects) or any(
            way.loaded and _has(seen, way.loaded) for way in part.effects
        )
        if reads and (lost := _lost(seen, part)):
            name = clean_line(Path(seen.name).name)
            return [f"{', '.join(lost)} did not reach process {seen.pid} ({name}): a program in between changed it."]
    return []


def _has(seen: Seen, expression: str) -> bool:
    return any(re.search(expression, path) for path in seen.loaded)


def _lost(seen: Seen, part: Part) -> list[str]:
    if not seen.readable:
        return []
    return [name for name, value in part.environment.items() if not _same(seen.environment.get(name), value)]


def _same(has: str | None, value: str) -> bool:
    """Compare values; gperftools marks the first character of its own (src/base/sysinfo.cc)."""
    return has == value or (has is not None and has[:1] == "\ufffd" and has[1:] == value[1:])


def _means(reason: Reason, output: Sequence[Path]) -> list[str]:
    pattern = re.compile(reason.says.encode(), re.MULTILINE)
    for path in output:
        groups = _search(path, pattern)
        if groups is not None:
            text = reason.means
            for number, group in enumerate(groups, 1):
                text = text.replace(f"{{{number}}}", clean_line(group.decode("utf-8", "replace"), 200))
            return [text]
    return []


def _search(path: Path, pattern: re.Pattern[bytes]) -> tuple[bytes, ...] | None:
    """Return the groups of the first match in a file, which may be written and truncated meanwhile."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        left, data = b"", file.read(_BLOCK)
        while data:
            text, data = left + data, file.read(_BLOCK)
            at = len(text) if not data or b"\n" not in text else text.rindex(b"\n")
            match = pattern.search(text, 0, at)
            if match is not None:
                return tuple(group or b"" for group in match.groups())
            left = text[text.rfind(b"\n", 0, max(0, at - _OVERLAP)) + 1 :][-_BLOCK:]
    return None
