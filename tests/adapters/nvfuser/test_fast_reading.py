"""Many lines at once are read as lines one by one are."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.nvfuser.dumps import statement_reader
from livedbg.adapters.nvfuser.dumps.statement_reader import StatementReader
from livedbg.adapters.nvfuser.dumps.statements import Domains, Said, Segmented

_LOGS = sorted((Path(__file__).parents[2] / "fixtures" / "nvfuser").glob("*.log"))


def _said(data: bytes, size: int) -> list[Said]:
    reader = StatementReader()
    found = [said for begin in range(0, len(data), size) for said in reader.feed(data[begin : begin + size])]
    return found + reader.end()


def _odd(chance: random.Random) -> bytes:
    """A log with lines left out, doubled for another rank, cut, in two."""
    lines = chance.choice(_LOGS).read_bytes().split(b"\n")
    other = chance.choice(_LOGS).read_bytes().split(b"\n")
    changes: list[Callable[[], list[bytes]]] = [
        lambda: [line for line in lines if chance.random() > 0.03],
        lambda: [one for line in lines for one in ([line] if chance.random() > 0.1 else [line, b"[rank1]:" + line])],
        lambda: [line if chance.random() > 0.05 else line[: len(line) // 2] for line in lines],
        lambda: [*lines[: len(lines) // 2], *other[len(other) // 3 :], *lines[len(lines) // 2 :]],
        lambda: [b"1: " + line if line.startswith(b"[") else line for line in lines],
        lambda: [b"x" * 70_000 if number == len(lines) // 2 else line for number, line in enumerate(lines)],
    ]
    return b"\n".join(chance.choice(changes)())


@pytest.mark.parametrize("seed", range(8))
def test_it_makes_no_difference(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    data = b"\n".join([chance.choice(_LOGS).read_bytes(), _odd(chance), _odd(chance), _odd(chance)])
    fast = [_said(data, size) for size in (1 << 20, 10_007)]
    monkeypatch.setattr(statement_reader, "_PLAIN", lambda body: None)
    one_by_one = _said(data, 1 << 20)
    assert fast == [one_by_one, one_by_one] and len(one_by_one) > 10
    assert [said.statement.line for said in fast[0]] == [said.statement.line for said in one_by_one]


def test_what_is_taken_apart_later_is_what_was_printed() -> None:
    found = [said.statement for path in _LOGS for said in _said(path.read_bytes(), 1 << 20)]
    (matmul, *_) = [
        expression
        for cut in found
        if isinstance(cut, Segmented)
        for group in cut.fusion.groups.values()
        for expression in group.expressions
        if expression.operation == "matmul"
    ]
    assert [tensor.number for tensor in matmul.outputs] == [9]
    assert [axis.kind for axis in matmul.outputs[0].axes] == ["i", "i", "r"] and len(matmul.outputs[0].logical) == 2
    assert len(matmul.arguments) == 2 and matmul.arguments[0].startswith("T8_")
    domains = [domain for said in found if isinstance(said, Domains) for domain in said.tensors.values()]
    assert any(domain.root for domain in domains) and all(domain.logical for domain in domains)
    assert any("t" in domain.contiguity for domain in domains)
