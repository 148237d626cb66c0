"""Rules for orders that an Ascend task graph lacks, and memory flags that may close a cycle."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from livedbg.adapters.ascend.facts import OrderFacts
from livedbg.adapters.ascend.rules.jobs import JobDiagnostics, evidence, name_of, written
from livedbg.analysis.diagnosis import Finding
from livedbg.model import Diagnostic
from livedbg.model.facts import read_facts
from livedbg.text.wording import many


def missing_edge(job: JobDiagnostics) -> Iterator[Finding]:
    """A task reads or overwrites bytes of a tensor that another task wrote last, and deps.json has no path from the
    writer to it (an argument declared as output where it is read too, or a manual scope without an explicit
    dependency). The runtime does not track write-after-read orders, and this rule does not check them.
    """
    for lost in job.unresolved("missing-edge"):
        said = read_facts(lost, OrderFacts)
        reads = said.hazard == "read after write"
        harm = "so the read may return older data" if reads else "and the result depends on which one ends last"
        alike = said.count - 1
        values = {
            "lost": _lost_words(lost, job),
            "harm": harm,
            "why": said.why,
            "alike": many(alike, "more pair of tasks", "more pairs of tasks") if alike > 0 else "",
        }
        steps = tuple(said.next.splitlines())
        found = written("missing-edge", job, values, entities=lost.entities, evidence=evidence(lost))
        yield structs.replace(found, next=steps)


def _lost_words(lost: Diagnostic, job: JobDiagnostics) -> str:
    """Return the lost order with the names of the kernels."""
    second, first = (job.snapshot.tasks.get(entity) for entity in lost.entities[:2])
    if first is None or second is None:
        return lost.sentence
    said = read_facts(lost, OrderFacts)
    does = "reads" if said.hazard == "read after write" else "overwrites"
    return (
        f"The dependency {first.name} → {second.name} is missing: {name_of(second)} {does} what {name_of(first)} "
        f"writes. That is {said.region}, of tensor {said.tensor} ({said.second} after {said.first}), and deps.json has "
        "no path between them."
    )


def flag_cycle(job: JobDiagnostics) -> Iterator[Finding]:
    """A stuck task and a task that depends on it both name a tensor without dependency: a flag in memory may close a
    cycle that no edge declares. Always inferred.
    """
    if job.completed:
        return
    for cycle in job.unresolved("flag-cycle"):
        values, proofs = {"said": cycle.sentence}, evidence(cycle)
        yield written("flag-cycle", job, values, entities=cycle.entities, evidence=proofs)
