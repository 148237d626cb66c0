"""Terms of a runtime for tasks, arguments and remedies, used to describe its graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from livedbg.graphs.declared import DeclaredTask
from livedbg.graphs.orders import Cause


class Terms(Struct, frozen=True, kw_only=True):
    """The words of one runtime, and the names of one run.

    Attributes:
        kernels: names by func id.
        task_name: the name of a task by its 64-bit id, such as `r1t2`.
        declares: by an argument's mode, the call that declares it.
        why: by cause, why an order is most likely lost.
        next: by cause, what to do.
        overwritten_next: what to do where a later task overwrites what an earlier one reads, and that matters.
    """

    kernels: Mapping[int, str] = field(default_factory=dict)
    task_name: Callable[[int], str] = str
    declares: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[Cause, str] = field(default_factory=dict)
    next: Mapping[Cause, tuple[str, ...]] = field(default_factory=dict)
    overwritten_next: tuple[str, ...] = ()

    def kernel(self, task: DeclaredTask) -> str:
        """`MUL`, `func 2`, `GEMM+ADD`; "" where the graph has none."""
        funcs = dict.fromkeys(func for func in task.kernels if func >= 0)
        return "+".join(self.kernels.get(func, f"func {func}") for func in funcs)

    def title(self, task: DeclaredTask) -> str:
        """`r1t2 MUL`."""
        return f"{self.task_name(task.raw)} {self.kernel(task)}".strip()
