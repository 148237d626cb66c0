"""Combines recipes into one plan for launching a command, and reads the command's source text for it.

The text says which flags its version knows, and what it lacks.

Invariants:
    plan.E3. Two recipes that set one variable to different values are refused: neither is dropped silently.
    plan.E4. A missing requirement (a wrapper's program, a library) is reported before anything is started.
    plan.E6. A cached build on which a recipe has no effect is reported before anything is started.
"""

from __future__ import annotations

import glob
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import structs

from livedbg.linux import target_files
from livedbg.model.errors import UsageError
from livedbg.recipes.model import After, Cached, Effect, Grows, Preload, Reason, Recipe, Source

_UP: Final = 5  # folders above a script that are looked into for its other files
_SIZE: Final = 2 << 20  # of a file that is read
_FILES: Final = 50  # that a glob may give


def fitting_sources(recipe: Recipe, option: str, argv: Sequence[str], folder: Path) -> tuple[Source, ...]:
    """Return the entries of `recipe.sources` that hold for a command in its working folder."""
    if not recipe.sources:
        return ()
    script = _script(argv, folder)
    return tuple(
        source
        for source in recipe.sources
        if (not source.only or option in source.only) and _holds(source, script, folder)
    )


def folders_above(argv: Sequence[str], folder: Path) -> tuple[Path, ...]:
    """Return the folder of a command's script, and some above it; () if it has no script."""
    script = _script(argv, folder)
    return () if script is None else tuple([script.parent, *script.parent.parents][:_UP])


def _script(argv: Sequence[str], folder: Path) -> Path | None:
    words = (folder / word for word in argv if word.endswith(".py"))
    return next((script for script in words if target_files.is_regular(script)), None)


def _holds(source: Source, script: Path | None, folder: Path) -> bool:
    text = "\n".join(_read(path) for path in _files(source, script, folder))
    if not text:
        return False
    says = not source.says or re.search(source.says, text) is not None
    return says and not (source.unless and re.search(source.unless, text))


def _files(source: Source, script: Path | None, folder: Path) -> Iterator[Path]:
    """Yield the script, and the files beside or above it that the entry names."""
    if script is not None:
        yield script
    start = script.parent if script is not None else folder
    for pattern in source.files:
        for above in [start, *start.parents][:_UP]:
            found = target_files.matching(above, pattern)[:_FILES]
            if found:
                yield from found
                break


def _read(path: Path) -> str:
    try:
        with target_files.open_binary(path) as file:
            return file.read(_SIZE).decode("utf-8", "replace")
    except OSError:
        return ""


def matching(pattern: str, folder: Path | None = None) -> list[Path]:
    """Return the files that a glob (`~` is expanded) matches in a folder, by default the current one, oldest first."""
    path = Path(pattern).expanduser()
    root, parts = (Path("/"), path.parts[1:]) if path.is_absolute() else (folder or Path.cwd(), path.parts)
    return sorted(root.glob("/".join(parts)), key=_age) if parts else []


def written(pattern: str, folder: Path, since_s: float, above: Sequence[Path] = ()) -> list[Path]:
    """Return the non-empty files that a glob matches and that were written since a time, the oldest first.

    Args:
        pattern: as for `matching`.
        since_s: the time, as files' times are (time.time()).
        above: more folders where a relative pattern may begin.
    """
    found = {path for start in (folder, *above) for path in matching(pattern, start) if _was_written(path, since_s)}
    return sorted(found, key=_age)


def _was_written(path: Path, since_s: float) -> bool:
    try:
        stat = path.stat()
    except OSError:
        return False
    return stat.st_size > 0 and stat.st_mtime >= since_s - 1.0  # coarse clocks of file systems


def _age(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, str(path)
    except OSError:
        return 0.0, str(path)


_ASK_S: Final = 20.0

Find = Callable[[str], str | None]
"""Takes the name of a program, gives its path."""


@dataclass(frozen=True, slots=True)
class Part:
    """Checks of one recipe while the command runs, with its directory and option filled in."""

    label: str
    environment: Mapping[str, str] = field(default_factory=dict)
    effects: tuple[Effect, ...] = ()
    reasons: tuple[Reason, ...] = ()
    grows: tuple[Grows, ...] = ()
    after: tuple[After, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The launch of a command with recipes.

    Attributes:
        wrapper: words before the command.
        arguments: words after the command.
        parts: by recipe, what to check while it runs and at the end.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    catch: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    find: Find = shutil.which


def plan(
    chosen: Sequence[tuple[Recipe, str]],
    folder: Path,
    around: Mapping[str, str],
    argv: Sequence[str] = (),
    find: Find = shutil.which,
) -> Plan:
    """Make the plan of some recipes.

    Args:
        chosen: recipes with their options; the first one's wrapper is the outermost.
        around: the environment that the command would have.

    Raises:
        UsageError: they contradict each other, or a requirement is missing.
    """
    environment: dict[str, str] = {}
    owner: dict[str, str] = {}
    preloads: dict[str, None] = {}
    wrappers: dict[tuple[str, ...], None] = {}
    arguments: dict[tuple[str, ...], None] = {}
    folders: dict[str, None] = {}
    logs: dict[str, None] = {}
    catch: dict[str, None] = {}
    parts: list[Part] = []
    notes: list[str] = []
    for recipe, option in chosen:
        label = f"{recipe.name}={option}" if option else recipe.name

        def filled(text: str, option: str = option) -> str:
            known = {"{folder}": str(folder), "{cwd}": str(Path.cwd()), "{python}": sys.executable, "{option}": option}
            return re.sub(r"\{(?:folder|cwd|python|option)\}", lambda word: known[word[0]], text)

        for name, text in recipe.environment.items():
            value, before = filled(text), environment.get(name, around.get(name, ""))
            if name in recipe.lists:
                value = ",".join(dict.fromkeys([*filter(None, before.split(",")), value]))
            elif name in owner and before != value:
                raise UsageError(
                    f"Recipes {owner[name]} and {label} set {name} to different values: {before} and {value}.",
                    "use only one of them",
                )
            elif name in around and name not in owner and around[name] != value:
                if name in recipe.unless_set:
                    notes.append(f"{label}: {name}={around[name]} is kept, because your environment sets it")
                    continue
                notes.append(f"{label}: {name}={around[name]} is replaced by {value} for this run")
            environment[name], owner[name] = value, label
        preloads.update({_library(library, label): None for library in recipe.preload})
        if recipe.wrapper:
            program, *words = map(filled, recipe.wrapper)
            wrappers[_program(program, recipe, label, find), *words] = None  # the same one twice is once
        found = fitting_sources(recipe, option, argv, Path.cwd())
        appended = next((source.arguments for source in found if source.arguments), recipe.arguments)
        if appended:
            arguments[tuple(map(filled, appended))] = None
        notes += [f"{label}: {filled(source.means)}" for source in found if source.means]
        folders.update(dict.fromkeys(map(filled, recipe.folders)))
        logs.update(dict.fromkeys(map(filled, recipe.logs)))
        catch.update(dict.fromkeys(map(filled, recipe.catch)))
        mine = {name: environment[name] for name in recipe.environment if owner.get(name) == label}
        parts.append(_part((recipe, option), label, mine, folder, filled))
        variables = {**around, **environment}
        notes += [f"{label} may have no effect: {c.means}" for c in recipe.cached if _was_made(c, argv, variables)]
    if preloads:
        own = environment.get("LD_PRELOAD", around.get("LD_PRELOAD", ""))
        environment["LD_PRELOAD"] = ":".join(dict.fromkeys([*preloads, *filter(None, re.split("[: ]", own))]))
    behind = tuple(word for words in arguments for word in words)
    before_it = tuple(word for words in wrappers for word in words)
    return Plan(
        environment, before_it, behind, tuple(folders), tuple(logs), tuple(catch), tuple(parts), tuple(notes), find
    )


def _part(
    chosen: tuple[Recipe, str], label: str, environment: Mapping[str, str], folder: Path, filled: Callable[[str], str]
) -> Part:
    recipe, option = chosen
    named = tuple(way for way in recipe.effect if option in way.only)
    effects = named or tuple(way for way in recipe.effect if not way.only)

    def files(text: str) -> str:
        return filled(text.replace("{folder}", glob.escape(str(folder))))

    return Part(
        label,
        environment if not recipe.lists else {},
        tuple(structs.replace(way, file=files(way.file), hint=filled(way.hint)) for way in effects),
        recipe.reasons,
        tuple(structs.replace(new, file=files(new.file)) for new in recipe.grows),
        tuple(structs.replace(end, file=files(end.file), opens=filled(end.opens)) for end in recipe.after),
        tuple(map(filled, recipe.beside)),
    )


def possible(recipe: Recipe, known: Mapping[str, Recipe], find: Find = shutil.which) -> tuple[Recipe, str]:
    """Return the recipe, or if a requirement is missing the first possible one of `otherwise`; and why that one."""
    missing = _missing(recipe, find)
    if missing:
        for name in recipe.otherwise:
            if not _missing(known[name], find):
                return known[name], f"{missing} Recipe {name} is used instead."
    return recipe, ""


def _missing(recipe: Recipe, find: Find) -> str:
    try:
        for library in recipe.preload:
            _library(library, recipe.name)
        if recipe.wrapper:
            _program(recipe.wrapper[0], recipe, recipe.name, find)
    except UsageError as error:
        return error.message
    return ""


def _was_made(cached: Cached, argv: Sequence[str], variables: Mapping[str, str]) -> bool:
    name, _, value = cached.variable.partition("=")
    return (
        (not cached.argument or any(re.search(cached.argument, word) for word in argv))
        and (not name or re.search(value, variables.get(name, "")) is not None)
        and (not cached.file or bool(matching(cached.file)))
    )


def _program(name: str, recipe: Recipe, label: str, find: Find) -> str:
    found = find(name)
    if found is None:
        raise UsageError(f"Recipe {label} needs {name}, which is not installed.", recipe.remedy or f"install {name}")
    return found


def _library(wanted: Preload, label: str) -> str:
    for name in wanted.names:
        for argv in ([wanted.compiler, f"-print-file-name={name}"],) if wanted.compiler else ():
            path = _output(argv).strip()
            if path.startswith("/") and Path(path).is_file():
                return path
    listed = _output(["ldconfig", "-p"]) or _output(["/sbin/ldconfig", "-p"])
    for name in wanted.names:
        match = re.search(rf"^\s*{re.escape(name)} .*=> (/\S+)$", listed, re.MULTILINE)
        if match:
            return match[1]
    raise UsageError(
        f"Recipe {label} needs {' or '.join(wanted.names)}, which is not installed.", wanted.remedy or "install it"
    )


def _output(argv: Sequence[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=_ASK_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
