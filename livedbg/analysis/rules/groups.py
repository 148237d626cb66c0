"""Control groups that freeze their processes, throttle their CPU time, or lack memory."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import many, name_of
from livedbg.model import EdgeKey, EdgeKind, Evidence, Process, Resource, Severity
from livedbg.model.facts import GroupFacts, facts_of
from livedbg.text.quantities import byte_size
from livedbg.text.wording import sentence_case


def _groups(
    file_of: Callable[[GroupFacts], str], state: RuleInput
) -> Iterator[tuple[str, Resource, GroupFacts, list[Process]]]:
    """Yield (file, group, facts, the group's living processes) by the file that shows the state."""
    found: dict[str, tuple[Resource, list[Process]]] = {}
    processes = [process for process in state.snapshot.processes.values() if not process.exited]
    for resource in state.snapshot.resources.values():
        value = file_of(facts_of(resource.facts, GroupFacts))
        if not value:
            continue
        members = [p for p in processes if EdgeKey(EdgeKind.PART_OF, p.id, resource.id) in state.snapshot.edges]
        if members:
            found.setdefault(value, (resource, []))[1].extend(members)
    for value, (resource, members) in found.items():
        yield value, resource, facts_of(resource.facts, GroupFacts), members


def _who(members: Sequence[Process], state: RuleInput) -> str:
    others = f" and {many(len(members) - 1, 'other')}" if len(members) > 1 else ""
    return f"{sentence_case(name_of(members[0].id, state.snapshot))}{others}"


def _evidence(source: str, text: str, state: RuleInput) -> Evidence:
    return Evidence(kind="file", file=source, text=text, at_wall_ns=state.snapshot.now().wall_ns or None)


def _limiting(file: str, resource: Resource) -> str:
    """Return the group of a file: the limit may be in a parent group, and version 1 has a tree per controller."""
    folder, path = file.rpartition("/")[0], resource.name.removeprefix("control group ").rstrip("/")
    return resource.name if folder.endswith(path) else f"control group {folder}"


class FrozenGroup:
    """Rule for a control group that is frozen."""

    name = "frozen"
    doc = (
        "A process is in a control group that is frozen (`docker pause`, `systemctl freeze`, a checkpoint): none of "
        "its threads runs until that is thawed. Rests on `cgroup.events` (version 2) or `freezer.state` (version 1)."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for file, resource, _, members in _groups(lambda facts: facts.frozen_by, state):
            waiters = [w for member in members for w in state.graph.waiters_of(member.id)]
            verb = "is" if len(members) == 1 else "are"
            quoted = shlex.quote(file)
            thaw = f"echo 0 > {quoted}" if file.endswith("cgroup.freeze") else f"echo THAWED > {quoted}"
            yield Finding(
                rule=self.name,
                severity=Severity.ERROR,
                sentence=f"{_who(members, state)} {verb} frozen by {resource.name}: nothing runs until it is thawed.",
                entities=(*(member.id for member in members), resource.id, *dict.fromkeys(waiters)),
                evidence=(_evidence(file, "frozen", state),),
                next=(f"{thaw}   thaws it (or: docker unpause, systemctl thaw)",),
                state=VerdictState.STALLED,
                roots=tuple(member.id for member in members),
            )


class ThrottledGroup:
    """Rule for a control group that has repeatedly used up its CPU time."""

    name = "throttled"
    doc = (
        "The kernel lets the threads of a control group wait in at least half of the scheduling periods, because the "
        "group has used its CPU time. The program goes on, slowly, so this is no stall. Rests on `nr_throttled` and "
        "`nr_periods` of `cpu.stat`, as they rose while they were watched."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for file, resource, facts, members in _groups(lambda facts: facts.throttled_by, state):
            share, counts = facts.throttled or 0.0, facts.cpu_stat or "cpu.stat"
            cores = "?" if facts.cores is None else f"{facts.cores:.3g}"
            verb, group = "is" if len(members) == 1 else "are", _limiting(file, resource)
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING,
                sentence=(
                    f"{_who(members, state)} {verb} throttled: {group} may use {cores} cores, and was out of CPU time "
                    f"in about {share:.0%} of the periods."
                ),
                entities=(*(member.id for member in members), resource.id),
                evidence=(_evidence(counts, f"nr_throttled rose in about {share:.0%} of nr_periods", state),),
                next=(f"raise its CPU limit: {shlex.quote(file)}, docker update --cpus, or limits.cpu of the pod",),
                state=VerdictState.UNKNOWN,
                roots=tuple(member.id for member in members),
            )


class MemoryGroup:
    """Rule for a control group that lacks memory."""

    name = "memory-limit"
    doc = (
        "The tasks of a control group wait for memory. It is a stall where the kernel may not end one of them "
        "(`oom_kill_disable`), and else a note: most of the last 10 s went into waiting for memory (memory.pressure), "
        "or a task was killed for it. A group that is merely full is none: its page cache can be taken back."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for file, resource, facts, members in _groups(lambda facts: facts.memory_file, state):
            most, share = facts.memory_limit, facts.memory_stalled
            limit = f" ({facts.memory_used or 0:.0%} of {byte_size(most)} used)" if most else ""
            who, stuck, group = _who(members, state), facts.under_oom, _limiting(file, resource)
            if stuck:
                sentence = (
                    f"{who} can't get memory: {group} has reached its limit{limit}, and the kernel may not end "
                    "a task to free some."
                )
                proof = "under_oom 1 in memory.oom_control"
            elif share is not None:
                sentence = f"{who} waited for memory in about {share:.0%} of the last 10 s: {group}{limit}."
                proof = f"full avg10 of memory.pressure about {share:.0%}"
            else:
                count = many(facts.killed, "task")
                sentence = f"The kernel has killed {count} of {group} for lack of memory{limit}."
                proof = f"oom_kill rose by {facts.killed} while it was watched"
            waits = stuck or share is not None
            yield Finding(
                rule=self.name,
                severity=Severity.ERROR if stuck or not waits else Severity.WARNING,
                sentence=sentence,
                entities=(*(member.id for member in members), resource.id),
                evidence=(_evidence(file, proof, state),),
                next=(
                    f"raise its memory limit: {shlex.quote(file)}, docker update --memory, limits.memory of the pod",
                ),
                state=VerdictState.STALLED if stuck else VerdictState.UNKNOWN if waits else None,
                roots=tuple(member.id for member in members) if waits else (),
            )


def rules() -> Sequence[Rule]:
    return (FrozenGroup(), ThrottledGroup(), MemoryGroup())
