"""A mutant put into a process that has imported the original."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import FunctionType

import pytest

from tests.mutants.swap import functions_of, swap

SOURCE = """
LIMIT = 10

class Rule:
    def holds(self, value, least=1):
        return least <= value < LIMIT

@cache
def known(value):
    return value + 1

def nested(values):
    return [value for value in values if any(other < value for other in values)]
"""


def imported(path: Path) -> dict[str, object]:
    """The names of the module, as those who imported it have them."""
    names: dict[str, object] = {"cache": cache, "__name__": "imported"}
    exec(compile(SOURCE, str(path), "exec"), names)
    return names


@pytest.mark.parametrize(
    ("old", "new", "call", "results"),
    [
        ("value < LIMIT", "value <= LIMIT", "Rule().holds(10)", (False, True)),
        ("value + 1", "value - 1", "known(1)", (2, 0)),
        ("other < value", "other > value", "nested([1, 2])", ([2], [1])),
    ],
)
def test_whoever_has_imported_a_function_calls_the_mutant(
    tmp_path: Path, old: str, new: str, call: str, results: tuple[object, object]
) -> None:
    path = tmp_path / "module.py"
    assert eval(call, imported(path)) == results[0]
    names = imported(path)
    original, mutant = (compile(text, str(path), "exec") for text in (SOURCE, SOURCE.replace(old, new)))
    assert swap(functions_of([str(path)])[str(path)], original, mutant)
    assert eval(call, names) == results[1]


@pytest.mark.parametrize(("old", "new"), [("LIMIT = 10", "LIMIT = 11"), ("least=1", "least=2")])
def test_code_outside_of_functions_is_left_to_a_new_import(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "module.py"
    names = imported(path)
    known = names["nested"]
    assert isinstance(known, FunctionType)
    code = known.__code__
    original, mutant = (compile(text, str(path), "exec") for text in (SOURCE, SOURCE.replace(old, new)))
    assert not swap(functions_of([str(path)])[str(path)], original, mutant)
    assert known.__code__ is code
