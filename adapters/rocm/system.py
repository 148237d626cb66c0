"""The definition of the ROCm system."""

from __future__ import annotations

from typing import Final

from livedbg.session.systems import DeviceVariable, Framework, Lazy, Signs, System

SYSTEM: Final = System(
    name="rocm",
    title="ROCm",
    about="AMD's runtime in a process, its log, and its failures in logs",
    rank=30,
    signs=Signs(
        files=(r"/libamdhip64\.so",),
        devices=("/dev/kfd",),
        formats=("amd-log",),
        modules=(r"libamdhip64\.so",),
    ),
    framework=Framework(modules=(r"lib(?:amdhip64|hsa-runtime64|hsakmt|rccl|rocblas|hipblas\w*|MIOpen)\.",)),
    # ROCm documentation, "GPU isolation techniques": it goes before CUDA_VISIBLE_DEVICES, which HIP reads too
    device_variables=(DeviceVariable("HIP_VISIBLE_DEVICES", always=False),),
    on_signs=True,
    adapters={"rocm-logs": Lazy("livedbg.adapters.rocm.log_decoder:RocmLogsAdapter")},
    recipes="livedbg.adapters.rocm.recipes",
    signatures="livedbg.adapters.rocm.signatures",
    rules=Lazy("livedbg.adapters.rocm.rules:rules"),
    judges_diagnostics=("debugger-.*",),
    shapes=Lazy("livedbg.adapters.rocm.log_shapes:SHAPES"),
)
