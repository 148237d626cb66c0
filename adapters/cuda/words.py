"""The words by which a record that may tell of CUDA is known, before anything is understood."""

from __future__ import annotations

from typing import Final

from livedbg.adapters.cuda.errors import known_texts

__all__ = ["RAISED_FROM", "RULE", "WORDS"]

RULE: Final = "========="
"""What compute-sanitizer begins its lines with."""

RAISED_FROM: Final = "Exception raised from c10_cuda_check_implementation"
"""PyTorch's listing of C++ frames below an error."""

WORDS: Final = (
    *("CUDA error", "CUDA driver error", "CUDA Error", "CUDA out of memory", "Cuda failure", "cuDNN error"),
    *("Triton Error [CUDA]", "GPUassert: ", "cudaError", "CUDA_ERROR_", "unhandled cuda error"),
    *known_texts(of_kernel=True),
)
"""One of these stands in every error of CUDA that a program on the host reports."""
