"""What is known of nvFuser's failures, options and passes, as typed values.

Which logged exceptions the rules for nvFuser report the cause of.
"""

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
    """Of what a log says of a job and its fusions.

    Attributes:
        scope: what the identifiers of its job begin with.
        script: the log has a reproduction script.
        log: where the error, the dump and the script are.
        group, when, behind, dump: of a group that failed: its number, `compile` or `run`, how many groups wait for it,
            and whether a dump has the segments.
        inferred: why the group is believed to be the one, where no line says it.
        option, variable, available: of an option that is not known.
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
    """Of a thread that a trace shows.

    Attributes:
        name: the pass that it is in.
        within: the passes around it, innermost first.
        pid, thread, process: whose thread it is.
        alive: a process of that number ran here when the trace was read.
        last_wall_ns: when it last wrote something.
        ended: the trace has its end.
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
    """The facts of a diagnostic; in recordings of before they are texts."""
    if said.facts is not None:
        return facts_of(said.facts, FusionFacts)
    texts = said.attributes
    options = tuple(word for word in texts.get("available", "").split(", ") if word)
    return facts_from({**texts, "available": options}, FusionFacts)


_OURS: Final = lazy_re(
    r"INTERNAL ASSERT FAILED at \"?\S*(?:[Ff]user/|/csrc/|codegen/cuda/)|Error from segmentation group"
    r"|Detected exception while compiling fusion segments"
)
_THROWN: Final = ("log: traceback", "log: terminate")


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """True for an error of nvFuser, where a diagnostic from the same log says what failed.

    Args:
        hit: an exception that a log shows.
        snapshot: the state.
    """
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
