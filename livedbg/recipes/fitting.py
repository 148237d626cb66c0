"""Which recipes fit a process, and the command that runs it again by one of them.

Invariants:
    E9. A command is shown whole: the folder, the recipe, the process's own words, quoted for a shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from livedbg.model import Process
from livedbg.model.snapshot import Snapshot
from livedbg.recipes.model import Recipe

__all__ = ["Again", "chosen_process", "fitting", "systems_by_files", "systems_of"]

_BY_FILE: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "nvfuser": re.compile(r"/libnvfuser|/nvfuser(?:_direct)?/|libnvfuser_codegen"),
        "cuda": re.compile(r"/libcuda\.so|/libcudart|/dev/nvidia|/libnvrtc"),
        "pytorch": re.compile(r"/libtorch(?:_cpu|_cuda|_python)?\.so|/libc10\.so"),
        "ascend": re.compile(
            r"/libhost_runtime\.so|/libascendcl\.so|/simpler/|/libaicpu_kernel\.so|/pypto|/libruntime\.so"
        ),
        "c++": re.compile(r"/libstdc\+\+\.so|/libc\+\+\.so"),
        "python": re.compile(r"/libpython3|/python3(?:\.\d+)?$"),
    }
)
"""Files that a process has mapped where it uses a system."""
_BY_WORD: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "nvfuser": re.compile(r"nvfuser", re.IGNORECASE),
        "ascend": re.compile(r"pypto|simpler_setup|^a[235]a?3?sim$|^a2a3$"),
        "python": re.compile(r"(?:^|/)python[\d.]*$"),
    }
)
_BY_FORMAT: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "ascend": re.compile(r"^(?:simpler|cann)"),
        "nvfuser": re.compile(r"^nvfuser"),
        "cuda": re.compile(r"^(?:cuda|compute-sanitizer|nccl)"),
    }
)
_MODULES: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "nvfuser": re.compile(r"^(?:lib)?nvfuser"),
        "cuda": re.compile(r"^libcuda(?:rt)?\.so"),
        "pytorch": re.compile(r"^lib(?:torch|c10)"),
        "ascend": re.compile(r"^lib(?:host_runtime|ascendcl|aicpu_kernel)"),
        "c++": re.compile(r"^libstdc\+\+|^libc\+\+"),
    }
)
_IDS: Final = re.compile(r"^(?:task|core|run|ring):(ascend|nvfuser|inductor|iree)/")
_NARROW: Final = ("ascend", "nvfuser", "cuda")
_LOOKED_AT: Final = 2000


@dataclass(frozen=True, slots=True)
class Again:
    """A recipe that fits a process.

    Attributes:
        recipe: which.
        because: the systems for which it fits.
        command: the whole command that runs the process again by it.
    """

    recipe: Recipe
    because: tuple[str, ...]
    command: str

    @property
    def name(self) -> str:
        """The recipe with what stands behind its name."""
        return f"{self.recipe.name}{self.recipe.asks}"


def systems_by_files(paths: Iterable[str]) -> set[str]:
    """The systems that the files say, which a process has mapped."""
    listed = list(paths)
    return {system for system, sign in _BY_FILE.items() if any(map(sign.search, listed))}


def systems_of(snapshot: Snapshot, process: Process | None) -> set[str]:
    """The systems that a state shows in a process: by its command, its stacks, its logs and what they tell of."""
    found: set[str] = set()
    if process is not None:
        found |= {name for name, sign in _BY_WORD.items() if any(map(sign.search, process.command))}
        found |= systems_by_files([process.exe or ""])
    for stack in list(snapshot.stacks.values())[:_LOOKED_AT]:
        thread = snapshot.threads.get(stack.thread)
        if process is None or (thread is not None and thread.process == process.id):
            modules = {frame.module for frame in stack.frames if frame.module}
            found |= {name for name, sign in _MODULES.items() if any(map(sign.search, modules))}
            found |= {"python" for frame in stack.frames if frame.language == "python"}
    shapes = {source.format for source in snapshot.log_sources.values() if source.format}
    found |= {system for system, sign in _BY_FORMAT.items() if any(map(sign.search, shapes))}
    for number, task in enumerate(snapshot.tasks):
        match = _IDS.match(task)
        if match is not None:
            found.add(match[1])
        if number >= _LOOKED_AT:
            break
    return found


def chosen_process(snapshot: Snapshot, selection: str | None) -> Process | None:
    """The process that a user means: that of the selected entity, else the first of the targets."""
    thread = snapshot.threads.get(selection or "")
    process = snapshot.processes.get(thread.process if thread is not None else selection or "")
    if process is not None and process.command:
        return process
    targets = [one for one in snapshot.processes.values() if one.target and one.command]
    return min(targets, key=lambda one: (one.exited, one.pid), default=None)


def fitting(
    known: Mapping[str, Recipe], systems: Collection[str], command: Sequence[str], cwd: str | None
) -> Iterator[Again]:
    """The recipes that fit, the closest first.

    Args:
        known: all recipes by name.
        systems: that were found in the process.
        command: its words.
        cwd: its working folder.
    """
    order = {system: rank for rank, system in enumerate((*_NARROW, "pytorch", "python", "c++", "any"))}
    around = {*systems, "any"}
    fits = [(recipe, tuple(name for name in recipe.systems if name in around)) for recipe in known.values()]

    def closeness(fit: tuple[Recipe, tuple[str, ...]]) -> tuple[int, int, str]:
        return min((order.get(name, 99) for name in fit[1]), default=99), len(fit[0].systems), fit[0].name

    fits.sort(key=closeness)
    for recipe, because in fits:
        if because:
            yield Again(recipe, because, _command(recipe, command, cwd))


def _command(recipe: Recipe, command: Sequence[str], cwd: str | None) -> str:
    asks = "" if recipe.default else recipe.asks  # what need not be given stays out: it is pasted into a shell
    words = ["livedbg", "launch", "--recipe", f"{recipe.name}{asks}", "--"]
    lead = f"cd {shlex.quote(cwd)} && " if cwd else ""
    return f"{lead}{' '.join(words)} {shlex.join(command)}"
