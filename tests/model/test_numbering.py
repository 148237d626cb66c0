"""Numbers for names: the invariants of livedbg.model.tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from livedbg.model.tables import Numbering


@pytest.mark.invariant("tables.Q1")
def test_Q1_a_name_keeps_its_number() -> None:
    numbering = Numbering()
    assert [numbering.of(name) for name in "abca"] == [0, 1, 2, 0]
    other = numbering.copy()
    assert (other.of("d"), numbering.of("e"), numbering.get("d"), other.get("a")) == (3, 3, None, 0)
    assert (numbering.names, other.names) == (["a", "b", "c", "e"], ["a", "b", "c", "d"])


@pytest.mark.invariant("tables.Q2")
def test_Q2_threads_that_number_at_once_agree() -> None:
    numbering = Numbering()
    names = [str(n) for n in range(3000)]
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: [numbering.of(name) for name in names], range(8)))
    assert len({tuple(numbers) for numbers in told}) == 1
    assert all(numbering.names[number] == name for name, number in zip(names, told[0], strict=True))
    assert len(numbering.names) == len(names)
