"""Function, file and line of addresses, shared by processes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.maps import Mapping
from livedbg.unwind.modules import Module

if TYPE_CHECKING:
    from livedbg.unwind.places import Places


@pytest.fixture
def places() -> Places:
    pytest.importorskip("drgn")
    from livedbg.unwind.places import Places

    return Places()


def module(file: Path, bias: int = 0) -> Module:
    return Module(file.name, file, bias, file.stat().st_ino, Mapping(0, 1, "r-xp", 0, "", 0, str(file), False))


def names(places: Places, file: Path, bias: int, function: str) -> list[str | None]:
    """The names of the frames in the first instruction of a function."""
    with ElfFile(file) as elf:
        at = defined_symbols(elf, [function])[function].address
    return [frame.function for frame in places.describe(module(file, bias), {at}, debug=True)[at]]


@pytest.mark.invariant("places.L1")
def test_L1_files_of_one_content_are_read_once_and_others_apart(
    build_target: Callable[..., Path], tmp_path: Path, places: Places
) -> None:
    first = build_target("execs", "-no-pie", "-DWAIT=first_waits", "-DCALL=first_calls", output="execs-first")
    second = build_target("execs", "-no-pie", "-DWAIT=second_waits", "-DCALL=second_calls", output="execs-second")
    same = tmp_path / "same"
    shutil.copy(first, same)
    assert names(places, first, 0, "first_waits") == ["first_waits"]
    assert names(places, second, 0, "second_waits") == ["second_waits"]
    assert names(places, same, 1 << 30, "first_calls") == ["first_calls"]
    assert len(places._files) == 2
    same.write_bytes(second.read_bytes())
    assert names(places, same, 0, "second_calls") == ["second_calls"]
    assert len(places._files) == 2


@pytest.mark.invariant("places.L1")
def test_L1_a_file_without_a_build_id_is_known_by_its_inode(
    build_target: Callable[..., Path], tmp_path: Path, places: Places
) -> None:
    none = "-Wl,--build-id=none"
    first = build_target("execs", none, "-DWAIT=first_waits", "-DCALL=first_calls", output="execs-first-none")
    second = build_target("execs", none, "-DWAIT=second_waits", "-DCALL=second_calls", output="execs-second-none")
    assert names(places, first, 0, "first_waits") == ["first_waits"]
    assert names(places, second, 0, "second_waits") == ["second_waits"]
    assert len(places._files) == 2


@pytest.mark.invariant("places.L2")
def test_L2_what_is_kept_is_bounded(
    build_target: Callable[..., Path], places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedbg.unwind.places._MOST_PLACES", 1)
    file = build_target("execs", "-DWAIT=first_waits", "-DCALL=first_calls", output="execs-pie")
    for function in ("first_waits", "first_calls"):
        assert names(places, file, 0, function) == [function]
    places.begin()
    assert places._files == {}
    assert names(places, file, 0, "first_waits") == ["first_waits"]


def test_a_file_that_has_gone_has_no_names(tmp_path: Path, places: Places) -> None:
    (tmp_path / "none").touch()
    known = module(tmp_path / "none")
    assert [frame.function for frame in places.describe(known, {16}, debug=True)[16]] == [None]
    assert [frame.function for frame in places.describe(known, {16}, debug=False)[16]] == [None]
