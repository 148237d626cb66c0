"""Real programs that use all of a core: what they show beside that, and what that amounts to."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.analysis import VerdictState
from livedbg.model.snapshot import Snapshot
from livedbg.session.rulebook import diagnose
from tests.conftest import seen_when
from tests.zoo.cases import CASES
from tests.zoo.start import build, started


@pytest.mark.parametrize(
    ("command", "state", "words"),
    [
        ("while :; do :; done", VerdictState.UNKNOWN, "computes, or spins"),
        ("exec gzip -9 < /dev/zero", VerdictState.RUNNING, "used CPU time while watched"),
    ],
)
def test_a_loop_that_only_computes_is_told_from_a_program_that_reads_and_writes(
    command: str, state: VerdictState, words: str, observe: Callable[..., Snapshot]
) -> None:
    quiet = subprocess.DEVNULL
    with subprocess.Popen(["/bin/sh", "-c", command], stdin=quiet, stdout=quiet, stderr=quiet) as process:
        seen_when(  # it starts, and gets little CPU time on a busy machine
            lambda found: found.state is state and words in found.sentence,
            lambda: diagnose(observe(process.pid)).verdict,
        )
        process.kill()


def test_a_main_thread_that_joins_again_and_again_is_no_progress_of_a_thread_that_hangs(
    tmp_path: Path, observe: Callable[..., Snapshot]
) -> None:
    case = next(case for case in CASES if case.name == "C: timed-join-never")
    build(case, tmp_path)
    with started(case, tmp_path, tmp_path, settle=False) as pid:
        found = seen_when(  # it may get little CPU time on a busy machine
            lambda found: "Only threads that wake for a moment used CPU time" in found.sentence,
            lambda: diagnose(observe(pid)).verdict,
        )
    assert found.state is VerdictState.UNKNOWN
