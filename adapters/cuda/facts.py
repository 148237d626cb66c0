"""What is known of an error of CUDA, a GPU's complaint or a report of compute-sanitizer, as typed values.

Which logged exceptions the rules for CUDA report the cause of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from livedbg.model import Diagnostic, ExceptionHit
from livedbg.model.facts import Facts, facts_from, facts_of
from livedbg.model.snapshot import Snapshot
from livedbg.text.patterns import lazy_re


class CudaFacts(Facts, frozen=True, kw_only=True, tag="cuda"):
    """Of a diagnostic. Sizes are as PyTorch prints them (`2.00 GiB`).

    Attributes:
        what: the error in a few words.
        kernel, function, where: what ran on the GPU: its kernel, the function in it, `file.cu:92`.
        block, thread: coordinates there, or the range of several.
        device, sm, warp, lane, pc: where on the GPU.
        host: where the program was: `step (train.py:4)`.
        owner: `rank 3`, where its log has several.
        source: the log.
        context: whose errors belong together.
        process: id of the process, where it is known.
        pid: the process that a line names.
        count: so many alike.
        order: it was the n-th that was read.
        error, number: name and number of the code.
        call, said: what returned it, and what the driver's log said of it.
        sticky: the context does not survive it.
        of_kernel: a kernel did it, and the call that reports it need not be the one that failed.
        hardware: it is the hardware's.
        synchronous: whether the call that reports it is the one that failed, where that is known.
        uncaught: it ended the program.
        logged: severity with which a logger wrote it.
        assertion: the condition of an assert.
        file: a core dump.
        tool, address, accesses, hazards, bytes, errors, mixed: of compute-sanitizer; `mixed`: lines of several
            processes are mixed.
        tried, free, total, allocated, unused, used, others, gpu: of an allocation that failed.
        xid, kind, name: of an Xid: its number, what it blames, and the process's name.
        steps: what to do.
    """

    what: str = ""
    kernel: str = ""
    function: str = ""
    where: str = ""
    block: str = ""
    thread: str = ""
    device: str = ""
    sm: str = ""
    warp: str = ""
    lane: str = ""
    pc: str = ""
    host: str = ""
    owner: str = ""
    source: str = ""
    context: str = ""
    process: str = ""
    pid: str = ""
    count: int = 1
    order: int = 0
    error: str = ""
    number: str = ""
    call: str = ""
    said: str = ""
    sticky: bool = False
    of_kernel: bool = False
    hardware: bool = False
    synchronous: bool | None = None
    uncaught: bool = False
    logged: str = ""
    assertion: str = ""
    file: str = ""
    tool: str = ""
    address: str = ""
    accesses: str = ""
    hazards: int = 0
    bytes: int = 0
    errors: int | None = None
    mixed: bool = False
    tried: str = ""
    free: str = ""
    total: str = ""
    allocated: str = ""
    unused: str = ""
    used: str = ""
    others: str = ""
    gpu: str = ""
    xid: str = ""
    kind: str = ""
    name: str = ""
    steps: tuple[str, ...] = ()


class GpuFacts(Facts, frozen=True, kw_only=True, tag="gpu"):
    """Of a GPU: why it does not answer any more, what holds its clocks down, and what it is."""

    lost: str = ""
    held_down: tuple[str, ...] = ()
    uuid: str = ""
    bus: str = ""
    driver: str = ""
    memory_bytes: int | None = None
    processes: int = 0


_NUMBER = lazy_re(r"[0-9]{1,18}")
_NUMBERS = ("count", "order", "hazards", "bytes", "errors")


def cuda_facts(texts: Mapping[str, Any]) -> CudaFacts:
    """The facts of what a log says, by their names; what has no name among them is left out."""
    known = {name: text for name, text in texts.items() if name not in _NUMBERS or _NUMBER.fullmatch(str(text))}
    return facts_from({**known, "steps": [step for step in texts.get("next", "").split("\n") if step]}, CudaFacts)


def about(error: Diagnostic) -> CudaFacts:
    """The facts of an error; in recordings of before they are texts."""
    found = error.message
    if found.signature:
        facts = replace(cuda_facts(found.values), count=found.count, order=found.first, steps=found.steps)
        return replace(facts, source=error.log, pid=str(found.pid or ""))
    return facts_of(error.facts, CudaFacts) if error.facts is not None else cuda_facts(error.attributes)


_WORDS: Final = (
    *("CUDA error", "CUDA driver error", "CUDA out of memory", "cuDNN error", "unhandled cuda error", "Cuda failure"),
    *("Triton Error [CUDA]", "cudaError", "CUDA_ERROR_"),
)
"""Messages of exceptions that a CUDA error causes contain these."""


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """True if CUDA caused an exception, and a diagnostic of the same process says which error came first.

    Args:
        hit: an exception that a log shows.
        snapshot: the state.
    """
    return any(word in hit.message for word in _WORDS) and any(
        diagnostic.system == "cuda"
        and not diagnostic.code.startswith(("nccl-", "nvrm-"))
        and about(diagnostic).process == (hit.process or "")
        for diagnostic in snapshot.diagnostics.values()
    )


_SIZE: Final = lazy_re(r"([\d.]+) ?([KMGT]?)i?B|([\d.]+) bytes")


def bytes_of(texts: Iterable[str | None]) -> list[float]:
    """Sizes as PyTorch writes them (`2.50 GiB`), in bytes; 0 for what is none."""
    sizes = []
    for text in texts:
        match = _SIZE.fullmatch(text or "")
        try:
            number = float((match[1] or match[3]) if match is not None else 0)
        except ValueError:
            number = 0.0
        sizes.append(number * 1024 ** " KMGT".index((match[2] if match is not None else "") or " "))
    return sizes
