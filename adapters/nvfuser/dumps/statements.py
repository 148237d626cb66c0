"""Statements in nvFuser's output."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from livedbg.adapters.nvfuser.dumps.failures import Failure
from livedbg.adapters.nvfuser.dumps.ir import Tensor
from livedbg.adapters.nvfuser.dumps.segments import SegmentedFusion
from livedbg.text.patterns import lazy_re

_AXIS: Final = lazy_re(r"\b([irbsnv])[A-Za-z.]{0,400}(\d{1,18})\{")
_AXES: Final = 1_000  # of a tensor


class Segmented(Struct, frozen=True):
    """A fusion was segmented (`NVFUSER_DUMP=segmented_fusion`)."""

    fusion: SegmentedFusion
    line: int | None


class Considered(Struct):
    """The segmenter asked all schedulers about some expressions (`segmenter_logging`).

    Attributes:
        defines: numbers of the tensors that the expressions define; empty for the whole fusion.
        rejected: (scheduler, reason).
        accepted: the accepting scheduler, or "".
    """

    line: int | None
    defines: frozenset[int] = frozenset()
    rejected: list[tuple[str, str]] = field(default_factory=list)
    accepted: str = ""


class Kernel(Struct, frozen=True):
    """A kernel (`nvfuser_reduction_f0_c1_r0_g1`) whose code was generated and is being compiled."""

    name: str
    scheduler: str
    fusion: int
    concrete: int
    runtime: int
    group: int
    line: int | None
    file: str = ""


class Arguments(Struct):
    """Arguments of a kernel that is about to be launched (`kernel_args`).

    Attributes:
        group: None for the arguments of a whole fusion (`fusion_args`).
        inputs, outputs: as printed: `Tensor: shape: [64, 128], dtype: float, …`.
    """

    fusion: int
    group: int | None
    line: int | None
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


class Launch(Struct, frozen=True):
    """Launch parameters (`launch_param`), printed just before the arguments of the same launch."""

    block: tuple[int, ...]
    grid: tuple[int, ...]
    shared_bytes: int
    line: int | None


class Failed(Struct, frozen=True):
    """An error text."""

    failure: Failure
    line: int | None


class BadOption(Struct, frozen=True):
    """An unknown word in an option variable; `variable` is `DUMP`, `ENABLE`, `DISABLE` or `PROF`."""

    variable: str
    option: str
    line: int | None


class Script(Struct, frozen=True):
    """A reproduction script.

    Attributes:
        generation: `nvfuser_direct` or `nvfuser` (the older bindings).
        versions: of `torch`, `cuda`, `nvfuser`, as far as its header has them.
        devices: names of the GPUs.
    """

    text: str
    generation: str
    versions: dict[str, str]
    devices: tuple[str, ...]
    line: int | None
    complete: bool


class Definition(Struct, frozen=True):
    """A Python definition without a script: `python_definition`, formerly `python_definition_segments` too."""

    text: str
    group: int | None
    line: int | None


class Whole(Struct):
    """The inputs of the fusion being segmented, in argument order: tensors, and names of numbers (`d10`)."""

    line: int | None
    inputs: list[Tensor | str] = field(default_factory=list)


class Domain(Struct, frozen=True):
    """The axes of a tensor as printed in the whole fusion's transforms: kind and number (`i3`).

    `said` has `logical`, `root`, `allocation` and `contiguity` as printed; they are parsed on demand.
    """

    said: tuple[str, str, str, str] = ("", "", "", "")

    @property
    def logical(self) -> tuple[str, ...]:
        """Return the axes that a consumer sees."""
        return _axes(self.said[0])

    @property
    def root(self) -> tuple[str, ...]:
        """Return the axes before a permutation or reshape; () if there is none."""
        return _axes(self.said[1])

    @property
    def allocation(self) -> tuple[str, ...]:
        """Return the axes in memory order, outermost first; () if that is the logical order."""
        return _axes(self.said[2])

    @property
    def contiguity(self) -> tuple[str, ...]:
        """Return for each axis in memory: `t`, `f`, or `n` (none, for a broadcast)."""
        return tuple(self.said[3].split()[:_AXES])


def _axes(said: str) -> tuple[str, ...]:
    return tuple(kind + number for kind, number in _AXIS.findall(said)[:_AXES])


class Domains(Struct):
    """The axes of the segmented fusion's tensors, by number."""

    line: int | None
    tensors: dict[int, Domain] = field(default_factory=dict)


Statement: TypeAlias = (
    Segmented | Considered | Kernel | Arguments | Launch | Failed | BadOption | Script | Definition | Whole | Domains
)


class Said(NamedTuple):
    """A statement with its writer in a shared file (`rank 0`), or ""."""

    prefix: str
    statement: Statement
