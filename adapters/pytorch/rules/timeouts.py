"""Rules for the ends of distributed jobs in logs: time-outs of collectives, and what ranks, stores and torchrun say.

Invariants:
    collective_timeouts.T1. A rank is named as late only by its own line, or since all others around it reported.
    collective_timeouts.T2. Only a line that says that a process was ended for it makes it a crash; else it is a stall.
    collective_timeouts.T3. Ranks are out of step if they wait in one collective, by its number, as different operations
        or with different sizes; but not where sizes may differ (all_to_all), nor where the ranks may be in different
        groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.pytorch.facts import LoggedCallFacts
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.ended import lives
from livedbg.analysis.postmortem.survived import goes_on_after, unless_survived
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.said import finding_of
from livedbg.analysis.wording import with_more
from livedbg.logs.writers import rank_of
from livedbg.model import CauseClass, Diagnostic, Severity
from livedbg.text.patterns import lazy_re
from livedbg.text.wording import listing, sentence_case, spans

_PROOFS: Final = 6
_TIMEOUT: Final = "collective-timeout"
_STATUS: Final = "collective-status"
_ENDS: Final = "watchdog-ends"
_OF_ONE_SIZE: Final = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast", "reduce")
"""Operations that each rank must call with the same number of elements."""
_OWN: Final = lazy_re(r"ProcessGroupNCCL|NCCL|c10d|TCPStore|elastic|\bframe #")


class CollectiveTimeouts:
    """Collectives that timed out."""

    name = "collective-timeout"
    doc = (
        "The watchdogs of ranks report that a collective timed out. The lines of all ranks are joined: who waited in "
        "which collective of which group, who had enqueued less (it never called it), and who said nothing. A crash "
        "where a line says that a process was ended for it, else a stall. Which rank is missing is inferred where its "
        "own lines are not there."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for the earliest timed-out collective of each group."""
        said = [one for one in state.snapshot.diagnostics.values() if one.system == "pytorch"]
        timeouts = [one for one in said if one.code == _TIMEOUT]
        if not timeouts:
            return
        heard = _heard(said)
        ends = [one for one in said if one.code == _ENDS]
        for told in _groups(timeouts, heard):
            yield _downgraded_if_over(self._finding(told, heard, ends, state), state)

    def _finding(
        self,
        told: Sequence[Diagnostic],
        heard: Mapping[int, Sequence[Diagnostic]],
        ends: Sequence[Diagnostic],
        state: RuleInput,
    ) -> Finding:
        alive = lives(state.snapshot)
        first = told[0]
        ranks = set(map(_rank, told))
        late, proofs = _late(told, heard)
        silent = [] if late else _silent(told)
        odd, differ = _out_of_step(told)
        told = [*(one for one in told if _rank(one) in odd), *(one for one in told if _rank(one) not in odd)]
        sentence = f"{sentence_case(_who(ranks))} timed out in {_what(told, heard)}{differ}"
        if late:
            sentence += "; " + ", ".join(f"rank {rank} last enqueued #{enqueued}" for rank, enqueued in late[:4])
        elif silent:
            sentence += f"; {_who(silent)} reported nothing"
        elif not differ and _all_enqueued(told, heard) and len(ranks) > 1:
            sentence += "; all of them had enqueued it: it hung in NCCL, or their calls differ"
        return Finding(
            rule=self.name,
            severity=Severity.ERROR,
            sentence=f"{sentence}.",
            evidence=(*(one.evidence[0] for one in told), *(one.evidence[0] for one in proofs))[:_PROOFS],
            next=tuple(_steps([rank for rank, _ in late] or odd or silent)),
            inferred=bool(silent),
            since_wall_ns=min((one.at_wall_ns for one in told if one.at_wall_ns), default=first.at_wall_ns),
            state=None if alive else VerdictState.CRASHED if ends else VerdictState.STALLED,
            cause=CauseClass.PROCESS if differ else None,
        )


def _out_of_step(told: Sequence[Diagnostic]) -> tuple[Sequence[int], str]:
    """Return the ranks that differ from most others in the collective that all wait in, and how (T3).

    Groups side by side have the same numbers, and often the same name: in one of them the ranks have other numbers.
    """
    known = [_facts(one) for one in told]
    one_group = all(one.rank == one.job_rank for one in known) and all(rank_of(one.writer) is not None for one in told)
    if not one_group or len({one.seq for one in known}) > 1 or known[0].seq is None:
        return (), ""
    sized = all(one.size is not None and one.op in _OF_ONE_SIZE for one in known)
    calls: dict[tuple[str, int | None], list[int]] = defaultdict(list)
    for one in known:
        calls[one.op, one.size if sized else None].append(one.job_rank or 0)
    if len(calls) < 2:
        return (), ""
    *others, most = sorted(calls.items(), key=lambda item: len(item[1]))
    odd = sorted(rank for _, ranks in others for rank in ranks)
    if len({op for op, _ in calls}) > 1:
        return odd, ": they are out of step"
    sizes = [f"{_who(ranks)} with {size:,} elements" for (_, size), ranks in [*others[:2], most] if size is not None]
    return odd, f", {listing(sizes)}: they are out of step"


def _downgraded_if_over(finding: Finding, state: RuleInput) -> Finding:
    """Downgrade it to a warning if a rank's log goes on after it."""
    if finding.state is not VerdictState.STALLED:
        return unless_survived(finding, state.snapshot, _OWN.search)
    if went_on := goes_on_after(finding.evidence, state.snapshot, _OWN.search):
        return with_more(finding, f"It was over: {went_on}", state=None, severity=Severity.WARNING)
    return finding


def _heard(said: Iterable[Diagnostic]) -> dict[int, list[Diagnostic]]:
    found: dict[int, list[Diagnostic]] = defaultdict(list)
    for one in said:
        if one.code == _STATUS:
            found[_rank(one)].append(one)
    return found


def _group_of(said: Diagnostic, heard: Mapping[int, Sequence[Diagnostic]]) -> str:
    """Return the group of a time-out: from its line, or from the same rank's line about the same work."""
    known = _facts(said)
    of_rank = map(_facts, heard.get(_rank(said), ()) if known.seq is not None else ())
    return known.group or next((one.group for one in of_rank if one.seq == known.seq and one.group), "")


def _groups(
    timeouts: Iterable[Diagnostic], heard: Mapping[int, Sequence[Diagnostic]]
) -> Iterator[Sequence[Diagnostic]]:
    """Yield the time-outs of each group, for each rank its earliest collective."""
    found: dict[str, dict[int | None, Diagnostic]] = defaultdict(dict)
    for said in timeouts:
        of_group = found[_group_of(said, heard)]
        rank = _facts(said).job_rank
        known = of_group.get(rank)
        if known is None or _number(said) < _number(known):
            of_group[rank] = said
    if "" in found and len(found) > 1:  # some lines lack the group
        nameless = found.pop("")
        into = max(found.values(), key=len)
        for rank, said in nameless.items():
            if not any(rank in of_group for of_group in found.values()):
                into[rank] = said
    for of_group in found.values():
        yield sorted(of_group.values(), key=_rank)


def _facts(said: Diagnostic) -> LoggedCallFacts:
    return said.message.read(LoggedCallFacts)


def _number(said: Diagnostic) -> int:
    return _facts(said).seq or 0


def _what(told: Sequence[Diagnostic], heard: Mapping[int, Sequence[Diagnostic]]) -> str:
    """Return `all_reduce #812 of group default_pg`; more if ranks are in different ones."""
    group = _group_of(told[0], heard)
    calls: dict[str, list[int]] = defaultdict(list)
    for said in told:
        known = _facts(said)
        calls[f"{known.op}{f' #{known.seq}' if known.seq is not None else ''}"].append(_rank(said))
    of = f" of {group if group.startswith('PG ') else f'group {group}'}" if group else ""
    if len(calls) == 1:
        return f"{next(iter(calls))}{of}"
    parts = [f"{call} ({_who(ranks)})" for call, ranks in list(calls.items())[:3]]
    return f"different collectives{of}: {', '.join(parts)}"


def _late(
    told: Sequence[Diagnostic], heard: Mapping[int, Sequence[Diagnostic]]
) -> tuple[list[tuple[int, int]], list[Diagnostic]]:
    """Return the ranks that had enqueued less than the awaited collective, with their last number, and the evidence."""
    wanted, group = max(map(_number, told)), _group_of(told[0], heard)
    late, proofs = [], []
    for rank, lines in sorted(heard.items()):
        mine = [one for one in lines if group in ("", _facts(one).group)]
        last = max((_enqueued(one) for one in mine), default=wanted)
        if last < wanted:
            late.append((rank, last))
            proofs.append(mine[-1])
    return late, proofs


def _all_enqueued(told: Sequence[Diagnostic], heard: Mapping[int, Sequence[Diagnostic]]) -> bool:
    return all(any(_enqueued(one) >= _number(said) for one in heard.get(_rank(said), ())) for said in told)


def _enqueued(said: Diagnostic) -> int:
    known = _facts(said).enqueued
    return -1 if known is None else known


def _rank(said: Diagnostic) -> int:
    return _facts(said).job_rank or 0


def _silent(told: Sequence[Diagnostic]) -> list[int]:
    """Return unreporting ranks between the reporting ones (T1); [] if the lines number the ranks of a subgroup."""
    ranks = set(map(_rank, told))
    if len(ranks) < 2 or any(one.rank != one.job_rank for one in map(_facts, told)):
        return []
    return sorted(set(range(max(ranks) + 1)) - ranks)


def _who(ranks: Iterable[int]) -> str:
    known = sorted(set(ranks))
    return f"rank {known[0]}" if len(known) == 1 else f"ranks {spans(known)}"


def _steps(ranks: Sequence[int]) -> Iterator[str]:
    if ranks:
        who = _who(ranks[:4])
        yield f"read the last lines of {who}{' and others' if len(ranks) > 4 else ''}: what it did instead"
    else:
        yield "compare the ranks' calls and sizes: TORCH_DISTRIBUTED_DEBUG=DETAIL names the first that differs"
    yield "livedbg report --logs DIR   with the logs of all ranks, and the flight recorder's dumps"
    yield "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1   (set for the next run: each rank dumps its calls)"


_CRASHED: Final = VerdictState.CRASHED


class RanksMissing:
    """Ranks that others waited for in vain."""

    name = "ranks-missing"
    doc = (
        "Logs say that ranks never came: to the store of the job, to the barrier at its start, to the rank that shares "
        "NCCL's id, to `monitored_barrier`. Those that waited for the same rank are one finding. A crash of the ranks "
        "that waited; what the missing rank did instead is the question."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each awaited rank."""
        found: dict[str, list[Diagnostic]] = {}
        for said in state.snapshot.diagnostics.values():
            if said.system == "pytorch" and said.code == "ranks-missing":
                found.setdefault(said.id if _facts(said).rank is None else said.does, []).append(said)
        for told in found.values():
            first, ranks = told[0], [rank for one in told if (rank := _facts(one).rank) is not None]
            if len(ranks) > 1:
                proofs = tuple(one.evidence[0] for one in told)[:_PROOFS]
                first = replace(first, sentence=f"Ranks {spans(ranks)} {first.does}", evidence=proofs)
            yield finding_of(self.name, first, state, _CRASHED if _thrown(first) else None)


class PeersClosed:
    """Connections that ranks lost."""

    name = "job-peer-closed"
    doc = (
        "A rank lost the connection to another one (gloo): the other end has ended, and is the one to look at. A crash "
        "of that rank where gloo threw. A rank between those that reported it, of which no log shows an error, is "
        "named: it reported nothing."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each rank and connection."""
        said = (one for one in state.snapshot.diagnostics.values() if one.system == "pytorch")
        closed = [one for one in said if one.code == "peer-closed"]
        silent = _reported_nothing([one.writer for one in closed], state)
        for one in closed:
            more = f", in {call}" if (call := _call(one, state)) else ""
            finding = finding_of(self.name, one, state, _CRASHED if _thrown(one) else None, more=more)
            yield with_more(finding, silent)


def _reported_nothing(writers: Sequence[str], state: RuleInput) -> str:
    """Return `Rank 2 reported nothing.`, for ranks between the reporting ones that wrote no error."""
    ranks = {rank for writer in writers if (rank := rank_of(writer)) is not None}
    snapshot = state.snapshot
    heard = {one.writer for one in snapshot.diagnostics.values()}
    heard |= {hit.writer for hit in snapshot.exceptions.values()}
    gaps = [rank for rank in range(max(ranks, default=0)) if rank not in ranks and f"rank {rank}" not in heard]
    if len(ranks) < 2 or not gaps or len(gaps) > len(ranks):
        return ""
    return f"Rank{'s' if len(gaps) > 1 else ''} {spans(gaps)} reported nothing."


def _call(said: Diagnostic, state: RuleInput) -> str:
    """Return the collective whose call threw a message; "" if no traceback shows it."""
    for hit in state.snapshot.exceptions.values():
        if (hit.source, hit.line) == (said.log, said.message.last):
            calls = (frame.function for frame in hit.stack if (frame.file or "").endswith("/distributed_c10d.py"))
            return next((call for call in calls if not call.startswith("_")), "")
    return ""


class ElasticLogged:
    """Ends of workers in torchrun's log."""

    name = "elastic-ended"
    doc = (
        "torchrun's log names the worker that failed first, with its exit code or signal, and the error that it left. "
        "A crash, unless the log goes on (its workers were started again, and ran)."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield the root cause; without one, the failed workers."""
        said = [one for one in state.snapshot.diagnostics.values() if one.system == "pytorch"]
        roots = [one for one in said if one.code == "elastic-root"]
        known = {one.message.pid for one in roots}
        others = [one for one in said if one.code == "elastic-failed" and one.message.pid not in known]
        yield from (finding_of(self.name, one, state, _CRASHED) for one in (*roots, *others))


def _thrown(said: Diagnostic) -> bool:
    return not said.message.warned
