"""The definition of the system of compilers."""

from __future__ import annotations

from typing import Final

from livedbg.session.systems import Lazy, System

SYSTEM: Final = System(
    name="compilers",
    title="Compilers",
    about="why code was not compiled: ptxas, nvcc, NVRTC, Triton, MLIR, C++ compilers and linkers, as logs quote them",
    rank=45,
    on_signs=True,
    signatures="livedbg.adapters.compilers.signatures",
    rules=Lazy("livedbg.adapters.compilers.rules:rules"),
    judges_diagnostics=(".*",),
    explains=Lazy("livedbg.adapters.compilers.rules:explains"),
    continuations=("`ptxas", "ptxas ", "Repro command: "),
)
