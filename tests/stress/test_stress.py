"""The stress test in small: healthy churn with delayed readings, and a deadlock in the midst of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.session.view import Update
from tests.stress.__main__ import alarms_of, command, delays, running, watch

_UPDATES = 25
_LIMIT_S = 300.0


@pytest.mark.invariant("session.N7")
@pytest.mark.parametrize("kind", [pytest.param("cpp", marks=pytest.mark.heavy), "py"])
def test_nothing_is_claimed_of_a_healthy_program_in_which_all_comes_and_goes(kind: str, tmp_path: Path) -> None:
    left = _UPDATES

    def enough(_update: Update) -> bool:
        nonlocal left
        left -= 1
        return not left

    with delays(1), running(command(kind, "", tmp_path)) as pid:
        claims, taken = watch(pid, enough, _LIMIT_S)
    assert taken >= _UPDATES and not claims


@pytest.mark.parametrize(
    ("kind", "word", "rule"),
    [
        ("cpp", "orphan", "dead-owner"),
        pytest.param("py", "deadlock", "lock-cycle", marks=pytest.mark.heavy),
    ],
)
def test_a_hang_amid_the_churn_is_reported(kind: str, word: str, rule: str, tmp_path: Path) -> None:
    with delays(2), running(command(kind, word, tmp_path)) as pid:
        claims, _ = watch(pid, lambda update: rule in alarms_of(update), _LIMIT_S)
    assert claims and all(claim.startswith(f"{rule}:") for claim in claims)
