"""Systems: what they name is imported late, and of two with one name the first stays."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from livedbg.session import systems as under_test
from livedbg.session.systems import ENTRY_POINT_GROUP, Lazy, System

TWIN = System(name="twin", title="Twin", rules=Lazy("no.such.module:rules"))
SECOND = System(name="twin", title="Second")


@pytest.mark.invariant("systems.Y1")
def test_what_a_system_names_is_imported_when_it_is_used() -> None:
    assert TWIN.rules is not None
    with pytest.raises(ModuleNotFoundError, match="no"):
        TWIN.rules.value  # noqa: B018 - the import is what is tested


@pytest.mark.invariant("systems.Y3")
def test_of_two_systems_with_one_name_the_first_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint(name, f"{__name__}:{name}", ENTRY_POINT_GROUP) for name in ("SECOND", "TWIN")]
    monkeypatch.setattr(EntryPoint, "load", lambda entry: {"TWIN": TWIN, "SECOND": SECOND}[entry.name])
    monkeypatch.setattr(under_test, "entry_points", lambda group: EntryPoints(entries))
    monkeypatch.setattr(under_test, "_problems", {})
    found = under_test.systems.__wrapped__()
    assert found == (SECOND,)
    [problem] = under_test._problems.values()
    assert problem.system == "twin" and "there is already a system" in problem.sentence
