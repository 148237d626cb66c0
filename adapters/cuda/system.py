"""The definition of the CUDA system."""

from __future__ import annotations

from typing import Final

from livedbg.session.systems import Command, DeviceVariable, Framework, Lazy, LogPlaces, Signs, System

SYSTEM: Final = System(
    name="cuda",
    title="CUDA",
    about="errors of the runtime and the driver, Xid, kernels and warps from GPU core dumps, GPU counters",
    rank=30,
    signs=Signs(
        files=(r"/libcuda(?:rt|dart)?[.-]|/libnvrtc",),
        devices=("/dev/nvidia",),
        formats=("cuda", "compute-sanitizer", "nccl"),
        modules=(r"libcuda(?:rt)?\.so",),
    ),
    framework=Framework(
        modules=(
            r"lib(?:cuda|cudart|cublas\w*|cudnn\w*|cufft|curand|cusolver|cusparse|cupti|nccl|nvrtc|nvidia-)[\w-]*\.",
        ),
        functions=(r"(?:nccl|cuda|cublas|cudnn)[A-Z]",),
    ),
    on_signs=True,
    adapters={
        "cudagdb": Lazy("livedbg.adapters.cuda.cudagdb.adapter:CudaGdbAdapter"),
        "cuda": Lazy("livedbg.adapters.cuda.adapter:CudaAdapter"),
        "nvml": Lazy("livedbg.adapters.cuda.nvml.adapter:NvmlAdapter"),
    },
    interactive=("cudagdb",),
    rules=Lazy("livedbg.adapters.cuda.rules:rules"),
    checks=Lazy("livedbg.adapters.cuda.checks:checks"),
    tools=Lazy("livedbg.adapters.cuda.checks:find_tool"),
    debuggers=("cuda-gdb",),
    shapes=Lazy("livedbg.adapters.cuda.log_shapes:SHAPES"),
    continuations=(
        *("CUDA kernel errors might", "Device-side assert", "Search for `cuda"),
        "current device: ",  # of ggml, where a page took the blanks before it
        *("NCCL error", r"nccl\w+: ", "ncclSystemError", "Last error:"),
    ),
    signatures="livedbg.adapters.cuda.signatures",
    judges_diagnostics=("(?!nccl-|nvrm-).*",),
    explains=Lazy("livedbg.adapters.cuda.facts:explains"),
    log_places=LogPlaces(("CUDA_LOG_FILE", "NCCL_DEBUG_FILE"), Lazy("livedbg.adapters.cuda.log_shapes:paths")),
    device_variables=(DeviceVariable("CUDA_VISIBLE_DEVICES"),),  # CUDA C++ Programming Guide, environment variables
    recipes="livedbg.adapters.cuda.recipes",
    shared_recipes=dict.fromkeys(
        ("asan-clang", "asan-gcc"), "protect_shadow_gap=0: the CUDA driver maps memory in the gap."
    ),
    sanitizers=("compute-sanitizer=memcheck", "compute-sanitizer=racecheck"),
    stacks_wanted=Lazy("livedbg.adapters.cuda.rules.launches:stacks_wanted"),
    presets=Lazy("livedbg.adapters.cuda.launch_functions:PRESETS"),
    known_calls=Lazy("livedbg.adapters.cuda.launch_functions:KNOWN_CALLS"),
    launch_functions=Lazy("livedbg.adapters.cuda.launch_functions:CUDA_LAUNCHES"),
    environment=("CUDA_", "NCCL_"),
    no_logs=(".cu", ".cuh", ".ptx", ".cubin", ".fatbin", ".nsys-rep", ".ncu-rep", ".qdrep"),
    commands=(
        Command(
            "device",
            Lazy("livedbg.adapters.cuda.commands.device:command"),
            "Show GPU kernels, the positions of their warps, and exceptions.",
            (
                ("livedbg device core_1764236276_box_4711.nvcudmp", "read a GPU core dump; needs no GPU"),
                ("livedbg device gpu.nvcudmp core.4711", "with the core dump of the host process"),
                ("livedbg device 4711 --dump", "request a core dump from the CUDA driver"),
                ("livedbg device 4711 --dump --again 15", "two dumps: does the kernel progress?"),
            ),
            (0, 10, 11, 2, 3, 4),
            "11 for a device exception; 10 if a kernel makes no progress for 10 s or longer.",
            after="catch",
        ),
        Command(
            "launches",
            Lazy("livedbg.adapters.cuda.commands.launches:command"),
            "Trace the kernel launches of a process: grid, block and rate.",
            (
                ("livedbg launches 4711", "trace for 3 s, print the launches of each thread"),
                ("livedbg launches 4711 --for 30 --json", "trace for 30 s, as JSON"),
            ),
            after="values",
        ),
    ),
    page="systems/cuda.md",
)
