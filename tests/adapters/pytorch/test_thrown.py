"""What a hit of a catchpoint says of the rank and the collective in which it was thrown."""

from __future__ import annotations

import json
import re

import pytest

from livedbg.linux.procfs import child_pids
from tests.adapters.pytorch.conftest import Job
from tests.cli.zygote import run_livedbg
from tests.conftest import seen_when

pytestmark = pytest.mark.timeout(400)


@pytest.mark.invariant("thrown.H1")
@pytest.mark.invariant("circumstances.B1")
@pytest.mark.parametrize("pattern", ["c10::Error", "python:RuntimeError"])
def test_H1_B1_rank_and_collective_of_a_hit(pattern: str, job: Job) -> None:
    parent = job("throws", 2)
    ranks = seen_when(lambda found: len(found) == 2, lambda: child_pids(parent), 250)
    done = run_livedbg(["catch", ranks[1], pattern, "--json", "--count", 6, "--timeout", 300], 350)
    hits = [json.loads(line) for line in done.stdout.splitlines()]
    assert hits, done.stderr
    assert {hit["rank"] for hit in hits} == {1}
    inside = [hit["operation"] for hit in hits if "BAND" in hit["message"]]
    outside = [hit["operation"] for hit in hits if "BAND" not in hit["message"]]
    assert inside and all(re.fullmatch(r"all_reduce #\d+ of group dp", text or "") for text in inside), hits
    assert outside and set(outside) == {None}, hits
