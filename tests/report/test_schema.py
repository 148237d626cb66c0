"""docs/report-schema.md says exactly what is produced (P1)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from livedbg.report import document as doc

PAGE = (Path(__file__).parents[2] / "docs" / "report-schema.md").read_text()
SECTIONS = {
    "The report": doc.ReportDocument,
    "target": doc.TargetOut,
    "verdict": doc.VerdictOut,
    "finding": doc.FindingOut,
    "evidence": doc.EvidenceOut,
    "entity": doc.EntityOut,
    "frame": doc.FrameOut,
    "edge": doc.EdgeOut,
    "exception": doc.ExceptionOut,
    "intrusions": doc.IntrusionsOut,
    "touch": doc.TouchOut,
    "log": doc.LogOut,
    "limit": doc.LimitOut,
}


def documented(section: str) -> set[str]:
    body = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE))


@pytest.mark.parametrize("section", SECTIONS)
def test_P1_documented_keys_are_the_keys_produced(section: str) -> None:
    fields = msgspec.structs.fields(SECTIONS[section])
    assert documented(section) == {field.encode_name for field in fields}


def test_every_part_of_the_schema_has_a_section() -> None:
    assert set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE)) == set(SECTIONS)
    assert set(SECTIONS.values()) == {getattr(doc, name) for name in doc.__all__ if name != "SCHEMA"}
