"""Analyses: pure functions of a snapshot (wait-for graph, stalls, diagnosis)."""

from __future__ import annotations

from livedbg.analysis.diagnosis import NO_DIAGNOSIS, Diagnosis, Finding, Verdict, VerdictState
from livedbg.analysis.engine import Diagnostician

__all__ = ["NO_DIAGNOSIS", "Diagnosis", "Diagnostician", "Finding", "Verdict", "VerdictState"]
