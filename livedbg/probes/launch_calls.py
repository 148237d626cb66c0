"""Calls that launch kernels or look them up, and the functions that do so.

A system declares these functions and where their arguments are (`System.launch_functions`). `Describe` functions turn
the arguments of a call into words.

Invariants:
    launch_calls.K1. A launch that the runtime hands on to the driver is one launch, not two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from livedbg.model.launches import Dim3
from livedbg.probes.perf_records import Sample


class LaunchCall(NamedTuple):
    """A kernel launch or lookup.

    Attributes:
        handle: handle of the kernel; for a lookup, the address where it will be stored.
        name: name of the kernel, of a lookup.
        stack: the stack pointer at the function's first instruction.
        mono_ns: CLOCK_MONOTONIC.
        is_lookup: it launches nothing: it gets the handle of a kernel by name.
        by_runtime: a function of the runtime, which may hand the launch on to the driver, and whose handle is the
            address of a host function.
    """

    function: str
    pid: int
    tid: int
    mono_ns: int
    stack: int
    handle: int
    grid: Dim3 | None = None
    block: Dim3 | None = None
    shared_bytes: int = 0
    stream: int = 0
    name: bytes = b""
    is_lookup: bool = False
    by_runtime: bool = False


@dataclass(frozen=True, slots=True)
class LaunchFunctions:
    """The launch functions of a runtime.

    Attributes:
        arguments: by function, what the kernel reads at a call (Documentation/trace/uprobetracer.rst).
        lookups: functions that only look a kernel up.
        call: makes a LaunchCall of a function's name, a sample at its first instruction, and the fields of its event.
    """

    arguments: Mapping[str, tuple[str, ...]]
    lookups: frozenset[str]
    call: Callable[[str, Sample, Mapping[str, int | bytes]], LaunchCall]


def all_functions(runtimes: Iterable[LaunchFunctions]) -> LaunchFunctions:
    """Merge the functions of several runtimes; for equal names the first runtime wins."""
    owners: dict[str, LaunchFunctions] = {}
    for runtime in runtimes:
        for name in runtime.arguments:
            owners.setdefault(name, runtime)
    return LaunchFunctions(
        arguments={name: owner.arguments[name] for name, owner in owners.items()},
        lookups=frozenset(name for name, owner in owners.items() if name in owner.lookups),
        call=lambda function, sample, read: owners[function].call(function, sample, read),
    )


def is_nested(outer: LaunchCall, inner: LaunchCall) -> bool:
    """Return whether `inner` is how the runtime carries out `outer`, the call before it in the same thread (K1).

    It is deeper in the stack and launches the same; `outer` is of the runtime, `inner` of the driver.
    """
    return (
        outer.by_runtime
        and not inner.by_runtime
        and inner.stack < outer.stack
        and (outer.grid, outer.block, outer.shared_bytes) == (inner.grid, inner.block, inner.shared_bytes)
    )


Describe: TypeAlias = Callable[[Sequence[int], Sequence[str]], str]
"""What a call of one known function means, in words: from its first four arguments as they are in registers, and what
they point to, as text ("" where they point to none)."""


def source_line(file: str, line: int) -> str:
    """Return a source position as text: the file ("" if unreadable), and the line as the register has it."""
    number = line & 0xFFFFFFFF
    return f"{file}:{number}" if file else f"line {number}"


def failure(name: str, message: str, place: str) -> str:
    """Describe a failure in one line. Name and message may be "": a process that has ended leaves only numbers."""
    text = ": ".join(filter(None, (name, message)))
    return f"{text} ({place})" if text else place
