"""Rules for the ends of distributed jobs, as logged by ranks, stores and torchrun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.pytorch.facts import LoggedCallFacts
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.said import finding_of
from livedbg.analysis.wording import with_more
from livedbg.logs.writers import rank_of
from livedbg.model import Diagnostic
from livedbg.text.wording import spans

_PROOFS: Final = 6

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
                found.setdefault(said.id if _rank(said) is None else said.does, []).append(said)
        for told in found.values():
            first, ranks = told[0], [rank for one in told if (rank := _rank(one)) is not None]
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
        silent = _silent([one.writer for one in closed], state)
        for one in closed:
            more = f", in {call}" if (call := _call(one, state)) else ""
            finding = finding_of(self.name, one, state, _CRASHED if _thrown(one) else None, more=more)
            yield with_more(finding, silent)


def _silent(writers: Sequence[str], state: RuleInput) -> str:
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
            return next(calls, "")
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


def _rank(said: Diagnostic) -> int | None:
    return said.message.read(LoggedCallFacts).rank
