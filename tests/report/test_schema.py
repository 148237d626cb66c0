"""docs/report-schema.md says exactly what is produced (P1)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from livedbg.analysis import NO_DIAGNOSIS
from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
from livedbg.cli.hits import FindingsPrinter, HitPrinter
from livedbg.model import ExceptionHit, Severity, TaskState, Thread
from livedbg.model import events as ev
from livedbg.model.snapshot import Snapshot
from livedbg.report import build
from livedbg.report import document as doc
from livedbg.report.entities import entity_out
from livedbg.session.replay import last_update
from tests.analysis.world import World

PAGE = (Path(__file__).parents[2] / "docs" / "report-schema.md").read_text()
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"
SECTIONS = {
    "The report": doc.ReportDocument,
    "target": doc.TargetOut,
    "verdict": doc.VerdictOut,
    "finding": doc.FindingOut,
    "evidence": doc.EvidenceOut,
    "entity": doc.EntityOut,
    "frame": doc.FrameOut,
    "stack": doc.StackOut,
    "edge": doc.EdgeOut,
    "exception": doc.ExceptionOut,
    "intrusions": doc.IntrusionsOut,
    "touch": doc.TouchOut,
    "log": doc.LogOut,
    "limit": doc.LimitOut,
    "verdict line": build.VerdictLine,
    "finding line": build.FindingLine,
}
KINDS = "Lines of watch and catch"


def documented(section: str) -> set[str]:
    body = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE))


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.invariant("document.P1")
def test_P1_documented_keys_are_the_keys_produced(section: str) -> None:
    fields = msgspec.structs.fields(SECTIONS[section])
    tag = SECTIONS[section].__struct_config__.tag_field
    assert documented(section) == {field.encode_name for field in fields} | ({tag} if tag else set())


def test_every_part_of_the_schema_has_a_section() -> None:
    assert set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE)) == {*SECTIONS, KINDS}
    assert set(SECTIONS.values()) == {
        *(part for part in vars(doc).values() if getattr(part, "__module__", "") == doc.__name__),
        *build.LINES.values(),
    }


@pytest.mark.invariant("report_lines.P3")
def test_P3_documented_kinds_of_lines_are_the_kinds_printed() -> None:
    assert documented(KINDS) == set(build.LINES)
    for kind, line in build.LINES.items():
        assert line is doc.ExceptionOut or line.__struct_config__.tag == kind


@pytest.mark.invariant("report_lines.P3")
def test_P3_each_line_has_a_kind_and_all_keys_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    for recording in RECORDINGS.glob("*.livedbg"):
        update, _damage = last_update(recording)
        FindingsPrinter(True).show(update)
    hit = ExceptionHit(id="1", type="app::EngineError", message="full")
    HitPrinter(True).show(Snapshot(exceptions={hit.id: hit}))
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    keys = {"verdict": "verdict line", "finding": "finding line", "exception": "exception"}
    assert {line["kind"] for line in found} == set(keys)
    assert all(set(line) == documented(keys[line["kind"]]) for line in found)


@pytest.mark.invariant("report_lines.P3")
def test_P3_a_finding_that_decides_nothing_has_a_state_too() -> None:
    """A reader of the lines can ask each one for its state."""
    finding = Finding(rule="cant-see", severity=Severity.INFO, sentence="A part was not seen.")
    line = msgspec.to_builtins(build.finding_line("F1", finding, 0))
    assert line["kind"] == "finding" and line["state"] is None and set(line) == documented("finding line")
    verdict = Verdict(state=VerdictState.UNKNOWN, sentence="Inconclusive.")
    assert set(msgspec.to_builtins(build.verdict_line(verdict, 0))) == documented("verdict line")


ALWAYS = {"kind", "name", "state", "waits_for", "waiters"}


@pytest.mark.invariant("document.P2")
def test_P2_of_an_entity_what_is_not_known_is_left_out() -> None:
    world = World()
    process, lock = world.process(1), world.lock(1)
    thread = Thread(id="thread:box/1/11", process=process, tid=11)
    world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    task = world.task("g1", TaskState.SUBMITTED, None, kernel="")
    snapshot = world.snapshot()
    said = {
        entity: set(msgspec.to_builtins(entity_out(entity, snapshot, NO_DIAGNOSIS)))
        for entity in (process, thread.id, lock, task)
    }
    assert said == {
        process: {*ALWAYS, "pid"},
        thread.id: {*ALWAYS, "process", "tid", "stack"},
        lock: ALWAYS,
        task: ALWAYS,
    }
    known = structs.replace(thread, cpu_ns=0, waits_in="poll")
    world.store.apply(ev.ThreadsSeen(threads=(known,), **world.stamp()))
    keys = set(msgspec.to_builtins(entity_out(thread.id, world.snapshot(), NO_DIAGNOSIS)))
    assert keys == said[thread.id] | {"cpu_ms", "waits_in"}
