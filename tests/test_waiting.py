"""The waits of the tests: for the thing itself, bounded by CPU time; and retries that are tried."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Target
from tests.waiting import again, awaited, until


def test_what_was_seen_first_is_given() -> None:
    looks = iter([0, "", [], 7, 8])
    assert until(lambda: next(looks)) == 7


def test_who_only_computes_and_does_not_get_there_has_failed_by_its_cpu_time() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "while True: pass"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as busy:
        try:
            with pytest.raises(AssertionError, match=r"not after \d+ s of CPU time: nothing"):
                until(lambda: False, of=(busy.pid,), cpu_s=0.1, told=lambda: "nothing")
        finally:
            busy.kill()


def test_the_cpu_time_of_children_counts() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'], timeout=100)"
    with subprocess.Popen(
        [sys.executable, "-c", program], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as parent:
        try:
            with pytest.raises(AssertionError, match="of CPU time"):
                until(lambda: False, of=(parent.pid,), cpu_s=2.0)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_who_has_ended_is_looked_at_once_more_and_no_longer() -> None:
    looks = []
    with subprocess.Popen(["true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as ended:
        ended.wait()
        with pytest.raises(AssertionError, match="have ended"):
            until(lambda: looks.append(1), of=(ended.pid,))  # type: ignore[func-returns-value]
        assert looks == [1]
        assert until(lambda: "there", of=(ended.pid,)) == "there"


def test_who_sleeps_for_ever_has_failed_by_the_clock() -> None:
    begun_s = time.monotonic()
    with pytest.raises(AssertionError, match="next to no CPU time"):
        until(lambda: False, wall_s=0.1)
    assert time.monotonic() - begun_s >= 0.1


async def test_on_a_loop_too() -> None:
    looks = iter([0, 3])
    assert await awaited(lambda: next(looks)) == 3
    with pytest.raises(AssertionError, match="next to no CPU time"):
        await awaited(lambda: False, wall_s=0.1)


@pytest.mark.parametrize(("given", "found", "made"), [("1234", "3", 3), ("3124", "3", 2), ("1111", "1", 4)])
def test_a_retry_is_made_at_least_once_in_a_folder_of_its_own(
    given: str, found: str, made: int, tmp_path: Path
) -> None:
    left = iter(given)

    def attempt(folder: Path) -> str:
        folder.mkdir()  # not there yet
        return next(left)

    assert again(attempt, lambda one: one == "3", tmp_path, len(given)) == found
    assert len(list(tmp_path.iterdir())) == made


@pytest.mark.parametrize(
    ("program", "problem"), [("while True: pass", "of CPU time"), ("input()", "next to no CPU time")]
)
def test_a_program_that_never_says_that_it_is_ready(program: str, problem: str, spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", f"print('begun', flush=True)\n{program}"], "begun")
    with pytest.raises(TimeoutError, match=problem):
        target.until("READY", cpu_s=0.2, wall_s=240.0 if "while" in program else 0.5)
    assert target.ready == "begun"
