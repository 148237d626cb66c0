"""Logged exceptions whose cause the rules for PyTorch report."""

from __future__ import annotations

from typing import Final

from livedbg.adapters.pytorch.traces import text
from livedbg.analysis.rules.signatures import explained
from livedbg.model import Diagnostic, ExceptionHit
from livedbg.model.snapshot import Snapshot
from livedbg.session.signatures import ids_in

_THROWN: Final = ("collective-timeout", "ranks-missing", "peer-closed", "elastic-root", "elastic-failed")
"""Messages that exceptions carry, and that the rules of this room judge."""
_OF_TORCHRUN: Final = {
    "ChildFailedError": ("elastic-root", "elastic-failed"),
    "SignalException": ("elastic-told",),
}
"""Exceptions of its agent, and the codes of the messages that say the same."""


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether torch.compile logged an exception and went on, or the rules for jobs judge its message."""
    if text.explains(hit, snapshot) or explained(hit, snapshot, ids_in, _is_thrown):
        return True
    codes = _OF_TORCHRUN.get(hit.type.rpartition(".")[2], ())
    told = (said for said in snapshot.diagnostics.values() if said.code in codes)
    return any(proof.log == hit.source for said in told for proof in said.evidence)


def _is_thrown(said: Diagnostic) -> bool:
    return said.system == "pytorch" and said.code in _THROWN
