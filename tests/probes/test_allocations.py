"""What stays of the memory that malloc gave: allocations minus frees, by stack."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from livedbg.linux import procfs
from livedbg.model import Frame
from livedbg.probes.allocations import TIERS, AllocationProbes, KeptBlocks, too_often, wanted, weight_of
from livedbg.probes.perf import PerfEvents
from tests.conftest import Target
from tests.probes.refused import refused

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


@pytest.mark.invariant("allocations.K1")
@pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")
def test_no_free_is_missed_however_long_it_takes_to_follow_other_blocks(
    spawn: Callable[..., Target], build_target: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = spawn([str(build_target("keeper"))])  # frees a block of 50 kB each round, and then naps

    def rounds() -> int:
        return int(procfs.status_fields(target.pid, target.pid)["voluntary_ctxt_switches"])

    def slow(function: Callable[..., Any]) -> Callable[..., Any]:
        def then_wait(*given: Any, **named: Any) -> Any:
            before, answer = rounds(), function(*given, **named)
            while rounds() < before + 30:
                pass
            return answer

        return then_wait

    monkeypatch.setattr(PerfEvents, "in_threads", slow(PerfEvents.in_threads))
    monkeypatch.setattr(PerfEvents, "read", slow(PerfEvents.read))
    probes = AllocationProbes(target.pid)
    kept: KeptBlocks[int] = KeptBlocks()
    seen = read_ns = 0
    try:
        probes.find()
        for bits in ((4, 2), (4, 3), (4, 0), (4, 0)):
            probes.arm(bits)
            read_ns = time.monotonic_ns()  # all frees until then are read
            blocks, frees = probes.read()
            told = [(one.mono_ns, address, size) for one, address, size in blocks]
            for at_ns, address, size in sorted([*told, *((at_ns, address, 0) for address, at_ns in frees)]):
                if not size:
                    kept.gave(address, at_ns)
                elif size > TIERS[0]:
                    kept.took(address, size, at_ns, 0, 1)
                    seen += 1
    finally:
        probes.close()
    assert not probes.lost_frees
    assert seen > 40
    kept.note_peak(read_ns)
    assert sum(blocks for _, blocks in kept.peak.values()) <= 1
