"""What is merged into one hit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.adapters.exceptions.calls import Call, TracedCall
from livedbg.adapters.exceptions.hits import MOST, Hits, Kind
from livedbg.model import ExceptionHit, Frame
from livedbg.probes.perf import Sample

SECOND_NS = 1_000_000_000


def add(hits: Hits, type_name: str, message: str, place: int = 1, at_s: int = 1) -> None:
    sample = Sample(0, 7, 7, 0, b"", (0,) * 21, b"")
    stack = ((Frame(function=f"f{place}", address=place), Frame(function="main")), True)
    kind = Kind(7, type_name, message, (place,))
    hits.add(kind, TracedCall(sample, Call((type_name,), message)), at_s * SECOND_NS, stack)


def said(hits: Hits) -> dict[str, ExceptionHit]:
    return {hit.id: hit for hit in hits.changed()}


def test_few_messages_are_hits_of_their_own() -> None:
    hits = Hits("box", "C1")
    for number in range(15):
        add(hits, "std::runtime_error", f"step {number % 5}")
    assert sorted((hit.message, hit.count) for hit in said(hits).values()) == [(f"step {n}", 3) for n in range(5)]


def test_ever_different_messages_become_one_hit_that_says_so() -> None:
    hits = Hits("box", "C1")
    for number in range(520):
        add(hits, "std::runtime_error", f"step {number}")
    found = list(said(hits).values())
    assert len(found) == 21 and sum(hit.count for hit in found) == 520
    merged = found[-1]
    assert merged.message == "500 different messages; the last: step 519"
    assert (merged.count, [frame.function for frame in merged.stack], merged.partial) == (500, ["f1", "main"], False)
    for number in range(520, 5000):
        add(hits, "std::runtime_error", f"step {number}")
    (merged,) = said(hits).values()
    assert merged.message.startswith("more than 1,000 different messages; the last: step 4999")


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 100_000), st.integers(0, 100_000), st.integers(0, 500)), max_size=50
    ),
    st.integers(1, 40),
)
@pytest.mark.invariant("hits.Q1", "hits.Q2")
def test_Q1_Q2_counts_sum_up_and_hits_are_bounded(calls: list[tuple[int, int, int, int]], times: int) -> None:
    hits = Hits("box", "C1")
    known: dict[str, ExceptionHit] = {}
    for turn in range(times):
        for type_number, message, place, at_s in calls:
            add(hits, f"type {type_number + turn}", f"{message} {turn}", place + turn, at_s)
        known |= said(hits)
    assert sum(hit.count for hit in known.values()) == len(calls) * times
    assert len(known) <= MOST
    assert all(hit.first_wall_ns is not None and hit.at_wall_ns is not None for hit in known.values())


@pytest.mark.invariant("hits.Q2")
def test_Q2_holds_for_types_and_places_without_end() -> None:
    hits = Hits("box", "C1")
    known: dict[str, ExceptionHit] = {}
    for number in range(3000):
        add(hits, f"type {number}", "the same", number)
        add(hits, "one type", f"{number}", number)
    known |= said(hits)
    assert len(known) == MOST and sum(hit.count for hit in known.values()) == 6000
    rest = [hit for hit in known.values() if "from different places" in hit.message]
    assert {hit.type for hit in rest} >= {"several types", "one type"} and all(not hit.stack for hit in rest)
