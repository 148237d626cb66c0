"""How often the adapter looks."""

from __future__ import annotations

import pytest

from livedbg.adapters.proc.pace import Pace


def test_backs_off_while_nothing_changes_and_returns_at_once() -> None:
    pace = Pace(0.5)
    second, *pauses = [pace.after(changed=False, cost_s=0.001) for _ in range(20)]
    assert second == 0.15  # what makes progress is known after two looks
    assert pauses[0] == 0.5
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2.0
    assert pace.after(changed=True, cost_s=0.001) == 0.5


def test_one_costly_look_is_allowed_and_many_are_taken_seldom() -> None:
    pace = Pace(0.5)
    assert pace.after(changed=True, cost_s=0.03) == 0.15
    assert pace.after(changed=True, cost_s=0.004) == 0.5
    looks = [(cost_s, pace.after(changed=True, cost_s=cost_s)) for cost_s in (0.09, 0.02) * 20]
    share = sum(cost_s for cost_s, _ in looks) / sum(pause_s for _, pause_s in looks)
    assert share == pytest.approx(0.006, rel=0.1)


def test_a_slower_interval_than_the_slowest_is_kept() -> None:
    pace = Pace(5.0)
    assert {pace.after(changed=False, cost_s=0.0) for _ in range(20)} == {0.15, 5.0}
