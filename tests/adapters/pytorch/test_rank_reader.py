"""How often a process that shows no rank is read."""

from __future__ import annotations

import pytest

from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.ranks import RankReader, RankSeen
from livedbg.model import Process

SEEN = RankSeen(Look(rank=0, process="process:box/1", rings=(), groups={}), {})


class Reader(RankReader):
    """Finds what the test says."""

    def __init__(self) -> None:
        super().__init__(PROCESS)
        self.finds: RankSeen | str | None = None
        self.looks = 0

    def _found(self) -> bool:
        return True

    def _seen(self, process: Process) -> RankSeen | None:
        self.looks += 1
        self.problem = self.finds if isinstance(self.finds, str) else ""
        return self.finds if isinstance(self.finds, RankSeen) else None


PROCESS = Process(id="process:box/1", host="box", pid=1)


def test_a_process_without_a_rank_is_read_less_and_less_and_one_that_was_read_at_each_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr("livedbg.adapters.pytorch.collectives.ranks.time.monotonic", lambda: now_s[0])
    reader = Reader()
    for _ in range(8):
        assert reader.read(PROCESS) is None
        now_s[0] += 1
    assert reader.looks == 4  # after 0, 1, 3 and 7 s
    now_s[0] += 30
    for reader.finds in (SEEN, "it moved", SEEN):
        assert (reader.read(PROCESS) is not None) is (reader.finds is SEEN)
    assert reader.looks == 7
    reader.finds = None
    assert reader.read(PROCESS) is None
    now_s[0] += 1
    assert reader.read(PROCESS) is None and reader.looks == 9  # from the shortest pause again
