"""The format of a recipe: a debugging question, and the variables, wrappers and checks that answer it.

A recipe is a TOML file; its keys are the attributes of `Recipe`. In a value, `{folder}` is the directory for the
launch's output, `{cwd}` the working directory, `{python}` the Python that runs livedbg and `{option}` the option that
the user gave after the recipe's name.

    question = "Into which segments is a graph cut?"
    systems = ["toy"]
    acts = "run"
    cost = "some lines a graph"
    source = "src/options.cpp"

    [environment]
    TOY_DUMP = "segments"

Recipes are built-in ones, those of systems, and a user's own, which replace others of the same name.

Invariants:
    model.E1. A file with an unknown key is refused as a whole.
    model.E2. A user's file that can't be parsed is reported with its error; all other recipes still load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field, structs

from livedbg.model.errors import UsageError
from livedbg.session.systems import note_problem, systems
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.shell import shell_word
from livedbg.text.typed import ready


class Effect(Struct, frozen=True, forbid_unknown_fields=True):
    """A way to verify that a recipe took effect.

    Attributes:
        says: a regular expression that matches the command's output, or one of the logs that the recipe reads.
        file: a path or glob, relative to the working folder: such a file was written, and is not empty; with `says`, it
            matches that.
        above: a relative one is looked for in the folder of the command's script too, and in those above it.
        loaded: a regular expression on the files that a process of the command has mapped; that process must also have
            got the recipe's variables.
        hint: why it may be missing, in a sentence.
        only: the options for which it is; () for all those that no other effect names.
    """

    says: str = ""
    file: str = ""
    above: bool = False
    loaded: str = ""
    hint: str = ""
    only: tuple[str, ...] = ()


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """A message of the program that explains why a flag had no effect.

    Attributes:
        says: a regular expression that the output matches.
        means: its meaning, in a sentence; `{1}` is its first group.
        always: report it also if an effect was found.
    """

    says: str
    means: str
    always: bool = False


class Cached(Struct, frozen=True, forbid_unknown_fields=True):
    """A cached build on which the recipe has no effect. It applies if all given conditions hold.

    Attributes:
        argument: a regular expression on one of the command's words.
        variable: `NAME=` and a regular expression on its value.
        file: a glob; `~` is the home folder.
        means: why the recipe may have no effect then.
    """

    means: str
    argument: str = ""
    variable: str = ""
    file: str = ""


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings that depend on the command's source text: its script (the first word that ends with .py), and `files`.

    Attributes:
        says: a regular expression that the text matches; "": any text.
        unless: one that it does not match.
        files: globs of more files, in the script's folder or the nearest above it.
        only: the options for which this is checked; () for all.
        arguments: words to append instead of the recipe's own: the flags of another version.
        means: advice to the user before the command starts.
    """

    says: str = ""
    unless: str = ""
    files: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    means: str = ""


class Grows(Struct, frozen=True, forbid_unknown_fields=True):
    """Files that the command writes while it runs: each is reported.

    Attributes:
        file: their glob.
        form: how each is read: `heap` (gperftools' heap profile: bytes in use, and how they grew) or `file` (its size).
    """

    file: str
    form: Literal["heap", "file"] = "file"


class After(Struct, frozen=True, forbid_unknown_fields=True):
    """A summary of a file by a tool after the command has ended, and the command that opens the file.

    Attributes:
        file: its glob; in the other attributes the newest that the command wrote is `{file}`, its folder `{at}`, the
            oldest `{first}`, the command's program `{program}`.
        above: as in `Effect`.
        form: `heap`: not the newest but the heap profile with the most bytes in use.
        command: prints a summary.
        lines: how many lines of that are shown.
        opens: the command that opens it.
        several: only if there are two files or more.
    """

    file: str
    form: Literal["heap", "file"] = "file"
    command: tuple[str, ...] = ()
    lines: int = 20
    opens: str = ""
    several: bool = False
    above: bool = False


class Preload(Struct, frozen=True, forbid_unknown_fields=True):
    """A library that must be loaded first, before those that the user preloads (ld.so(8), LD_PRELOAD).

    Attributes:
        names: the first of these that is found.
        compiler: prints where it keeps them (`-print-file-name`); "": only the system's linker.
        remedy: how to get it.
    """

    names: tuple[str, ...]
    compiler: str = ""
    remedy: str = ""


class Recipe(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A launch preset.

    Attributes:
        name: the name of its file.
        question: the debugging question that it answers.
        systems: the systems that it is for.
        acts: when its flags are read: at compile time, when a library is loaded, or at run time.
        cost: its cost for the run.
        source: the source of the facts.
        environment: variables to set.
        lists: names of variables that hold a comma-separated list: existing entries are kept.
        unless_set: variables that keep a value that the user has set.
        arguments: words after the command's own.
        preload: libraries to load first.
        wrapper: a program that starts the command, with its arguments.
        remedy: how to get the wrapper's program.
        folders: directories to make before the command starts.
        logs: more logs to read.
        sources: what the command's source text shows: the flags of its version, or what it lacks.
        catch: catchpoints, as `launch --catch` takes them.
        effect: how to verify that it took effect; any of them is enough.
        reasons: messages of the program when a flag has no effect.
        cached: cached builds on which it has no effect.
        grows: files to report as they are written.
        after: advice on its files at the end.
        beside: a program that runs beside the command, whose process is `{pid}`, and ends with it; its output is shown.
        otherwise: recipes that answer the question if a library or program for this one is not installed, best first.
        options: the options of `NAME=OPTION`, and what each means.
        value: if OPTION is free text, what it is, such as `REGEX`; `DIR` is an existing directory.
        default: the value if none is given; "": a value is required.
        note: anything else that a user must know.
    """

    name: str = ""
    question: str
    systems: tuple[str, ...]
    acts: Literal["compile", "load", "run"]
    cost: str
    source: str
    environment: dict[str, str] = field(default_factory=dict)
    lists: tuple[str, ...] = ()
    unless_set: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    preload: tuple[Preload, ...] = ()
    wrapper: tuple[str, ...] = ()
    remedy: str = ""
    folders: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    catch: tuple[str, ...] = ()
    effect: tuple[Effect, ...] = ()
    reasons: tuple[Reason, ...] = ()
    cached: tuple[Cached, ...] = ()
    grows: tuple[Grows, ...] = ()
    after: tuple[After, ...] = ()
    beside: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    value: str = ""
    default: str = ""
    note: str = ""

    @property
    def asks(self) -> str:
        """The option after the recipe's name on a command line: `=OPTION`, `=REGEX`, `[=REGEX]` or ""."""
        if self.options:
            return "=OPTION"
        if self.value:
            return f"[={self.value}]" if self.default else f"={self.value}"
        return ""

    @property
    def expressions(self) -> tuple[str, ...]:
        """All regular expressions of the recipe."""
        return (
            *(text for way in self.effect for text in (way.says, way.loaded)),
            *(reason.says for reason in self.reasons),
            *(text for source in self.sources for text in (source.says, source.unless)),
            *(text for made in self.cached for text in (made.argument, made.variable.partition("=")[2])),
        )


_NAME = lazy_re(r"[a-z0-9][a-z0-9-]*")


def own_folder() -> Path:
    """Return the folder of a user's own recipes (XDG Base Directory Specification)."""
    from platformdirs import user_config_path

    return user_config_path("livedbg") / "recipes"


def recipes() -> tuple[dict[str, Recipe], list[str]]:
    """Return all recipes by name, and a sentence for each file that can't be used."""
    found = _shared({recipe.name: recipe for recipe in _built_in()})
    wrong: list[str] = []
    folder = own_folder()
    for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
        try:
            recipe = parse(path.stem, path.read_bytes())
        except (OSError, UsageError) as error:
            wrong.append(clean_line(f"{path}: {error}"))
        else:
            found[recipe.name] = recipe
    return dict(sorted(found.items())), wrong


def parse(name: str, text: bytes) -> Recipe:
    """Parse the text of a recipe file.

    Raises:
        UsageError: the text is no valid recipe.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid recipe name.", "use a-z, 0-9 and -")
    try:
        recipe = structs.replace(msgspec.toml.decode(text, type=ready(Recipe)), name=name)
        for expression in recipe.expressions:
            re.compile(expression)
    except (re.error, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise UsageError(clean_line(f"{error}."), "livedbg recipes --help") from None
    return recipe


def each_option(wanted: str, known: Mapping[str, Recipe]) -> Iterator[str]:
    """Yield `NAME=A` and `NAME=B` for `NAME=A,B` if these are options of the recipe; else `wanted` itself."""
    name, _, given = wanted.partition("=")
    recipe = known.get(name)
    listed = recipe is not None and recipe.options and given not in recipe.options and "," in given
    yield from (f"{name}={option}" for option in given.split(",")) if listed else (wanted,)


def chosen(wanted: str, known: Mapping[str, Recipe]) -> tuple[Recipe, str]:
    """Find the recipe and option of `NAME` or `NAME=OPTION`.

    Raises:
        UsageError: there is no such recipe or option.
    """
    name, given, option = wanted.partition("=")
    recipe = known.get(name)
    if recipe is None:
        raise UsageError(f"There is no recipe {name!r}.", "livedbg recipes")
    if recipe.value:
        option = option or recipe.default
        if not option:
            raise UsageError(
                f"Recipe {name} needs an option: {name}{recipe.asks}.", f"livedbg recipes {shell_word(name)}"
            )
        if recipe.value == "DIR":
            option = str(Path(option).expanduser().absolute())
            if not Path(option).is_dir():
                raise UsageError(f"Recipe {name}: {clean_line(option)} is not a directory.", f"ls {shell_word(option)}")
        return recipe, option
    if recipe.options and option not in recipe.options:
        wrong = f"has no option {option!r}" if given else "needs an option"
        raise UsageError(f"Recipe {name} {wrong}.", f"livedbg recipes {shell_word(name)}")
    if given and not recipe.options:
        raise UsageError(f"Recipe {name} takes no option.", f"livedbg recipes {shell_word(name)}")
    return recipe, option


def _built_in() -> Iterator[Recipe]:
    yield from _of(files("livedbg.recipes").joinpath("data"))
    for system in systems():
        if system.recipes:
            try:
                yield from list(_of(files(system.recipes)))
            except Exception as error:  # a system that fails is a problem of its own (systems.Y2)
                note_problem(system.name, f"its recipes in {system.recipes} can't be read", error)


def _shared(found: dict[str, Recipe]) -> dict[str, Recipe]:
    """Return the recipes with the systems that share them, the narrower ones first, and the notes of these systems."""
    for name, recipe in list(found.items()):
        sharing = [
            system for system in systems() if name in system.shared_recipes and system.name not in recipe.systems
        ]
        notes = [note for system in sharing if (note := system.shared_recipes[name])]
        found[name] = structs.replace(
            recipe,
            systems=(*(system.name for system in sharing), *recipe.systems),
            note=" ".join(filter(None, (*notes, recipe.note))),
        )
    for system in systems():
        for name in system.shared_recipes.keys() - found.keys():
            note_problem(system.name, f"it shares recipe {name}, which is none", None)
    return found


def _of(folder: Traversable) -> Iterator[Recipe]:
    for entry in folder.iterdir():
        if entry.name.endswith(".toml"):
            yield parse(entry.name.removesuffix(".toml"), entry.read_bytes())
