"""Functions at an address by debug information: what was inlined there, with full names."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from tests.unwind.test_places import module

if TYPE_CHECKING:
    from livedbg.unwind.places import Places

SOURCE = """
extern int volatile seen;
int volatile seen;
#define INLINE inline __attribute__((always_inline))
namespace app {
namespace { INLINE void innermost() { seen = 1; } }
template <typename T> struct Engine {
    INLINE void step(T by) {
        auto twice = [by] { innermost(); seen = by; };
        twice();
    }
};
}
extern "C" void outer() {
    app::Engine<short> engine;
    engine.step(2);
}
"""


@pytest.fixture(params=[["-gdwarf-5"], ["-gdwarf-4", "-gsplit-dwarf"]], ids=["dwarf-5", "split"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "l.cpp").write_text(SOURCE)
    flags = ["-O1", "-fPIC", "-shared", *request.param, "-o", "l.so"]
    subprocess.run(["g++", "l.cpp", *flags], cwd=tmp_path, check=True, timeout=100)
    return tmp_path / "l.so"


@pytest.fixture
def places() -> Places:
    pytest.importorskip("drgn")
    from livedbg.unwind.libdw import libdw
    from livedbg.unwind.places import Places

    if libdw() is None:
        pytest.skip("this drgn has no libdw of its own")
    return Places()


def stacks_in(places: Places, file: Path) -> set[tuple[str | None, ...]]:
    """The functions at each address of outer()."""
    with ElfFile(file) as elf:
        outer = defined_symbols(elf, ["outer"])["outer"]
    there = places.describe(module(file), range(outer.address, outer.address + outer.size), debug=True)
    return {tuple(frame.function for frame in frames) for frames in there.values()}


def test_an_inlined_function_has_its_full_name(places: Places, library: Path) -> None:
    step = "app::Engine<short>::step"
    within = f"{step}::{{lambda}}::operator()", step, "outer"
    found = {
        tuple(name.replace("(short)", "").replace("{lambda()#1}", "{lambda}") if name else None for name in names)
        for names in stacks_in(places, library)
    }
    assert ("outer",) in found
    assert ("app::(anonymous namespace)::innermost", *within) in found


def test_the_places_of_calls_are_in_the_caller(places: Places, library: Path) -> None:
    with ElfFile(library) as elf:
        outer = defined_symbols(elf, ["outer"])["outer"]
    there = places.describe(module(library), range(outer.address, outer.address + outer.size), debug=True)
    deepest = max(there.values(), key=len)
    lines = [SOURCE.splitlines()[(frame.line or 1) - 1].strip() for frame in deepest]
    assert lines[1:] == ["auto twice = [by] { innermost(); seen = by; };", "twice();", "engine.step(2);"]
    assert [frame.inlined for frame in deepest] == [True, True, True, False]


@pytest.mark.parametrize(("told", "whole"), [("", True), ("-fdebug-prefix-map={here}=/proc/self/cwd", False)])
def test_the_path_of_a_source_is_whole_where_its_unit_tells_its_folder(
    places: Places, tmp_path: Path, told: str, whole: bool
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/l.cpp").write_text(SOURCE)
    flags = ["-g", "-fPIC", "-shared", *filter(None, [told.format(here=tmp_path)]), "-o", "l.so"]
    subprocess.run(["g++", "src/l.cpp", *flags], cwd=tmp_path, check=True, timeout=100)
    with ElfFile(tmp_path / "l.so") as elf:
        outer = defined_symbols(elf, ["outer"])["outer"]
    there = places.describe(module(tmp_path / "l.so"), [outer.address], debug=True)
    (frame,) = there[outer.address]
    assert frame.file == (str(tmp_path / "src/l.cpp") if whole else "src/l.cpp")


@pytest.mark.invariant("dwarf_functions.N1")
def test_N1_where_a_unit_is_too_big_the_rest_is_as_without(
    places: Places, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedbg.unwind.dwarf_functions._MOST_ENTRIES", 1)
    assert {names[-1] for names in stacks_in(places, library)} == {"outer"}
