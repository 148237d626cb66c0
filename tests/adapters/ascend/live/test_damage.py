"""Memory that holds anything at all: no look fails, hangs or reads without bound."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from livedbg.linux import memory
from tests.adapters.ascend.live.conftest import Simulator

_MOST = 256 << 20
_read_many = memory.read_many


@pytest.mark.parametrize("kind", ["ringbuffer", "polling"])
@pytest.mark.parametrize("share", [0.0001, 0.01, 0.5])
def test_damaged_memory(
    simulator: Callable[..., Simulator], kind: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = simulator(kind)
    target.tell("many 40", "run 8 0.0", "run 9 0.1", "defer 0.1", "submit 1 2 0.3" if kind == "ringbuffer" else "turn")
    reader = target.reader()
    whole = reader.sample()
    assert whole is not None and len(whole.tasks) > 39
    dice = random.Random(f"{kind} {share}")
    total = 0

    def damaged(pid: int, ranges: Sequence[tuple[int, int]]) -> list[bytes | None]:
        nonlocal total
        total += sum(size for _, size in ranges)
        assert total < _MOST
        found: list[bytes | None] = []
        for data in _read_many(pid, ranges):
            bad = bytearray(data or b"")
            for _ in range(int(len(bad) * share + dice.random())):
                bad[dice.randrange(len(bad))] = dice.randrange(256)
            found.append(bytes(bad) if data is not None and dice.random() > 0.01 else None)
        return found

    monkeypatch.setattr(memory, "read_many", damaged)
    samples = 0
    for _ in range(20):
        total = 0
        samples += reader.sample() is not None
    monkeypatch.undo()
    target.tell("reset", "submit 0 3")
    fresh = target.reader().sample()
    assert fresh is not None and fresh.tasks[0].kernels == (-1, 3, -1)
    assert samples or share > 0.001
