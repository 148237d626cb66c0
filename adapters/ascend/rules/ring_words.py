"""What is said of a full ring, heap or pool: its name, the variable that sizes it, the scope that fills it."""

from __future__ import annotations

from livedbg.adapters.ascend.resources import VARIABLES, Full
from livedbg.model import Diagnostic

__all__ = ["ring_name", "ring_variable", "scopes_of", "which_scope"]


def ring_name(full: Diagnostic) -> str:
    """`task ring 1`, `the heap of ring 1`, from a ring-full diagnostic."""
    return full.attributes.get("name", "its task ring")


def ring_variable(full: Diagnostic) -> str:
    """The variable that sizes what is full, with its value if the log has it: `PTO2_RING_HEAP (now 262,144 bytes)`."""
    what = Full(full.attributes.get("what", Full.SLOTS.value))
    size = full.attributes.get("size")
    unit = "bytes" if what is Full.HEAP else "entries"
    return f"{VARIABLES[what]} (now {size} {unit})" if size else VARIABLES[what]


def scopes_of(full: Diagnostic) -> str:
    """` The scope at orchestration.cpp:77 (depth 1) has begun and not ended. …`, where scope_stats.jsonl tells it."""
    scopes = full.attributes.get("scopes", "")
    return f" {scopes}" if scopes else ""


def which_scope(full: Diagnostic) -> tuple[str, ...]:
    """The step that shows which scope fills it, unless that is known, or its runtime can't tell."""
    if full.attributes.get("scopes") or full.attributes.get("host_built") == "yes":
        return ()
    return ("livedbg launch --recipe ascend-scope-stats -- COMMAND   (shows which scope fills it)",)
