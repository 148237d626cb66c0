"""Rule for an orchestrator that waits for its own scope, and template values for full rings, heaps and pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from livedbg.adapters.ascend.facts import RingFacts
from livedbg.adapters.ascend.rules.jobs import JobDiagnostics, evidence
from livedbg.adapters.ascend.rules.words import flag, written
from livedbg.adapters.ascend.trouble import VARIABLES, Full
from livedbg.analysis.diagnosis import Finding
from livedbg.text.wording import sentence_case


def scope_deadlock(job: JobDiagnostics) -> Iterator[Finding]:
    """The orchestrator waits for a slot of a ring, or for memory of its heap, that only the end of its own open scope
    can free.
    """
    full, ring = job.first("ring-full"), job.known("ring-full", RingFacts)
    if full is None or ring is None or job.completed or not ring.by_scope or ring.never_fits:
        return
    yield written(
        "scope-deadlock",
        job,
        ring_values(ring),
        roots=tuple(entity for entity in full.entities if not entity.startswith(job.task_prefix)),
        entities=full.entities,
        evidence=evidence(full),
        since_wall_ns=full.at_wall_ns,
    )


def ring_values(full: RingFacts) -> Mapping[str, str]:
    """Return the template values of a full resource.

    `variable` sizes it, with its value if the log has it: `PTO2_RING_HEAP (now 262,144 bytes)`; `setting` is the one in
    code that it does not override (simpler CallConfig.runtime_env, pypto RunConfig); `which_scope`: a recipe can show
    which scope fills it.
    """
    variable, heap, pool = VARIABLES[Full(full.what)], full.what == Full.HEAP.value, full.what == Full.POOL.value
    unit, setting = "bytes" if heap else "entries", variable.removeprefix("PTO2_").lower()
    holders = ["a task that does not complete", "an open scope", *(["the producers of one task alone"] if pool else [])]
    return {
        "name": full.name,
        "the_name": sentence_case(full.name),
        "level": full.level,
        "unit": unit,
        "bytes": flag(heap),
        "size": full.size,
        "wanted": full.wanted,
        "asked": f"{full.wanted} {unit} of {full.name}, which has {full.size} in all"
        if full.wanted
        else f"more of {full.name} than its {full.size} {unit}, all of which are free",
        "variable": f"{variable} (now {full.size} {unit})" if full.size else variable,
        "setting": f", or {setting} where the program's own configuration sets it" * setting.startswith("ring_"),
        "fan_in": flag(pool),
        "holders": f"{', '.join(holders[:-1])} or {holders[-1]}",
        "scopes": scopes_of(full),
        "which_scope": flag(not full.scopes and not full.host_built),
    }


def scopes_of(full: RingFacts) -> str:
    """Return ` The scope at orchestration.cpp:77 (depth 1) has begun and not ended. …`, if scope_stats.jsonl has it."""
    return f" {full.scopes}" if full.scopes else ""
