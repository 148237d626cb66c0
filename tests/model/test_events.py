"""Invariants of livedbg.model.events."""

from __future__ import annotations

import typing

import msgspec
import pytest
from hypothesis import given

from livedbg.model import events as ev
from tests.state.strategies import events


@given(events)
@pytest.mark.invariant("events.E2")
def test_E2_decode_gives_back_what_encode_took(event: ev.Event) -> None:
    line = ev.encode(event)
    assert b"\n" not in line
    assert ev.decode(line) == event


@pytest.mark.invariant("events.E1")
def test_E1_events_are_immutable() -> None:
    tick = ev.Tick(**ev.Stamper("box")())
    with pytest.raises(AttributeError):
        tick.host = "other"  # type: ignore[misc]


@pytest.mark.invariant("events.E3")
def test_E3_an_unknown_event_is_an_error_of_that_event_alone() -> None:
    with pytest.raises(msgspec.DecodeError):
        ev.decode(b'{"ev":"from-the-future","host":"box","mono_ns":1,"wall_ns":2}')
    with pytest.raises(msgspec.DecodeError):
        ev.decode(b'{"ev":"tick","host":"bo')
    known = ev.decode(b'{"ev":"tick","host":"box","mono_ns":1,"wall_ns":2,"new_field":3}')
    assert known == ev.Tick(host="box", mono_ns=1, wall_ns=2)


def test_every_event_has_a_tag_of_its_own() -> None:
    kinds = typing.get_args(ev.Event)
    tags = {kind.__struct_config__.tag for kind in kinds}
    assert len(tags) == len(kinds)
