"""Processes whose file descriptors are used up.

Invariants:
    rules_descriptors.D1. It decides no verdict: a server that has all its connections open may be well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import name_of
from livedbg.model import EdgeKey, EdgeKind, Evidence, Severity
from livedbg.model.facts import DescriptorFacts, facts_of
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case


def limit_reached(process: str, snapshot: Snapshot) -> tuple[str, int] | None:
    """Return the descriptors of a process that can open no more, and their limit; None for others."""
    for resource in snapshot.resources.values():
        if resource.kind == "descriptors" and EdgeKey(EdgeKind.PART_OF, resource.id, process) in snapshot.edges:
            return resource.id, facts_of(resource.facts, DescriptorFacts).limit
    return None


class DescriptorsUsedUp:
    """Rule for a process at its limit of open files."""

    name = "descriptors-used-up"
    doc = (
        "A process has a file open under each number below its soft limit (`ulimit -n`): whatever opens a file, pipe "
        "or socket, or receives one, fails with EMFILE, and a program that tries again and again does not come "
        "further. It decides no verdict: who needs no more files is not held up. Rests on /proc/PID/limits and "
        "/proc/PID/fd."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for process in state.snapshot.processes.values():
            found = limit_reached(process.id, state.snapshot) if not process.exited else None
            if found is not None:
                entity, limit = found
                yield Finding(
                    rule=self.name,
                    severity=Severity.WARNING,
                    sentence=(
                        f"{sentence_case(name_of(process.id, state.snapshot))} has all {limit} files open that it may: "
                        "opening another one fails (EMFILE)."
                    ),
                    entities=(process.id, entity),
                    evidence=(
                        Evidence(
                            kind="file",
                            source=f"/proc/{process.pid}/limits",
                            text=f"Max open files {limit}; as many in /proc/{process.pid}/fd",
                            at_wall_ns=state.snapshot.now().wall_ns or None,
                        ),
                    ),
                    next=(
                        f"ls -l /proc/{process.pid}/fd   shows what they are",
                        f"prlimit --pid {process.pid} --nofile={2 * limit}:   raises the limit of the running process",
                    ),
                )


def rules() -> Sequence[Rule]:
    return (DescriptorsUsedUp(),)
