"""What users of the simpler runtime call tasks, arguments and remedies.

Sources: pto_dep_compute.h, docs/manual-scope.md and docs/war-anti-dependency.md of simpler. A tensor or view with
`manual_dep=true` is neither looked up nor registered; `deps.json` does not say so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from livedbg.adapters.ascend.dumps.depsfile import kernel_names
from livedbg.adapters.ascend.names import task_name
from livedbg.graphs.orders import Cause, LostOrder
from livedbg.graphs.terms import Terms

__all__ = ["next_of", "terms_beside", "why_of"]

_DECLARES: Final = {"INPUT": "add_input()", "INOUT": "add_inout()", "OUTPUT_EXISTING": "add_output()"}
_WHY: Final[dict[Cause, str]] = {
    Cause.OUTPUT: "the second task declares it as add_output(), and the runtime looks for no earlier writer then",
    Cause.MANUAL_WRITER: "the first task was submitted in a manual scope, where no writer is registered",
    Cause.MANUAL_READER: "the second task was submitted in a manual scope, where no earlier writer is looked up",
    Cause.ALIAS: "to the runtime they are two tensors, for they begin at different addresses",
    Cause.UNTRACKED: (
        "the runtime looks earlier writers up here, so most likely one of the two arguments has manual_dep=true "
        "(deps.json does not say), or a record is missing"
    ),
}
_NEXT: Final[dict[Cause, tuple[str, ...]]] = {
    Cause.OUTPUT: (
        "declare the tensor as add_inout() (or add_input() too) in the task that was submitted second",
        "or order the two with set_dependencies()",
    ),
    Cause.MANUAL_WRITER: ("give the first task's id to set_dependencies() of the second",),
    Cause.MANUAL_READER: ("give the first task's id to set_dependencies() of the second",),
    Cause.ALIAS: (
        "make both of them views of one tensor, which the runtime can compare",
        "or order the two with set_dependencies()",
    ),
    Cause.UNTRACKED: (
        "look for manual_dep=true at the tensor or the view in the orchestration code",
        "or order the two with set_dependencies()",
    ),
}


def why_of(lost: LostOrder) -> str:
    """The likely cause of a lost order."""
    return _WHY[lost.cause]


def next_of(lost: LostOrder) -> tuple[str, ...]:
    """What to do about a lost order."""
    return _NEXT[lost.cause]


def terms_beside(path: Path) -> Terms:
    """The terms of the run that wrote a `deps.json`, with the names of its kernels."""
    return Terms(
        kernels=kernel_names(path.parent),
        task_name=task_name,
        declares=_DECLARES,
        why=_WHY,
        next=_NEXT,
        overwritten_next=("where it matters: add_dep() of the reader's id in the writer",),
    )
