"""A request for resources that a cluster can't give is a wait, unless its job goes on."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

ASKED = "(autoscaler +{}s) Error: No available node types can fulfill resource request {{'GPU': 16.0}}.\n"


@pytest.mark.parametrize(
    ("after", "state"),
    [
        ("", VerdictState.UNKNOWN),
        (ASKED.format(49), VerdictState.UNKNOWN),
        ("make: *** [train] Error 1\n", VerdictState.CRASHED),
    ],
)
def test_a_request_that_no_node_can_fulfil(after: str, state: VerdictState) -> None:
    judged = verdict(ASKED.format(14) + after)
    assert judged.state is state
    assert judged.sentence.startswith("Ray waits: no node of the cluster can give what is asked for: {'GPU': 16.0}.")


def test_so_not_if_its_job_completes() -> None:
    done = "".join(f"(Trainer pid=3) epoch {number} of 9\n" for number in range(1, 10)) + "Training completed.\n"
    assert verdict(ASKED.format(14) + done).state in {VerdictState.UNKNOWN, VerdictState.EXITED}
