"""Helpers of the Ascend tests: the recorded runs, and findings of the Ascend rules alone."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from livedbg.adapters.ascend.rules import rules
from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.rules.base import RuleInput
from livedbg.model.snapshot import Snapshot


def _load_replay() -> ModuleType:
    path = Path(__file__).with_name("replay.py")
    spec = importlib.util.spec_from_file_location("ascend_replay", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if "ascend_replay" not in sys.modules:
    _load_replay()


@pytest.fixture
def recorded() -> Path:
    """The recorded runs."""
    return Path(__file__).parents[2] / "fixtures" / "ascend"


@pytest.fixture
def findings() -> Callable[[Snapshot], dict[str, Finding]]:
    """What the Ascend rules find, by rule (the first of each)."""

    def find(snapshot: Snapshot) -> dict[str, Finding]:
        found: dict[str, Finding] = {}
        for rule in rules():
            for finding in rule.apply(RuleInput(snapshot, GraphKeeper().graph_of(snapshot))):
                assert finding.rule == rule.name
                assert rule.doc
                found.setdefault(finding.rule, finding)
        return found

    return find
