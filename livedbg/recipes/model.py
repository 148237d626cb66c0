"""What a recipe is: a question that a way of launching answers, and what that way consists of.

A recipe is a TOML file; its keys are the attributes of `Recipe`. `{folder}` in a value is the folder that the launch
keeps its output in, `{option}` what the user wrote behind the recipe's name.

    question = "Into which segments is a graph cut?"
    systems = ["toy"]
    acts = "run"
    cost = "some lines a graph"
    source = "src/options.cpp"

    [environment]
    TOY_DUMP = "segments"

Invariants:
    model.E1. A file with a key that is not understood is refused, never half used.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

__all__ = ["After", "Cached", "Effect", "Grows", "Preload", "Reason", "Recipe"]


class Effect(Struct, frozen=True, forbid_unknown_fields=True):
    """How it is seen that a recipe took effect: one of these.

    Attributes:
        says: a regular expression that the command's output matches, or one of the logs that the recipe reads.
        file: a path or glob, of the working folder where it is relative: such a file was written, and is not empty.
        loaded: a regular expression on the files that a process of the command has mapped; together with the
            recipe's variables, which that process must have got.
        hint: why it may not be, in a sentence.
        only: the options for which it is; () for all those that no other effect names.
    """

    says: str = ""
    file: str = ""
    loaded: str = ""
    hint: str = ""
    only: tuple[str, ...] = ()


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """A text of the program itself that says why a flag did not do what was asked.

    Attributes:
        says: a regular expression that the output matches.
        means: what that means, in a sentence; `{1}` is its first group.
        always: say it too where an effect was seen.
    """

    says: str
    means: str
    always: bool = False


class Cached(Struct, frozen=True, forbid_unknown_fields=True):
    """Where something that was made before is used again, so that the recipe comes too late. All that is given is so.

    Attributes:
        argument: a regular expression on one of the command's words.
        variable: `NAME=` and a regular expression on its value.
        file: a glob; `~` is the home folder.
        means: what that has to do with the recipe.
    """

    means: str
    argument: str = ""
    variable: str = ""
    file: str = ""


class Grows(Struct, frozen=True, forbid_unknown_fields=True):
    """Files that come while the command runs: each is told of as it appears.

    Attributes:
        file: their glob.
        form: what is read of each: `heap` (gperftools' heap profile: bytes in use, and how they grew) or `file`
            (its size).
    """

    file: str
    form: Literal["heap", "file"] = "file"


class After(Struct, frozen=True, forbid_unknown_fields=True):
    """What is done with a file at the end: a tool sums it up where there is one, and what opens it is said.

    Attributes:
        file: its glob; the newest is `{file}` in the others, the oldest `{first}`, the command's program `{program}`.
        form: `heap`: not the newest but the heap profile with the most bytes in use.
        command: prints a summary.
        lines: how many lines of that are shown.
        opens: the command that opens it.
        several: only where there are two files or more.
    """

    file: str
    form: Literal["heap", "file"] = "file"
    command: tuple[str, ...] = ()
    lines: int = 20
    opens: str = ""
    several: bool = False


class Preload(Struct, frozen=True, forbid_unknown_fields=True):
    """A library that must be loaded first, before those that the user preloads (ld.so(8), LD_PRELOAD).

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
        arguments: words behind the command's own.
        preload: libraries to load first.
        wrapper: a program that starts the command, with its arguments.
        remedy: how to get the wrapper's program.
        logs: more logs to read.
        catch: catchpoints, as `launch --catch` takes them.
        effect: how it is seen that it took effect; any of them is enough.
        reasons: what the program says where a flag had no effect.
        cached: when it comes too late.
        grows: files to tell of as they come.
        after: what is done with its files at the end.
        options: where `NAME=OPTION` chooses one: the options, and what each means.
        value: where OPTION is free, what it is, such as `REGEX`; `DIR` is a folder that is there.
        default: the value where none is given; without one, one must be given.
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
    arguments: tuple[str, ...] = ()
    preload: tuple[Preload, ...] = ()
    wrapper: tuple[str, ...] = ()
    remedy: str = ""
    logs: tuple[str, ...] = ()
    catch: tuple[str, ...] = ()
    effect: tuple[Effect, ...] = ()
    reasons: tuple[Reason, ...] = ()
    cached: tuple[Cached, ...] = ()
    grows: tuple[Grows, ...] = ()
    after: tuple[After, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    value: str = ""
    default: str = ""
    note: str = ""

    @property
    def asks(self) -> str:
        """What stands behind the recipe's name on a command line: `=OPTION`, `=REGEX`, `[=REGEX]` or nothing."""
        if self.options:
            return "=OPTION"
        if self.value:
            return f"[={self.value}]" if self.default else f"={self.value}"
        return ""

    @property
    def expressions(self) -> tuple[str, ...]:
        """All its regular expressions."""
        return (
            *(text for way in self.effect for text in (way.says, way.loaded)),
            *(reason.says for reason in self.reasons),
            *(text for made in self.cached for text in (made.argument, made.variable.partition("=")[2])),
        )
