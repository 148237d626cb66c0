"""Real programs that use all of a core: what they show beside that, and what that amounts to."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from livedbg.analysis import VerdictState
from livedbg.model.snapshot import Snapshot
from livedbg.session.rulebook import diagnose


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
        deadline = time.monotonic() + 60
        while True:  # it starts, and gets little CPU time on a busy machine
            found = diagnose(observe(process.pid)).verdict
            if found.state is state and words in found.sentence:
                break
            assert time.monotonic() < deadline, found
        process.kill()
