"""The entries of a dump: which argument of which task it holds at which stage, and where its values lie."""

from __future__ import annotations

import msgspec


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One argument of one task at one stage.

    Attributes:
        number: its place in the manifest, from 0.
        task: the runtime's 64-bit id.
        stage: `before` or `after` the task ran, or the manifest's own word.
        role: `input`, `output` or `inout`.
        kind: `tensor`, or `scalar`, whose `value` is in the manifest itself.
        kernels: func ids of the task's kernels; empty where unknown.
        shape: of the payload, which is always contiguous.
        strides: of the view in its buffer, in elements; the payload was gathered from there.
        start_offset: of the view in its buffer, in elements.
        truncated: the tensor was larger than the dump had memory for; its first part is there.
        overwritten: the payload was lost before the host had read it.
        ambiguous: which of several equal scalar arguments was meant is not known.
    """

    number: int
    task: int
    arg: int
    stage: str
    role: str
    kind: str
    dtype: str
    kernels: tuple[int, ...]
    value: int | float | bool | str | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start_offset: int
    bin_offset: int
    bin_size: int
    truncated: bool
    overwritten: bool
    ambiguous: bool

    @property
    def before(self) -> bool:
        """Whether it is what the task found, not what it left."""
        return self.stage == "before"

    @property
    def scalar(self) -> bool:
        """True if it is a number in the manifest."""
        return self.kind == "scalar"
