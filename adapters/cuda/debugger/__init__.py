"""The state of CUDA devices by cuda-gdb: from a GPU core dump, from one that is asked for, or attached."""

from __future__ import annotations
