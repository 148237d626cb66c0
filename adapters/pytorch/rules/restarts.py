"""Rules for torchrun's agents: those that start workers anew (how often, which rank ended first each time, with which
error), and those that wait for other nodes and have started no worker.

Invariants:
    rules_restarts.S1. A restart is no verdict of its own: a job that restarts once may be healthy, and one that does so
        repeatedly may come a step further each time.
    rules_restarts.S2. An error is named only if the workers' own files have it for each failed start, or if it is the
        only exception in the logs and occurs at least as often as workers have failed; else it is said to be that of
        the newest start.
    rules_restarts.S3. The first failure is taken from the agent's log, or the earliest error in the workers' files;
        from seen ends only if one worker alone failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from livedbg.adapters.pytorch.elastic import run_of
from livedbg.adapters.pytorch.facts import WorkerFacts
from livedbg.adapters.pytorch.rules.calls import lived_ns
from livedbg.adapters.pytorch.rules.ended import only_error
from livedbg.adapters.pytorch.rules.threads import main_thread
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.ended import how_ended
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import name_of, thread_evidence
from livedbg.model import Diagnostic, Evidence, Process, Severity
from livedbg.model.facts import read_facts
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import sentence_case

_COUNT: Final = "TORCHELASTIC_RESTART_COUNT"
_ERROR_FILE: Final = "TORCHELASTIC_ERROR_FILE"
_FAILED: Final = lazy_re(r"failed \(exitcode: (-?\d{1,4})\) local_rank: (\d{1,6}) \(pid: (\d{1,10})\)")
_ASKED: Final = (0, -15, -2)  # SIGTERM and SIGINT: how the agent ends the others
_CODE: Final = "worker-failed"
_MOST: Final = 8


class _Failure(NamedTuple):
    """A worker that ended first."""

    pid: int
    rank: str
    status: int


class _WorkerErrors(NamedTuple):
    """Error files of a worker that failed first."""

    start: int
    rank: str
    error: str
    said: Diagnostic


class WorkerRestarts:
    """Workers that were started more than once."""

    name = "worker-restarts"
    doc = (
        "torchrun's agent has started the workers of a job anew (`TORCHELASTIC_RESTART_COUNT` in the environment of a "
        "worker): how often, and which rank ended first each time, by the agent's log lines (`failed (exitcode: …)`) "
        "and by the ends of workers that were seen, without those that the agent ends itself, or by the workers' files "
        "(`TORCHELASTIC_ERROR_FILE`, and `stderr.log` beside it). The error is that of these files, or where "
        "the logs show one exception only, at least as often, that one. It says nothing of what the job does now, so "
        "its verdict is `unknown`, and any other finding comes first."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each living agent."""
        agents: dict[int, list[Process]] = {}
        for process in state.snapshot.processes.values():
            if process.ppid is not None and process.environment.get(_COUNT, "").isdecimal():
                agents.setdefault(process.ppid, []).append(process)
        for process in state.snapshot.processes.values():
            if _COUNT in process.environment:
                agents.pop(process.pid, None)  # its children have a copy of its environment
        alive = {process.pid for process in state.snapshot.processes.values() if not process.exited}
        for pid, workers in agents.items():
            times = 1 + max(int(worker.environment[_COUNT]) for worker in workers)
            if times > 1 and (pid in alive or any(not worker.exited for worker in workers)):
                yield self._finding(times, workers, state)

    def _finding(self, times: int, workers: Sequence[Process], state: RuleInput) -> Finding:
        failures = _failures(workers, state)
        left = _worker_errors(workers, state)
        ended = [(one.rank, how_ended(one.status)) for one in failures]
        said = _first(ended, times, "ended") or _first([(one.rank, "") for one in left], times, "failed")
        error = _error_left(left, times) or (only_error(len(failures), state) if failures else "")
        living = tuple(worker.id for worker in workers if not worker.exited)
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=f"The workers were started {times} times{said}{error}.",
            entities=living or tuple(worker.id for worker in workers[-1:]),
            evidence=(
                Evidence(
                    kind="proc",
                    source="environment of the workers",
                    text=f"{_COUNT}={times - 1}",
                    at_wall_ns=state.snapshot.now().wall_ns or None,
                ),
                *(
                    Evidence(
                        kind="proc", source=f"pid {one.pid}", text=f"rank {one.rank} ended {how_ended(one.status)}"
                    )
                    for one in failures[-_MOST:]
                ),
                *(proof for one in left[-_MOST:] for proof in one.said.evidence[:1]),
            ),
            state=VerdictState.UNKNOWN,
        )


def _failures(workers: Sequence[Process], state: RuleInput) -> list[_Failure]:
    """Return the first failures of each start, as far as known."""
    ranks = {worker.environment.get("LOCAL_RANK", ""): worker.environment.get("RANK", "") for worker in workers}
    found: dict[int, _Failure] = {}
    for record in state.snapshot.recent_logs:
        for status, local, pid in _FAILED.findall(record.text):
            found[int(pid)] = _Failure(int(pid), ranks.get(local) or local, int(status))
    known = {worker.environment[_COUNT] for worker in workers if worker.pid in found}
    ends: dict[str, list[Process]] = {}
    for worker in workers:
        if worker.exited and worker.exit_status is not None and worker.exit_status not in _ASKED:
            ends.setdefault(worker.environment[_COUNT], []).append(worker)
    for start, failed in ends.items():
        if start not in known and len(failed) == 1:  # S3
            (one,) = failed
            rank = one.environment.get("RANK") or one.environment.get("LOCAL_RANK", "?")
            found[one.pid] = _Failure(one.pid, rank, one.exit_status or 0)
    return list(found.values())


def _first(known: Sequence[tuple[str, str]], times: int, did: str) -> str:
    """Return `; each time rank 1 ended first, with status 1`, by the rank and how it ended (or "") at each start."""
    if len(set(known)) > 1:
        return f"; first {did} " + ", then ".join(f"rank {rank} {how}".rstrip() for rank, how in known[-3:])
    for rank, how in set(known):
        often = f"{_how_many(len(known), times)} " if len(known) > 1 else ""
        return f"; {often}rank {rank} {did} first{f', {how}' if how else ''}"
    return ""


def _how_many(known: int, times: int) -> str:
    return "each time" if known >= times - 1 and times > 2 else f"{known} of the ends are known:"


def _worker_errors(workers: Sequence[Process], state: RuleInput) -> list[_WorkerErrors]:
    """Return the errors in the workers' files, oldest start first, without the current start."""
    runs = {clean_line(run.folder) for one in workers if (run := run_of(one.environment.get(_ERROR_FILE, "")))}
    ranks = {worker.environment.get("LOCAL_RANK", ""): worker.environment.get("RANK", "") for worker in workers}
    newest = max(int(worker.environment[_COUNT]) for worker in workers)
    found = []
    for said in state.snapshot.diagnostics.values():
        if said.system != "pytorch" or said.code != _CODE:
            continue
        facts = read_facts(said, WorkerFacts)
        if facts.run in runs and facts.start < newest:
            rank = ranks.get(facts.local_rank) or facts.local_rank
            found.append(_WorkerErrors(facts.start, rank, facts.error.rstrip(": ."), said))
    return sorted(found, key=lambda one: one.start)


def _error_left(left: Sequence[_WorkerErrors], times: int) -> str:
    """Return `: ValueError: bad shard`, if the same each time; else the newest start's error."""
    if not left:
        return ""
    if len(left) == times - 1 and len({one.error for one in left}) == 1:
        return f": {left[0].error}"
    return f"; the error at start {left[-1].start + 1}: {left[-1].error}"


_INSIDE: Final = "/torch/distributed/elastic/rendezvous/"
_OPTION: Final = lazy_re(r"--(nnodes|rdzv[-_]endpoint|master[-_]addr)(?:=(.+))?")


class RendezvousWait:
    """An agent that waits for other nodes."""

    name = "rendezvous-wait"
    doc = (
        "The main thread of an agent of torchrun is in its rendezvous, the process has been there for the threshold "
        "(10 s) and longer, and it has no child: it waits for the agents of other nodes, which may be on hosts that "
        "are not seen, and polls meanwhile. It is `unknown`. Rests on the Python stack."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        parents = {process.ppid for process in state.snapshot.processes.values() if not process.exited}
        for process in state.snapshot.processes.values():
            if process.target and not process.exited and process.pid not in parents:
                yield from self._finding(process, state)

    def _finding(self, process: Process, state: RuleInput) -> Iterable[Finding]:
        main = main_thread(process.id, state)
        stack = state.snapshot.stacks.get(main.id) if main is not None else None
        if main is None or stack is None or not any(_INSIDE in (frame.file or "") for frame in stack.frames):
            return
        if lived_ns([process.id], state) < state.settings.thread_stall_ns:
            return
        said = ", ".join(_options(process.command))
        yield Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=(
                f"{sentence_case(name_of(process.id, state.snapshot))} waits in torchrun's rendezvous for other nodes "
                f"to join{f' ({said})' if said else ''}; it has started no worker."
            ),
            entities=(process.id, main.id),
            evidence=(thread_evidence(main, state),),
            next=("livedbg report on the other nodes, or compare --nnodes and --rdzv-endpoint there",),
            state=VerdictState.UNKNOWN,
            roots=(process.id,),
            decides=True,
        )


def _options(command: Sequence[str]) -> Iterable[str]:
    """Yield the options on node count and rendezvous: `--nnodes 2`, `--rdzv-endpoint 10.0.0.1:29500`."""
    for at, word in enumerate(command):
        found = _OPTION.fullmatch(word)
        value = found[2] or (command[at + 1] if at + 1 < len(command) else "") if found is not None else ""
        if found is not None and value:
            yield f"--{found[1].replace('_', '-')} {value}"
