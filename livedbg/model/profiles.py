"""What running threads were doing: stacks of samples, counted."""

from __future__ import annotations

from msgspec import Struct

from livedbg.model.entities import Frame


class SampledStack(Struct, frozen=True, omit_defaults=True):
    """A stack that some samples of a thread had.

    Attributes:
        frames: innermost first.
        cpu_ns: CPU time of the thread that these samples represent.
        samples: how many they are.
        whole: the outermost frame is there.
    """

    frames: tuple[Frame, ...]
    cpu_ns: int
    samples: int = 1
    whole: bool = True


class ProfileSlice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one thread was doing for a moment.

    Attributes:
        start_mono_ns: when its first sample was taken.
        end_mono_ns: when its last sample was taken.
        stacks: of the samples, equal ones together.
        unknown: samples without a stack: they could not be unwound, or came too fast.
    """

    thread: str
    start_mono_ns: int
    end_mono_ns: int
    stacks: tuple[SampledStack, ...]
    unknown: int = 0
