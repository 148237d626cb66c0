"""A guide: an ordered list of recipes, each of which hands to the next what it found.

A system declares its guides (`System.guides`); each is a command that runs a program once a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from livedbg.model.snapshot import EMPTY, Snapshot


class GuideStep(Struct, frozen=True, kw_only=True):
    """One step of a guide.

    Attributes:
        title: what it is for, a few words.
        recipes: what CMD is launched with, as after `launch --recipe`. `{NAME}` is what an earlier step handed on.
            A guide with a plan of its own needs none.
        without: recipes instead, where that is not known; () if the step can't be taken without it.
    """

    title: str
    recipes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class GuideOption(Struct, frozen=True, kw_only=True):
    """An option of a guide's command: `--NAME VALUE` is the same as `--set NAME=VALUE`.

    Attributes:
        name: without dashes.
        metavar: what the help shows for the value.
        help: what it is.
        joined: it may come more than once; the values are handed on with this between them.
    """

    name: str
    metavar: str
    help: str
    joined: str = ""


class StepAsk(Struct, frozen=True, kw_only=True):
    """What a guide's plan makes the command of a step from.

    Attributes:
        number: of the step, from 1.
        argv: CMD.
        handed: what earlier steps handed on, or the user gave.
        folder: for what the step makes; its output goes there too.
        limit_s: seconds that each run may take; None: somebody watches, and goes on when it is enough.
    """

    number: int
    argv: tuple[str, ...]
    handed: Mapping[str, str]
    folder: Path
    limit_s: float | None = None


class StepRun(Struct, frozen=True, kw_only=True):
    """What a step's run of CMD left.

    Attributes:
        number: of the step, from 1.
        argv: the command.
        output: the files of its standard output and error.
        logs: files that its recipes read.
        loaded: files that its processes had mapped, as far as they were sampled.
        opened: files and devices that they had open, likewise.
        kept: the folder into which the guide copied files while they were there (`Guide.keep`).
        environment: what CMD was started with.
        code: its exit code (128 + signal); None: it did not end.
        handed: what earlier steps handed on, or the user gave.
        snapshot: the last state while it ran.
    """

    number: int
    argv: tuple[str, ...]
    output: tuple[Path, ...] = ()
    logs: tuple[Path, ...] = ()
    loaded: frozenset[str] = frozenset()
    opened: frozenset[str] = frozenset()
    kept: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    code: int | None = 0
    handed: Mapping[str, str] = field(default_factory=dict)
    snapshot: Snapshot = EMPTY


class StepFound(Struct, frozen=True, kw_only=True):
    """What a step found.

    Attributes:
        lines: label and sentence.
        hands: what the next steps get, by name.
        cause: the cause is found: the other steps would add nothing.
        wrong_value: a wrong value was seen (exit code 12).
        hung: a run did not end, although CMD did (exit code 10).
        failed: a run failed, although CMD did not (exit code 11).
        undone: the step could not be done for want of something that the user can give (exit code 5).
        lacks: options that the next steps need and that were not given, each with a placeholder for its value.
    """

    lines: tuple[tuple[str, str], ...] = ()
    hands: Mapping[str, str] = field(default_factory=dict)
    cause: bool = False
    wrong_value: bool = False
    hung: bool = False
    failed: bool = False
    undone: bool = False
    lacks: Mapping[str, str] = field(default_factory=dict)
