"""Runs the analyses over a snapshot, holds back claims that were not read again, and ranks what they find."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType

from livedbg.analysis.behaviour import doing
from livedbg.analysis.claims import read_again
from livedbg.analysis.diagnosis import NO_DIAGNOSIS, Diagnosis, WaitGraph
from livedbg.analysis.graphs import GraphKeeper
from livedbg.analysis.postmortem.causes import by_cause
from livedbg.analysis.postmortem.exceptions import with_exceptions
from livedbg.analysis.rules.base import Judged, Rule, RuleInput, Settings
from livedbg.analysis.tasks import TaskIndex
from livedbg.analysis.user_code import NO_FRAMEWORKS, UserCode
from livedbg.analysis.verdict import ranked, verdict_of
from livedbg.model.snapshot import Snapshot

__all__ = ["Diagnostician"]


class Diagnostician:
    """Diagnoses one snapshot after another, reusing what didn't change (the graph, the tasks).

    Args:
        rules: the rules to apply (livedbg.session.rulebook has all of them).
        settings: thresholds of the rules.
        judged: what the rules of single systems judge.
        code: tells the user's own code in stacks.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        settings: Settings | None = None,
        judged: Judged | None = None,
        code: UserCode = NO_FRAMEWORKS,
    ) -> None:
        self._settings = settings or Settings()
        self._judged = judged or Judged()
        self._rules = tuple(rules)
        self._code = code
        self._graphs = GraphKeeper()
        self._tasks = TaskIndex()

    def diagnose(self, snapshot: Snapshot) -> Diagnosis:
        """The diagnosis of `snapshot` as of the last look (snapshot.S3); a fresh diagnostician would say the same."""
        if not snapshot.revision:
            return NO_DIAGNOSIS
        snapshot = snapshot.as_of_looks()
        graph: WaitGraph = self._graphs.graph_of(snapshot)
        self._tasks.update(snapshot)
        state = RuleInput(snapshot, graph, self._settings, self._tasks, self._judged, self._code)
        made = (finding for rule in self._rules for finding in rule.apply(state))
        read = read_again(with_exceptions(made, snapshot), snapshot)
        findings = ranked(by_cause(read.findings, state), state)
        named = MappingProxyType({f"F{number}": finding for number, finding in enumerate(findings, 1)})
        verdict = verdict_of(findings, state)
        return Diagnosis(
            verdict,
            named,
            graph,
            snapshot.revision,
            self._code,
            read.claims,
            read.unread,
            doing=partial(doing, state=state),
        )
