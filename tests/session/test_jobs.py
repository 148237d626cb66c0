"""The ranks of a job, found from one of them or from what launched them: real processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest

from livedbg.model.errors import UsageError
from livedbg.session.targets import ranks_of_job, resolve
from tests.conftest import TARGETS, Target, start

Launch = Callable[..., "Job"]
BARE = {name: value for name, value in os.environ.items() if "RANK" not in name and not name.startswith("SLURM_")}


class Job:
    """A job that was launched: the pids of its ranks and of their helpers, by rank."""

    def __init__(self, kind: str, ranks: int, number: int, env: dict[str, str]) -> None:
        port = f"{os.getpid()}{number}"  # tests beside this one have others; nobody listens
        argv = [sys.executable, TARGETS / "ranked.py", kind, str(ranks), port]
        self.launcher: Target = start(argv, env={**BARE, **env})
        told = sorted(tuple(map(int, self.launcher.line().split())) for _ in range(ranks))
        self.ranks = [pid for _, pid, _ in told]
        self.helpers = [helper for _, _, helper in told]

    @property
    def all(self) -> list[int]:
        return [*self.ranks, self.launcher.pid]


@pytest.fixture
def launch() -> Iterator[Launch]:
    started = []

    def begin(kind: str, ranks: int = 3, **env: str) -> Job:
        started.append(Job(kind, ranks, len(started), env))
        return started[-1]

    yield begin
    for job in started:
        job.launcher.kill()


@pytest.mark.parametrize("kind", ["exec", "fork"])
@pytest.mark.invariant("targets.R2")
def test_R2_a_rank_a_helper_and_the_launcher_give_all_ranks_and_no_helper(kind: str, launch: Launch) -> None:
    job = launch(kind)
    for pid in (job.ranks[1], job.helpers[2], job.launcher.pid):
        assert ranks_of_job(pid) == job.all
    assert [one.pid for one in resolve([str(job.ranks[2])], all_ranks=True).processes] == job.all
    assert [one.pid for one in resolve([f"torchrun:{job.ranks[0]}"]).processes] == job.all
    assert [one.pid for one in resolve([str(job.ranks[2])]).processes] == [job.ranks[2]]


@pytest.mark.parametrize("kind", ["exec", "fork"])
@pytest.mark.invariant("targets.R1")
def test_R1_jobs_that_meet_elsewhere_or_have_other_launchers_are_apart(kind: str, launch: Launch) -> None:
    one, other = launch(kind), launch(kind, 2)
    assert ranks_of_job(one.ranks[0]) == one.all
    assert ranks_of_job(other.ranks[0]) == other.all


def test_a_rank_that_is_set_later_goes_before_that_of_a_launcher_around_it(launch: Launch) -> None:
    job = launch("fork", 2, SLURM_PROCID="0", SLURM_JOB_ID="7")
    assert ranks_of_job(job.ranks[1]) == job.all


def test_a_job_of_one_rank(launch: Launch) -> None:
    job = launch("fork", 1)
    assert ranks_of_job(job.ranks[0]) == job.ranks
    assert ranks_of_job(job.launcher.pid) == job.ranks


def test_processes_without_a_rank_are_no_job(launch: Launch) -> None:
    job = launch("none", 2)
    assert ranks_of_job(job.ranks[0]) == []
    with pytest.raises(UsageError, match=f"No rank is known of process {job.ranks[0]}"):
        resolve([str(job.ranks[0])], all_ranks=True)
    assert [one.pid for one in resolve([f"torchrun:{job.launcher.pid}"]).processes] == [job.launcher.pid]
