"""Which systems a process, a log or a state shows: one answer, by the signs that systems declare.

Signs are strong or weak. A mapped file, an open device, a module in a stack, a task and a log shape are strong: the
process uses the system. A word of its command line is weak (an editor that has the script open shows it too), so it
counts only where the user names the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from livedbg.analysis.rules.chapters import is_told
from livedbg.linux.descriptors import fd_links
from livedbg.model import Process, Stack
from livedbg.model.snapshot import Snapshot
from livedbg.session.systems import Signs, system_named, systems

_LANGUAGES: Final[Mapping[str, Signs]] = MappingProxyType(
    {
        "python": Signs(
            files=(r"/libpython\d|/(?:python|pypy)[\d.]*[a-z]*(?: \(deleted\))?$",),
            arguments=(r"(?:^|/)python[\d.]*$",),
        ),
        "c++": Signs(files=(r"/libstdc\+\+\.so|/libc\+\+\.so",), modules=(r"libstdc\+\+|libc\+\+",)),
    }
)
"""What recipes are for besides systems."""
_DEVICES: Final = MappingProxyType({"accelerator": Signs(devices=("/dev/accel",))})
"""Devices of the kernel's accel subsystem, whosever they are."""
_ENTITY: Final = re.compile(r"^(?:task|core|run|ring):([^/]+)/")
_OWN_KINDS: Final = frozenset({"core", "gpu", "group", "ring", "stream"})
_SCANNED: Final = 2000  # stacks and tasks of a state


class _Compiled(Struct, frozen=True):
    """The signs of one system, one expression a kind; None where it has none."""

    files: re.Pattern[str] | None
    mapped: re.Pattern[bytes] | None
    devices: re.Pattern[str] | None
    arguments: re.Pattern[str] | None
    formats: re.Pattern[str] | None
    modules: re.Pattern[str] | None


def in_order(names: Iterable[str]) -> list[str]:
    """Names of systems, the narrower ones first, then languages, then the rest by name."""
    order = {name: number for number, name in enumerate((*(one.name for one in systems()), *_LANGUAGES))}
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))


def by_files(paths: Iterable[str], *, languages: bool = True) -> set[str]:
    """The systems that mapped files show.

    Args:
        paths: of mapped files.
        languages: name `python` and `c++` too.
    """
    listed = list(paths)
    return {name for name, signs in _signs(languages).items() if _any(signs.files, listed)}


def of_running(pid: int, *, languages: bool = False) -> set[str]:
    """The systems that a running process shows by its mapped files and open devices.

    Args:
        pid: the process.
        languages: name `python` and `c++` too.

    Raises:
        OSError: it is gone, or is not ours to see.
    """
    maps = Path(f"/proc/{pid}/maps").read_bytes()
    links = list(fd_links(pid).values())
    return {
        name
        for name, signs in _signs(languages).items()
        if (signs.mapped is not None and signs.mapped.search(maps)) or _any(signs.devices, links)
    }


def by_snapshot(snapshot: Snapshot, process: Process | None) -> set[str]:
    """The systems that a state shows in a process: by its command, its stacks, its logs and its tasks.

    Args:
        snapshot: the state.
        process: the one that the user means; None for all of it.
    """
    signs = _signs(languages=True)
    found: set[str] = set()
    if process is not None:
        found |= {name for name, sign in signs.items() if _any(sign.arguments, process.command)}
        found |= by_files([process.exe or ""])
    modules, languages = _modules(snapshot, process)
    found |= {name for name, sign in signs.items() if _any(sign.modules, modules)}
    found |= languages & _LANGUAGES.keys()
    formats = {source.format for source in snapshot.log_sources.values() if source.format}
    found |= {name for name, sign in signs.items() if _any(sign.formats, formats)}
    return found | _by_entities(snapshot)


class ShownSystems:
    """Whether one state after another may show a system: only stacks that are new are looked at.

    Counters, and resources that no operating system has, are a system's own.
    """

    def __init__(self) -> None:
        self._stacks: Mapping[str, Stack] = {}

    def may_show(self, name: str, snapshot: Snapshot) -> bool:
        """Whether anything in a state may be of a system; a job, an end, a log or an exception may be of any."""
        processes = snapshot.processes.values()
        ranked = any(process.rank is not None for process in processes)
        shown = snapshot.counters or snapshot.devices or snapshot.launches or snapshot.comparisons
        if is_told(snapshot) or shown or len(processes) > 1 or ranked:
            return True
        if any(resource.kind in _OWN_KINDS for resource in snapshot.resources.values()):
            return True
        signs = _signs(languages=False)[name]
        if any(_any(signs.arguments, process.command) for process in processes):
            return True
        before, self._stacks = self._stacks, dict(snapshot.stacks)
        system = system_named(name)
        files = _joined(system.framework.files) if system is not None else None
        frames = (f for key, stack in self._stacks.items() if before.get(key) is not stack for f in stack.frames)
        return any(_any(signs.modules, [f.module or ""]) or _any(files, [f.file or ""]) for f in frames)


def _modules(snapshot: Snapshot, process: Process | None) -> tuple[set[str], set[str]]:
    """The modules and languages of a process's stacks."""
    modules: set[str] = set()
    languages: set[str] = set()
    for stack in list(snapshot.stacks.values())[:_SCANNED]:
        thread = snapshot.threads.get(stack.thread)
        if process is None or (thread is not None and thread.process == process.id):
            modules |= {frame.module for frame in stack.frames if frame.module}
            languages |= {str(frame.language) for frame in stack.frames}
    return modules, languages


def _by_entities(snapshot: Snapshot) -> set[str]:
    found = set()
    owners = {name: system.name for system in systems() for name in (system.name, *system.signs.tasks)}
    for number, task in enumerate(snapshot.tasks):
        match = _ENTITY.match(task)
        if match is not None and match[1] in owners:
            found.add(owners[match[1]])
        if number >= _SCANNED:
            break
    return found


def _any(pattern: re.Pattern[str] | None, texts: Iterable[str]) -> bool:
    return pattern is not None and any(map(pattern.search, texts))


def _signs(languages: bool) -> Mapping[str, _Compiled]:
    return _compiled()[1 if languages else 0]


@cache
def _compiled() -> tuple[Mapping[str, _Compiled], Mapping[str, _Compiled]]:
    """Without and with languages."""
    own = {system.name: _of(system.signs) for system in systems()}
    devices = {name: _of(signs) for name, signs in _DEVICES.items() if system_named(name) is None}
    return own | devices, own | {name: _of(signs) for name, signs in _LANGUAGES.items()}


def _of(signs: Signs) -> _Compiled:
    files = _joined(signs.files)
    return _Compiled(
        files=files,
        mapped=None if files is None else re.compile(files.pattern.encode(), re.MULTILINE),
        devices=_joined(signs.devices, "^"),
        arguments=_joined(signs.arguments),
        formats=_joined(signs.formats, "^"),
        modules=_joined(signs.modules, "^"),
    )


def _joined(expressions: Iterable[str], before: str = "") -> re.Pattern[str] | None:
    parts: Iterator[str] = (f"(?:{before}(?:{expression}))" for expression in expressions)
    joined = "|".join(parts)
    return re.compile(joined) if joined else None
