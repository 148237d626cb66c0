"""Facts of CUDA errors, GPU troubles and compute-sanitizer reports; logged exceptions whose cause the rules report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from livedbg.model import Diagnostic, ExceptionHit
from livedbg.model.facts import Facts, facts_from, facts_of
from livedbg.model.snapshot import Snapshot
from livedbg.text.patterns import lazy_re


class CudaFacts(Facts, frozen=True, kw_only=True, tag="cuda"):
    """Facts of a CUDA diagnostic. Sizes are as PyTorch prints them (`2.00 GiB`).

    Attributes:
        what: short name of the error.
        kernel, function, where: its kernel on the GPU, the function in it, `file.cu:92`.
        block, thread: coordinates there, or the range of several.
        device, sm, warp, lane, pc: place on the GPU.
        host: place of the program: `step (train.py:4)`.
        owner: `rank 3`, if its log has several.
        source: the log.
        context: key of related errors.
        process: id of the process, if known.
        pid: the process named in a line.
        count: number of equal errors.
        order: its index in reading order.
        error, number: name and number of the code.
        call, said: the failed call, and the driver's log on it.
        sticky: the context does not survive it.
        of_kernel: a kernel did it, and the call that reports it need not be the one that failed.
        hardware: a hardware error.
        synchronous: the reporting call is the one that failed; None if not known.
        uncaught: it ended the program.
        logged: severity in a logger's record.
        assertion: the condition of an assert.
        file: a core dump.
        tool, address, accesses, hazards, bytes, errors, mixed: of compute-sanitizer; `mixed`: lines of several
            processes are mixed.
        tried, free, total, allocated, unused, used, others, gpu: of a failed allocation.
        xid, kind, name: of an Xid: its number, what it blames, and the process's name.
        steps: remedies.
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
    """Facts of a GPU: why it is lost, what limits its clocks, and its hardware."""

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
    """Return the facts with these names; other names are ignored."""
    known = {name: text for name, text in texts.items() if name not in _NUMBERS or _NUMBER.fullmatch(str(text))}
    return facts_from({**known, "steps": [step for step in texts.get("next", "").split("\n") if step]}, CudaFacts)


def about(error: Diagnostic) -> CudaFacts:
    """Return the facts of an error; old recordings have them as texts."""
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
_STATUSES: Final = ("CUDNN_STATUS_", "CUBLAS_STATUS_", "CUSOLVER_STATUS_")
"""So do those of Python's exceptions; a check in C++ says itself what failed."""


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether CUDA caused an exception, and a diagnostic of the same process names the first error."""
    words = (*_WORDS, *(_STATUSES if hit.catchpoint == "log: traceback" else ()))
    return any(word in hit.message for word in words) and any(
        diagnostic.system == "cuda"
        and not diagnostic.code.startswith(("nccl-", "nvrm-"))
        and about(diagnostic).process == (hit.process or "")
        for diagnostic in snapshot.diagnostics.values()
    )


_SIZE: Final = lazy_re(r"([\d.]+) ?([KMGT]?)i?B|([\d.]+) bytes")


def bytes_of(texts: Iterable[str | None]) -> list[float]:
    """Return sizes as PyTorch writes them (`2.50 GiB`) in bytes; 0 for invalid ones."""
    sizes = []
    for text in texts:
        match = _SIZE.fullmatch(text or "")
        try:
            number = float((match[1] or match[3]) if match is not None else 0)
        except ValueError:
            number = 0.0
        sizes.append(number * 1024 ** " KMGT".index((match[2] if match is not None else "") or " "))
    return sizes
