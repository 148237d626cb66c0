"""All rules of the diagnosis, in the order in which they are asked."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from livedbg.analysis.rules.base import Rule, RuleInput, Settings

__all__ = ["Rule", "RuleInput", "Settings", "all_rules"]


def all_rules() -> tuple[Rule, ...]:
    """Every rule of the diagnosis."""
    if find_spec("livedbg.analysis.rules.ascend") is None:
        return ()
    found: tuple[Rule, ...] = tuple(import_module("livedbg.analysis.rules.ascend").rules())
    return found
