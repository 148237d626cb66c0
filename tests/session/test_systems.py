"""Systems: what they name is imported late, and of two with one name the first stays."""

from __future__ import annotations

import pytest

from livedbg.model.entry_points import EntryPoint
from livedbg.session import systems as under_test
from livedbg.session.systems import Lazy, System

TWIN = System(name="twin", title="Twin", rules=Lazy("no.such.module:rules"))
SECOND = System(name="twin", title="Second")


@pytest.mark.invariant("systems.Y1")
def test_what_a_system_names_is_imported_when_it_is_used() -> None:
    assert TWIN.rules is not None
    with pytest.raises(ModuleNotFoundError, match="no"):
        TWIN.rules.value  # noqa: B018 - the import is what is tested


@pytest.mark.invariant("systems.Y3")
def test_of_two_systems_with_one_name_the_first_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint(name, __name__, name, "") for name in ("SECOND", "TWIN")]
    monkeypatch.setattr(under_test, "entry_points", lambda _group: entries)
    monkeypatch.setattr(under_test, "_problems", {})
    found = under_test.systems.__wrapped__()
    assert found == (SECOND,)
    [problem] = under_test._problems.values()
    assert problem.system == "twin" and "there is already a system" in problem.sentence
