"""What runs on CUDA devices, by cuda-gdb from GPU core dumps."""

from __future__ import annotations

from livedbg.adapters.cuda.cudagdb.adapter import CudaGdbAdapter

__all__ = ["CudaGdbAdapter"]
