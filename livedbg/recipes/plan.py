"""Puts recipes together to one way of launching a command.

Invariants:
    E3. Two recipes that want different values of one variable are refused: neither is dropped in silence.
    E4. What is needed and not there (a wrapper's program, a library) is said before anything is started.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from livedbg.errors import UsageError
from livedbg.recipes.model import Effect, Preload, Recipe

__all__ = ["Plan", "plan"]

_CUDA: Final = (Path("/usr/local/cuda/bin"), Path("/opt/cuda/bin"), Path("/opt/nvidia/nsight-systems/bin"))
_ASK_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What recipes come to.

    Attributes:
        environment: variables to add to ours.
        wrapper: what stands before the command.
        logs: more logs to read.
        catch: catchpoints.
        effects: by recipe, what shows that it took effect.
        notes: what the user should know before it starts.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    catch: tuple[str, ...] = ()
    effects: Mapping[str, tuple[Effect, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def plan(chosen: Sequence[tuple[Recipe, str]], folder: Path, around: Mapping[str, str]) -> Plan:
    """The plan of some recipes.

    Args:
        chosen: recipes with their options; the first one's wrapper is the outermost.
        folder: of the launch.
        around: the environment that the command would have.

    Raises:
        UsageError: they contradict each other, or something that one needs is not there.
    """
    environment: dict[str, str] = {}
    owner: dict[str, str] = {}
    wrappers: dict[tuple[str, ...], None] = {}
    logs: dict[str, None] = {}
    catch: dict[str, None] = {}
    effects: dict[str, tuple[Effect, ...]] = {}
    notes: list[str] = []
    for recipe, option in chosen:
        label = f"{recipe.name}={option}" if option else recipe.name

        def filled(text: str, option: str = option) -> str:
            return text.replace("{folder}", str(folder)).replace("{option}", option)

        for name, text in recipe.environment.items():
            value, before = filled(text), environment.get(name, around.get(name, ""))
            if name in recipe.lists:
                value = ",".join(dict.fromkeys([*filter(None, before.split(",")), value]))
            elif name in owner and before != value:
                raise UsageError(
                    f"Recipes {owner[name]} and {label} want different values of {name}: {before} and {value}.",
                    "use one of them",
                    "usage",
                )
            elif name in around and name not in owner and around[name] != value:
                if name in recipe.unless_set:
                    notes.append(f"{label}: {name} stays {around[name]}, as you have set it")
                    continue
                notes.append(f"{label}: {name} was {around[name]} and is {value} for this run")
            environment[name], owner[name] = value, label
        for library in recipe.preload:
            found = _library(library, label)
            before = environment.get("LD_PRELOAD", around.get("LD_PRELOAD", ""))
            environment["LD_PRELOAD"] = ":".join(dict.fromkeys([*filter(None, re.split("[: ]", before)), found]))
        if recipe.wrapper:
            program, *arguments = map(filled, recipe.wrapper)
            wrappers[_program(program, recipe, label), *arguments] = None  # the same one twice is once
        logs.update(dict.fromkeys(map(filled, recipe.logs)))
        catch.update(dict.fromkeys(map(filled, recipe.catch)))
        effects[label] = tuple(Effect(effect.says, filled(effect.file), effect.hint) for effect in recipe.effect)
    wrapper = tuple(word for words in wrappers for word in words)
    return Plan(environment, wrapper, tuple(logs), tuple(catch), effects, tuple(notes))


def _program(name: str, recipe: Recipe, label: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, _CUDA)])
    found = shutil.which(name, path=path)
    if found is None:
        raise UsageError(
            f"Recipe {label} needs {name}, which is not here.", recipe.remedy or f"install {name}", "usage"
        )
    return found


def _library(wanted: Preload, label: str) -> str:
    for name in wanted.names:
        for argv in ([wanted.compiler, f"-print-file-name={name}"],) if wanted.compiler else ():
            said = _asked(argv).strip()
            if said.startswith("/") and Path(said).is_file():
                return said
    listed = _asked(["ldconfig", "-p"]) or _asked(["/sbin/ldconfig", "-p"])
    for name in wanted.names:
        match = re.search(rf"^\s*{re.escape(name)} .*=> (/\S+)$", listed, re.MULTILINE)
        if match:
            return match[1]
    raise UsageError(
        f"Recipe {label} needs {' or '.join(wanted.names)}, which is not here.", wanted.remedy or "install it", "usage"
    )


def _asked(argv: Sequence[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=_ASK_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
