"""Runs the analyses over a snapshot and ranks what they find."""

from __future__ import annotations

from livedbg.analysis.diagnosis import NO_DIAGNOSIS, Diagnosis
from livedbg.snapshot import Snapshot

__all__ = ["Diagnostician", "diagnose"]


class Diagnostician:
    """Diagnoses one snapshot after another, reusing what didn't change (the graph)."""

    def diagnose(self, snapshot: Snapshot) -> Diagnosis:
        """The diagnosis of `snapshot`; equal to what a fresh diagnostician would say of it."""
        return NO_DIAGNOSIS


def diagnose(snapshot: Snapshot) -> Diagnosis:
    """The diagnosis of one snapshot, from nothing."""
    return Diagnostician().diagnose(snapshot)
