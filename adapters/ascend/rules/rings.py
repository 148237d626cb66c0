"""A full ring, heap or pool: the orchestrator that waits for itself, and the words of all findings on what is full."""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.adapters.ascend.facts import RingFacts
from livedbg.adapters.ascend.resources import VARIABLES, Full
from livedbg.adapters.ascend.rules.jobs import JobDiagnostics, evidence
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import Severity
from livedbg.text.wording import sentence_case

__all__ = ["ring_variable", "scope_deadlock", "scopes_of", "why_full"]


def scope_deadlock(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """The orchestrator waits for a slot of a ring, or for memory of its heap, that only the end of its own open scope
    can free.
    """
    full, ring = job.first("ring-full"), job.known("ring-full", RingFacts)
    if full is None or ring is None or job.completed or not ring.by_scope or ring.never_fits:
        return
    yield Finding(
        rule=rule,
        state=VerdictState.DEADLOCK,
        roots=tuple(entity for entity in full.entities if not entity.startswith(job.task_prefix)),
        severity=Severity.CRITICAL,
        sentence=(
            f"The orchestrator waits for itself: {ring.name} is full, and only the orchestrator can end "
            f"the scope of its oldest task.{f' {sentence_case(ring.level)}.' if ring.level else ''}{scopes_of(ring)}"
        ),
        entities=full.entities,
        evidence=evidence(full),
        next=(
            "split the scope into smaller ones",
            f"or raise {ring_variable(ring)} to hold the scope's largest live set",
            *_which_scope(ring),
        ),
        since_wall_ns=full.at_wall_ns,
    )


def ring_variable(full: RingFacts) -> str:
    """The variable that sizes what is full, with its value if the log has it: `PTO2_RING_HEAP (now 262,144 bytes)`."""
    variable = VARIABLES[Full(full.what)]
    return f"{variable} (now {full.size} {_unit(full)})" if full.size else variable


def _unit(full: RingFacts) -> str:
    return "bytes" if full.what == Full.HEAP.value else "entries"


def why_full(full: RingFacts) -> tuple[str, tuple[str, ...]]:
    """Of something that is full, where no task and no scope is known to hold it: what the log says, and what to do."""
    variable = ring_variable(full)
    if full.never_fits:
        unit, wanted = _unit(full), full.wanted
        less = "give that task fewer producers" if unit == "entries" else "make the task's outputs smaller"
        return (
            f" One task wants {wanted} {unit} of {full.name}, which has {full.size} in all: that never fits, whatever "
            "is freed.",
            (f"raise {variable} to more than {wanted}{_setting(full)}", f"or {less}"),
        )
    fan_in = full.what == Full.POOL.value
    holders = [
        "a task that does not complete",
        "an open scope",
        *(["the producers of one task alone"] if fan_in else []),
    ]
    numbers = f" ({full.level})" if full.level else ""
    return (
        f" {sentence_case(full.name)} is full{numbers}. What holds it, the log does not tell: "
        f"{', '.join(holders[:-1])} or {holders[-1]}.{scopes_of(full)}",
        (
            f"raise {variable} once{_setting(full)}: if the run then completes, it was too small",
            *(("or give tasks fewer producers",) if fan_in else ()),
            "livedbg launch --recipe ascend-log -- COMMAND   (to log kernels, cores and dispatches)",
            *_which_scope(full),
        ),
    )


def _setting(full: RingFacts) -> str:
    """The setting in code that the variable does not override (simpler CallConfig.runtime_env, pypto RunConfig)."""
    name = ring_variable(full).partition(" ")[0].removeprefix("PTO2_").lower()
    return f", or {name} where the program's own configuration sets it" if name.startswith("ring_") else ""


def scopes_of(full: RingFacts) -> str:
    """` The scope at orchestration.cpp:77 (depth 1) has begun and not ended. …`, where scope_stats.jsonl tells it."""
    return f" {full.scopes}" if full.scopes else ""


def _which_scope(full: RingFacts) -> tuple[str, ...]:
    """The step that shows which scope fills it, unless that is known, or its runtime can't tell."""
    if full.scopes or full.host_built:
        return ()
    return (
        "livedbg launch --recipe ascend-scope-stats -- COMMAND   (which scope holds the most: with a larger ring or a "
        "smaller input, for a simulator writes that of a run that ends well only)",
    )
