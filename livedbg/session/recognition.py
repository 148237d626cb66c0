"""Recognition of systems in a process, a log or a state, by the signs that systems declare.

Signs are strong or weak. A mapped file, an open device, a module in a stack, a task and a log shape are strong: the
process uses the system. A word of its command line is weak (an editor that has the script open shows it too), so it
counts only where the user names the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from livedbg.analysis.rules.chapters import is_told
from livedbg.linux.descriptors import fd_links
from livedbg.model import Process, Stack
from livedbg.model.snapshot import Snapshot
from livedbg.session.systems import Signs, system_named, systems
from livedbg.text.patterns import lazy_re

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
_ENTITY: Final = lazy_re(r"^(?:task|core|run|ring):([^/]+)/")
_OWN_KINDS: Final = frozenset({"core", "gpu", "group", "ring", "stream"})
_FRAMEWORK: Final = "framework"  # beside the fields of `Signs`: files of its code, `System.framework`
_SCANNED: Final = 2000  # stacks and tasks of a state


def in_order(names: Iterable[str]) -> list[str]:
    """Sort names of systems: narrower ones first, then languages, then the rest by name."""
    order = {name: number for number, name in enumerate((*(one.name for one in systems()), *_LANGUAGES))}
    return sorted(names, key=lambda name: (order.get(name, len(order)), name))


def by_files(paths: Iterable[str], *, languages: bool = True) -> set[str]:
    """Return the systems that mapped files show."""
    return _shown("files", paths, languages)


def of_running(pid: int, *, languages: bool = False) -> set[str]:
    """Return the systems that a running process shows by its mapped files and open devices.

    Raises:
        OSError: the process is gone, or not visible to us.
    """
    lines = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").split("\n")
    mapped = {line[line.find("/") :] for line in lines if "/" in line}  # a file has many mappings
    return by_files(mapped, languages=languages) | _shown("devices", fd_links(pid).values(), languages)


def by_snapshot(snapshot: Snapshot, process: Process | None) -> set[str]:
    """Return the systems that a state shows in a process (None: anywhere): by its command, stacks, logs and tasks."""
    found: set[str] = set()
    if process is not None:
        found = _shown("arguments", process.command) | by_files([process.exe or ""])
    modules, languages = _modules(snapshot, process)
    formats = {source.format for source in snapshot.log_sources.values() if source.format}
    found |= _shown("modules", modules) | (languages & _LANGUAGES.keys()) | _shown("formats", formats)
    return found | _by_entities(snapshot)


class ShownSystems:
    """Checks successive states for signs of a system; only new stacks are read.

    Counters, and resources that no operating system has, are a system's own.
    """

    def __init__(self) -> None:
        self._stacks: Mapping[str, Stack] = {}

    def may_show(self, name: str, snapshot: Snapshot) -> bool:
        """Return whether anything in a state may be of a system; a job, an end, a log or an exception may be of any."""
        processes = snapshot.processes.values()
        ranked = any(process.rank is not None for process in processes)
        shown = snapshot.counters or snapshot.devices or snapshot.launches or snapshot.comparisons
        if is_told(snapshot) or shown or len(processes) > 1 or ranked:
            return True
        if any(resource.kind in _OWN_KINDS for resource in snapshot.resources.values()):
            return True
        if any(name in _shown("arguments", process.command) for process in processes):
            return True
        before, self._stacks = self._stacks, dict(snapshot.stacks)
        fresh = [f for key, stack in self._stacks.items() if before.get(key) is not stack for f in stack.frames]
        if name in _shown("modules", {frame.module or "" for frame in fresh}):
            return True
        return name in _shown(_FRAMEWORK, {frame.file or "" for frame in fresh})


def _modules(snapshot: Snapshot, process: Process | None) -> tuple[set[str], set[str]]:
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


def _shown(kind: str, texts: Iterable[str], languages: bool = True) -> set[str]:
    """Return the systems with a sign of this kind (a field of `Signs`) in a text; one expression tests all first."""
    whole, own = _expressions(kind)
    told = list(filter(whole.search, texts))
    known = (name for name, expression in own.items() if told and any(map(expression.search, told)))
    return {name for name in known if languages or name not in _LANGUAGES}


@cache
def _expressions(kind: str) -> tuple[re.Pattern[str], dict[str, re.Pattern[str]]]:
    if kind == _FRAMEWORK:
        signs = {system.name: system.framework.files for system in systems()}
    else:
        devices = {name: sign for name, sign in _DEVICES.items() if system_named(name) is None}
        known = {**devices, **_LANGUAGES, **{system.name: system.signs for system in systems()}}
        signs = {name: getattr(sign, kind) for name, sign in known.items()}
    before = "^" if kind in ("devices", "formats", "modules") else ""
    own = {name: _either(each, before) for name, each in signs.items() if each}
    return _either(each.pattern for each in own.values()), own


def _either(expressions: Iterable[str], before: str = "") -> re.Pattern[str]:
    return lazy_re("|".join(f"(?:{before}(?:{expression}))" for expression in expressions))
