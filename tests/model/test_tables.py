"""Sharded tables: the invariants of livedbg.model.tables, against a dict."""

from __future__ import annotations

import os
import subprocess
import sys
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.model import tables
from livedbg.model.tables import FrozenTable, Table

KEYS = st.sampled_from([f"task:{n}" for n in range(40)] + ["", "ä\ud800"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "discard", "freeze", "copy"]), KEYS, st.integers(0, 3)), max_size=200
)


def same(frozen: FrozenTable[str, int], model: dict[str, int]) -> None:
    assert len(frozen) == len(model) and dict(frozen) == model and frozen == model
    assert sorted(frozen.items()) == sorted(model.items())
    assert sorted(frozen.values()) == sorted(model.values())
    assert all(frozen[key] == frozen.get(key) == value and key in frozen for key, value in model.items())
    assert "no" not in frozen and 7 not in frozen and frozen.get("no") is None and frozen.get("no", 5) == 5
    with pytest.raises(KeyError):
        frozen["no"]


@pytest.mark.parametrize("size", [4096, 5], ids=["whole", "split"])
@given(STEPS)
@pytest.mark.invariant("tables.H1", "tables.H2")
def test_H1_H2_any_operations_give_what_a_dict_gives(size: int, steps: list[tuple[str, str, int]]) -> None:
    with patch.object(tables, "SPLIT", size):
        table: Table[str, int] = Table(str)
        model: dict[str, int] = {}
        frozen: list[tuple[FrozenTable[str, int], dict[str, int]]] = []
        for step, key, value in steps:
            if step == "set":
                assert table.put(key, value) == (model.get(key) != value)
                model[key] = value
            elif step == "discard":
                table.discard(key)
                model.pop(key, None)
            elif step == "copy":
                table = table.copy()
            frozen.append((table.freeze(), dict(model)))
            assert table.get(key) == model.get(key)
        for state, then in frozen:
            same(state, then)


@pytest.mark.invariant("tables.H3")
def test_H3_the_order_of_a_small_table_is_that_of_insertion_and_of_a_big_one_is_the_same_in_every_process() -> None:
    small: Table[str, int] = Table(str)
    for n in (5, 3, 9, 1):
        small.put(str(n), n)
    small.put("3", 30)
    assert list(small.freeze().values()) == [5, 30, 9, 1]
    program = (
        "from livedbg.model.tables import Table\nimport zlib\nt = Table(str)\n"
        "for n in range(9000): t.put(f'task:{n}', n)\nprint(zlib.crc32(repr(list(t.freeze())).encode()))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1 and said != {b""}


@pytest.mark.invariant("tables.H4")
def test_H4_a_write_copies_one_shard_and_without_a_write_all_is_shared() -> None:
    table: Table[str, int] = Table(str)
    for n in range(tables.SPLIT + 100):
        table.put(f"task:{n}", n)
    before = table.freeze()
    assert table.freeze() is before and len(before.shards) == tables.SHARDS
    table.put("task:7", -7)
    after = table.freeze()
    assert sum(a is not b for a, b in zip(before.shards, after.shards, strict=True)) == 1
    assert (before["task:7"], after["task:7"]) == (7, -7)
    other = table.copy()
    other.put("task:8", -8)
    assert table.freeze() is after and after["task:8"] == 8 and other.freeze()["task:8"] == -8
