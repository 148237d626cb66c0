"""Kernel launches, traced by thread.

Invariants:
    launches.D1. Values are frozen, and their texts are sanitised (entities.M1, entities.M4).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from livedbg.model.entities import Frame

Dim3 = tuple[int, int, int]
"""x, y, z."""

CALLS: Final = "launch calls"
"""Counter of a process: launch calls since tracing began. A call of the runtime and its call of the driver are two."""

TRACED: Final = "launches traced"
"""Counter of a process: 1 while every launch call is counted or traced, else 0."""


TRACED_TO: Final = "launches traced to"
"""Counter of a process: the time up to which its launches were traced, in seconds of CLOCK_MONOTONIC."""

BEAT_NS: Final = 500_000_000
"""Launches within half a second are one beat: the number of beats shows whether a thread launches regularly."""


class Launch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that launches a task or kernel.

    Attributes:
        function: the launching function, such as `cuLaunchKernel`.
        handle: the call's handle of the kernel: a CUfunction, the address of a host function, a graph.
        grid: blocks; None for a graph.
        block: threads of a block; None for a graph.
        stream: its handle; 0 is the default stream.
    """

    function: str
    kernel: str | None = None
    handle: int = 0
    grid: Dim3 | None = None
    block: Dim3 | None = None
    shared_bytes: int = 0
    stream: int = 0
    mono_ns: int
    wall_ns: int


class LaunchTrail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Launches of a thread since tracing began.

    Attributes:
        count: launches that were traced one by one; launches that were only counted belong to no thread.
        last: the newest ones, oldest first.
        seen: its launches are traced one by one now. While they are not (there are too many), it may launch more than
            `count` and `last` show, and `rate_per_s` is the last rate measured.
        seen_since_mono_ns: since when they are traced without a gap.
        first_mono_ns: its first traced launch.
        beats: half seconds (`BEAT_NS`) in which it was seen to launch.
    """

    thread: str
    process: str
    count: int
    rate_per_s: float = 0.0
    last: tuple[Launch, ...] = ()
    seen: bool = True
    seen_since_mono_ns: int = 0
    first_mono_ns: int = 0
    beats: int = 0


def kernel_text(launch: Launch) -> str:
    """Return the name of the kernel, or its handle or the graph's."""
    return launch.kernel or f"{'kernel' if launch.grid is not None else 'graph'} {launch.handle:#x}"


def launch_text(launch: Launch) -> str:
    """Format a launch in one line."""
    where = f"stream {launch.stream:#x}  by {launch.function}"
    if launch.grid is None or launch.block is None:
        return f"{kernel_text(launch)}  {where}"
    grid, block = (",".join(map(str, size)) for size in (launch.grid, launch.block))
    shared = f", {launch.shared_bytes} B shared" if launch.shared_bytes else ""
    return f"{kernel_text(launch)} <<<({grid}), ({block}){shared}>>>  {where}"


class SampledStack(Struct, frozen=True, omit_defaults=True):
    """A stack, and the CPU time of the thread that its samples represent; `whole`: the outermost frame is there."""

    frames: tuple[Frame, ...]
    cpu_ns: int
    samples: int = 1
    whole: bool = True


class Kept(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process kept of the memory that malloc gave it.

    Attributes:
        growth_bytes: by how much its memory grew at most, whoever gave it.
        unknown: why it is not known who keeps it, or "".
    """

    growth_bytes: int
    unknown: str = ""


class ProfileSlice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Samples of one thread over a short time, equal stacks merged; `unknown` is the number without a stack.

    With `kept` it describes the memory of a process: `cpu_ns` is the bytes not freed at the peak, and each sample is a
    block.
    """

    thread: str
    start_mono_ns: int
    end_mono_ns: int
    stacks: tuple[SampledStack, ...]
    unknown: int = 0
    kept: Kept | None = None
