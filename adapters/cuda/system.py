"""What livedbg knows of CUDA, in one value."""

from __future__ import annotations

from typing import Final

from livedbg.session.systems import DeviceVariable, Lazy, LogPlaces, Signs, System

__all__ = ["SYSTEM"]

SYSTEM: Final = System(
    name="cuda",
    title="CUDA",
    about="errors of the runtime and the driver, Xid, kernels and warps from GPU core dumps, GPU counters",
    rank=30,
    signs=Signs(
        files=(r"/libcuda(?:rt|dart)?[.-]|/libnvrtc",),
        devices=("/dev/nvidia",),
        variables=(r"CUDA_\w+",),
        formats=("cuda", "compute-sanitizer", "nccl"),
        modules=(r"libcuda(?:rt)?\.so",),
    ),
    adapters={
        "cudagdb": Lazy("livedbg.adapters.cuda.cudagdb:CudaGdbAdapter"),
        "cuda": Lazy("livedbg.adapters.cuda.adapter:CudaAdapter"),
        "nvml": Lazy("livedbg.adapters.cuda.nvml:NvmlAdapter"),
    },
    rules=Lazy("livedbg.adapters.cuda.rules:rules"),
    checks=Lazy("livedbg.adapters.cuda.checks:checks"),
    tools=Lazy("livedbg.adapters.cuda.toolkits:find_tool"),
    debuggers=("cuda-gdb",),
    shapes=Lazy("livedbg.adapters.cuda.log_shapes:SHAPES"),
    continuations=(
        *("CUDA kernel errors might", "Device-side assert", "Search for `cuda"),
        *("NCCL error", r"nccl\w+: ", "ncclSystemError"),
    ),
    judges_diagnostics=(".*",),
    explains=Lazy("livedbg.adapters.cuda.explained:explains"),
    log_places=LogPlaces(("CUDA_LOG_FILE", "NCCL_DEBUG_FILE"), Lazy("livedbg.adapters.cuda.log_places:paths")),
    device_variables=(DeviceVariable("CUDA_VISIBLE_DEVICES"),),  # CUDA C++ Programming Guide, environment variables
    recipes="livedbg.adapters.cuda.recipes",
    page="systems/cuda.md",
)
