"""What a recipe is: a question that a way of launching answers, and what that way consists of.

A recipe is a TOML file; its keys are the attributes of `Recipe`. `{folder}` in a value is the folder that the launch
keeps its output in, `{option}` what the user wrote behind the recipe's name.

    question = "Into which segments is a fusion cut?"
    systems = ["nvfuser"]
    acts = "run"
    cost = "some lines a fusion"
    source = "csrc/options.cpp"

    [environment]
    NVFUSER_DUMP = "segmented_fusion"

Invariants:
    E1. A file with a key that is not understood is refused, never half used.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

__all__ = ["Effect", "Preload", "Recipe"]


class Effect(Struct, frozen=True, forbid_unknown_fields=True):
    """How it is seen that a recipe took effect: one of these.

    Attributes:
        says: a regular expression that the command's output matches.
        file: a path or glob: such a file is there in the end, and not empty.
        hint: why it may not be, in a sentence.
    """

    says: str = ""
    file: str = ""
    hint: str = ""


class Preload(Struct, frozen=True, forbid_unknown_fields=True):
    """A library that must be loaded first (ld.so(8), LD_PRELOAD).

    Attributes:
        names: the first of these that is found.
        compiler: asked where it keeps them (`-print-file-name`); "" asks the system's linker only.
        remedy: how to get it.
    """

    names: tuple[str, ...]
    compiler: str = ""
    remedy: str = ""


class Recipe(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One way of launching.

    Attributes:
        name: the name of its file.
        question: what it answers.
        systems: whom it is for.
        acts: when its flags are read: as something is compiled, as a library is loaded, or as it runs.
        cost: what that costs the run.
        source: where the facts come from.
        environment: variables to set.
        lists: of those, the ones that hold a list with commas: what is there already stays in it.
        unless_set: leave a variable alone that the user has set already.
        preload: libraries to load first.
        wrapper: a program that starts the command, with its arguments.
        remedy: how to get the wrapper's program.
        logs: more logs to read.
        catch: catchpoints, as `launch --catch` takes them.
        effect: how it is seen that it took effect; any of them is enough.
        options: where `NAME=OPTION` chooses one: the options, and what each means.
        note: what else there is to know.
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
    preload: tuple[Preload, ...] = ()
    wrapper: tuple[str, ...] = ()
    remedy: str = ""
    logs: tuple[str, ...] = ()
    catch: tuple[str, ...] = ()
    effect: tuple[Effect, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    note: str = ""
