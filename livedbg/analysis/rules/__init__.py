"""All rules of the diagnosis, and the page that describes them."""

from __future__ import annotations

from livedbg.analysis.rules import (
    ascend,
    cuda,
    cycles,
    device,
    gpu,
    holders,
    launches,
    nvfuser,
    processes,
    progress,
    sight,
)
from livedbg.analysis.rules.base import Rule, RuleInput, Settings

__all__ = ["Rule", "RuleInput", "Settings", "all_rules", "rules_page"]

_TITLES = {
    cycles: "Deadlocks",
    holders: "Locks that are not released",
    ascend: "Ascend",
    cuda: "CUDA",
    device: "Devices",
    gpu: "GPUs",
    launches: "Launches",
    nvfuser: "nvFuser",
    processes: "Processes",
    progress: "Work that doesn't get on",
    sight: "What could not be seen",
}


def all_rules() -> tuple[Rule, ...]:
    """Every rule of the diagnosis."""
    return tuple(rule for module in _TITLES for rule in module.rules())


def rules_page() -> str:
    """The text of docs/rules.md."""
    lines = [
        "# Rules",
        "",
        "Every finding names the rule that made it. Each rule is a small pure function of the state and its wait-for",
        "graph; this page is made from the rules themselves (`livedbg.analysis.rules.rules_page()`).",
    ]
    for module, title in _TITLES.items():
        lines += ["", f"## {title}"]
        for rule in module.rules():
            lines += ["", f"### `{rule.name}`", "", rule.doc]
    return "\n".join(lines) + "\n"
