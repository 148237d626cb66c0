"""What stays of the memory that malloc gave: allocations minus frees, by stack."""

from __future__ import annotations

import pytest

from livedbg.model import Frame
from livedbg.probes.allocations import TIERS, KeptBlocks, too_often, wanted, weight_of

_KEEPS = ((Frame(function="keep"),), True)
_FREES = ((Frame(function="use"),), True)
_LATER = 1 << 60


@pytest.mark.invariant("allocations.K1")
def test_what_was_freed_is_not_kept_and_an_older_free_ends_no_younger_block() -> None:
    kept = KeptBlocks()
    for number in range(100):
        kept.took(0x1000 + number * 64, 64, 10, _KEEPS, 1)
        kept.took(0x100000, 5000, 20 + 2 * number, _FREES, 1)
        kept.gave(0x100000, 21 + 2 * number)
    kept.took(0x1000, 64, 500, _KEEPS, 1)
    kept.gave(0x1000, 499)
    kept.note_peak(_LATER)
    assert kept.peak == {_KEEPS: (6400, 100)}


@pytest.mark.invariant("allocations.K2")
def test_a_block_weighs_as_many_as_it_was_taken_from() -> None:
    kept = KeptBlocks()
    for address in range(0x10_0000, 0x110_0000, 1 << 12):
        kept.took(address, 4000, 1, _KEEPS, 1)
    kept.choose((3, 0))
    assert len(kept) == 4096 // 8
    kept.choose((1, 0))  # more are followed from now on; these stand for eight as before
    kept.note_peak(_LATER)
    assert kept.peak == {_KEEPS: (4096 * 4000, 4096)}
    assert [weight_of(size, (4, 2)) for size in (100, TIERS[0], TIERS[1])] == [16, 4, 1]


def test_the_test_of_the_kernel_takes_large_blocks_always() -> None:
    assert wanted((4, 0)) == (
        "ptr != 0 && ((size >= 0 && size < 16384 && !(ptr & 0x3c000)) || (size >= 16384 && size < 1048576)"
        " || size >= 1048576)"
    )


@pytest.mark.invariant("allocations.K3")
def test_after_frees_that_were_dropped_only_younger_blocks_count() -> None:
    kept = KeptBlocks()
    kept.took(0x1000, 100, 1, _FREES, 1)
    kept.forget()
    kept.took(0x2000, 60, 2, _KEEPS, 1)
    kept.note_peak(_LATER)
    assert kept.peak == {_KEEPS: (60, 1)}


@pytest.mark.invariant("allocations.K5")
def test_a_young_block_is_not_kept_yet_and_the_peak_stays_after_all_was_freed() -> None:
    kept = KeptBlocks()
    kept.took(0x1000, 100, 10, _KEEPS, 1)
    kept.took(0x2000, 9000, 20, _FREES, 1)
    kept.note_peak(15)
    assert kept.peak == {_KEEPS: (100, 1)}
    kept.gave(0x1000, 30)
    kept.gave(0x2000, 30)
    kept.note_peak(_LATER)
    assert kept.peak == {_KEEPS: (100, 1)}


@pytest.mark.invariant("allocations.K4")
def test_a_program_that_traps_would_slow_down_by_half_is_left_alone() -> None:
    assert too_often(traps_s=3.0, system_s=0.8, wall_s=1.0)
    assert not too_often(traps_s=0.2, system_s=0.8, wall_s=1.0)  # its own system calls
    assert not too_often(traps_s=0.9, system_s=0.3, wall_s=1.0)  # a trap takes less than it may
