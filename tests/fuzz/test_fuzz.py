"""A short form of `make fuzz`, and whether the loop notices what it should."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.fuzz import loop
from tests.fuzz.mutation import mutated
from tests.fuzz.readers import READERS, Reader

CASES = 12
IMPORTS = frozenset({"pt"})
"""Readers that are only fed by `make fuzz`: what they import takes seconds."""


@pytest.mark.parametrize("name", sorted(READERS.keys() - IMPORTS))
def test_a_reader_takes_damaged_input(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    seeds = reader.seeds()
    for number in range(CASES):
        data = mutated(random.Random(f"short/{name}/{number}"), seeds)
        try:
            reader.read(data, tmp_path)
        except reader.errors:
            pass


def test_good_input_is_read(tmp_path: Path) -> None:
    """What each reader documents as an error is not what it says of good input."""
    for name in ("elf", "dumps", "npy", "recordings", "recorded events", "recipes", "py-spy", "task graphs", "reports"):
        for data in READERS[name].seeds()[:1]:
            READERS[name].read(data, tmp_path)


def _raises(data: bytes, _folder: Path) -> None:
    raise KeyError(data)


def _hangs(_data: bytes, _folder: Path) -> None:
    while _data != b"good":
        pass


def _grows(data: bytes, _folder: Path) -> None:
    if data != b"good":
        bytearray(2 << 30)


@pytest.mark.parametrize(("read", "said"), [(_raises, "KeyError"), (_hangs, "-27"), (_grows, "MemoryError")])
def test_the_loop_notices_errors_time_and_memory(
    read: object, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    errors = (ZeroDivisionError,)
    monkeypatch.setitem(READERS, "bad", Reader(read, lambda: [b"good"], errors))  # type: ignore[arg-type]
    monkeypatch.setattr(loop, "CPU_S", 0.1)
    monkeypatch.setattr(loop, "mutated", lambda _chance, _seeds: b"bad")
    begun = time.process_time()
    result = loop.run("bad", 2, 1)
    assert result.failures and all(said in why for why in result.failures.values())
    assert time.process_time() - begun < 30


def test_the_same_seed_gives_the_same_input() -> None:
    assert loop.case("proc maps", 7, 1) == loop.case("proc maps", 7, 1)
    assert loop.case("proc maps", 7, 1) != loop.case("proc maps", 7, 2)
