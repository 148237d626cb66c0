"""Which source files `make mutants` mutates, and which tests have to kill the mutants of each.

Only tests that call livedbg in their own process can: a mutant lives in memory, and a `livedbg` command that a test
starts runs the file as it is on disk. Tests that need longer than `SLOW_S` are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

SLOW_S = 4.0
"""CPU time of one test from which on it is too expensive to run once a mutant."""


@dataclass(frozen=True, slots=True)
class Group:
    """Source files that the same tests cover.

    Attributes:
        name: how the user names it.
        sources: the files to mutate, relative to the repository.
        tests: files and folders of tests, relative to the repository.
    """

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]


_LARGE = ("tests/analysis/test_graph.py", "tests/analysis/test_graph_edges.py", "tests/analysis/test_large_graph.py")
_LIVE = ("tests/analysis/test_survived.py", "tests/analysis/test_rules_page.py")
_STATES = tuple(
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "tests/analysis").glob("test_*.py"))
    if not str(path).endswith(_LARGE + _LIVE)
)
_GRAPHS = tuple(
    f"livedbg/analysis/{name}.py" for name in ("engine", "graph", "graphs", "layered", "memo", "order", "wiring")
)

GROUPS = (
    Group(
        "analysis",
        tuple(
            f"livedbg/analysis/{path.name}"
            for path in sorted((ROOT / "livedbg/analysis").glob("*.py"))
            if f"livedbg/analysis/{path.name}" not in (*_GRAPHS, "livedbg/analysis/devices.py")
        ),
        _STATES,
    ),
    Group(
        "rules",
        tuple(
            f"livedbg/analysis/rules/{path.name}"
            for path in sorted((ROOT / "livedbg/analysis/rules").glob("*.py"))
            if path.name not in ("__init__.py", "device.py")
        ),
        _STATES,
    ),
    Group(
        "postmortem",
        tuple(
            f"livedbg/analysis/postmortem/{path.name}"
            for path in sorted((ROOT / "livedbg/analysis/postmortem").glob("*.py"))
            if path.name not in ("__init__.py", "survived.py")
        ),
        _STATES,
    ),
    Group(
        "survived",
        ("livedbg/analysis/postmortem/survived.py",),
        ("tests/analysis/test_survived.py", "tests/analysis/test_survived_edges.py"),
    ),
    Group(
        "devices",
        ("livedbg/analysis/devices.py", "livedbg/analysis/rules/device.py"),
        ("tests/analysis/test_device_edges.py",),
    ),
    Group("graphs", _GRAPHS, _LARGE),
    Group("futex", ("adapters/proc/futex.py",), ("tests/adapters/proc/test_futex.py",)),
    Group(
        "waits",
        ("adapters/proc/wait_reader.py", "adapters/proc/fd_waits.py"),
        tuple(f"tests/adapters/proc/test_{name}.py" for name in ("fd_wait_edges", "lock_wait_edges", "wakers")),
    ),
    Group(
        "ascend",
        ("adapters/ascend/stalls.py", "adapters/ascend/rules/stalls.py", "adapters/ascend/diagnostics/failures.py"),
        tuple(
            f"tests/adapters/ascend/test_{name}.py"
            for name in ("ends", "resources", "shapes", "stall_findings", "stall_rounds")
        ),
    ),
)
