"""A guide: an ordered list of recipes, each of which hands to the next what it found.

A system declares its guides (`System.guides`); each is a command that runs a program once a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from livedbg.model.snapshot import EMPTY, Snapshot

__all__ = ["GuideStep", "StepFound", "StepRun"]


class GuideStep(Struct, frozen=True, kw_only=True):
    """One step of a guide.

    Attributes:
        title: what it is for, a few words.
        recipes: what CMD is launched with, as after `launch --recipe`. `{NAME}` is what an earlier step handed on.
        without: recipes instead, where that is not known; () if the step can't be taken without it.
    """

    title: str
    recipes: tuple[str, ...]
    without: tuple[str, ...] = ()


class StepRun(Struct, frozen=True, kw_only=True):
    """What a step's run of CMD left.

    Attributes:
        number: of the step, from 1.
        argv: the command.
        output: the files of its standard output and error.
        logs: files that its recipes read.
        loaded: files that its processes had mapped, as far as they were sampled.
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
    """

    lines: tuple[tuple[str, str], ...] = ()
    hands: Mapping[str, str] = field(default_factory=dict)
    cause: bool = False
    wrong_value: bool = False
