"""What is said of a full ring, heap or pool: its name, the variable that sizes it, the scope that fills it."""

from __future__ import annotations

from livedbg.adapters.ascend.resources import VARIABLES, Full
from livedbg.model import Diagnostic
from livedbg.text.wording import sentence_case

__all__ = ["never_fits", "ring_name", "ring_variable", "scopes_of", "which_scope", "why_full"]


def ring_name(full: Diagnostic) -> str:
    """`task ring 1`, `the heap of ring 1`, from a ring-full diagnostic."""
    return full.attributes.get("name", "its task ring")


def ring_variable(full: Diagnostic) -> str:
    """The variable that sizes what is full, with its value if the log has it: `PTO2_RING_HEAP (now 262,144 bytes)`."""
    what = Full(full.attributes.get("what", Full.SLOTS.value))
    size = full.attributes.get("size")
    return f"{VARIABLES[what]} (now {size} {_unit(full)})" if size else VARIABLES[what]


def _unit(full: Diagnostic) -> str:
    return "bytes" if full.attributes.get("what") == Full.HEAP.value else "entries"


def never_fits(full: Diagnostic) -> bool:
    """One task wants more than the whole resource holds."""
    return full.attributes.get("never_fits") == "yes"


def why_full(full: Diagnostic) -> tuple[str, tuple[str, ...]]:
    """Of something that is full, where no task and no scope is known to hold it: what the log says, and what to do."""
    name, level, variable = ring_name(full), full.attributes.get("level", ""), ring_variable(full)
    if never_fits(full):
        unit, size, wanted = _unit(full), full.attributes.get("size"), full.attributes.get("wanted")
        less = "give that task fewer producers" if unit == "entries" else "make the task's outputs smaller"
        return (
            f" One task wants {wanted} {unit} of {name}, which has {size} in all: that never fits, whatever is freed.",
            (f"raise {variable} to more than {wanted}{_setting(full)}", f"or {less}"),
        )
    fan_in = full.attributes.get("what") == Full.POOL.value
    holders = [
        "a task that does not complete",
        "an open scope",
        *(["the producers of one task alone"] if fan_in else []),
    ]
    numbers = f" ({level})" if level else ""
    return (
        f" {sentence_case(name)} is full{numbers}. What holds it, the log does not tell: {', '.join(holders[:-1])} or "
        f"{holders[-1]}.{scopes_of(full)}",
        (
            f"raise {variable} once{_setting(full)}: if the run then completes, it was too small",
            *(("or give tasks fewer producers",) if fan_in else ()),
            "livedbg launch --recipe ascend-log -- COMMAND   (to log kernels, cores and dispatches)",
            *which_scope(full),
        ),
    )


def _setting(full: Diagnostic) -> str:
    """The setting in code that the variable does not override (simpler CallConfig.runtime_env, pypto RunConfig)."""
    name = ring_variable(full).partition(" ")[0].removeprefix("PTO2_").lower()
    return f", or {name} where the program's own configuration sets it" if name.startswith("ring_") else ""


def scopes_of(full: Diagnostic) -> str:
    """` The scope at orchestration.cpp:77 (depth 1) has begun and not ended. …`, where scope_stats.jsonl tells it."""
    scopes = full.attributes.get("scopes", "")
    return f" {scopes}" if scopes else ""


def which_scope(full: Diagnostic) -> tuple[str, ...]:
    """The step that shows which scope fills it, unless that is known, or its runtime can't tell."""
    if full.attributes.get("scopes") or full.attributes.get("host_built") == "yes":
        return ()
    return (
        "livedbg launch --recipe ascend-scope-stats -- COMMAND   (which scope holds the most: with a larger ring or a "
        "smaller input, for a simulator writes that of a run that ends well only)",
    )
