"""Facts of nvFuser's failures, options and passes; logged exceptions whose cause the rules report."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import field

from livedbg.model import Diagnostic, Evidence, ExceptionHit
from livedbg.model.catchpoints import Moment, Preset
from livedbg.model.facts import Facts, facts_from, facts_of
from livedbg.model.snapshot import Snapshot
from livedbg.text.patterns import lazy_re


class FusionFacts(Facts, frozen=True, kw_only=True, tag="nvfuser.fusion"):
    """Facts of a job's log and its fusions.

    Attributes:
        scope: prefix of its job's ids.
        script: the log has a reproduction script.
        log: where the error, the dump and the script are.
        group, when, behind, dump: of a failed group: its number, `compile` or `run`, number of groups that wait for it,
            and whether a dump has the segments.
        inferred: why this group is assumed, if no line says it.
        option, variable, available: of an unknown option.
        active: something is being compiled or executed.
    """

    scope: str = ""
    script: bool = False
    log: str = ""
    group: int | None = None
    when: str = ""
    behind: int = 0
    dump: bool = False
    inferred: str = ""
    option: str = ""
    variable: str = ""
    available: tuple[str, ...] = ()
    active: bool = False


class PassFacts(Facts, frozen=True, kw_only=True, tag="nvfuser.pass"):
    """Facts of a thread in a trace.

    Attributes:
        name: its current pass.
        within: the passes around it, innermost first.
        alive: a process with that pid ran here when the trace was read.
        last_wall_ns: time of its last write.
        ended: the trace is complete.
    """

    name: str = field(default="", name="pass")
    within: str = ""
    pid: int = 0
    thread: str = ""
    process: str = ""
    alive: bool = False
    last_wall_ns: int = 0
    ended: bool = False


def fusion_facts(said: Diagnostic) -> FusionFacts:
    """Return the facts of a diagnostic; old recordings have them as texts."""
    if said.facts is not None:
        return facts_of(said.facts, FusionFacts)
    texts = said.attributes
    options = tuple(word for word in texts.get("available", "").split(", ") if word)
    return facts_from({**texts, "available": options}, FusionFacts)


_OURS: Final = lazy_re(
    r"INTERNAL ASSERT FAILED at \"{0,2}\S*(?:[Ff]user/|/csrc/|codegen/cuda/)|Error from segmentation group"
    r"|Detected exception while compiling fusion segments"
)
_THROWN: Final = ("log: traceback", "log: terminate")


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether an exception is an nvFuser error that a diagnostic from the same log explains."""
    if hit.survived or hit.catchpoint not in _THROWN or _OURS.search(hit.message) is None:
        return False
    return any(
        said.system == "nvfuser" and said.code in ("group-failed", "failed") and _of_log(said.evidence, hit.source)
        for said in snapshot.diagnostics.values()
    )


def _of_log(evidence: tuple[Evidence, ...], source: str | None) -> bool:
    return not source or any(not proof.log or proof.log == source for proof in evidence)


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "nvfuser": Preset(moment=Moment.THROW, patterns=("nvfuser::nvfError",), about="nvFuser's exception class"),
    }
)
