"""Samples which files the processes of a launched command load, and which variables they got.

Only reads /proc/PID/maps and /proc/PID/environ (proc_pid_maps(5), proc_pid_environ(5)).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from livedbg.linux.maps import parse_maps
from livedbg.linux.procfs import child_pids, command_line, read_environment

_FIRST_S: Final = 0.05
_LONGEST_S: Final = 0.5  # a runtime that is loaded for one run and closed after it is there for a second
_LATER_S: Final = 2.0
_LATER: Final = 120  # samples after which it is done less often
_MOST: Final = 512  # sampled processes
_SHARE: Final = 50.0  # pauses take that many times as long as a sample takes of the processor


@dataclass(slots=True)
class Seen:
    """What was seen of one process.

    Attributes:
        environment: the requested variables, as they were when its program was executed.
        readable: its environment could be read.
        loaded: the files that it had mapped at any sample.
    """

    pid: int
    name: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    readable: bool = False
    loaded: set[str] = field(default_factory=set)


class Witness:
    """Samples a process and its descendants, at first often and then less, on a thread of its own.

    Args:
        pid: the process.
        variables: which of its variables to keep; the others may be secrets.
    """

    def __init__(self, pid: int, variables: Collection[str]) -> None:
        self._pid = pid
        self._variables = variables
        self._seen: dict[int, Seen] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="livedbg-witness", daemon=True)
        self._thread.start()

    @property
    def seen(self) -> Sequence[Seen]:
        """What was seen so far."""
        return tuple(self._seen.values())

    def stop(self) -> Sequence[Seen]:
        """Stop sampling.

        Returns:
            What was seen.
        """
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
            pause_s = min(pause_s * 1.3, _LONGEST_S) if number < _LATER else _LATER_S

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
        seen.loaded |= files


def _loaded_files(pid: int) -> set[str]:
    """The files that a process has mapped; nothing where that can't be read."""
    try:
        return {mapping.path for mapping in parse_maps(pid) if mapping.path.startswith("/")}
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
