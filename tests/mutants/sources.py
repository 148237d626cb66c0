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
        sources: the files to mutate, relative to the repository; a folder stands for all modules directly in it.
        tests: files and folders of tests, relative to the repository.
    """

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self) -> list[str]:
        """The files to mutate, in order."""
        found = []
        for source in self.sources:
            path = ROOT / source
            found += [str(p.relative_to(ROOT)) for p in sorted(path.glob("*.py"))] if path.is_dir() else [source]
        return found


_LARGE = ("tests/analysis/test_graph.py", "tests/analysis/test_large_graph.py")
_STATES = tuple(
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "tests/analysis").glob("test_*.py"))
    if not str(path).endswith(_LARGE)
)
_GRAPHS = tuple(
    f"livedbg/analysis/{name}.py" for name in ("engine", "graph", "graphs", "layered", "memo", "order", "wiring")
)

GROUPS = (
    Group(
        "analysis",
        tuple(
            f"livedbg/analysis/{name}.py"
            for name in (
                "blocking",
                "burning",
                "closed",
                "deadness",
                "devices",
                "diagnosis",
                "job_waits",
                "liveness",
                "tasks",
                "verdict",
            )
        ),
        _STATES,
    ),
    Group("rules", ("livedbg/analysis/rules",), _STATES),
    Group("graphs", _GRAPHS, _LARGE),
    Group(
        "waits",
        ("adapters/proc/futex.py", "adapters/proc/lock_waits.py", "adapters/proc/fd_waits.py"),
        tuple(
            f"tests/adapters/proc/test_{name}.py"
            for name in ("asleep", "futex", "lock_waits", "recognised_waits", "syscall_waits", "wakers")
        ),
    ),
    Group(
        "ascend",
        ("adapters/ascend/stalls.py", "adapters/ascend/rules/stalls.py", "adapters/ascend/diagnostics/stalls.py"),
        ("tests/adapters/ascend",),
    ),
)
