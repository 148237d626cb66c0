"""Guides: ordered lists of recipes, each of which passes its results to the next.

A system declares its guides (`System.guides`); each is a command that runs a program once a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from livedbg.model.snapshot import EMPTY, Snapshot


class GuideStep(Struct, frozen=True, kw_only=True):
    """A step of a guide.

    Attributes:
        recipes: CMD is launched with these, as after `launch --recipe`. `{NAME}` is a value from an earlier step. A
            guide with a plan of its own needs none.
        without: recipes to use if such a value is not known; () if the step then can't be done.
        catches: patterns of exceptions of which the place of the throw is wanted, where probes are allowed.
    """

    title: str
    recipes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    catches: tuple[str, ...] = ()


class GuideOption(Struct, frozen=True, kw_only=True):
    """An option of a guide's command: `--NAME VALUE` is the same as `--set NAME=VALUE`.

    Attributes:
        metavar: placeholder of the value in the help.
        joined: it may be repeated; the values are joined by this separator.
    """

    name: str
    metavar: str
    help: str
    joined: str = ""


class StepAsk(Struct, frozen=True, kw_only=True):
    """The input of a guide's plan for the command of a step.

    Attributes:
        number: of the step, from 1.
        handed: values from earlier steps or the user.
        limit_s: seconds that each run may take; None: somebody watches, and ends it when it is enough.
    """

    number: int
    argv: tuple[str, ...]
    handed: Mapping[str, str]
    folder: Path
    limit_s: float | None = None


class StepRun(Struct, frozen=True, kw_only=True):
    """The results of a step's run of CMD.

    Attributes:
        number: of the step, from 1.
        opened: files and devices that its processes had open, as far as they were sampled.
        kept: the folder into which the guide copied files while they existed (`Guide.keep`).
        code: its exit code (128 + signal); None: it did not end.
        handed: values from earlier steps or the user.
        snapshot: the last state while it ran.
        hang: the verdict on a run that did not end, if that is a hang.
        crash: the verdict on one that crashed.
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
    hang: str = ""
    crash: str = ""


class StepFound(Struct, frozen=True, kw_only=True):
    """The findings of a step.

    Attributes:
        lines: label and sentence.
        hands: values for the next steps, by name.
        cause: the cause is found: the other steps would add nothing.
        futile: the cause is not found, and the other steps would add nothing either.
        wrong_value: a wrong value was seen (exit code 12).
        hung: a run did not end, although CMD did (exit code 10).
        failed: a run failed, although CMD did not (exit code 11).
        undone: the step lacks something that the user can give (exit code 5).
        lacks: options that the next steps need and that were not given, each with a placeholder for its value.
    """

    lines: tuple[tuple[str, str], ...] = ()
    hands: Mapping[str, str] = field(default_factory=dict)
    cause: bool = False
    futile: bool = False
    wrong_value: bool = False
    hung: bool = False
    failed: bool = False
    undone: bool = False
    lacks: Mapping[str, str] = field(default_factory=dict)
