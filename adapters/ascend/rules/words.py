"""Create findings on runs from the templates in data/findings.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from livedbg.adapters.ascend.messages import Line, lines, read_data
from livedbg.adapters.ascend.rules.jobs import JobDiagnostics
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.model import Severity
from livedbg.signatures.templates import names_in, render


class Text(Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of finding: as `Finding`, but `sentence` and `next` are templates."""

    severity: Severity
    sentence: str
    state: VerdictState | None = None
    decides: bool = False
    inferred: bool = False
    topic: str = ""
    next: tuple[str | Line, ...] = ()


@cache
def texts() -> Mapping[str, Text]:
    """Return the texts by name."""
    return read_data("findings.toml", dict[str, Text])


@cache
def _asked(name: str) -> frozenset[str]:
    """Return the value names that a text uses."""
    text = texts()[name]
    steps = [step.text if isinstance(step, Line) else step for step in text.next]
    conditions = [word for step in text.next if isinstance(step, Line) for word in (*step.needs, *step.lacks)]
    return frozenset(conditions).union(*map(names_in, (text.sentence, *steps)))


def flag(known: object) -> str:
    """Return a template value for a condition: non-empty if it holds."""
    return "known" if known else ""


def written(name: str, job: JobDiagnostics, values: Mapping[str, str], /, **more: Any) -> Finding:
    """Return a finding.

    Args:
        name: in data/findings.toml.
        values: for the templates, in addition to those of every job.
        more: other fields of the finding; they override the file's.
    """
    text = texts()[name]
    known = {
        "pid": job.pid(),
        "progress": job.progress(),
        "fired": job.fired(),
        "masked": job.masked(),
        "shared": job.sentence("shared-log"),
        "limit": job.limit_words(),
        **values,
    }
    assert _asked(name) <= known.keys(), f"{name}: {_asked(name) - known.keys()}"
    steps = (Line(step) if isinstance(step, str) else step for step in text.next)
    given = {"severity": text.severity, "state": text.state, "decides": text.decides, "inferred": text.inferred}
    return Finding(
        rule=job.rule,
        sentence=render(text.sentence, known),
        next=tuple(dict.fromkeys(lines(steps, "", known))),
        topic=text.topic,
        **{**given, **more},
    )
