"""What is known of ranks that come late and of dumped Flight Recorders, as typed values."""

from __future__ import annotations

from livedbg.model import Diagnostic
from livedbg.model.facts import Facts, facts_from, facts_of


class LateFacts(Facts, frozen=True, kw_only=True, tag="pytorch.late"):
    """Of a rank that comes late: by how much at most, and when it did last."""

    most_ns: int = 0
    last_wall_ns: int = 0


class DumpFacts(Facts, frozen=True, kw_only=True, tag="pytorch.dump"):
    """Of what dumps of several ranks say: for how long it had been pending, and since when."""

    pending_ns: int = 0
    since_ns: int = 0


def late_facts(said: Diagnostic) -> LateFacts:
    """The facts of a diagnostic; in recordings of before they are texts."""
    return facts_of(said.facts, LateFacts) if said.facts is not None else facts_from(said.attributes, LateFacts)


def dump_facts(said: Diagnostic) -> DumpFacts:
    """The facts of a diagnostic; in recordings of before they are texts."""
    return facts_of(said.facts, DumpFacts) if said.facts is not None else facts_from(said.attributes, DumpFacts)
