"""What the built-in systems declare can be imported, and an installed package that can't be imported ends nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from livedbg.session import filereaders, systems
from livedbg.session.systems import Lazy, System, problems

BUILT_IN = {"ascend", "compilers", "cuda", "hosts", "iree", "nvfuser", "pytorch", "rocm"}

GOOD = """
from livedbg.session.systems import Lazy, Signs, System
SYSTEM = System(name="toy", title="Toy", rank=1, signs=Signs(files=("/libtoy",)), rules=Lazy("{package}.gone:rules"))
"""

REPORT = """
import json, sys
from livedbg.session.systems import declared, problems, systems
heavy = [name for name in ("torch", "textual", "livedbg.adapters.ascend.decoder") if name in sys.modules]
names = [system.name for system in systems()]
ruled = [system.name for system, _ in declared(lambda system: system.rules)]
told = [(problem.system, problem.package, problem.sentence, problem.remedy) for problem in problems()]
heavy += [name for name in ("torch", "textual") if name in sys.modules]
print(json.dumps({"names": names, "ruled": ruled, "problems": told, "heavy": heavy}))
"""


def _package(folder: Path, package: str, entry: str, module: str | None) -> None:
    """An installed package that declares a system."""
    if module is not None:
        (folder / f"{package}.py").write_text(module.replace("{package}", package))
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[livedbg.systems]\n{entry} = {package}:SYSTEM\n")


def _seen(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", REPORT],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def _lazies(value: object) -> Iterator[Lazy[Any]]:
    """All names of values in a declaration."""
    if isinstance(value, Lazy):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _lazies(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _lazies(one)
    elif isinstance(value, Struct):
        for field in value.__struct_fields__:
            yield from _lazies(getattr(value, field))


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_part_of_a_built_in_system_can_be_imported(name: str) -> None:
    system = systems.system_named(name)
    assert system is not None
    for lazy in _lazies(system):
        assert lazy.value is not None, lazy
    for expression in (*system.signs.expressions, *system.continuations):
        re.compile(expression)


def test_the_built_in_systems_have_no_problems_and_names_of_their_own() -> None:
    found = systems.systems()
    assert {system.name for system in found} == BUILT_IN
    assert len({system.title for system in found}) == len(found)
    adapters = [name for system in found for name in system.adapters]
    assert len(adapters) == len(set(adapters))
    assert [system.rank for system in found] == sorted(system.rank for system in found)
    assert all(systems._checked(system, foreign=True) is system for system in found)
    filereaders.known_log_formats()
    assert problems() == ()


@pytest.mark.invariant("systems.Y1")
def test_declarations_import_nothing_heavy(tmp_path: Path) -> None:
    seen = _seen(tmp_path)
    assert set(seen["names"]) == BUILT_IN
    assert seen["problems"] == []
    assert seen["heavy"] == []


@pytest.mark.invariant("systems.Y2")
def test_a_system_that_cannot_be_imported_is_a_problem_with_its_name(tmp_path: Path) -> None:
    _package(tmp_path, "toy_system", "toy", GOOD)
    _package(tmp_path, "absent_system", "absent", None)
    _package(tmp_path, "broken_system", "broken", "raise SystemError('no\\x1b[31m luck')\n")
    _package(tmp_path, "wrong_system", "wrong", "SYSTEM = 3\n")
    _package(tmp_path, "signless_system", "signless", GOOD.replace("/libtoy", "(").replace('"toy"', '"signless"'))
    _package(tmp_path, "nameless_system", "nameless", GOOD.replace('"toy"', '"Not a name"'))
    seen = _seen(tmp_path)
    assert set(seen["names"]) == {*BUILT_IN, "toy"}
    assert "toy" not in seen["ruled"]
    assert {"ascend", "cuda", "nvfuser"} <= set(seen["ruled"])
    told = {system: (package, sentence, remedy) for system, package, sentence, remedy in seen["problems"]}
    assert set(told) == {"absent", "broken", "nameless", "signless", "toy", "wrong"}
    for system, (package, sentence, remedy) in told.items():
        assert package == f"{system}_system"
        assert remedy == f"pip install --upgrade {package}"
        assert f"System {system} " in sentence
        assert "\x1b" not in sentence
    assert "luck" in told["broken"][1]
    assert "toy_system.gone" in told["toy"][1]


@pytest.mark.invariant("systems.Y3")
def test_of_two_systems_of_one_name_the_first_stays(tmp_path: Path) -> None:
    _package(tmp_path, "other_cuda", "cuda", GOOD.replace('"toy"', '"cuda"'))
    seen = _seen(tmp_path)
    assert sorted(seen["names"]) == sorted(BUILT_IN)
    assert "cuda" in seen["ruled"]
    ((system, package, sentence, _remedy),) = seen["problems"]
    assert (system, package) == ("cuda", "other_cuda")
    assert "already" in sentence


def test_continuations_that_cannot_be_used_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = System(name="bad", title="Bad", continuations=("(any", ".*"))
    good = System(name="good", title="Good", continuations=(r"\[more\]",))
    for module in (systems, filereaders):
        monkeypatch.setattr(module, "systems", lambda: (bad, good))
    monkeypatch.setattr(systems, "_problems", {})
    details = filereaders.known_log_formats().error_details
    assert details.pattern.match("[more] of it")
    assert "[" in details.firsts
    assert [problem.system for problem in problems()] == ["bad"]
