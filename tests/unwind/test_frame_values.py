"""Arguments and local variables of blocked threads, from what was copied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from livedbg.unwind.capture import doubted
from livedbg.unwind.frame_values import ValueReader
from livedbg.unwind.pool import UnwinderPool
from tests.cli.conftest import livedbg
from tests.conftest import Target, settled
from tests.unwind.conftest import copied


async def values_of(target: Target, pool: UnwinderPool, function: str) -> dict[str, str]:
    """The variables of one function, by name."""
    stacks = await (await pool.of(target.pid)).unwind(copied(target.pid), 100, values=True)
    (frame,) = (f for f in stacks[target.pid].frames if f.function == function)
    return dict(text.split("=", 1) for text in frame.local_variables)


async def test_variables_in_memory_have_their_values(with_values: Target, pool: UnwinderPool) -> None:
    found = await values_of(with_values, pool, "wait_here")
    assert {name: found[name] for name in ("kept", "part", "text", "api_key")} == {
        "kept": "42",
        "part": "{ .first = 3, .second = 4 }",
        "text": '"abc"',
        "api_key": '"sk-abcdefghijklmnopqrs"',
    }
    assert (await values_of(with_values, pool, "main"))["argc"] == "1"


@pytest.mark.invariant("frame_values.V1", "capture.K2")
async def test_V1_K2_what_is_in_an_unknown_register_has_no_value(with_values: Target, pool: UnwinderPool) -> None:
    found = await values_of(with_values, pool, "wait_here")
    lacking = {"<optimized out>", "<not known without a stop>"}
    assert found["count"] in {"41", *lacking} and found["in_register"] in {"123", *lacking}
    (copy,) = copied(with_values.pid).threads
    first, second = doubted(copy)
    unknown = [place for place in range(15) if not copy.registers[place]]
    assert unknown
    for place in unknown:
        assert first.registers[place] == (1 << 64) - 1
    assert second.registers[4] == copy.registers[4] != first.registers[4]
    assert first.registers[15:] == copy.registers[15:] and first.stack == copy.stack


@pytest.mark.invariant("frame_values.C1", "frame_values.V4")
async def test_C1_V4_values_of_the_cpp_library_are_shown_as_what_they_hold(
    build_target: Callable[..., Path], spawn: Callable[..., Target], pool: UnwinderPool
) -> None:
    target = spawn([build_target("cpp_locals", "-O0")])
    settled(target.pid)
    found = await values_of(target, pool, "app::wait_here")
    assert found == {
        "numbers": "vector of 10 { 1, 2, 3, 4, 5, 6, 7, 8, … }",
        "empty": "vector of 0 {}",
        "names": 'vector of 2 { "first", "second, which is longer than what fits in" }',
        "text": '"abc"',
        "long_text": f'"{"x" * 100}"… (300 bytes)',
        "by_key": "map of 2",
        "maybe": "4",
        "nothing": "no value",
        "gate": f"locked by thread {target.pid}",
        "derived": "{ inherited parts not shown, .last = 5 }",
        "plain": "{ .rows = 1, .scale = 2.5 }",
        "pair": "<not shown: tuple<int, char>>",
        "reference": "<not shown: a reference>",
        "literal": '"literal"',
        "wild": "0x1234",
        "wild_text": "0x10",
        "broken": "<no valid value yet>",
        "not_set": "<not set yet>",
    }


@pytest.mark.invariant("frame_values.V5", "dwarf_functions.W1")
@pytest.mark.parametrize("level", ["O0", "O2"])
async def test_V5_W1_a_variable_whose_declaration_is_not_reached_has_no_value(
    build_target: Callable[..., Path], spawn: Callable[..., Target], pool: UnwinderPool, level: str
) -> None:
    target = spawn([build_target("later_locals", f"-{level}", output=f"later_locals-{level}")])
    settled(target.pid)
    inner, outer = await values_of(target, pool, "inlined"), await values_of(target, pool, "wait_here")
    assert (inner["inner_before"], inner["inner_after"]) == ("2", "<not set yet>")
    assert inner["given"] in {"1", "<optimized out>", "<not known without a stop>"}
    assert inner["same_line"] != "<not set yet>"  # the same line may have set it
    assert (outer["before"], outer["pass"], outer["in_loop"]) == ("63", "1", "21")
    assert outer["later_in_loop"] == outer["after"] == "<not set yet>"
    assert outer["twice"] != "<not set yet>"  # there are two of that name
    assert outer["counted"] != "<not set yet>"  # static: set before the program began


def test_without_being_asked_no_variable_is_read(with_values: Target) -> None:
    plain, asked = (
        livedbg("stacks", with_values.pid, "--timeout", "200"),
        livedbg("stacks", with_values.pid, "--timeout", "200", "--locals"),
    )
    assert (plain.code, asked.code) == (0, 0)
    assert "wait_here" in plain.out and "kept=" not in plain.out
    assert "kept=42" in asked.out and 'text="abc"' in asked.out


def test_a_secret_in_a_variable_is_masked(with_values: Target) -> None:
    said = livedbg("stacks", with_values.pid, "--timeout", "200", "--locals")
    assert "api_key=sk-a***" in said.out and "sk-abc" not in said.everything
    assert "sk-abc" in livedbg("stacks", with_values.pid, "--timeout", "200", "--locals", "--no-redact").out


def nothing(address: int, size: int) -> bytes:
    """Memory in which nothing is mapped."""
    raise OSError


class _Frame:
    """A frame of so many variables, of which some can't be read."""

    def __init__(self, count: int) -> None:
        self._count = count

    def locals(self) -> list[str]:
        return [f"v{number}" for number in range(self._count)]

    def __getitem__(self, name: str) -> Any:
        if name == "v1":
            raise ValueError("unknown DWARF type tag 0x42")
        import drgn

        type_ = SimpleNamespace(unaliased_kind=lambda: drgn.TypeKind.INT)
        return SimpleNamespace(type_=type_, absent_=name == "v2", format_=lambda **_: f"{name} " * 100)


@pytest.mark.invariant("frame_values.V2", "frame_values.V3")
def test_V2_V3_what_can_not_be_read_says_so_and_the_rest_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("drgn")
    frame: Any = _Frame(1000)
    found = ValueReader(nothing).values_of(frame, frame)
    assert found[1:3] == ("v1=<not shown: a reference>", "v2=<optimized out>")
    assert 32 <= len(found) < 100 and all(len(text) < 200 for text in found)
    monkeypatch.setattr("livedbg.unwind.frame_values._MOST", 10)
    reader = ValueReader(nothing)
    reader.values_of(frame, frame)
    assert reader.values_of(frame, frame) == ()
    monkeypatch.setattr("livedbg.unwind.frame_values._MOST_S", -1)
    assert ValueReader(nothing).values_of(frame, frame) == ()
