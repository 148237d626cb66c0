"""Byte strings of which each beginning of an nvFuser statement contains one; other lines can be skipped."""

from __future__ import annotations

from typing import Final

TRIGGERS: Final = (
    b"Segmented_Fusion{",
    b"Re-written complete fusion:{",
    b"Segment the fusion (",
    b"**Segmenter** Considering fusion:",
    b"***Runtime***",
    b"__tmp_nvfuser_",
    b"Codegen output for kernel",
    b"Arguments for fusion",
    b"Launch Parameters:",
    b"failed. Invalid option",
    b"# CUDA devices:",
    b"from nvfuser",
    b"def nvfuser_",
    b"Python definition for segmented group",
    b"Error from segmentation group",
    b"INTERNAL ASSERT FAILED at",
    b"userMsg=",  # an argument in a stack of gdb
    b"Exception raised from ",
)
