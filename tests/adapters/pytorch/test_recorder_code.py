"""The Flight Recorder of a library without symbols is found in the code of its exported functions, or not at all."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from livedbg.adapters.pytorch.collectives.recorder import recorder_in_code
from livedbg.adapters.pytorch.collectives.recorder_entry import RECORDERS
from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import defined_symbols

FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden")


def symbol_of(library: Path) -> int:
    """The address that the symbol says."""
    with ElfFile(library) as elf:
        (one,) = defined_symbols(elf, RECORDERS["libtorch_cpu.so"]).values()
        return one.address


def code_of(library: Path) -> int | None:
    """The address that the code says."""
    with ElfFile(library) as elf:
        return recorder_in_code(elf)


@pytest.mark.parametrize("form", [1, 2])
def test_the_recorder_of_a_stripped_library_is_found(
    form: int, build_target: Callable[..., Path], tmp_path: Path
) -> None:
    whole = build_target("recorder_code", *FLAGS, f"-DFORM={form}", output=f"recorder_code{form}.so")
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    with ElfFile(stripped) as elf:
        assert defined_symbols(elf, RECORDERS["libtorch_cpu.so"]) == {}
    assert code_of(stripped) == symbol_of(whole)


@pytest.mark.invariant("flight_recorder.K1")
def test_K1_functions_that_ask_for_different_recorders_name_none(build_target: Callable[..., Path]) -> None:
    assert code_of(build_target("recorder_code", *FLAGS, "-DFORM=3", output="recorder_code3.so")) is None


def test_a_library_without_such_functions_has_no_recorder(build_target: Callable[..., Path]) -> None:
    assert code_of(build_target("plugin", "-shared", "-fPIC", output="plugin_for_code.so")) is None


def test_the_code_of_the_installed_torch_says_what_its_symbol_says() -> None:
    spec = find_spec("torch")
    assert spec is not None and spec.submodule_search_locations
    library = Path(spec.submodule_search_locations[0]) / "lib" / "libtorch_cpu.so"
    assert code_of(library) == symbol_of(library)
