"""Identifiers are spelt as docs/report-schema.md says."""

from __future__ import annotations

import pytest

from livedbg.model import ids


@pytest.mark.parametrize(
    ("made", "spelt"),
    [
        (ids.process("box", 4711), "process:box/4711"),
        (ids.thread("box", 4711, 4712), "thread:box/4711/4712"),
        (ids.lock("mutex", "box", 4711, 0x7F12), "mutex:box/4711/0x7f12"),
        (ids.fd_object("pipe", "box", 99), "pipe:box/99"),
        (ids.task("ascend", "r0t12"), "task:ascend/r0t12"),
        (ids.task("nccl", "rank3", "k"), "task:nccl/rank3/k"),
        (ids.core("ascend", 8), "core:ascend/8"),
        (ids.collective("0", 6), "task:collective/0/6"),
        (ids.rank(3), "rank:3"),
    ],
)
def test_spelling_and_parsing_are_inverse(made: str, spelt: str) -> None:
    assert made == spelt
    reference = ids.parse(spelt)
    assert f"{reference.kind}:{'/'.join(reference.parts)}" == spelt
    assert reference.short == spelt.rpartition("/")[2].rpartition(":")[2]


@pytest.mark.parametrize("wrong", ["", "process", "process:", ":box/1"])
def test_what_is_no_identifier_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="not an entity identifier"):
        ids.parse(wrong)
