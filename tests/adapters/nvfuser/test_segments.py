"""The groups of a segmented fusion, from the lines of a dump."""

from __future__ import annotations

from livedbg.adapters.nvfuser.dumps.segments import parse_segments


def test_a_number_that_no_expression_can_have_costs_itself_and_not_the_dump() -> None:
    huge = "9" * 5000
    lines = [
        "Segmented_Fusion Dump: -- Re-written complete fusion:{",
        "groups:",
        f"pointwise{{0, {huge}, 1}}",
        "reduction{2, 3}",
        "edges:",
    ]
    with_damage = parse_segments(lines)
    without = parse_segments([line.replace(f" {huge},", "") for line in lines])
    assert with_damage == without
