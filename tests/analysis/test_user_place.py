"""A message whose sentence has the user's place: a framework's innermost frame adds nothing."""

from __future__ import annotations

import pytest

from tests.logs.reading import verdict

_TRACED = """Traceback (most recent call last):
  File "/w/env/lib/python3.12/site-packages/torch/fx/experimental/shapes.py", line 93, in decide
    raise self.error(
RuntimeError: Failed running call_module L__self___valve(*(FakeTensor(..., size=(5,)),), **{}):
Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).  (Size-like symbols: none)
"""
_CAUSED = "\nCaused by: valve = self.valve(water)  # <eval_with_key>.7:23 in forward (plant/valve.py:66 in fill)\n"


@pytest.mark.parametrize(
    ("more", "ends"), [(_CAUSED, ", from fill (valve.py:66)."), ("", ", at decide (shapes.py:93).")]
)
def test_the_users_place_or_else_the_frameworks(more: str, ends: str) -> None:
    said = verdict(_TRACED + more).sentence
    assert said == f"torch can't trace valve: Could not guard on data-dependent expression Eq(u0, 1){ends}"
