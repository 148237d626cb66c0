"""A state can be written as events, and goes on from them as if nothing had been dropped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.model import events as ev
from livedbg.state.store import Store
from tests.state.strategies import streams
from tests.state.test_store import plain


def but_the_revision(store: Store) -> dict[str, Any]:
    return {name: value for name, value in plain(store.snapshot()).items() if name != "revision"}


@pytest.mark.invariant("keyframe.B1")
@given(stream=streams, share=st.floats(0, 1))
def test_a_state_goes_on_from_its_keyframe(stream: list[ev.Event], share: float) -> None:
    made = (ev.Keyframe, ev.StateCleared)  # by a state: others stand for none
    stream = [event for event in stream if not isinstance(event, made)]
    cut = int(share * len(stream))
    whole, begun, later = Store(), Store(), Store()
    whole.apply_all(stream)
    begun.apply_all(stream[:cut])
    later.apply_all(ev.decode(ev.encode(event)) for event in begun.keyframe())
    assert but_the_revision(later) == but_the_revision(begun)
    later.apply_all(stream[cut:])
    assert but_the_revision(later) == but_the_revision(whole)
    again = whole.keyframe()
    whole.apply_all(again)  # in the middle of a recording
    assert but_the_revision(later) == but_the_revision(whole)


def test_an_empty_state_has_no_keyframe() -> None:
    assert Store().keyframe() == []
