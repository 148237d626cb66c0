"""Rules of the diagnosis. `chapters` has all generic ones; those of single systems are declared by the systems
(livedbg.session.systems)."""

from __future__ import annotations

from livedbg.analysis.rules.base import Judged, Rule, RuleInput, Settings

__all__ = ["Judged", "Rule", "RuleInput", "Settings"]
